"""Attributes of wrappers: those that a class has as its instances have, and those of the simulator inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class ClassValue(Generic[Value]):
    """A value that a class and its instances have, worked out when it is read."""

    def __init__(self, of: Callable[[Any], Value]) -> None:
        self.of, self.__doc__ = of, of.__doc__

    def __get__(self, instance: Any, owner: type) -> Value:
        return self.of(owner)


def attribute_of(wrapper: Any, env: Any, name: str) -> Any:
    """An attribute of a simulator, those that Gymnasium's wrappers hide among them.

    Args:
        wrapper: whose own it is not, for messages.
        env: the simulator.
        name: of the attribute.
    """
    try:
        return env.get_wrapper_attr(name) if hasattr(env, "get_wrapper_attr") else getattr(env, name)
    except AttributeError as error:
        if error.name not in (None, name):  # it is there, and what it is worked out of is not
            raise
        lacks = f"{type(wrapper).__name__!r} object has no attribute {name!r}, and neither has its simulator"
        raise AttributeError(f"{lacks}, {type(env).__name__}", name=name, obj=wrapper) from error
