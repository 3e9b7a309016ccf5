"""``marlenv show NAME``: groups and specs of an env, as tables."""

from __future__ import annotations

import argparse

from marlenv.cli.text import parse_options, table
from marlenv.envs import EnvBase
from marlenv.envs.access import SIDE
from marlenv.envs.registry import find
from marlenv.making import make
from marlenv.specs.show import rows


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("name", help="an env of `marlenv list`, or family/task")
    parser.add_argument("--envs", type=int, help="how many envs at once")
    parser.add_argument("--group-map", help="all_in_one_group, one_group_per_agent, by_name_prefix or by_spec")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the env; as often as needed"
    )


def run(options: argparse.Namespace) -> int:
    """Prints what the env is."""
    given = parse_options(options.set)
    if options.group_map:
        given["group_map"] = options.group_map
    env = make(options.name, options.envs, **given)
    print(f"{options.name}: {type(env).__name__}, batch size {list(env.batch_size)}, device {env.device}")
    if summary := find(options.name).summary:
        print(summary)
    print("\n" + groups_table(env))
    print("\n" + specs_table(env))
    env.close()
    return 0


def groups_table(env: EnvBase) -> str:
    """The groups and their agents."""
    tree = getattr(env, "tree", None)
    if tree is None:
        return "no groups: a single agent"
    return table(
        [["/".join(path), len(agents), " ".join(agents)] for path, agents in tree.groups.items()],
        ["group", "size", "agents"],
    )


def specs_table(env: EnvBase) -> str:
    """Every entry: its family, key, shape, dtype and domain."""
    lines: list[list[str]] = []
    for kind in SIDE:
        for i, row in enumerate(rows(getattr(env, f"full_{kind}_spec"))):
            lines.append([kind if i == 0 else "", *row])
    return table(lines, ["family", "entry", "shape", "dtype", "domain"])
