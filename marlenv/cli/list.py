"""``marlenv list``: the envs that have a name."""

from __future__ import annotations

import argparse

from marlenv.cli.text import table
from marlenv.envs.registry import available, find

KINDS = ("scenario", "game", "wrapper", "custom")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("--kind", choices=KINDS, help="only envs of this kind")


def run(options: argparse.Namespace) -> int:
    """Prints a table of the envs."""
    rows = []
    for name in available(options.kind):
        entry = find(name)
        rows.append([name, entry.kind, "" if entry.installed else entry.needs, entry.summary])
    print(table(rows, ["name", "kind", "needs", "what"]))
    return 0
