"""``marlenv check NAME|module:callable``: runs the contract and explains every break."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from functools import partial

from marlenv.cli import env_options
from marlenv.envs import EnvBase
from marlenv.options import takes
from marlenv.registration import factory_of, make

SIGN = {"held": "ok", "broken": "BROKEN", "skipped": "skipped", "not reached": "not reached"}
WORDS = {"held": "clauses hold", "broken": "broken", "not reached": "not reached", "skipped": "skipped"}
WIDE = max(map(len, SIGN.values()))


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    env_options.configure(parser)
    parser.add_argument("--steps", type=int, help="how many steps all clauses look at (64)")
    parser.add_argument("--quiet", action="store_true", help="print what is broken only")


def maker(options: argparse.Namespace) -> Callable[..., EnvBase]:
    """What makes a fresh env; with ``num_envs`` or ``batch_size``, where it takes them, one of so many rows."""
    name, envs, given = options.name, options.envs, env_options.options_of(options)

    def made(num_envs: int | None = envs) -> EnvBase:
        return make(name, num_envs, device=options.device, **given)

    made().close()  # a wrong name or option fails here, once, and not in every check
    factory, batched = factory_of(name)
    if batched or envs is not None:
        return made
    if options.device is None and takes(factory, "batch_size"):
        return partial(factory, **given)
    return lambda: made(None)


def run(options: argparse.Namespace) -> int:
    """Runs the checks one by one; exit code 1 when any is broken."""
    from marlenv.testing.contract import CHECKS, run_contract

    make_env = maker(options)
    count: Counter[str] = Counter()
    more = {} if options.steps is None else {"steps": options.steps}
    for result in run_contract(make_env, **more):
        count[result.verdict] += 1
        if options.quiet and result.verdict != "broken":
            continue
        says = f"  ({plain(result.says)})" if result.verdict in ("skipped", "not reached") else ""
        print(f"{SIGN[result.verdict]:>{WIDE}}  {plain(result.name)}{says}", flush=True)
        if result.verdict == "broken":
            print(f"{'':>{WIDE}}  clause: {CHECKS[result.name].says}")
            print(f"{'':>{WIDE}}  found:  {result.says}")
            print(f"{'':>{WIDE}}  mend:   {result.mend}")
    total = ", ".join(f"{count[verdict]} {words}" for verdict, words in WORDS.items())
    print(f"{options.name}: {total}")
    return 1 if count["broken"] or count["not reached"] else 0


def plain(says: str) -> str:
    """The names of clauses as words."""
    from marlenv.testing.contract import CHECKS

    for name in CHECKS:
        says = says.replace(name, name.replace("_", " "))
    return says
