"""``marlenv rollout NAME``: plays an env, prints a summary per group and keeps the data as a memory-mapped tensordict."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from tensordict import LazyStackedTensorDict, TensorDictBase

from marlenv.cli.film import Film
from marlenv.cli.summary import Summary
from marlenv.cli.text import Progress, literal, parse_options
from marlenv.envs import EnvBase
from marlenv.envs.policies import as_policy
from marlenv.envs.registry import load
from marlenv.errors import SpecError, whole
from marlenv.making import make


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("name", help="an env of `marlenv list`, or family/task")
    parser.add_argument("--envs", type=int, default=1, help="how many envs at once")
    parser.add_argument("--steps", type=int, default=100, help="how many steps to play; rows that are done are reset")
    parser.add_argument("--group-map", help="a rule such as all_in_one_group, or a JSON object {group: [agents]}")
    parser.add_argument("--policy", default="random", help="random, or module:callable")
    parser.add_argument("--seed", type=int, help="of the env and of random actions")
    parser.add_argument("--max-steps", type=int, help="cut episodes off after so many steps")
    parser.add_argument("--device", help="where the env lives, such as cuda")
    parser.add_argument("--out", type=Path, help="folder for the data; nothing is kept when left out")
    parser.add_argument("--video", type=Path, metavar="FILE", help="a film of the first env: a .gif or .mp4 file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the env; as often as needed"
    )


def run(options: argparse.Namespace) -> int:
    """Plays, prints, keeps."""
    for name in ("envs", "steps"):
        whole("rollout", f"--{name}", getattr(options, name), 1)
    given = parse_options(options.set)
    if options.group_map:
        rule = literal(options.group_map)
        given["group_map"] = rule if isinstance(rule, (str, dict)) else options.group_map
    env = make(
        options.name, options.envs, device=options.device, seed=options.seed, max_steps=options.max_steps, **given
    )
    policy = load_policy(options.policy, env)
    with contextlib.nullcontext() if options.video is None else Film(env, options.video) as film:
        summary, seconds = play(env, policy, options.steps, options.out, film)
    print(f"{options.name}, {options.envs} envs x {options.steps} steps, policy {options.policy}")
    print(summary.text(seconds))
    if options.out is not None:
        note = {
            "env": options.name,
            "envs": options.envs,
            "steps": options.steps,
            "seed": options.seed,
            "options": given,
        }
        (options.out / "rollout.json").write_text(json.dumps(note, indent=2, default=str) + "\n")
        print(f"data: {options.out.resolve()}  (tensordict.TensorDict.load_memmap({str(options.out)!r}))")
    if film is not None:
        print(f"video: {options.video.resolve()}  ({film.frames} frames)")
    env.close()
    return 0


def load_policy(name: str, env: EnvBase, option: str = "--policy") -> Any:
    """The policy that an option names."""
    if name == "random":
        return env.rand_action
    if ":" not in name:
        raise SpecError(f"{option} must be 'random' or module:callable, got {name!r}")
    sys.path.insert(0, str(Path.cwd()))
    return as_policy(load(name), env)


def play(env: EnvBase, policy: Any, steps: int, out: Path | None, film: Film | None = None) -> tuple[Summary, float]:
    """Plays ``steps`` steps; every step goes into the files of ``out``, and onto ``film``, as it comes."""
    summary, progress, store = Summary(env), Progress(steps), None
    td = env.reset()
    for i in range(steps):
        acted = policy(td)
        acted = acted if acted is td else td.update(acted)
        if film is None:
            data, td = env.step_and_maybe_reset(acted)
        else:  # the last picture of an episode comes before the reset
            if not i:
                film.add()
            data = env.step(acted)
            film.add()
            td = env.maybe_reset(env.step_mdp(data))
        summary.add(data)
        if out is not None:
            store = _allocate(data, steps, out) if store is None else store
            store[(slice(None),) * data.ndim + (i,)].update_(data)
        progress.step()
    return summary, progress.seconds


def _allocate(data: TensorDictBase, steps: int, out: Path) -> TensorDictBase:
    """Files for ``steps`` steps like ``data``, along a new last batch dimension."""
    if out.exists() and any(out.iterdir()):
        raise SpecError(f"--out {out}: the folder is not empty; choose another or remove it")
    out.mkdir(parents=True, exist_ok=True)
    wide = data.unsqueeze(-1).expand(*data.batch_size, steps)
    if any(isinstance(v, LazyStackedTensorDict) for v in wide.values(True)):
        wide = wide.clone()
    return wide.cpu().memmap_like(prefix=str(out))
