# %% [markdown]
"""# 5. Wrapping somebody else's simulator

Here is the same task in somebody's own simulator: plain Python, one episode at a time, on a grid, and an agent that
has reached a free landmark leaves the game. To make it an env we say what each agent sees and does, and how to reset
and step the simulator. Groups, masks, flags, seeding and packing come from the base.
"""

# %%
from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import torch

from marlenv import Bounded, Categorical, Composite, SerialEnv
from marlenv.testing import run_contract
from marlenv.wrappers import AgentSpecs, AgentStep, ParallelSimEnv

torch.set_num_threads(1)

# %% [markdown]
# The simulator. It knows nothing of tensors.

# %%
SIDE = 5
MOVES = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)]


class GridSpread:
    """Walkers on a grid; who stands on a free landmark is home and gone. Speaks in dicts by agent name."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def start(self, seed: int | None) -> None:
        self.random = random.Random(seed) if seed is not None or not hasattr(self, "random") else self.random
        cells = self.random.sample([(x, y) for x in range(SIDE) for y in range(SIDE)], 2 * len(self.names))
        self.at = dict(zip(self.names, cells, strict=False))
        self.free = cells[len(self.names) :]

    def move(self, orders: dict[str, int]) -> dict[str, bool]:
        """Walks; returns who came home in this step, for everyone who was still there."""
        home = {}
        for name, order in orders.items():
            x, y = (p + d for p, d in zip(self.at[name], MOVES[order], strict=True))
            self.at[name] = (min(max(x, 0), SIDE - 1), min(max(y, 0), SIDE - 1))
            home[name] = self.at[name] in self.free
            if home[name]:
                self.free.remove(self.at[name])
        return home

    def look(self, name: str) -> list[int]:
        """Own cell, and the nearest free landmark seen from it."""
        x, y = self.at[name]
        gx, gy = min(self.free, key=lambda g: abs(g[0] - x) + abs(g[1] - y), default=(x, y))
        return [x, y, gx - x, gy - y]


# %% [markdown]
# The wrapper. An agent that is left out of an answer is absent: its data become zeros, `alive` and `mask` False, and
# its flags stay as they were in its last step. Actions reach the simulator only for agents that are alive.


# %%
class GridSpreadEnv(ParallelSimEnv):
    """The grid task; `-1` for every step, the episode ends with the last agent."""

    default_rule = False  # done when all are, not when any is

    def _build_env(self, n_agents: int = 3) -> GridSpread:
        return GridSpread([f"walker_{i}" for i in range(n_agents)])

    def agent_specs(self) -> dict[str, AgentSpecs]:
        observations = Composite(observation=Bounded(-SIDE, SIDE, (4,)))
        specs = AgentSpecs(observations=observations, action=Categorical(len(MOVES)))
        return dict.fromkeys(self._env.names, specs)

    def sim_reset(self, seed: int | None) -> Mapping[str, AgentStep]:
        self._env.start(seed)
        return {name: AgentStep({"observation": self._env.look(name)}) for name in self._env.names}

    def sim_step(self, actions: dict[str, Any]) -> Mapping[str, AgentStep]:
        home = self._env.move({name: int(action) for name, action in actions.items()})
        observations = {name: {"observation": self._env.look(name)} for name in home}
        return {name: AgentStep(observations[name], reward=-1.0, terminated=home[name]) for name in home}


env = GridSpreadEnv(max_steps=60)
print("groups:", env.group_map)

# %% [markdown]
# The contract finds what a quick look does not: flags of the dead that change, randomness that leaks, lost last steps.

# %%
results = list(run_contract(lambda: GridSpreadEnv(max_steps=20)))
print("contract:", {v: sum(r.verdict == v for r in results) for v in ("held", "broken", "skipped")})
assert not [r for r in results if r.verdict == "broken"]

# %% [markdown]
# Several of them at once, in this process, and who is alive when: agents leave one by one.

# %%
many = SerialEnv(4, GridSpreadEnv, create_env_kwargs={"max_steps": 60})
many.set_seed(3)
data = many.rollout(60, break_when_all_done=True)
alive = data["next", "walker", "alive"].sum(-1)
print("alive after each step, row 0:", alive[0].tolist())
assert (alive.diff(dim=1) <= 0).all()
home = data["next", "walker", "terminated"].any(1).float().mean()
print(f"came home by chance: {home:.0%}")
assert home > 0.6
