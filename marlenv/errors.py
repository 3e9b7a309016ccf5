"""Every error that marlenv raises on purpose.

Each class also inherits the builtin that a TorchRL user would catch:

    MarlenvError
    ├── SpecError (ValueError, RuntimeError)  a spec is wrong in itself
    │   ├── ShapeError                  a shape does not fit its spec or its batch
    │   ├── BadIndex (IndexError)       an index or a dimension is out of range, or cannot be one
    │   └── SpecTypeError (TypeError)   a spec is made from something of the wrong type
    ├── NotInSpec (AssertionError)      a value lies outside its spec
    │   └── EntryMissing (KeyMissing)   a value lacks an entry of its spec
    ├── NotFinite (ValueError)          a number of an env is infinite, or not a number
    ├── DtypeError (TypeError)          a value or a spec has the wrong dtype
    ├── DeviceError (RuntimeError)      data and env live on different devices
    ├── LockedSpec (RuntimeError)       writing to a locked spec
    ├── LockedScenario (AttributeError) changing a scenario whose world is built
    ├── GroupError (ValueError)         a group map and the agents do not fit
    ├── KeyMissing (KeyError)           an entry that is needed is not there
    ├── ReservedKey (KeyError, AttributeError)  a name that composites keep for themselves
    ├── KeyCollision (RuntimeError)     two specs claim the same entry
    ├── ResetError (RuntimeError)       a reset was asked for, or answered, in a way that cannot be right
    ├── NeedsReset (RuntimeError)       stepping an env that has not been reset
    │   └── PositionMissing (KeyMissing)  stepping a game from data that hold no position
    ├── EnvClosed (RuntimeError)        using an env after ``close()``
    ├── IllegalAction (ValueError)      an action that the rules forbid
    ├── BadNotation (ValueError)        text of a game (FEN, SAN, PGN, ...) that cannot be read
    ├── ContractBroken (AssertionError) an env breaks the contract of ``marlenv.testing``
    ├── UnknownName (KeyError)          a name that nothing is registered under
    ├── Unsupported (NotImplementedError) the simulator or the env cannot do this, and never will
    │   └── NotForVersion (ModuleNotFoundError)  there is no code for the version that is installed
    ├── MissingExtra (ImportError)      an optional dependency is not installed
    └── WorkerFailed (RuntimeError)     a child process or thread died

And the one warning of its own:

    NotCompiled (UserWarning)           ``compile="auto"`` plays with separate operations, which are slower

Messages say *who*: *what is wrong, and the value that came*; *what is allowed, or what to do*. Outer layers add where
it happened with ``error.add_note``.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from numbers import Integral


class MarlenvError(Exception):
    """Anything marlenv raises on purpose."""


class SpecError(MarlenvError, ValueError, RuntimeError):
    """Raised when a spec is wrong in itself; TorchRL raises now the one and now the other."""


class ShapeError(SpecError):
    """Raised when a shape does not fit its spec or its batch."""


class BadIndex(SpecError, IndexError):
    """Raised when an index or a dimension is out of range, or cannot be one."""


class SpecTypeError(SpecError, TypeError):
    """Raised when a spec is made from something of the wrong type."""


class NotInSpec(MarlenvError, AssertionError):
    """Raised when a value lies outside its spec."""


class NotFinite(MarlenvError, ValueError):
    """Raised when a number of an env is infinite, or not a number."""


class DtypeError(MarlenvError, TypeError):
    """Raised when a value or a spec has the wrong dtype."""


class DeviceError(MarlenvError, RuntimeError):
    """Raised when data and env live on different devices."""


class LockedSpec(MarlenvError, RuntimeError):
    """Raised when a locked spec is written to."""


class LockedScenario(MarlenvError, AttributeError):
    """Raised when a scenario is changed after its world was built."""


class GroupError(MarlenvError, ValueError):
    """Raised when a group map and the agents do not fit."""


class _Lookup(MarlenvError, KeyError):
    """A KeyError whose message prints as it was written (KeyError itself prints the repr)."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class KeyMissing(_Lookup):
    """Raised when an entry that is needed is not there."""


class EntryMissing(NotInSpec, KeyMissing):
    """Raised when a value lacks an entry of its spec."""


