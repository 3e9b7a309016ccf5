"""Which option is whose: what a callable takes, and the error for an option that nobody has."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from marlenv.errors import MarlenvError, SpecError, SpecTypeError, nearest


def check_options(
    who: str, given: Iterable[str], known: Mapping[str, Any] | Iterable[str], also: Iterable[str] = (), more: str = ""
) -> None:
    """Raises if an option is given that is not known.

    Args:
        who: whose options they are, for the message.
        given: the names that came.
        known: the names that there are; with their defaults as a mapping, which are then listed.
        also: names that are known too, and not listed.
        more: the end of the message.

    Raises:
        TypeError: names the nearest option.

    >>> check_options("Balance", ["n_agent"], {"n_agents": 3})
    Traceback (most recent call last):
    TypeError: Balance has no option 'n_agent'; did you mean 'n_agents'? Its options: n_agents=3
    """
    names = [*known, *also]
    for name in given:
        if name not in names:
            hint, listed = f"; {nearest(name, names)}", ""
            if isinstance(known, Mapping):
                listed = " Its options: " + (", ".join(f"{key}={value!r}" for key, value in known.items()) or "none")
                hint = hint if hint.endswith("?") else "."
            raise TypeError(f"{who} has no option {name!r}{hint}{listed}{more}")


@contextmanager
def naming_options(who: str, given: Iterable[str], known: Iterable[str]) -> Iterator[None]:
    """Within it, a simulator's complaint about an option that it does not have names the nearest of a wrapper's, too.

    Args:
        who: the wrapper.
        given: the options that the simulator is handed.
        known: those of the wrapper.

    >>> with naming_options("GymEnv", ["from_pixel"], ["from_pixels"]):
    ...     int(from_pixel=True)
    Traceback (most recent call last):
    TypeError: GymEnv has no option 'from_pixel', and neither has the simulator; did you mean 'from_pixels'?
    """
    try:
        yield
    except TypeError as error:
        says = str(error)
        odd = next((name for name in given if "keyword argument" in says and f"'{name}'" in says), None)
        if odd is None:
            raise
        hint = nearest(odd, known)
        if odd == "num_workers":
            hint = f"pools are made by name: ParallelEnv(n, functools.partial({who}, ...))"
        raise TypeError(f"{who} has no option {odd!r}, and neither has the simulator; {hint}") from error


@contextmanager
def naming_nearest(kind: type, given: Iterable[str]) -> Iterator[None]:
    """Within it, what Python says of an option that no constructor of a class takes names the class and the nearest.

    Args:
        kind: the class.
        given: the options that came.

    >>> with naming_nearest(marlenv.RewardScaling, ["local"]):
    ...     marlenv.RewardScaling(local=0)
    Traceback (most recent call last):
    TypeError: RewardScaling has no option 'local'; did you mean 'loc'?
    """
    try:
        yield
    except TypeError as error:
        refused = [f"{call.__qualname__}() got an unexpected keyword argument" for call in _calls(kind)]
        odd = [name for name in given if any(f"{start} '{name}'" in str(error) for start in refused)]
        check_options(kind.__name__, odd, keywords(kind))
        raise


@contextmanager
def blaming_options(who: str, made: str, options: Mapping[str, Any]) -> Iterator[None]:
    """Within it, a bare error of a simulator names the options that it was made with, if there are any.

    Args:
        who: the wrapper.
        made: the simulator's name of what is made.
        options: as the user gave them.

    Raises:
        SpecError: the simulator cannot do with these options.

    >>> with blaming_options("GymEnv", "Cart-v1", {"length": "x"}):
    ...     float("x")
    Traceback (most recent call last):
    marlenv.errors.SpecError: GymEnv: 'Cart-v1' cannot be made with length='x': could not convert string to float: 'x'
    """
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, MarlenvError) or not options or "keyword argument" in str(error):
            raise
        shown = ", ".join(f"{name}={value!r}" for name, value in options.items())
        wrong = SpecTypeError if isinstance(error, TypeError) else SpecError
        raise wrong(f"{who}: {made!r} cannot be made with {shown}: {str(error) or type(error).__name__}") from error


def of_making(kind: type) -> list[str]:
    """The options that making an object of a class takes besides those of its constructor.

    >>> of_making(marlenv.EnvBase)
    ['spec_locked', 'auto_reset', 'auto_reset_replace']
    """
    parameters = inspect.signature(type(kind).__call__).parameters
    return [name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY]


def names_of(call: Callable[..., Any]) -> list[str]:
    """The options that a function names.

    >>> names_of(lambda task, *, size=3, **others: None)
    ['task', 'size']
    """
    parameters = inspect.signature(call).parameters
    return [name for name, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def keywords(kind: type) -> set[str]:
    """The options that making an object of a class takes: its constructor's, and those of bases that it hands on to.

    >>> {"max_steps", "batch_size", "auto_reset"} <= keywords(marlenv.testing.CountingEnv)
    True
    """
    names = set(of_making(kind))
    for call in _calls(kind):
        names |= {*names_of(call)} - {"self"}
        if all(p.kind is not p.VAR_KEYWORD for p in inspect.signature(call).parameters.values()):
            break
    return names


def takes(factory: Any, option: str, *, unsure: bool = False) -> bool:
    """Whether a function, or the constructor of a class or of a base that it hands options on to, names an option.

    Args:
        factory: what is called.
        option: the name.
        unsure: the answer where all that it takes is handed on to who knows where.

    >>> takes(lambda batch_size=(): None, "batch_size"), takes(dict, "batch_size")
    (True, False)
    """
    for call in _calls(factory):
        try:
            parameters = inspect.signature(call).parameters
        except (TypeError, ValueError):  # of C
            return False
        if option in parameters:
            return True
        if all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
            return False
    return unsure


def needs(factory: Any, option: str | None) -> bool:
    """Whether a callable cannot do without an option; there is none to need when None.

    >>> needs(lambda task, size=3: None, "task"), needs(lambda task, size=3: None, "size")
    (True, False)
    """
    if option is None:
        return False
    found = [p for call in _calls(factory) if (p := inspect.signature(call).parameters.get(option)) is not None]
    return bool(found) and found[0].default is inspect.Parameter.empty


def _calls(factory: Any) -> list[Callable[..., Any]]:
    """What is called when a factory is: itself, or the constructors of a class and of its bases."""
    while isinstance(factory, functools.partial):
        factory = factory.func
    if not inspect.isclass(factory):
        return [factory]
    return [vars(cls)["__init__"] for cls in factory.__mro__ if "__init__" in vars(cls)]
