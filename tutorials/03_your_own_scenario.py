# %% [markdown]
"""# 3. A scenario of your own

`simple_spread` never ends. We write the task that we would rather have: it is over, and won, when every landmark has
been covered for some steps in a row. A scenario is a dataclass: its fields are its options. It always speaks about all
rows at once; which rows are reset is not its business.
"""

# %%
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

import marlenv
from marlenv.physics import Agent, Landmark, Scenario, Sphere, World, distance, join, offset, others, total
from marlenv.testing import run_contract

torch.set_num_threads(1)

# %% [markdown]
# The letters: `B` rows, `A` agents, `M` landmarks. What must be remembered from step to step is declared in `build`
# and lives in `self.memory`; nothing else may be kept on `self`.


# %%
@dataclass(eq=False)
class HoldTheLandmarks(Scenario):
    """Agents cover as many landmarks, and win when all have been covered for some steps in a row.

    - observation ``[B, A, 4 + 2 n + 2 (n - 1)]``: own position and velocity, landmarks and other agents as seen
      from the agent; metres, m/s.
    - reward, shared: minus the distances from each landmark to its nearest agent; ``prize`` when the task is won.
    - ends: won.

    Args:
        n_agents: how many agents, and landmarks.
        reach: how near is near enough, metres.
        hold: for how many steps in a row all landmarks must be covered.
        prize: the reward for that.

    """

    n_agents: int = 3
    reach: float = 0.2
    hold: int = 3
    prize: float = 10.0

    def build(self) -> World:
        world = World()
        self.agents = world.add("agents", [Agent(Sphere(0.05))] * self.n_agents)
        self.landmarks = world.add("landmarks", [Landmark(collide=False)] * self.n_agents)
        world.remember(held=torch.tensor(0))  # steps in a row; int64, one per row
        return world

    def spawn(self) -> None:
        self.agents.pos = self.uniform(-1, 1, self.n_agents, 2)
        self.landmarks.pos = self.uniform(-1, 1, self.n_agents, 2)

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        return {"agents": join(agents.pos, agents.vel, offset(agents, self.landmarks), others(offset(agents, agents)))}

    def after_step(self) -> None:
        covered = (distance(self.agents, self.landmarks).amin(1) < self.reach).all(-1)  # [B, A, M] -> [B]
        self.memory.held = torch.where(covered, self.memory.held + 1, 0)

    def rewards(self) -> Mapping[str, Tensor]:
        apart = total(distance(self.agents, self.landmarks).amin(1))  # [B, M] -> [B]
        won = torch.where(self.memory.held >= self.hold, self.prize, 0.0)
        return {"agents": (won - apart).unsqueeze(1)}  # [B, 1]: the same for all agents

    def over(self) -> Tensor:
        return self.memory.held >= self.hold


# %% [markdown]
# Give it a name, and it is an env like any other. A misspelt option is an error that lists the options.

# %%
marlenv.register(
    "hold_the_landmarks", "marlenv.physics.env:make_scenario", options={"scenario": HoldTheLandmarks}, batched=True
)
try:
    marlenv.make("hold_the_landmarks", num_envs=2, n_agent=4)
except TypeError as error:
    print("as expected:", error)

# %% [markdown]
# The contract: nearly forty clauses that every env must keep, run on ours.

# %%
results = list(run_contract(lambda: marlenv.make("hold_the_landmarks", num_envs=3, max_steps=9)))
print("contract:", sum(r.verdict == "held" for r in results), "clauses hold")
assert not [r for r in results if r.verdict == "broken"]

# %% [markdown]
# The policy of tutorial 1 wins it; winning terminates, and running out of time truncates.

# %%
env = marlenv.make("hold_the_landmarks", num_envs=256, seed=0, max_steps=80)


def fly_to_my_own(td: TensorDictBase) -> TensorDictBase:
    observation = td["agents", "observation"]
    mine = observation[..., 4:10].unflatten(-1, (3, 2)).diagonal(dim1=1, dim2=2).movedim(-1, 1)
    return td.set(("agents", "action"), (4 * mine - observation[..., 2:4]).clamp(-1, 1))


data = env.rollout(80, fly_to_my_own, break_when_all_done=True)
won = data["next", "terminated"].any(1).float().mean()
late = data["next", "truncated"].any(1).float().mean()
print(f"won {won:.0%}, out of time {late:.0%}")
assert won > 0.9
assert abs(won + late - 1) < 1e-6
