"""What a clause of the contract is, and what clauses are made of."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from marlenv.envs import EnvBase
from marlenv.errors import ContractBroken
from marlenv.keys import NestedKey

if TYPE_CHECKING:
    from marlenv.testing.case import Case

PLAYED = "envs_can_be_played"
"""The clause that those which look at data need."""


class Check(NamedTuple):
    """One clause of the contract."""

    name: str
    says: str
    """The clause, as a sentence."""
    mend: str
    """What to do when it is broken."""
    run: Callable[[Case], None]
    """Raises :class:`~marlenv.errors.ContractBroken` for an env that breaks it."""
    needs: tuple[str, ...]
    """The clauses without which it cannot be judged."""


class NotJudged(Exception):
    """Raised by a clause that does not concern an env; says why."""


class NotReached(Exception):
    """Raised by a clause that cannot be judged since another one is broken, which it names."""


_ATTRIBUTE = "contract_check"


def check(mend: str, needs: tuple[str, ...] = (PLAYED,)) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    """Decorates a check; its docstring is the clause.

    Args:
        mend: what to do when it is broken.
        needs: the clauses without which it cannot be judged.
    """

    def decorate(run: Callable[[Case], None]) -> Callable[[Case], None]:
        says = " ".join((run.__doc__ or "").split())
        setattr(run, _ATTRIBUTE, Check(run.__name__, says, mend, run, needs))
        return run

    return decorate


def collect(*modules: ModuleType) -> dict[str, Check]:
    """All checks of some modules, in the order in which they are written."""
    found = {}
    for module in modules:
        for thing in vars(module).values():
            if (made := getattr(thing, _ATTRIBUTE, None)) is not None:
                found[made.name] = made
    return found


def require(holds: bool, says: str) -> None:
    """Raises :class:`~marlenv.errors.ContractBroken` unless ``holds``."""
    if not holds:
        raise ContractBroken(says)


def levels(env: EnvBase) -> list[dict[str, NestedKey]]:
    """The done keys of every level by name."""
    found = []
    for group in env.done_keys_groups:
        found.append({key if isinstance(key, str) else key[-1]: key for key in group})
    return found
