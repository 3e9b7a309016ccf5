"""What every wrapper is: an env around somebody else's simulator."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import torch

from marlenv.envs import EnvBase
from marlenv.errors import whole


class EnvWrapper(EnvBase):
    """An env around a simulator's object, whose attributes can be read through the wrapper. Abstract.

    The constructor calls the hooks in this order: :meth:`_check_kwargs`, :meth:`_build_env`, :meth:`_make_specs`,
    :meth:`_init_env`.

    Args:
        device: where the data live.
        batch_size: how many envs the simulator steps at once.
        allow_done_after_reset: allow flags that are True right after a reset.
        frame_skip: how often each action is played, for wrappers that can.
        **kwargs: handed to the hooks.
    """

    libname: ClassVar[str] = ""
    """The simulator's name."""
    git_url: ClassVar[str] = ""
    """Where it comes from."""

    def __init__(
        self,
        *,
        device: torch.device | str | int | None = None,
        batch_size: Iterable[int] | None = None,
        allow_done_after_reset: bool = False,
        run_type_checks: bool = False,
        frame_skip: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            device=device,
            batch_size=batch_size,
            allow_done_after_reset=allow_done_after_reset,
            run_type_checks=run_type_checks,
        )
        whole(type(self).__name__, "frame_skip", frame_skip, 1)
        self.frame_skip = self.wrapper_frame_skip = frame_skip
        self._constructor_kwargs = dict(kwargs)
        self._check_kwargs(kwargs)
        self._env = self._build_env(**kwargs)
        self._make_specs(self._env)
        self._init_env()

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        """Raises if the constructor's arguments make no sense."""

    @abstractmethod
    def _build_env(self, *args: Any, **kwargs: Any) -> Any:
        """Makes, or takes, the simulator's object."""

    @abstractmethod
    def _make_specs(self, env: Any) -> None:
        """Assigns the specs that follow from the simulator's object."""

    def _init_env(self) -> int | None:
        """Does what the simulator needs before its first reset."""
        return None

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Closes the simulator, if it can be closed."""
        if not self.is_closed and hasattr(self._env, "close"):
            self._env.close()
        super().close(raise_if_closed=raise_if_closed)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or "_env" not in self.__dict__:
                raise
            return getattr(self.__dict__["_env"], name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self.__dict__.get('_env')!r}, batch_size={list(self.batch_size)}, device={self.device})"


def own_options(cls: type, options: dict[str, Any]) -> dict[str, Any]:
    """Takes out of ``options`` those that a class or one of its bases names in its constructor; the rest is the simulator's.

    >>> options = {"device": "cpu", "max_cycles": 5}
    >>> own_options(EnvWrapper, options), options
    ({'device': 'cpu'}, {'max_cycles': 5})
    """
    named = {
        name
        for base in cls.__mro__
        if issubclass(base, EnvBase) and "__init__" in vars(base)
        for name, parameter in inspect.signature(vars(base)["__init__"]).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    return {name: options.pop(name) for name in sorted(named & options.keys())}
