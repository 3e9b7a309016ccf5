"""Every error that marlenv raises on purpose.

Each class also inherits the builtin that a TorchRL user would catch:

    MarlenvError
    ├── SpecError (ValueError)          a spec is wrong in itself
    │   └── ShapeError                  a shape does not fit its spec or its batch
    ├── NotInSpec (AssertionError)      a value lies outside its spec
    ├── DtypeError (TypeError)          a value or a spec has the wrong dtype
    ├── DeviceError (RuntimeError)      data and env live on different devices
    ├── LockedSpec (RuntimeError)       writing to a locked spec
    ├── GroupError (ValueError)         a group map and the agents do not fit
    ├── KeyMissing (KeyError)           an entry that is needed is not there
    ├── KeyCollision (RuntimeError)     two specs claim the same entry
    ├── ResetError (RuntimeError)       a reset was asked for, or answered, in a way that cannot be right
    ├── NeedsReset (RuntimeError)       stepping an env that has not been reset
    ├── EnvClosed (RuntimeError)        using an env after ``close()``
    ├── IllegalAction (ValueError)      an action that the rules forbid
    ├── BadNotation (ValueError)        text of a game (FEN, SAN, PGN, ...) that cannot be read
    ├── ContractBroken (AssertionError) an env breaks the contract of ``marlenv.testing``
    ├── UnknownName (KeyError)          a name that nothing is registered under
    ├── Unsupported (NotImplementedError) the simulator or the env cannot do this, and never will
    ├── MissingExtra (ImportError)      an optional dependency is not installed
    └── WorkerFailed (RuntimeError)     a child process or thread died

Messages say *who*: *what is wrong, and the value that came*; *what is allowed, or what to do*. Outer layers add where
it happened with ``error.add_note``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Integral


class MarlenvError(Exception):
    """Anything marlenv raises on purpose."""


class SpecError(MarlenvError, ValueError):
    """Raised when a spec is wrong in itself."""


class ShapeError(SpecError):
    """Raised when a shape does not fit its spec or its batch."""


class NotInSpec(MarlenvError, AssertionError):
    """Raised when a value lies outside its spec."""


class DtypeError(MarlenvError, TypeError):
    """Raised when a value or a spec has the wrong dtype."""


class DeviceError(MarlenvError, RuntimeError):
    """Raised when data and env live on different devices."""


class LockedSpec(MarlenvError, RuntimeError):
    """Raised when a locked spec is written to."""


class GroupError(MarlenvError, ValueError):
    """Raised when a group map and the agents do not fit."""


class _Lookup(MarlenvError, KeyError):
    """A KeyError whose message prints as it was written (KeyError itself prints the repr)."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class KeyMissing(_Lookup):
    """Raised when an entry that is needed is not there."""


class KeyCollision(MarlenvError, RuntimeError):
    """Raised when two specs claim the same entry."""


class ResetError(MarlenvError, RuntimeError):
    """Raised when a reset was asked for, or answered, in a way that cannot be right."""


class NeedsReset(MarlenvError, RuntimeError):
    """Raised when an env is stepped that has not been reset."""


class EnvClosed(MarlenvError, RuntimeError):
    """Raised when an env is used after ``close()``."""


class IllegalAction(MarlenvError, ValueError):
    """Raised when an action is chosen that the rules forbid."""


class BadNotation(MarlenvError, ValueError):
    """Raised when the text of a game cannot be read."""


class ContractBroken(MarlenvError, AssertionError):
    """Raised when an env breaks the contract of ``marlenv.testing``."""


class UnknownName(_Lookup):
    """Raised when nothing is registered under a name."""


class Unsupported(MarlenvError, NotImplementedError):
    """Raised when the simulator or the env cannot do what was asked."""


class MissingExtra(MarlenvError, ImportError):
    """Raised when an optional dependency is not installed."""


class WorkerFailed(MarlenvError, RuntimeError):
    """Raised when a child process or thread died."""


def whole(who: str, name: str, value: int, low: int, high: int | None = None) -> int:
    """The value of an option, where it is an integer within its bounds, both included.

    Raises:
        SpecError: it is not.

    >>> whole("Go", "size", 9, 2, 25)
    9
    >>> whole("Go", "size", 9.5, 2, 25)
    Traceback (most recent call last):
    marlenv.errors.SpecError: Go: size must be an integer from 2 to 25, got 9.5
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low or (high is not None and value > high):
        bounds = f"{low} on" if high is None else f"{low} to {high}"
        raise SpecError(f"{who}: {name} must be an integer from {bounds}, got {value!r}")
    return int(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the nearest valid name, or all of them when there are few.

    >>> nearest("simple_spred", ["simple_spread", "balance"])
    "did you mean 'simple_spread'?"
    >>> nearest("xyz", ["b", "a"])
    "known: ['a', 'b']"
    """
    names = sorted(known)
    if close := difflib.get_close_matches(name, names, n=1, cutoff=0.6):
        return f"did you mean {close[0]!r}?"
    return f"known: {names}" if len(names) <= 12 else f"known: {names[:12]} and {len(names) - 12} more"
