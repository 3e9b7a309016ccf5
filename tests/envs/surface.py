"""The public surface of TorchRL's environment layer beside ours: names, members, arguments, their order, defaults.

    python tests/envs/surface.py           # what we lack and no row explains; exit status 1 if any
    python tests/envs/surface.py --all     # what a row explains too, with its reason, and rows that explain nothing

Every class and function that TorchRL's documents of the environment layer name is compared, and all specs. What is
absent for a reason is a row of ``surface_table.py``.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple

import torchrl_oracle  # imported here so that torchrl is imported quietly
from surface_table import DOCUMENTED, EXPLAINED, INSTANCES
from torch import nn

import marlenv
from marlenv.module_paths import home_of
from marlenv.specs.legacy import TABLE as OLD_NAMES
from marlenv.torchrl_paths import PATHS

assert torchrl_oracle
BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
PARAMETERS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
OPERATORS = {"__getitem__", "__setitem__", "__delitem__", "__len__", "__iter__", "__contains__"}
ALIKE = ({"CPU_DEVICE", "cpu", "None"}, {"NO_DEFAULT", "no_default"})


class Fault(NamedTuple):
    """Something that TorchRL has and we have not, or otherwise."""

    what: str
    """``"Name"``, ``"Name.member"``, ``"Name(argument)"`` or ``"Name.member(argument)"``."""
    how: str


def subjects() -> list[str]:
    """The names that are compared: the documented ones, and all specs."""
    specs = [name for name in PATHS["data.tensor_specs"].split() if name not in OLD_NAMES and name != "Box"]
    return sorted({*DOCUMENTED.split(), *specs})


def theirs_of(name: str) -> Any:
    """The thing of that name in torchrl; None where this version has it no longer, or cannot import it here."""
    home = home_of(name)
    assert home is not None, f"{name} is in no path of the table"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return getattr(__import__(f"torchrl.{home}", fromlist=[name]), name, None)
        except ImportError:
            return None


def arguments(thing: Any) -> dict[str, inspect.Parameter]:
    """Every keyword that a call takes by name; of a class also those that its bases' constructors take."""
    calls = [c.__init__ for c in thing.__mro__ if "__init__" in vars(c)] if inspect.isclass(thing) else [thing]
    if inspect.isclass(thing) and inspect.isfunction(type(thing).__call__):  # a metaclass takes keywords too
        calls.insert(0, type(thing).__call__)
    found: dict[str, inspect.Parameter] = {}
    for call in calls:
        if getattr(call, "__module__", "").startswith("torch.nn") or call is object.__init__:
            break
        try:
            own = inspect.signature(call).parameters
        except (TypeError, ValueError):
            break
        for name, p in own.items():
            if p.kind in PARAMETERS and name not in ("self", "cls") and not name.startswith("_"):
                found.setdefault(name, p)
        if not any(p.kind is p.VAR_KEYWORD for p in own.values()):
            break
    return found


def shown(value: Any) -> str:
    """A default as it can be compared between the libraries."""
    if isinstance(value, enum.Enum):
        return value.name
    if value is inspect.Parameter.empty:
        return "required"
    if isinstance(value, tuple):  # a torch.Size among them
        return repr(tuple(value))
    return getattr(value, "__name__", None) or repr(value).rpartition(" at 0x")[0] or repr(value)


def positions(thing: Any) -> list[str]:
    """The arguments that a call takes by position, in order; ``"*"`` last, where it takes any number."""
    call = next((c.__init__ for c in thing.__mro__ if "__init__" in vars(c)), None) if inspect.isclass(thing) else thing
    try:
        own = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return ["*"]
    named = [p.name for p in own if p.kind in BY_POSITION and p.name not in ("self", "cls")]
    return [*named, *("*" for p in own if p.kind is inspect.Parameter.VAR_POSITIONAL)]


def order_faults(what: str, theirs: Any, ours: Any) -> Iterator[Fault]:
    """Arguments that a script gives by position, and that ours has not in this place."""
    others, mine = positions(theirs), positions(ours)
    for place, name in enumerate(others):
        here = mine[place] if place < len(mine) else None
        if "*" in mine[: place + 1] or name == "*":
            break
        if here is None or (here != name and (here in others or name in mine)):  # else it is only called otherwise
            where = f"takes {here!r} there" if here else "not by position"
            yield Fault(f"{what}({name})", f"argument {place + 1} of torchrl's: {where}")


def call_faults(what: str, theirs: Any, ours: Any) -> Iterator[Fault]:
    """Keywords of a call that ours does not take, defaults that differ, and arguments in another place."""
    mine, others = arguments(ours), arguments(theirs)
    for name, p in others.items():
        if name not in mine:
            yield Fault(f"{what}({name})", "absent")
            continue
        wanted, got = shown(p.default), shown(mine[name].default)
        if wanted not in ("required", got) and not any({wanted, got} <= words for words in ALIKE):
            yield Fault(f"{what}({name})", f"default {got}, torchrl's {wanted}")
    absent = {name for name in others if name not in mine}
    yield from (fault for fault in order_faults(what, theirs, ours) if fault.what[len(what) + 1 : -1] not in absent)


