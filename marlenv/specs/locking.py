"""Locking: a composite that refuses writing, together with all that it holds."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from typing import Any, Self

from marlenv.errors import LockedSpec


class Lockable:
    """What locks, with everything below it. Abstract.

    A thing that was locked from above can only be unlocked from there: what is derived from a locked composite (an
    env's step plan) can count on every part of it.
    """

    _locked: bool
    _lockers: list[weakref.ref[Lockable]]

    @abstractmethod
    def _nested(self) -> list[Any]:
        """The lockable parts, which are locked with this one."""

    @property
    @abstractmethod
    def _who(self) -> str:
        """The thing in an error message."""

    @property
    def is_locked(self) -> bool:
        """Whether writing is refused."""
        return self._locked

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        if value:
            self.lock_()
        else:
            self.unlock_()

    locked = is_locked

    def lock_(self, recurse: bool | None = None) -> Self:
        """Refuses writing from now on, here and in nested composites (unless ``recurse=False``)."""
        self._locked = True
        if recurse is not False:
            for spec in self._nested():
                if not any(ref() is self for ref in spec._lockers):
                    spec._lockers.append(weakref.ref(self))
                spec.lock_()
        return self

    def unlock_(self, recurse: bool | None = None) -> Self:
        """Allows writing again, here and in nested composites (unless ``recurse=False``).

        Raises:
            LockedSpec: a composite that holds this one, or one below it, is locked.
        """
        self._refuse_if_held([self], recurse is not False)
        self._locked = False
        if recurse is not False:
            for spec in self._nested():
                spec.unlock_()
        return self

    def _refuse_if_held(self, opened: list[Lockable], recurse: bool) -> None:
        """Raises, before anything is changed, where something locked that is not being unlocked holds a part."""
        self._lockers = [ref for ref in self._lockers if (above := ref()) is not None and above._locked]
        if any(all(ref() is not one for one in opened) for ref in self._lockers):
            raise LockedSpec(
                f"{self._who}: cannot be unlocked while a composite that holds it is locked; unlock that one"
            )
        for spec in self._nested() if recurse else ():
            spec._refuse_if_held([*opened, spec], recurse)

    def _refuse_if_locked(self, what: str) -> None:
        if self._locked:
            raise LockedSpec(
                f"{self._who}: cannot {what} a locked spec; call unlock_() first, or assign the spec on the env "
                f"(env.observation_spec = ...), which unlocks, writes and locks again"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "encode"} | {"_lockers": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for spec in self._nested() if self._locked else ():
            if spec._locked:
                spec._lockers.append(weakref.ref(self))
