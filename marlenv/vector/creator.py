"""Functions that make envs, with what is known of these before they are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from marlenv.envs import EnvBase, EnvMetaData
from marlenv.errors import SpecError
from marlenv.vector.protocol import Description
from marlenv.vector.state_dicts import merged


class EnvCreator:
    """Makes envs of one kind, and knows what they are.

    One env is made at once, looked at and closed. A pool that is given a creator does not make another to see what its
    children are.

    Args:
        create_env_fn: makes an env.
        create_env_kwargs: keyword arguments for it.
        share_memory: taken as TorchRL takes it; the envs begin with the parameters and buffers of the first.
        **kwargs: more keyword arguments.

    Raises:
        SpecError: no env can be made so, or a keyword argument is given in both ways.

    >>> creator = EnvCreator(marlenv.testing.CountingEnv, max_steps=3)
    >>> creator.meta_data.batch_size, creator().max_steps
    (torch.Size([]), 3)
    """

    def __init__(
        self,
        create_env_fn: Callable[..., EnvBase],
        create_env_kwargs: Mapping[str, Any] | None = None,
        share_memory: bool = True,
        **kwargs: Any,
    ) -> None:
        if isinstance(create_env_fn, EnvBase) or not callable(create_env_fn):
            raise SpecError(
                f"EnvCreator: create_env_fn must be a function that makes an env, got {type(create_env_fn).__name__}"
            )
        if twice := sorted(set(kwargs).intersection(create_env_kwargs or {})):
            raise SpecError(f"EnvCreator: {twice} are given twice, in create_env_kwargs and beside it; give each once")
        self.create_env_fn = create_env_fn
        self.create_env_kwargs: dict[str, Any] = {**kwargs, **(create_env_kwargs or {})}
        self._share_memory = share_memory
        self.initialized = False
        self.init_()

    env_type: type[EnvBase]
    """The class of the envs."""
    meta_data: EnvMetaData
    """Example data, specs and batch size of an env."""

    def init_(self) -> Self:
        """Makes an env, notes what it is, and closes it."""
        env = self.create_env_fn(**self.create_env_kwargs)
        if not isinstance(env, EnvBase):
            raise SpecError(f"EnvCreator: create_env_fn must make an env, got {type(env).__name__}")
        self._note(env, state=True)
        self.initialized = True
        return self

    def _note(self, env: EnvBase, *, state: bool = False) -> None:
        """Notes what an env is, and closes it."""
        try:
            self.env_type, self.meta_data, self.description = (
                type(env),
                EnvMetaData.metadata_from_env(env),
                Description.of(env),
            )
            if state:
                self._state = merged({}, env.state_dict())
        finally:
            env.close(raise_if_closed=False)

    def make_variant(self, **kwargs: Any) -> EnvCreator:
        """A creator with other keyword arguments, and the same metadata and state."""
        out = type(self).__new__(type(self))
        out.__dict__.update(self.__dict__)
        out.create_env_kwargs = {**self.create_env_kwargs, **kwargs}
        return out

    def __call__(self, **kwargs: Any) -> EnvBase:
        """Makes an env; what the creator was given comes before ``kwargs``."""
        env = self.create_env_fn(**{**kwargs, **self.create_env_kwargs})
        if self._state:
            env.load_state_dict(self._state, strict=False)
        return env

    def state_dict(self) -> dict[str, Any]:
        """The parameters and buffers that envs begin with."""
        return dict(self._state)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Changes what envs begin with, and with it what is known of them: bounds may be loaded, too."""
        self._state = merged(self._state, state_dict)
        self._note(self())

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.create_env_kwargs.items())
        return f"EnvCreator({getattr(self.create_env_fn, '__name__', self.create_env_fn)}({options}))"


def env_creator(fun: Callable[..., EnvBase]) -> EnvCreator:
    """An :class:`EnvCreator` of a function; as a decorator.

    >>> @env_creator
    ... def make():
    ...     return marlenv.testing.CountingEnv(max_steps=7)
    >>> make().max_steps
    7
    """
    return EnvCreator(fun)


def get_env_metadata(
    env_or_creator: EnvBase | Callable[..., EnvBase],
    kwargs: Mapping[str, Any] | None = None,
    *,
    env_validator: Callable[[EnvBase], None] | None = None,
) -> EnvMetaData:
    """Example data, specs and batch size of an env, or of what a function makes.

    Args:
        env_or_creator: an env, an :class:`EnvCreator`, or another function.
        kwargs: keyword arguments for it.
        env_validator: called with an env, which it may refuse by an error.

    >>> get_env_metadata(marlenv.testing.CountingEnv, {"batch_size": [2]}).batch_size
    torch.Size([2])
    """
    if isinstance(env_or_creator, EnvBase):
        if env_validator is not None:
            env_validator(env_or_creator)
        return EnvMetaData.metadata_from_env(env_or_creator)
    if isinstance(env_or_creator, EnvCreator):
        if kwargs and dict(kwargs) != env_or_creator.create_env_kwargs:
            raise SpecError(
                f"get_env_metadata: the creator has the keyword arguments {env_or_creator.create_env_kwargs}, got "
                f"{dict(kwargs)}; make a variant of it"
            )
        if env_validator is None:
            return env_or_creator.meta_data.clone()
        kwargs = {}
    env = env_or_creator(**(kwargs or {}))
    try:
        if env_validator is not None:
            env_validator(env)
        return EnvMetaData.metadata_from_env(env)
    finally:
        env.close(raise_if_closed=False)