@cache
def assigned(cls: type) -> set[str]:
    """The attributes that the methods of a class, and of its bases, give to its instances."""
    found: set[str] = set()
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] == "marlenv":
            found |= {*vars(base).get("__annotations__", {}), *vars(base).get("__slots__", ())}
            for targets in re.findall(r"^ +(self\.\w+.*?) = ", inspect.getsource(base), re.M):
                found |= set(re.findall(r"self\.(\w+)", targets))
    return found


def member_faults(name: str, theirs: type, ours: type) -> Iterator[Fault]:
    """Public members that ours lacks, and how they are called."""
    common = {*dir(nn.Module), *dir(object), *dir(enum.Enum)} - OPERATORS
    for member in sorted({m for m in dir(theirs) if not m.startswith("_") or m in OPERATORS} - common):
        there = inspect.getattr_static(theirs, member)
        if inspect.getattr_static(ours, member, None) is None and member not in assigned(ours):
            yield Fault(f"{name}.{member}", "absent")
        elif member not in OPERATORS and (inspect.isfunction(there) or isinstance(there, classmethod | staticmethod)):
            mine = getattr(ours, member)
            if callable(mine):
                yield from call_faults(f"{name}.{member}", getattr(theirs, member), mine)
            else:
                yield Fault(f"{name}.{member}", "called in torchrl, not in ours")
        elif isinstance(there, property) and inspect.isfunction(inspect.getattr_static(ours, member, None)):
            yield Fault(f"{name}.{member}", "read in torchrl, called in ours")


@cache
def faults() -> tuple[Fault, ...]:
    """Everything that differs, explained or not; what a base of ours and theirs has alike is told once, of the base."""
    found: dict[str, list[Fault]] = {}
    for name in subjects():
        theirs = theirs_of(name)
        if name not in marlenv.__all__ and name not in OLD_NAMES:
            found[name] = [Fault(name, "absent")]
            continue
        if theirs is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = getattr(marlenv, name)
        found[name] = list(call_faults(name, theirs, ours))
        if inspect.isclass(theirs) and name not in OLD_NAMES:
            found[name] += member_faults(name, theirs, ours)
    told = {f.what.partition(".")[2] or f.what.partition("(")[2] for base in BASES for f in found.get(base, ())}
    tail = {name: [f for f in listed if name in BASES or not inherited(f, told)] for name, listed in found.items()}
    listed = [fault for faults_of in tail.values() for fault in faults_of]
    known = {fault.what for fault in listed} | {f"{name}.{rest}" for name in INSTANCES for rest in told}
    return (*listed, *(fault for fault in instance_faults() if fault.what not in known))


def has(env: Any, member: str) -> bool:
    """Whether an env has an attribute, though it may refuse to answer (one key where there are several)."""
    try:
        return hasattr(env, member)
    except (KeyError, RuntimeError, ValueError):
        return True


def instance_faults() -> Iterator[Fault]:
    """Public attributes of torchrl's envs after a reset that our envs lack."""
    common = {*dir(nn.Module()), *dir(object)}
    for name, make in INSTANCES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs, ours = make(torchrl_oracle.envs), make(marlenv)
            theirs.reset(), ours.reset()
            for member in sorted({*dir(theirs), *vars(theirs)} - common):
                if not member.startswith("_") and has(theirs, member) and not has(ours, member):
                    yield Fault(f"{name}.{member}", "absent")


BASES = ("EnvBase", "Transform", "TensorSpec")


def inherited(fault: Fault, told: set[str]) -> bool:
    """Whether a fault is one of a base already."""
    rest = fault.what.partition(".")[2] if "." in fault.what else fault.what.partition("(")[2]
    return bool(rest) and rest in told


def reason(fault: Fault) -> str | None:
    """Why something is absent; None where nothing explains it."""
    return next((why for pattern, why in EXPLAINED.items() if explains(pattern, fault)), None)


def explains(pattern: str, fault: Fault) -> bool:
    """Whether a row of the table is about a fault."""
    if pattern.startswith("in:"):  # what is absent as a whole
        return fault.how == "absent" and fnmatchcase(home_of(fault.what) or "", pattern.removeprefix("in:"))
    return fnmatchcase(fault.what, pattern)


def idle_rows() -> list[str]:
    """Rows of the table that explain nothing any more."""
    return [pattern for pattern in EXPLAINED if not any(explains(pattern, fault) for fault in faults())]


def main(words: list[str]) -> int:
    """Prints what is not explained, or everything."""
    unexplained = [fault for fault in faults() if reason(fault) is None]
    if "--all" in words:
        for fault in faults():
            print(f"{fault.what}: {fault.how}: {reason(fault) or 'UNEXPLAINED'}")
        print("\n".join(f"row {pattern!r} explains nothing" for pattern in idle_rows()))
    else:
        print("\n".join(f"{fault.what}: {fault.how}" for fault in unexplained))
    print(f"{len(subjects())} names, {len(faults())} differences, {len(unexplained)} unexplained")
    return 1 if unexplained else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
