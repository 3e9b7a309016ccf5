# %% [markdown]
"""# 7. Many envs at once

Four ways to have many: the rows of a native env, several envs in series, the same in processes, and many copies of *one
moment*. Whatever the way, row `i` lives the life that it would live alone.
"""

# %%
from __future__ import annotations

import time

import torch
from tensordict import TensorDictBase

import marlenv
from marlenv import ParallelEnv, SerialEnv

torch.set_num_threads(1)

# %% [markdown]
# Rows of a native env share every operation, so a step of a thousand costs little more than a step of one.

# %%
for rows in (1, 32, 1024):
    env = marlenv.make("simple_spread", num_envs=rows, seed=0)
    env.rollout(5)
    start = time.perf_counter()
    env.rollout(50)
    seconds = time.perf_counter() - start
    print(f"{rows:>5} rows: {rows * 50 / seconds:>10,.0f} env-steps/s, {3 * rows * 50 / seconds:>10,.0f} agent-steps/s")

# %% [markdown]
# Randomness belongs to the row: draw number `c` of row `i` is a function of the seed, `i` and `c`, and nothing else.
# Not of the number of rows, nor of what other rows, other envs or global generators do.

# %%
small, large = (marlenv.make("simple_spread", num_envs=n, seed=5, max_steps=20) for n in (2, 64))
few, many = small.rollout(20), large.rollout(20)
for key in few.keys(True, True):
    assert torch.equal(few[key], many[key][:2]), key
print("rows 0 and 1 of 64 are those of 2, bit for bit")

# %% [markdown]
# Envs that are not batched are stepped one after the other; children may have different options. `make` does this by
# itself for wrapped simulators when it is given `num_envs`.

# %%
makers = [lambda: marlenv.make("simple_spread", num_envs=1, max_steps=10)] * 4
serial = SerialEnv(4, makers)
serial.set_seed(0)
print("SerialEnv:", serial.batch_size, serial.rollout(10)["next", "agents", "reward"].shape)

# %% [markdown]
# In processes the data are the same; it pays where a step takes long. Forked ones need no `if __name__ == "__main__":`.

# %%
parallel = ParallelEnv(4, makers, num_processes=2, mp_start_method="fork")
one, two = (env.rollout(10) for env in (serial, parallel) if env.set_seed(0) is not None)
assert all(torch.equal(one[key], two[key]) for key in one.keys(True, True))
parallel.close()

# %% [markdown]
# A row that is done is reset while the others go on, and its final observation is not lost: the step has it under
# `"next"`, the data to go on from has the first one of the new episode.

# %%
env = marlenv.make("simple_spread", num_envs=3, seed=0, max_steps=10)
td = env.reset()
state = env.get_state()
state["steps"] = torch.tensor([9, 0, 0])  # row 0 is one step from its time limit
td = env.set_state(state)
data, td = env.step_and_maybe_reset(env.rand_action(td))
print("done:", data["next", "done"].flatten().tolist())
same = (data["next", "agents", "observation"] == td["agents", "observation"]).flatten(1).all(1)
assert same.tolist() == [False, True, True]

# %% [markdown]
# State is a value: a plain tensordict, randomness included, that can be indexed, stored and expanded. So one position
# can be tried out many times: take a state of one row, make 512 of it, let each play a plan of its own, and keep the
# best. That is a planner in ten lines.

# %%
PLANS, AHEAD = 512, 12
world = marlenv.make("simple_spread", num_envs=1, seed=3)
dreams = marlenv.make("simple_spread", num_envs=PLANS, seed=0)


def best_plan(world: marlenv.EnvBase) -> torch.Tensor:
    """The best of many random plans from here, each an action per agent that is held; `[1, A, 2]`."""
    td = dreams.set_state(world.get_state().expand(PLANS).clone())
    plans = dreams.rand_action()["agents", "action"]
    total = torch.zeros(PLANS)
    for _ in range(AHEAD):
        data = dreams.step(td.set(("agents", "action"), plans))
        td, total = dreams.step_mdp(data), total + data["next", "agents", "reward"][:, 0, 0]
    return plans[total.argmax()].unsqueeze(0)


def play(planned: bool, steps: int = 60) -> float:
    """The return of the first agent in one episode."""
    world.set_seed(3)
    td: TensorDictBase = world.reset()
    total = 0.0
    for i in range(steps):
        if not planned:
            td = world.rand_action(td)
        elif i % 6 == 0:
            plan = best_plan(world)
        data = world.step(td.set(("agents", "action"), plan) if planned else td)
        total += data["next", "agents", "reward"][0, 0].item()
        td = world.step_mdp(data)
    return total


chance, thought = play(planned=False), play(planned=True)
print(f"return: random {chance:.0f}, planned {thought:.0f}")
assert thought > chance + 50
