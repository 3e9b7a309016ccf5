"""From an env to a pool of envs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from marlenv.errors import Unsupported
from marlenv.module_paths import public

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase


class Pooling:
    """What an env has to do with pools of envs."""

    @staticmethod
    def make_parallel(create_env_fn: Callable[..., EnvBase], *, num_envs: int = 1, **options: Any) -> EnvBase:
        """A pool of ``num_envs`` envs in child processes.

        Args:
            create_env_fn: makes an env; or a list with one such function per env.
            num_envs: how many.
            **options: those of :class:`marlenv.ParallelEnv`.

        >>> env = marlenv.EnvBase.make_parallel(marlenv.testing.CountingEnv, num_envs=1, serial_for_single=True)
        >>> env.batch_size
        torch.Size([1])
        """
        made: EnvBase = public("ParallelEnv")(num_envs, create_env_fn, **options)
        return made

    def configure_parallel(self, **options: Any) -> Self:
        """Changes how the children of a pool run; see :class:`marlenv.ParallelEnv`.

        Raises:
            Unsupported: the env is no pool.
        """
        raise Unsupported(
            f"{type(self).__name__}.configure_parallel: only pools have children that run in parallel; make one, "
            f"ParallelEnv(num_workers, create_env_fn, ...)"
        )

    _finished = False
    """Whether all constructors have run; attributes that these set are the env's own."""

    def _names_below(self) -> frozenset[str]:
        """The attributes of envs below this one that it shows, and where they are set. A hook."""
        return frozenset()

    def _reset_goes_to(self) -> Sequence[EnvBase]:
        """The children in this process, which get the options of a reset."""
        return ()
