"""``EnvWrapper``: the base of every env around somebody else's simulator."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterable
from types import ModuleType
from typing import Any, ClassVar

import torch

from marlenv.envs import EnvBase
from marlenv.errors import MissingExtra, NeedsReset, SpecError, SpecTypeError, whole
from marlenv.optional import need
from marlenv.options import check_options, naming_options
from marlenv.wrappers._attributes import ClassValue, attribute_of
from marlenv.wrappers._rows import check_rows


class EnvWrapper(EnvBase):
    """An env around a simulator's object, whose attributes can be read through the wrapper. Abstract.

    The constructor calls the hooks in this order: :meth:`_check_kwargs`, :meth:`_build_env`, :meth:`_make_specs`,
    :meth:`_init_env`.

    Args:
        device: where the data live.
        batch_size: how many envs the simulator steps at once.
        allow_done_after_reset: allow flags that are True right after a reset.
        frame_skip: how often each action is played; wrappers that cannot do it refuse more than 1.
        **kwargs: handed to the hooks.
    """

    libname: ClassVar[str] = ""
    """The simulator's name."""
    module: ClassVar[str] = ""
    """What is imported of it; its name when empty."""
    git_url: ClassVar[str] = ""
    """Where it comes from."""
    can_be_seeded: ClassVar[bool] = True
    """Whether ``set_seed`` decides about the simulator."""
    rows_are_chosen: ClassVar[bool] = False
    """Whether ``batch_size`` says how many rows there are; else the simulator's object does."""
    skips_frames: bool = True
    """Whether ``frame_skip`` may be more than 1."""
    _began: bool = False
    """Whether the simulator was reset."""

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
            batch_size=batch_size if self.rows_are_chosen else None,
            allow_done_after_reset=allow_done_after_reset,
            run_type_checks=run_type_checks,
        )
        self.frame_skip = self.wrapper_frame_skip = self._checked_frame_skip(frame_skip)
        if isinstance(env := kwargs.get("env"), EnvBase):
            raise SpecTypeError(f"{type(self).__name__}: {type(env).__name__} is an env of marlenv's already")
        self._check_kwargs(kwargs)
        self._check_options(kwargs)
        with naming_options(type(self).__name__, kwargs, option_names(type(self))):
            self._env = self._build_env(**kwargs)
        self._make_specs(self._env)
        check_rows(type(self).__name__, batch_size, self.batch_size)
        self._init_env()

    @ClassValue
    def lib(cls) -> ModuleType:  # noqa: N805
        """The simulator's module; raises MissingExtra where it is not installed."""
        return need(cls.module or cls.libname, cls.__name__)

    @ClassValue
    def available_envs(cls) -> list[str]:  # noqa: N805
        """The names of all tasks; none where the simulator is not installed."""
        try:
            return cls._task_names()
        except MissingExtra:
            return []

    @classmethod
    def _task_names(cls) -> list[str]:
        """The names of all tasks; raises MissingExtra where the simulator is not installed."""
        return []

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        """Raises if the constructor's arguments make no sense."""

    def _check_options(self, kwargs: dict[str, Any]) -> None:
        """Raises a TypeError that names the nearest option if there is one that :meth:`_build_env` does not take."""
        taken = inspect.signature(self._build_env).parameters
        if all(p.kind is not p.VAR_KEYWORD for p in taken.values()):
            check_options(type(self).__name__, kwargs, [*taken, *sorted(option_names(type(self)))])

    @abstractmethod
    def _build_env(self, *args: Any, **kwargs: Any) -> Any:
        """Makes, or takes, the simulator's object."""

    @abstractmethod
    def _make_specs(self, env: Any) -> None:
        """Assigns the specs that follow from the simulator's object."""

    def _init_env(self) -> int | None:
        """Does what the simulator needs before its first reset."""
        return None

    def _checked_frame_skip(self, times: int) -> int:
        whole(type(self).__name__, "frame_skip", times, 1)
        if times > 1 and not self.skips_frames:
            raise SpecError(
                f"{type(self).__name__}: frame_skip must be 1, got {times}; in this simulator an action cannot be "
                f"repeated without asking again (agents take turns, or rows end on their own)"
            )
        return times

    def _check_began(self, verb: str) -> None:
        """Raises if the simulator was not reset yet."""
        if not self._began:
            raise NeedsReset.before(type(self).__name__, verb)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Of a copy, whose simulator must be reset first where ``EzPickle`` has made it anew of its arguments."""
        super().__setstate__(state)
        sims = [getattr(one, "unwrapped", one) for one in (self._env, *getattr(self._env, "envs", ()))]
        self._began = self._began and not any("_ezpickle_args" in getattr(one, "__dict__", ()) for one in sims)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Closes the simulator, if it can be closed."""
        if not self.is_closed:
            self._close_simulator()
        super().close(raise_if_closed=raise_if_closed)

    def _close_simulator(self) -> None:
        if hasattr(self._env, "close"):
            self._env.close()

    def __getattr__(self, name: str) -> Any:
        """An attribute of the simulator, those that Gymnasium's wrappers hide among them."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or "_env" not in self.__dict__:
                raise
        return attribute_of(self, self._env, name)

    def __repr__(self) -> str:
        inside = f"env={self.__dict__.get('_env')!r}, batch_size={list(self.batch_size)}, device={self.device}"
        return f"{type(self).__name__}({inside})"


def own_options(cls: type, options: dict[str, Any]) -> dict[str, Any]:
    """Takes out of ``options`` those that a class or one of its bases names in its constructor; the rest is the
    simulator's.

    >>> options = {"device": "cpu", "max_cycles": 5}
    >>> own_options(EnvWrapper, options), options
    ({'device': 'cpu'}, {'max_cycles': 5})
    """
    return {name: options.pop(name) for name in sorted(option_names(cls) & options.keys())}


def option_names(cls: type) -> set[str]:
    """The options that a class or one of its bases names in its constructor.

    >>> sorted(option_names(EnvWrapper))[:3]
    ['allow_done_after_reset', 'batch_size', 'device']
    """
    return {
        name
        for base in cls.__mro__
        if issubclass(base, EnvBase) and base is not EnvBase and "__init__" in vars(base)
        for name, parameter in inspect.signature(vars(base)["__init__"]).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        or (parameter.default is not inspect.Parameter.empty and name != "env")
    }
