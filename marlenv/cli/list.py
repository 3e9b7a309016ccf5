"""``marlenv list``: the envs that have a name, and the tasks of a family."""

from __future__ import annotations

import argparse

from marlenv.errors import SpecError, UnknownName, nearest
from marlenv.registration import KINDS, available, find
from marlenv.text_table import table


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("family", nargs="?", help="list the tasks of this family, such as pettingzoo")
    parser.add_argument("--kind", choices=KINDS, help="only envs of this kind")


def run(options: argparse.Namespace) -> int:
    """Prints a table of the envs, or the tasks of a family."""
    if options.family is not None:
        if options.kind is not None:
            raise SpecError(
                f"list: --kind {options.kind} and the family {options.family!r} do not go together; give one"
            )
        print("\n".join(tasks(options.family)))
        return 0
    rows = []
    for name in available(options.kind):
        entry = find(name)
        rows.append([name, entry.kind, "" if entry.installed else entry.needs, entry.summary])
    print(table(rows, ["name", "kind", "needs", "what"]))
    return 0


def tasks(family: str) -> list[str]:
    """The names of a family's tasks, as other commands take them.

    Raises:
        UnknownName: there is no such family; names the nearest.
    """
    families = [name for name in available() if find(name).lists_tasks]
    if family not in families:
        raise UnknownName(f"no family of envs is called {family!r}; {nearest(family, families)}")
    return available(family)
