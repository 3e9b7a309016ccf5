"""``marlenv show NAME``: groups and specs of an env, as tables."""

from __future__ import annotations

import argparse
import inspect

from marlenv.cli import env_options
from marlenv.cli.list import tasks
from marlenv.envs import EnvBase
from marlenv.envs.access import SIDE
from marlenv.envs.registry import Registration
from marlenv.registration import find, is_family, make
from marlenv.specs.show import rows
from marlenv.text_table import table


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    env_options.configure(parser)


def run(options: argparse.Namespace) -> int:
    """Prints what the env is; of a family, its tasks."""
    given, entry = env_options.options_of(options), find(options.name)
    if entry.lists_tasks and is_family(options.name) and entry.task_option not in given:
        names = tasks(options.name)
        print(f"{options.name}: a family of {len(names)} tasks\n{entry.summary}\n")
        print("\n".join(names))
        return 0
    env = make(options.name, options.envs, device=options.device, **given)
    print(f"{options.name}: {type(env).__name__}, batch size {list(env.batch_size)}, device {env.device}")
    if summary := summary_of(entry):
        print(summary)
    print("\n" + groups_table(env))
    print("\n" + specs_table(env))
    env.close()
    return 0


def summary_of(entry: Registration) -> str:
    """One line about an env: what it was registered with, or the first line of its docstring."""
    if entry.summary or entry.kind != "custom":
        return entry.summary
    made = entry.load()
    first = (made.__doc__ or "").strip().partition("\n")[0]
    return "" if inspect.isclass(made) and first.startswith(f"{made.__name__}(") else first  # as dataclasses write it


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
