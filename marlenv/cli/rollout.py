"""``marlenv rollout NAME``: plays an env, prints a summary per group and keeps the data as a memory-mapped
tensordict.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from marlenv.cli import env_options
from marlenv.cli.files import KeptRollout
from marlenv.cli.film import Film
from marlenv.cli.summary import Summary
from marlenv.cli.text import Progress
from marlenv.envs import EnvBase
from marlenv.envs.policies import READS_TENSORDICT, as_policy, ask
from marlenv.envs.registry import load
from marlenv.envs.rollout import ended_rows
from marlenv.errors import SpecError, whole
from marlenv.registration import find, make
from marlenv.specs import Stacked, TensorSpec


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    env_options.configure(parser, envs=1)
    parser.add_argument("--steps", type=int, default=100, help="how many steps to play; rows that are done are reset")
    parser.add_argument(
        "--policy", default="random", help="random, or module:callable: a policy, or a class or function that makes one"
    )
    parser.add_argument("--seed", type=int, help="of the env and of random actions")
    parser.add_argument("--max-steps", type=int, help="cut episodes off after so many steps")
    parser.add_argument("--out", type=Path, help="folder for the data; nothing is kept when left out")
    parser.add_argument(
        "--video",
        type=Path,
        metavar="FILE",
        help="a film of the first env (scenario, game, or simulator that draws): .gif or .mp4; replaced if there",
    )


def run(options: argparse.Namespace) -> int:
    """Plays, prints, keeps."""
    for name in ("envs", "steps"):
        whole("rollout", f"--{name}", getattr(options, name), 1)
    given = env_options.options_of(options)
    drawn = {} if options.video is None else find(options.name).filmed
    env = make(
        options.name,
        options.envs,
        device=options.device,
        seed=options.seed,
        max_steps=options.max_steps,
        **{**drawn, **given},
    )
    if options.out is not None:
        _check_sizes(env, options.out)
    policy = load_policy(options.policy, env)
    note = {"env": options.name, "envs": options.envs, "seed": options.seed, "options": given}
    with contextlib.ExitStack() as stack:
        film = None if options.video is None else stack.enter_context(Film(env, options.video))
        kept = None if options.out is None else stack.enter_context(KeptRollout(options.out, options.steps, note))
        summary, seconds = play(env, policy, options.steps, kept, film)
    print(f"{options.name}, {env.numel()} envs x {options.steps} steps, policy {options.policy}")
    print(summary.text(seconds))
    if options.out is not None:
        print(f"data: {options.out.resolve()}  (tensordict.TensorDict.load_memmap({str(options.out)!r}))")
    if film is not None:
        print(f"video: {options.video.resolve()}  ({film.frames} frames)")
    env.close()
    return 0


def load_policy(name: str, env: EnvBase, option: str = "--policy") -> Any:
    """The policy that an option names: one that is there, or what a class or a function makes, given the env if it asks
    for it.
    """
    if name == "random":
        return env.rand_action
    if ":" not in name:
        raise SpecError(f"{option} must be 'random' or module:callable, got {name!r}")
    found = load(name)
    if not callable(found):
        raise SpecError(f"{option} {name}: expected a policy, or what makes one, got {type(found).__name__}")
    if not inspect.isclass(found) and not makes_policies(found):
        return as_policy(found, env)
    parameters = inspect.signature(found).parameters
    if odd := [p for p in needed(parameters) if p != "env"]:
        raise SpecError(
            f"{option} {name}: {found.__name__} needs {', '.join(odd)}, which nobody knows here; name a function "
            f"that makes "
            f"it, with the argument env or without any"
        )
    made = found(env=env) if "env" in parameters else found()
    if not callable(made) or inspect.isclass(made):
        raise SpecError(f"{option} {name}: made {made!r}, which is no policy; return something that can be called")
    return as_policy(made, env)


def makes_policies(call: Any) -> bool:
    """Whether a callable is a function that makes a policy: one that needs nothing, or the env alone."""
    if not isinstance(call, (FunctionType, MethodType, partial)):
        return False
    parameters = inspect.signature(call).parameters
    if needed(parameters) == ["env"]:
        return True
    given = [p for p in parameters.values() if p.kind is p.VAR_POSITIONAL or p.name in READS_TENSORDICT]
    return not needed(parameters) and not given


def needed(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    """The parameters that must be given."""
    some = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [name for name, p in parameters.items() if p.default is p.empty and p.kind not in some]


def play(
    env: EnvBase, policy: Any, steps: int, kept: KeptRollout | None, film: Film | None = None
) -> tuple[Summary, float]:
    """Plays ``steps`` steps; every step goes into the files of ``kept``, and onto ``film``, as it comes."""
    summary, progress = Summary(env), Progress(steps)
    td, over = env.reset(), True  # whether another episode of row 0 begins
    for _ in range(steps):
        acted = ask(policy, td, "rollout")
        if film is None:
            data, td = env.step_and_maybe_reset(acted)
        else:  # the last picture of an episode comes before the reset, the first one of the next after it
            if over:
                film.add(td)
            data = env.step(acted)
            film.add(data["next"])
            td = env.step_mdp(data)
            over = bool(ended_rows(env, td).flatten()[0])
            td = env.maybe_reset(td)
        summary.add(data)
        if kept is not None:
            kept.add(data)
        progress.step()
    return summary, progress.seconds


def _check_sizes(env: EnvBase, out: Path) -> None:
    """Raises where steps may differ in shape: files are as long as all steps from the first one on."""
    for side in (env.output_spec, env.input_spec):
        for (_, *key), spec in side.items(True, True):
            if _unknown_size(spec):
                raise SpecError(
                    f"--out {out}: {'/'.join(key)} has sizes of -1, got {list(spec.shape)}, so that steps differ in "
                    f"shape and do not fit into one file; leave --out away, or call rollout(return_contiguous=False)"
                )


def _unknown_size(spec: TensorSpec) -> bool:
    """Whether a size is -1, beyond those that say that parts side by side differ."""
    return any(map(_unknown_size, spec.parts)) if isinstance(spec, Stacked) else -1 in spec.shape
