"""What `show`, `check` and `rollout` are told about an env, and the env that it makes."""

from __future__ import annotations

import argparse
import json
from typing import Any

from marlenv.cli.text import literal, parse_options
from marlenv.errors import SpecError

OWN = {"num_envs": "envs", "device": "device", "seed": "seed", "max_steps": "max_steps"}
"""What ``make`` is told by options of the commands."""
NAME = "an env of `marlenv list`, family/task, or module:callable, which may be what marlenv.register takes"


def configure(parser: argparse.ArgumentParser, *, envs: int | None = None) -> None:
    """Adds the options."""
    parser.add_argument("name", help=NAME)
    parser.add_argument("--envs", type=int, default=envs, help="how many envs at once")
    parser.add_argument("--group-map", help="a rule such as all_in_one_group, or a JSON object {group: [agents]}")
    parser.add_argument("--device", help="where the env lives, such as cuda")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the env; as often as needed"
    )


def options_of(options: argparse.Namespace) -> dict[str, Any]:
    """The env's own options: those of ``--set``, and ``group_map``."""
    given = parse_options(options.set)
    for name in OWN.keys() & given.keys():
        if hasattr(options, OWN[name]):
            raise SpecError(f"--set {name}= is said by an option of its own: --{OWN[name].replace('_', '-')}")
    if options.group_map is not None:
        given["group_map"] = group_map(options.group_map)
    return given


def group_map(text: str) -> Any:
    """What ``--group-map`` says: a rule's name, or a map.

    >>> group_map("by_spec"), group_map('{"a": ["x"], "b": {"c": ["y"]}}')
    ('by_spec', {'a': ['x'], 'b': {'c': ['y']}})
    """
    if not text.lstrip().startswith("{"):
        return text
    found = literal(text)
    if isinstance(found, dict):
        return found
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SpecError(
            f'--group-map {text}: no JSON object ({error}); write {{"group": ["agent", ...]}}, in single quotes for '
            f"the shell"
        ) from None
