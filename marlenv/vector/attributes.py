"""The attributes of a pool's children, read, called and set as those of the pool."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from marlenv.envs import EnvBase
from marlenv.envs.attributes import names, owns
from marlenv.vector.protocol import Description

WHOLE = frozenset(("tree",))
"""What a pool has of its own or not at all: children are not asked for it one by one."""


class ChildAttributes(EnvBase):
    """An env that shows the attributes of its children, and sets them in all of them. Abstract."""

    _shown: frozenset[str] = frozenset()
    """The attributes that every child has, and that are set in all."""
    _assigned: list[dict[str, Any]]
    """What was set in each child, for those that are made anew."""
    _loaded: Mapping[int, Mapping[str, Any]] = {}  # never changed in place
    """What was loaded into children by ``load_state_dict``, for those that are made anew."""

    def _adopt_names(self, children: Sequence[EnvBase | Description]) -> None:
        """Notes what children have, which are envs or known by what was said of them."""
        each = [one.names if isinstance(one, Description) else names(one) for one in children]
        self.__dict__["_shown"] = frozenset.intersection(*each) - WHOLE - {"group_map"}

    def _names_below(self) -> frozenset[str]:
        return self._shown

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or name in WHOLE or "_shown" not in self.__dict__:
                raise
        found = self._read_children(name)
        return (lambda *args, **kwargs: self._call_children(name, args, kwargs)) if found is None else found

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._shown or not self._finished or owns(self, name):
            super().__setattr__(name, value)
        else:
            self._assign(name, value)

    def _assign(self, name: str, value: Any) -> None:
        """Sets an attribute in every child, also in those that are made anew."""
        self._set_children(name, value)
        for own in self._assigned:
            own[name] = value

    def _loaded_by(self, first: int, stop: int) -> dict[int, Mapping[str, Any]]:
        """What some neighbouring children have loaded, by their numbers among them."""
        return {i - first: self._loaded[i] for i in range(first, stop) if i in self._loaded}

    @abstractmethod
    def _read_children(self, name: str) -> list[Any] | None:
        """An attribute of every child; None where it is to be called. Starts a pool that is closed."""

    @abstractmethod
    def _call_children(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """What a method of every child answers."""

    @abstractmethod
    def _set_children(self, name: str, value: Any) -> None:
        """Sets an attribute in every child that there is now."""
