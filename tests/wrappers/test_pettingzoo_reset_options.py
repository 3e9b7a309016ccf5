"""What PettingZoo's ``reset`` takes, its wrappers' takes too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

from marlenv.errors import DtypeError
from marlenv.wrappers import PettingZooWrapper


class Draws(ParallelEnv):  # type: ignore[misc]
    """Shows a number that it draws at each reset, from a range that the options of the reset say."""

    metadata: dict[str, Any] = {"name": "draws", "is_parallelizable": True}

    def __init__(self) -> None:
        self.possible_agents = ["a", "b"]
        self.render_mode = None
        self.rng = np.random.default_rng(5)

    def observation_space(self, agent: str) -> Box:
        return Box(0, 1e9, (1,), np.float64)

    def action_space(self, agent: str) -> Discrete:
        return Discrete(2)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.seen = float(self.rng.integers((options or {}).get("most", 1000)))
        return {a: np.array([self.seen]) for a in self.agents}, {a: {} for a in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[Any, ...]:
        agents = self.agents
        seen, rewards = {a: np.array([self.seen]) for a in agents}, dict.fromkeys(agents, 0.0)
        return seen, rewards, dict.fromkeys(agents, False), dict.fromkeys(agents, False), {a: {} for a in agents}


@pytest.mark.parametrize("turns", [False, True], ids=["parallel", "turns"])
def test_pettingzoo_is_given_seed_and_options(turns: bool) -> None:
    def made() -> AECEnv | ParallelEnv:
        return parallel_to_aec(Draws()) if turns else Draws()

    def shown(data: Any) -> float:
        leaf = next(value for key, value in data.items(True, True) if "observation" in key)
        return float(leaf.flatten()[0])

    env, sim = PettingZooWrapper(made(), seed=0), Draws()
    for given in ({"seed": 7}, {"seed": 8, "options": {"most": 10**9}}, {"seed": 7}):
        sim.reset(**given)
        assert shown(env.reset(**given)) == sim.seen
    plain, seeded = env.reset(seed=7), PettingZooWrapper(made(), seed=0)
    seeded.set_seed(7)
    assert shown(plain) == shown(seeded.reset())
    assert [shown(env.reset()) for _ in range(3)] == [shown(seeded.reset()) for _ in range(3)]
    assert shown(env.reset(options={"most": 1})) == 0
    assert not bool(env.step(env.rand_action(env.reset(options={"most": 1})))["next", "done"])
    with pytest.raises(TypeError, match=r"PettingZooWrapper\.reset has no option 'sed'; did you mean 'seed'"):
        env.reset(sed=7)
    with pytest.raises(DtypeError, match="seed"):
        env.reset(seed=1.5)
