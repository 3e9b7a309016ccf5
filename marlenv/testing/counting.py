"""Python calls of a piece of code, counted: a measure of overhead without a clock, the same on every machine.

``python -m marlenv.testing.counting`` prints the calls of the guarded operations of :data:`CASES`;
``python -m marlenv.testing.counting FILE`` writes them to a file that ``tests/bench`` compares with.
"""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from marlenv.envs import EnvBase
from marlenv.specs import Binary, Bounded, Composite, Unbounded
from marlenv.testing.mocks import CountingEnv
from marlenv.transforms import Compose, RewardSum, StepCounter, TransformedEnv
from marlenv.vector import SerialEnv


def count_calls(run: Callable[[], Any]) -> Counter[str]:
    """How many Python functions ``run`` calls, by module; ``total()`` is the sum.

    Functions written in C are not counted, and neither are the bodies of comprehensions and generators.

    >>> count_calls(lambda: sorted([3, 1], key=lambda x: -x)).total()
    3
    """
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and not frame.f_code.co_name.endswith(("comp>", "genexpr>")):
            found[frame.f_globals.get("__name__", "?")] += 1

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # what is collected meanwhile may call Python too
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return found


def by_package(calls: Counter[str]) -> dict[str, int]:
    """The calls by top-level package, most calls first.

    >>> by_package(Counter({"torch.nn": 2, "torch": 1, "marlenv.envs": 1}))
    {'torch': 3, 'marlenv': 1}
    """
    sums: Counter[str] = Counter()
    for module, count in calls.items():
        sums[module.partition(".")[0]] += count
    return dict(sums.most_common())


class CheapEnv(EnvBase):
    """An env that costs next to nothing: what is left is the cost of the env layer.

    3 agents in one group: ``observation`` ``[*B, 3, 8]``, ``action`` ``[*B, 3, 2]``, ``reward`` ``[*B, 3, 1]``; root
    flags that are never set.

    >>> CheapEnv([4]).rollout(2)["agents", "action"].shape
    torch.Size([4, 2, 3, 2])
    """

    def __init__(self, batch_size: tuple[int, ...] | list[int] = (32,)) -> None:
        super().__init__(batch_size=batch_size)
        batch = (*self.batch_size, 3)
        group = lambda name, spec: Composite({"agents": Composite({name: spec}, shape=batch)}, shape=self.batch_size)  # noqa: E731
        self.observation_spec = group("observation", Unbounded((*batch, 8)))
        self.action_spec = group("action", Bounded(-1, 1, (*batch, 2)))
        self.reward_spec = group("reward", Unbounded((*batch, 1)))
        flags = {n: Binary(shape=(*self.batch_size, 1), dtype=torch.bool) for n in ("done", "terminated", "truncated")}
        self.done_spec = Composite(flags, shape=self.batch_size)
        self.observations, self.rewards = torch.zeros((*batch, 8)), torch.zeros((*batch, 1))
        self.over = torch.zeros((*self.batch_size, 1), dtype=torch.bool)

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        batch = self.batch_size
        agents = TensorDict({"observation": self.observations}, [*batch, 3])
        return TensorDict({"agents": agents, "done": self.over, "terminated": self.over, "truncated": self.over}, batch)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        batch = self.batch_size
        agents = TensorDict({"observation": self.observations, "reward": self.rewards}, [*batch, 3])
        return TensorDict({"agents": agents, "done": self.over, "terminated": self.over, "truncated": self.over}, batch)

    def _set_seed(self, seed: int | None) -> None:
        pass


CASES: dict[str, Callable[[], EnvBase]] = {
    "CheapEnv": CheapEnv,
    "CountingEnv": lambda: CountingEnv(max_steps=10**6, batch_size=[4]),
    "TransformedEnv": lambda: TransformedEnv(CheapEnv(), Compose(RewardSum(), StepCounter(10**6))),
    "SerialEnv": lambda: SerialEnv(4, CheapEnv, create_env_kwargs={"batch_size": []}),
    "partial reset": lambda: SerialEnv(4, CountingEnv, create_env_kwargs=[{"max_steps": n} for n in (1, 99, 99, 99)]),
}


def operations(env: EnvBase) -> dict[str, Callable[[], Any]]:
    """The guarded operations of an env, each ready to be called once.

    >>> list(operations(CheapEnv([2])))
    ['reset', 'rand_action', 'step', 'step_and_maybe_reset']
    """
    env.set_seed(0)
    td = env.rand_action(env.reset())
    for _ in range(2):  # plans and streams are made on first use
        td = env.rand_action(env.step_and_maybe_reset(td)[1])
    to_step, to_go_on, to_act = td.clone(), td.clone(), td.clone()
    return {
        "reset": env.reset,
        "rand_action": lambda: env.rand_action(to_act),
        "step": lambda: env.step(to_step),
        "step_and_maybe_reset": lambda: env.step_and_maybe_reset(to_go_on),
    }


def measure() -> dict[str, dict[str, int]]:
    """The calls of every operation of every case."""
    return {
        name: {what: count_calls(run).total() for what, run in operations(make()).items()}
        for name, make in CASES.items()
    }


def main(arguments: list[str]) -> None:
    """Prints the calls, or writes them to the file that is named."""
    text = json.dumps(measure(), indent=2)
    if arguments:
        Path(arguments[0]).write_text(text + "\n")
    else:
        sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
