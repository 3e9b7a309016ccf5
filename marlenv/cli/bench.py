"""``marlenv bench SUITE``: both sides in one run, interleaved, one thread, medians."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

SUITES = {
    "overhead": "what the env layer adds per step, against TorchRL",
    "specs": "drawing from and checking nested specs, against TorchRL",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("suite", choices=sorted(SUITES), help="; ".join(f"{k}: {v}" for k, v in SUITES.items()))
    parser.add_argument("--rounds", type=int, default=15, help="how often each side is timed")
    parser.add_argument("--json", type=Path, help="write the figures to a file")


def run(options: argparse.Namespace) -> int:
    """Runs a suite and prints its table."""
    import torch

    from marlenv.cli.benches.timing import machine, report

    torch.set_num_threads(1)
    suite = importlib.import_module(f"marlenv.cli.benches.{options.suite}")
    print(machine())
    figures = suite.measure(options.rounds)
    print(report(figures))
    if options.json:
        options.json.write_text(json.dumps([f._asdict() for f in figures], indent=2) + "\n")
    return 0
