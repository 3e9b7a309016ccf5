"""Whose an attribute is, among an env, what it transforms, and the children of its pool; and what it is per child."""

from __future__ import annotations

from typing import Any, cast

from marlenv.envs import EnvBase
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
        if name in vars(below) or hasattr(type(below), name) or any(name in held for held in _held(below)):
            return cast(EnvBase, below)
        below = below._modules.get("base_env")
    return None


def _held(env: EnvBase) -> list[Any]:
    return [env._modules, env._buffers, env._parameters]


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


def assign(env: EnvBase, name: str, value: Any) -> None:
    """Sets an attribute of the env that has it, or in every child; a new one of the outermost env."""
    pool: Any = pool_of(env, name)
    if pool is None:
        setattr(owner(env, name) or env, name, value)
    elif isinstance(pool, SerialEnv):
        for child in _children(pool):
            assign(child, name, value)
    else:
        if pool.is_closed:
            pool.start()
        pool._ask("call", "__setattr__", (name, value), {})


def _children(pool: SerialEnv) -> list[EnvBase]:
    if pool.is_closed:
        pool.start()
    return pool.children_envs
