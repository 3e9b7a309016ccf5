"""``marlenv check NAME|module:callable``: runs the contract and explains every break."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from marlenv.cli.text import parse_options
from marlenv.envs import EnvBase
from marlenv.envs.registry import load
from marlenv.errors import SpecError
from marlenv.making import make
from marlenv.optional import need

SIGN = {"held": "ok", "broken": "BROKEN", "skipped": "skipped"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("name", help="an env of `marlenv list`, family/task, or module:callable that makes an env")
    parser.add_argument("--envs", type=int, help="how many envs at once")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the env; as often as needed"
    )
    parser.add_argument("--quiet", action="store_true", help="print what is broken only")


def maker(name: str, envs: int | None, given: dict[str, Any]) -> Callable[[], EnvBase]:
    """What makes a fresh env."""
    if ":" not in name:
        make(name, envs, **given).close()  # a wrong name or option fails here, once, and not in every check
        return lambda: make(name, envs, **given)
    sys.path.insert(0, str(Path.cwd()))
    found = load(name)
    if not callable(found):
        raise SpecError(f"check: {name} is not callable; give a class or a function that makes an env")
    made = found(**given)
    if not isinstance(made, EnvBase):
        raise SpecError(f"check: {name} made a {type(made).__name__}; expected an env (a marlenv.EnvBase)")
    return lambda: found(**given)


def run(options: argparse.Namespace) -> int:
    """Runs the checks one by one; exit code 1 when any is broken."""
    need("numpy", "marlenv check")
    from marlenv.testing.contract import CHECKS, run_contract

    make_env = maker(options.name, options.envs, parse_options(options.set))
    count: Counter[str] = Counter()
    for result in run_contract(make_env):
        count[result.verdict] += 1
        if options.quiet and result.verdict != "broken":
            continue
        says = f"  ({result.says})" if result.verdict == "skipped" else ""
        print(f"{SIGN[result.verdict]:>8}  {result.name.replace('_', ' ')}{says}", flush=True)
        if result.verdict == "broken":
            print(f"{'':>8}  clause: {CHECKS[result.name].says}")
            print(f"{'':>8}  found:  {result.says}")
            print(f"{'':>8}  mend:   {result.mend}")
    print(f"{options.name}: {count['held']} clauses hold, {count['broken']} broken, {count['skipped']} skipped")
    return 1 if count["broken"] else 0
