"""Agents that are born during an episode, and born again, where every agent of every row is an env of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict, TensorDictBase

from marlenv import Composite, EnvBase, Unbounded, to_pufferlib, to_sb3_vec_env
from marlenv.specs import Binary, Bounded

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
SB3 = "needs Stable-Baselines3: VENV=.venv tests/simulators.sh sb3"
PUFFER = "needs PufferLib: VENV=.venv tests/simulators.sh pufferlib"

ALIVE = [
    [True, True, False, False],  # after the reset
    [True, False, False, False],
    [True, False, True, False],
    [True, True, True, False],  # the second is born again
    [True, True, False, False],
    [True, False, False, False],
    [False, False, False, False],
]
"""Of four agents, after so many steps: the last is never born."""
DONE = [[False, False, False, False], [False, True, False, False], [False, True, False, False],
        [False, False, False, False], [False, False, True, False], [False, True, True, False],
        [True, True, True, False]]  # fmt: skip


class Hatchery(EnvBase):
    """Agents come and go as the tables say; who is there is paid 1."""

    def __init__(self) -> None:
        super().__init__(batch_size=())
        self.group_map = {"birds": [f"bird_{i}" for i in range(4)]}
        flag = Binary(shape=(4,), dtype=torch.bool)
        self.observation_spec = Composite(
            birds=Composite(observation=Unbounded((4, 1)), alive=flag, mask=flag.clone(), shape=(4,))
        )
        self.action_spec = Composite(birds=Composite(action=Bounded(-1, 1, (4, 1)), shape=(4,)))
        self.reward_spec = Composite(birds=Composite(reward=Unbounded((4, 1)), shape=(4,)))
        self.full_done_spec = Composite(
            birds=Composite(terminated=Binary(shape=(4, 1), dtype=torch.bool), shape=(4,)),
            terminated=Binary(shape=(1,), dtype=torch.bool),
        )

    def _seen(self) -> TensorDict:
        alive = torch.tensor(ALIVE[self.steps])
        birds = {"observation": alive.unsqueeze(-1) * float(self.steps), "alive": alive, "mask": alive.clone()}
        return TensorDict({"birds": TensorDict(birds, (4,))}, ())

    def _reset(self, tensordict: TensorDictBase | None, **_: Any) -> TensorDictBase:
        self.steps = 0
        return self._seen()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        before, self.steps = torch.tensor(ALIVE[self.steps]), self.steps + 1
        out = self._seen()
        out["birds", "reward"] = before.float().unsqueeze(-1)
        out["birds", "terminated"] = torch.tensor(DONE[self.steps]).unsqueeze(-1)
        return out.set("terminated", torch.tensor([self.steps == len(ALIVE) - 1]))

    def _set_seed(self, seed: int | None) -> None:
        pass


ENDS = [[], [1], [], [], [2], [1], [0, 1, 2, 3]]
"""Whose episode ends in which step; with the row that of all."""


def test_who_is_not_there_is_said_so_and_every_end_is_told() -> None:
    pytest.importorskip("stable_baselines3", reason=SB3)
    env = to_sb3_vec_env(Hatchery())
    env.reset()
    for _ in range(2):  # the second episode is like the first
        for step in range(1, len(ALIVE)):
            _, paid, over, infos = env.step(np.zeros((4, 1), np.float32))
            assert [info.get("alive", True) for info in infos] == ALIVE[step - 1], step
            assert paid.tolist() == [float(one) for one in ALIVE[step - 1]]
            assert np.flatnonzero(over).tolist() == ENDS[step], step
            assert ["terminal_observation" in info for info in infos] == over.tolist()


def test_masks_of_pufferlib_are_those_who_are_there() -> None:
    pytest.importorskip("pufferlib", reason=PUFFER)
    env = to_pufferlib(Hatchery())
    env.reset(seed=0)
    assert env.masks.tolist() == ALIVE[0]
    for step in range(1, len(ALIVE)):
        _, _, terminals, _, infos = env.step(np.zeros((4, 1), np.float32))
        assert env.masks.tolist() == ALIVE[step if step + 1 < len(ALIVE) else 0], step
        assert np.flatnonzero(terminals).tolist() == (ENDS[step] if step + 1 < len(ALIVE) else [0, 3]), step
    lengths = [sum(row[i] for row in ALIVE[:-1]) for i in range(4)]
    assert [info["episode_length"] for info in infos] == lengths
    assert [info["episode_return"] for info in infos] == [float(n) for n in lengths]
