# %% [markdown]
"""# 1. A first rollout

Three agents must cover three landmarks. This task goes with us through all tutorials; here we only play it:
make the env, look at what goes in and out, step it by hand, and let a policy of three lines play against chance.
"""

# %%
from __future__ import annotations

import torch
from tensordict import TensorDictBase

import marlenv

torch.set_num_threads(1)

# %% [markdown]
# `make` takes the name of an env, how many rows to step at once, and a seed. Everything else is an option of the env.

# %%
ROWS, STEPS = 256, 50
env = marlenv.make("simple_spread", num_envs=ROWS, seed=0, max_steps=STEPS)
print("agents by group:", env.group_map)
print(env.full_action_spec)
print(env.full_observation_spec)

# %% [markdown]
# A reset gives observations and flags, no rewards. A step reads the actions and writes what followed under `"next"`.

# %%
td = env.reset()
assert ("agents", "reward") not in td.keys(True)

td = env.step(env.rand_action(td))
print("action", list(td["agents", "action"].shape), "reward", list(td["next", "agents", "reward"].shape))
assert td["next", "agents", "reward"].shape == (ROWS, 3, 1)

# %% [markdown]
# The next step starts from what is under `"next"`. `step_mdp` moves it to the root; `step_and_maybe_reset` does that
# and resets the rows that are done. With these two lines you have the loop of every algorithm.

# %%
td = env.reset()
for _ in range(3):
    data, td = env.step_and_maybe_reset(env.rand_action(td))

# %% [markdown]
# `rollout` is that loop. It stacks the steps along a last batch dimension, so that `[row, time]` indexes one moment.

# %%
chance = env.rollout(STEPS)
print("rollout", list(chance.batch_size), "names", chance.names)
assert chance.batch_size == (ROWS, STEPS)

# %% [markdown]
# `max_steps` cut the episodes off after 50 steps: that is a truncation. The task itself never ends.

# %%
last = chance["next"][:, -1]
assert last["truncated"].all()
assert not last["terminated"].any()
assert (last["done"] == (last["terminated"] | last["truncated"])).all()

# %% [markdown]
# A policy is any function that writes actions into the data. Agent `i` of ours flies to landmark `i` and brakes.
# The observation is: own position, own velocity, the three landmarks seen from here, the two other agents.


# %%
def fly_to_my_own(td: TensorDictBase) -> TensorDictBase:
    observation = td["agents", "observation"]
    velocity = observation[..., 2:4]
    landmarks = observation[..., 4:10].unflatten(-1, (3, 2))  # [B, A, landmark, 2]
    mine = landmarks.diagonal(dim1=1, dim2=2).movedim(-1, 1)  # agent i, landmark i: [B, A, 2]
    return td.set(("agents", "action"), (4 * mine - velocity).clamp(-1, 1))


env.set_seed(0)
planned = env.rollout(STEPS, fly_to_my_own)


def mean_return(data: TensorDictBase) -> float:
    """What an agent earned in an episode, on average over rows and agents."""
    return data["next", "agents", "reward"].sum(1).mean().item()


print(f"mean return: random {mean_return(chance):.0f}, each to its own landmark {mean_return(planned):.0f}")
assert mean_return(planned) > mean_return(chance) + 50

# %% [markdown]
# The seed decides everything, row by row: the first row of 256 lives the life that it has alone.

# %%
alone = marlenv.make("simple_spread", num_envs=1, seed=0, max_steps=STEPS).rollout(STEPS, fly_to_my_own)
assert torch.equal(alone["next", "agents", "reward"], planned["next", "agents", "reward"][:1])
print("row 0 of a batch of 256 is row 0 of a batch of 1, bit for bit")
