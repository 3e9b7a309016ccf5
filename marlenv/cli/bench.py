"""``marlenv bench SUITE``: both sides in one run, interleaved, one thread where nothing else is said, medians."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
from pathlib import Path

from marlenv.cli.files import writable
from marlenv.errors import SpecError, whole
from marlenv.files import whole_file
from marlenv.specs.dtypes import usable_device

SUITES = {
    "games": "random legal play with resets, against OpenSpiel, TorchRL and Pgx",
    "interop": "a step through each adapter to another library, against the raw env's",
    "overhead": "what the env layer adds per step, against TorchRL",
    "physics": "scenarios, against VMAS and JaxMARL",
    "rollout": "rollouts with a policy in the loop, against steps by hand and TorchRL with VMAS",
    "specs": "drawing from and checking nested specs, against TorchRL",
    "threads": "two threads against one in rollouts of scenarios and of games, and in steps of games",
    "tournament": "games from beginning to end, against OpenSpiel, TorchRL and a loop with networks",
    "train": "MAPPO on navigation from end to end, against TorchRL with VMAS (two threads)",
    "transforms": "what a usual chain of transforms adds per step, against TorchRL",
    "vector": "pools of envs in series and in processes, against TorchRL and Gymnasium",
    "wrappers": "what wrappers add to their simulators, against TorchRL's",
}
"""One file per suite under ``benches/`` with ``measure(rounds, *, device=, only=) -> list[Figure]``."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("suite", choices=sorted(SUITES), help="; ".join(f"{k}: {v}" for k, v in SUITES.items()))
    parser.add_argument("--rounds", type=int, default=15, help="how often each side is timed")
    parser.add_argument("--device", help="where our side runs, for suites that take one; cpu when left out")
    parser.add_argument(
        "--only", metavar="TEXT", help="measure only what has this in its name, for suites that take it"
    )
    parser.add_argument("--json", type=Path, help="write the figures to a file")


def run(options: argparse.Namespace) -> int:
    """Runs a suite and prints its table."""
    import torch

    from marlenv.cli.benches.timing import machine, report

    torch.set_num_threads(1)
    measure = importlib.import_module(f"marlenv.cli.benches.{options.suite}").measure
    given = {name: value for name in ("device", "only") if (value := getattr(options, name)) is not None}
    for name in given:
        if name not in inspect.signature(measure).parameters:
            raise SpecError(f"bench {options.suite}: takes no --{name}")
    whole(f"bench {options.suite}", "--rounds", options.rounds, 1)
    if options.device is not None:
        usable_device(f"bench {options.suite}", options.device)
    if options.json is not None:
        writable("--json", options.json)
    figures = measure(options.rounds, **given)
    if options.json is not None:  # before what is printed, whose reader may be gone
        with whole_file("bench", options.json) as draft:
            draft.write_text(json.dumps([f._asdict() for f in figures], indent=2) + "\n")
    print(machine())
    print(report(figures))
    return 0
