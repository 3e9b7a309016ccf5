"""Whose an attribute is: that of an env, or of the envs below it, which it shows as its own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase


def owns(env: EnvBase, name: str) -> bool:
    """Whether an env itself has an attribute.

    >>> env = marlenv.testing.CountingEnv().append_transform(marlenv.StepCounter())
    >>> owns(env, "max_steps"), owns(env.base_env, "max_steps")
    (False, True)
    """
    return hasattr(type(env), name) or any(name in held for held in _held(env))


def names(env: EnvBase) -> frozenset[str]:
    """The public attributes that an env has or shows.

    >>> "max_steps" in names(marlenv.testing.CountingEnv().append_transform(marlenv.StepCounter()))
    True
    """
    own = {name for held in _held(env) for name in held if not name.startswith("_")}
    return env._names_below() | _of_class(type(env)) | own


def _held(env: EnvBase) -> list[dict[str, Any]]:
    return [vars(env), env._modules, env._buffers, env._parameters]


@cache
def _of_class(kind: type) -> frozenset[str]:
    return frozenset(name for name in dir(kind) if not name.startswith("_"))
