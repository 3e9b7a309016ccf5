"""An env that keeps every clause of the contract; each planted fault changes one thing of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv import Binary, Bounded, Composite, EnvBase, RowRNG, Unbounded

FLAGS = ("done", "terminated", "truncated")


class Sound(EnvBase):
    """Two agents push a point of their own; rows end apart, after 5 to 9 steps.

    ``observation`` ``[B, 2, 1]``: where the point is; ``reward``: minus its distance from 0, at least -10; ``alive``
    and ``mask``; flags of agents and root, which end together.
    """

    def __init__(self, batch_size: Sequence[int] = (2,), **options: Any) -> None:
        super().__init__(batch_size=batch_size, **options)
        (rows,) = self.batch_size
        one = {
            "observation": Unbounded((rows, 2, 1)),
            "alive": Binary(shape=(rows, 2), dtype=torch.bool),
            "mask": Binary(shape=(rows, 2), dtype=torch.bool),
        }
        agents = lambda **leaves: Composite(  # noqa: E731
            agents=Composite(**leaves, shape=(rows, 2)), shape=(rows,)
        )
        flag = lambda *s: Binary(shape=(rows, *s, 1), dtype=torch.bool)  # noqa: E731
        self.observation_spec = agents(**one)
        self.action_spec = agents(action=Bounded(-1, 1, (rows, 2, 1)))
        self.reward_spec = agents(reward=Bounded(-10, 10, (rows, 2, 1)))
        done = agents(**{n: flag(2) for n in FLAGS})
        for name in FLAGS:
            done[name] = flag()
        self.full_done_spec = done
        self.rows, self.steps = rows, 0
        self.count = torch.zeros(rows, dtype=torch.int64)
        self.limit = torch.full((rows,), 5)
        self.at = torch.zeros(rows, 2, 1)
        self.rng = RowRNG(0, [rows])

    # the parts that faults change

    def begin(self, where: Tensor) -> None:
        """Starts new episodes in the rows ``where`` ``[B]``."""
        drawn = self.rng.counter
        at, limit = self.rng.uniform(-1, 1, shape=(2, 1)), self.rng.randint(5, 10)
        self.rng.counter = torch.where(where, self.rng.counter, drawn)
        self.count = torch.where(where, 0, self.count)
        self.limit = torch.where(where, limit, self.limit)
        self.at = torch.where(where.reshape(-1, 1, 1), at, self.at)

    def move(self, action: Tensor) -> None:
        """One step of all points."""
        self.count = self.count + 1
        self.at = self.at + 0.1 * action + 0.01 * self.rng.uniform(-1, 1, shape=(2, 1))

    def reward(self) -> Tensor:
        return -self.at.abs().clamp(max=10)

    def observe(self, ended: Tensor) -> TensorDict:
        alive = (~ended).unsqueeze(-1).expand(-1, 2).clone()
        return TensorDict({"observation": self.at.clone(), "alive": alive, "mask": alive.clone()}, [self.rows, 2])

    # what an env gives

    def _reset(self, tensordict: TensorDictBase | None, **_: Any) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        self.begin(torch.ones(self.rows, dtype=torch.bool) if mask is None else mask.squeeze(-1))
        return TensorDict({"agents": self.observe(torch.zeros(self.rows, dtype=torch.bool))}, [self.rows])

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.steps += 1
        self.move(tensordict["agents", "action"])
        ended = self.count >= self.limit
        flags = {"terminated": ended.unsqueeze(-1), "truncated": torch.zeros(self.rows, 1, dtype=torch.bool)}
        flags["done"] = flags["terminated"].clone()
        agents = self.observe(ended)
        agents["reward"] = self.reward()
        for name, flag in flags.items():
            agents[name] = flag.unsqueeze(1).expand(-1, 2, -1).clone()
        return TensorDict({"agents": agents, **flags}, [self.rows])

    def _set_seed(self, seed: int | None) -> None:
        self.rng, self.steps = RowRNG(seed or 0, [self.rows]), 0

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        steps = torch.full((self.rows,), self.steps)
        state = {"count": self.count, "limit": self.limit, "at": self.at, "rng": self.rng.state, "steps": steps}
        return TensorDict(state, [self.rows]).clone()

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        self.count, self.limit, self.at = (state[name].clone() for name in ("count", "limit", "at"))
        self.rng, self.steps = RowRNG.from_state(state["rng"]), int(state["steps"][0])
        return TensorDict({"agents": self.observe(torch.zeros(self.rows, dtype=torch.bool))}, [self.rows])


Change = Callable[[Sound, TensorDictBase], Any]


def changed(method: str, change: Change, *, since: int = 0, only: bool = False) -> type[Sound]:
    """The sound env with what a method returns changed, in place or by what ``change`` returns.

    Args:
        method: ``"_step"`` or ``"_reset"``.
        change: is given the env and what the method returned; what it returns is returned, unless it is None or a
            tensor.
        since: the number of the step from which on, counted from 1.
        only: in that step alone.
    """

    def run(self: Sound, tensordict: TensorDictBase | None = None, **options: Any) -> TensorDictBase:
        out = getattr(Sound, method)(self, tensordict, **options)
        if self.steps < since or (only and self.steps != since):
            return out
        answer = change(self, out)
        return (
            out if answer is None or isinstance(answer, Tensor) else answer
        )  # tensors are what in-place operations return

    return type("Changed", (Sound,), {method: run, "__module__": __name__})
