"""Names, and spellings of arguments, that TorchRL had or still has for specs: one table, and nothing else knows
them.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import torch


class Old(NamedTuple):
    """What became of an old name."""

    new: str
    """The name that replaces it."""
    renamed: Mapping[str, str] = {}
    """Old keyword -> present one."""
    defaults: Mapping[str, Any] = {}
    """Arguments whose default was another one."""
    domain: str | None = None
    """What ``isinstance`` asks for besides the class."""


BOUNDS = {"minimum": "low", "maximum": "high"}
WHOLE = {"dtype": torch.int64}

TABLE = {
    "CompositeSpec": Old("Composite"),
    "BoundedTensorSpec": Old("Bounded", BOUNDS),
    "BoundedContinuous": Old("Bounded", BOUNDS, domain="continuous"),
    "BoundedDiscrete": Old("Bounded", BOUNDS, domain="discrete"),
    "UnboundedContinuousTensorSpec": Old("Unbounded", domain="continuous"),
    "UnboundedDiscreteTensorSpec": Old("Unbounded", defaults=WHOLE, domain="discrete"),
    "UnboundedContinuous": Old("Unbounded", domain="continuous"),
    "UnboundedDiscrete": Old("Unbounded", defaults=WHOLE, domain="discrete"),
    "DiscreteTensorSpec": Old("Categorical"),
    "OneHotDiscreteTensorSpec": Old("OneHot"),
    "MultiDiscreteTensorSpec": Old("MultiCategorical"),
    "MultiOneHotDiscreteTensorSpec": Old("MultiOneHot"),
    "BinaryDiscreteTensorSpec": Old("Binary"),
    "NonTensorSpec": Old("NonTensor"),
    "LazyStackedTensorSpec": Old("Stacked"),
    "LazyStackedCompositeSpec": Old("StackedComposite"),
    "DiscreteBox": Old("CategoricalBox"),
    "BinaryBox": Old("CategoricalBox"),
}

SUCCESSORS = {name: old.new for name, old in TABLE.items()}


def resolve(name: str, stacklevel: int = 2) -> Any:
    """What an old name stands for, with a DeprecationWarning that names the successor.

    The successor itself, or, where arguments were spelled otherwise, a class that translates them.

    Args:
        name: one of :data:`TABLE`.
        stacklevel: of the warning; 2 is the caller.

    >>> with warnings.catch_warnings(action="ignore"):
    ...     resolve("BoundedTensorSpec")(minimum=0, maximum=1, shape=(2,))
    Bounded([2], float32, 0..1)
    """
    old = TABLE[name]
    warnings.warn(
        f"marlenv.{name} is the old name of marlenv.{old.new}; use {old.new}", DeprecationWarning, stacklevel=stacklevel
    )
    new = getattr(import_module("marlenv.specs"), old.new)
    return new if old == Old(old.new) else OldClass(name, (), {"new": new, "old": old})


class OldClass(type):
    """The type of an old class: calls make its successor, and ``isinstance`` asks for that."""

    new: ClassVar[type]
    old: ClassVar[Old]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        words = {cls.old.renamed.get(k, k): v for k, v in kwargs.items()}
        given = inspect.signature(cls.new).bind_partial(*args, **words).arguments
        return cls.new(**{**cls.old.defaults, **given})

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.new) and cls.old.domain in (None, getattr(instance, "domain", None))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.new)
