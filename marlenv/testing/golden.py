"""Golden playthroughs: one seeded episode per env as text that people can read, compared line by line.

``python -m marlenv.testing.golden [NAME ...]`` writes the files again; read the difference before you keep it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.physics.env import ScenarioEnv
from marlenv.registration import available, find, make
from marlenv.specs.show import tree

STEPS = 12
SEED = 42
EXAMPLES = {
    "go": ("go", {"size": 5}),
    "gym": ("gym/CartPole-v1", {}),
    "hex": ("hex", {"rows": 4}),
    "open_spiel": ("open_spiel/leduc_poker", {}),
    "pettingzoo": ("pettingzoo/simple_spread_v3", {"max_cycles": 8}),
    "vmas": ("vmas/simple_tag", {"max_steps": 8}),
}
"""Families of envs: the task that stands for them, and its options."""
NONE = {
    "brax": "XLA's numbers change with the machine",
    "dm_control": "MuJoCo's numbers change with the machine",
    "dm_soccer": "MuJoCo's numbers change with the machine",
    "envpool": "its tasks are other games' and robots', and it is not on every machine",
    "habitat": "the simulator is on few machines",
    "isaac_lab": "the simulator is on few machines",
    "isaacgym": "the simulator is on few machines",
    "jaxmarl": "XLA's numbers change with the machine",
    "jumanji": "XLA's numbers change with the machine",
    "meltingpot": "its substrates cannot be seeded",
    "openml": "its data sets are fetched from a server",
    "pgx": "its games are compared with Pgx's own, move by move, and take XLA long to compile",
    "procgen": "it observes pictures, of which the first numbers say nothing",
    "robohive": "the simulator is on few machines",
    "smacv2": "the game is on few machines",
    "unity_mlagents": "builds of Unity's are on no package registry",
}
"""Families without a playthrough, and why."""


def numbers(value: Any, most: int = 8) -> str:
    """The first numbers of a tensor; floats with three decimals."""
    if not isinstance(value, Tensor):
        return str(value)
    flat = value.detach().cpu().reshape(-1)
    shown = flat[:most].tolist()
    if value.dtype.is_floating_point:
        words = [f"{round(x, 3) + 0.0:.3f}" for x in shown]
    elif value.dtype == torch.bool:
        return "".join("#" if x else "." for x in flat[:64].tolist()) + ("..." if len(flat) > 64 else "")
    else:
        words = [str(x) for x in shown]
    return " ".join(words) + (f" ... ({len(flat)})" if len(flat) > most else "")


def lines(name: str) -> Iterator[str]:
    """The playthrough of an env, line by line."""
    task, options = EXAMPLES.get(name, (name, {}))
    env = make(task, 2, seed=SEED, **options)
    if isinstance(env, ScenarioEnv):
        env.tier = "none"  # the reference, on every machine
    yield f"# {task}: {STEPS} random steps of 2 envs, seed {SEED}; rows that are done are reset"
    yield from tree(env.input_spec).splitlines()
    yield from tree(env.output_spec).splitlines()
    td = env.reset()
    yield from _observed(env, td, "reset")
    for i in range(STEPS):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        yield f"--- step {i}"
        for key in env.action_keys:
            yield f"action {_word(key)}: {numbers(data.get(key))}"
        for key in env.reward_keys:
            yield f"reward {_word(key)}: {numbers(data['next'].get(key))}"
        for key in env.done_keys:
            yield f"{_word(key)}: {numbers(data['next'].get(key))}"
        yield from _observed(env, data["next"], "next")
    env.close()


def _observed(env: EnvBase, td: Any, when: str) -> Iterator[str]:
    for key in env.observation_keys:
        yield f"{when} {_word(key)}: {numbers(td.get(key))}"


def _word(key: Any) -> str:
    return key if isinstance(key, str) else "/".join(key)


def text(name: str) -> str:
    """The playthrough of an env."""
    return "\n".join(lines(name)) + "\n"


def names() -> list[str]:
    """The envs that must have a playthrough: all that are registered, but for those in :data:`NONE`."""
    return [name for name in available() if name not in NONE and find(name).kind != "custom"]


def folder() -> Path:
    """Where the files are, in a checkout."""
    return Path(__file__).resolve().parents[2] / "tests" / "golden"


def main(arguments: Sequence[str]) -> None:
    """Writes the files of the envs that are named, or of all."""
    for name in arguments or names():
        path = folder() / f"{name}.txt"
        path.write_text(text(name))
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
