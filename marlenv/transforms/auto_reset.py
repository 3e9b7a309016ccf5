"""Envs that reset themselves, seen through the transform that tells the end of an episode from the next beginning."""

from __future__ import annotations

from typing import Any, Literal

from marlenv.envs import EnvBase
from marlenv.envs.autoreset import AutoReset
from marlenv.transforms.base import Transform
from marlenv.transforms.env import TransformedEnv


class AutoResetTransform(Transform):
    """Keeps the first observations of a new episode, which come with the end of the old one, for the next step.

    For envs that reset themselves when they are done; ``MyEnv(..., auto_reset=True)`` puts it on. The final
    observations are not known, so that something stands in for them; texts are left. The env is not reset again
    during a rollout.

    Args:
        replace: whether something stands in for final observations; else the first ones of the next episode stay there.
        fill_float: what stands in for floats; None leaves them.
        fill_int: what stands in for integers (0 for ``uint8``, where it is negative); None leaves them.
        fill_bool: what stands in for bools; None leaves them.

    >>> class Clock(marlenv.testing.CountingEnv):
    ...     def _step(self, tensordict):
    ...         out = super()._step(tensordict)
    ...         return out.update(self.reset().select("observation")) if out["done"] else out
    >>> env = Clock(max_steps=2, auto_reset=True)
    >>> env.transform
    AutoResetTransform()
    >>> env.rollout(4, break_when_any_done=False)["next", "observation"].flatten()
    tensor([1., nan, 1., nan])

    Source: torchrl 0.14.1 ``AutoResetTransform``.
    """

    def __init__(
        self,
        *,
        replace: bool | None = None,
        fill_float: float | Literal["nan"] | None = "nan",
        fill_int: int | None = -1,
        fill_bool: bool | None = False,
    ) -> None:
        super().__init__()
        self.replace = True if replace is None else replace
        fills = None if fill_float is None else float(fill_float), fill_int, fill_bool
        self.auto_reset = AutoReset(self.replace, *fills)

    def join(self, env: EnvBase) -> None:
        """Says what to do with the data of the own resets of the env under the transforms."""
        super().join(env)
        holder: Any = env
        holder.below_resets_itself = self.auto_reset


class AutoResetEnv(TransformedEnv):
    """An env that resets itself when it is done; ``MyEnv(..., auto_reset=True)`` makes it.

    Args:
        base_env: the env.
        transform: the transform.

    >>> isinstance(marlenv.testing.CountingEnv(auto_reset=True), AutoResetEnv)
    True
    """

    def __init__(self, base_env: EnvBase, transform: Any = None, **options: Any) -> None:
        super().__init__(base_env, AutoResetTransform() if transform is None else transform, **options)