class ReservedKey(_Lookup, AttributeError):
    """Raised for the names that composites keep for themselves."""


class KeyCollision(MarlenvError, RuntimeError):
    """Raised when two specs claim the same entry."""


class ResetError(MarlenvError, RuntimeError):
    """Raised when a reset was asked for, or answered, in a way that cannot be right."""


class NeedsReset(MarlenvError, RuntimeError):
    """Raised when an env is stepped that has not been reset."""

    @classmethod
    def before(cls, who: str, verb: str) -> NeedsReset:
        """The error of a method that was called too early."""
        return cls(f"{who}.{verb}: the env was not reset; call reset() first")


class PositionMissing(NeedsReset, KeyMissing):
    """Raised when a game is stepped from data that hold no position."""


class EnvClosed(MarlenvError, RuntimeError):
    """Raised when an env is used after ``close()``."""


class IllegalAction(MarlenvError, ValueError):
    """Raised when an action is chosen that the rules forbid."""


class BadNotation(MarlenvError, ValueError):
    """Raised when the text of a game cannot be read."""


class PoolError(MarlenvError, ValueError):
    """Raised when no tournament, or no rating, can be made of a pool of players or of results."""


class ContractBroken(MarlenvError, AssertionError):
    """Raised when an env breaks the contract of ``marlenv.testing``."""


class UnknownName(_Lookup):
    """Raised when nothing is registered under a name."""


class Unsupported(MarlenvError, NotImplementedError):
    """Raised when the simulator or the env cannot do what was asked."""

    @classmethod
    def to_copy(cls, who: str, what: str) -> Unsupported:
        """The error of copies and pickles of an env whose simulator has neither."""
        instead = "hand over what makes the env, a function or an EnvCreator"
        return cls(f"{who}: {what} can neither be copied nor pickled; {instead}")


class NotForVersion(Unsupported, ModuleNotFoundError):
    """Raised when there is no code for the versions of a library that are installed."""


class NotCompiled(UserWarning):
    """Warns that machine code could not be had, or is wrong, and that ``compile="auto"`` does without: same data,
    slower.

    ``warnings.simplefilter("error", NotCompiled)`` makes an error of it, ``compile="none"`` a matter of course.
    """


class MissingExtra(MarlenvError, ImportError):
    """Raised when an optional dependency is not installed."""


class WorkerFailed(MarlenvError, RuntimeError):
    """Raised when a child process or thread died."""


OURS = ("marlenv", "torch", "tensordict", "contextlib", "functools")


def users_line() -> int:
    """The ``stacklevel`` with which ``warnings.warn``, called where this is called, points at the line of the user."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
        frame, level = frame.f_back, level + 1
    return level


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


def flag(who: str, name: str, value: bool) -> bool:
    """The value of an option, where it is True or False: words such as "false", and numbers, are neither.

    Raises:
        DtypeError: it is not.

    >>> flag("Hex", "swap", True)
    True
    >>> flag("Hex", "swap", "false")
    Traceback (most recent call last):
    marlenv.errors.DtypeError: Hex: swap must be True or False, got 'false'
    """
    if not isinstance(value, bool):
        raise DtypeError(f"{who}: {name} must be True or False, got {value!r}")
    return value


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the nearest valid name, or all of them when there are few.

    >>> nearest("simple_spred", ["simple_spread", "balance"])
    "did you mean 'simple_spread'?"
    >>> nearest("xyz", ["b", "a"])
    "known: ['a', 'b']"
    """
    names = sorted(known)
    if close := difflib.get_close_matches(str(name), names, n=1, cutoff=0.6):
        return f"did you mean {close[0]!r}?"
    if not names:
        return "there are none"
    return f"known: {names}" if len(names) <= 12 else f"known: {names[:12]} and {len(names) - 12} more"


def nearest_first(key: object, known: Iterable[object]) -> list[object]:
    """Keys in the order in which they are like ``key``; those that are not, by name.

    >>> nearest_first("reward", ["done", "action", "rewards"])
    ['rewards', 'action', 'done']
    """
    names = {str(one): one for one in known}
    close = difflib.get_close_matches(str(key), names, n=len(names) or 1, cutoff=0.6)
    return [names[name] for name in (*close, *sorted(names.keys() - set(close)))]
