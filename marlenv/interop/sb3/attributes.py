"""Whose an attribute is, among an env, what it transforms, and the children of its pool; and what it is per child."""

from __future__ import annotations

from typing import Any, cast

from marlenv.envs import EnvBase
from marlenv.envs.attributes import owns
from marlenv.vector import SerialEnv
from marlenv.vector.base import BatchedEnv


def owner(env: EnvBase, name: str) -> EnvBase | None:
    """The env that has an attribute: itself, or one that it transforms; None where none has.

    >>> env = marlenv.testing.CountingEnv().append_transform(marlenv.StepCounter())
    >>> owner(env, "max_steps") is env.base_env, owner(env, "transform") is env, owner(env, "mu")
    (True, True, None)
    """
    below: Any = env
    while below is not None:
        if owns(below, name):
            return cast(EnvBase, below)
        below = below._modules.get("base_env")
    return None


def pool_of(env: EnvBase, name: str) -> BatchedEnv | None:
    """The pool whose children are asked for an attribute; None where an env around them has it, or there is none."""
    below: Any = env
    while (inner := below._modules.get("base_env")) is not None:
        below = inner
    return below if isinstance(below, BatchedEnv) and owner(env, name) is None else None


def values(env: EnvBase, name: str) -> list[Any]:
    """The value of every child, or the one of the env.

    >>> pool = SerialEnv(2, marlenv.testing.CountingEnv, create_env_kwargs=[{"max_steps": 2}, {"max_steps": 9}])
    >>> values(pool, "max_steps"), values(pool, "num_workers")
    ([2, 9], [2])
    """
    pool = pool_of(env, name)
    if isinstance(pool, SerialEnv):
        return [one for child in _children(pool) for one in values(child, name)]
    return [getattr(env, name)] if pool is None else list(getattr(pool, name))


def answers(env: EnvBase, name: str, args: Any, kwargs: Any) -> list[Any]:
    """What a method of every child answers, or the one of the env."""
    pool = pool_of(env, name)
    if isinstance(pool, SerialEnv):
        return [one for child in _children(pool) for one in answers(child, name, args, kwargs)]
    found = getattr(env if pool is None else pool, name)(*args, **kwargs)
    return [found] if pool is None else list(found)


def _children(pool: SerialEnv) -> list[EnvBase]:
    if pool.is_closed:
        pool.start()
    return pool.children_envs
