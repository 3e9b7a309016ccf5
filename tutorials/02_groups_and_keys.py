# %% [markdown]
"""# 2. Groups and keys

Agents of a group are stacked: one tensor `[*B, A, ...]` under the group's key. Who is in which group is your choice,
and nothing else about the task changes with it.
"""

# %%
from __future__ import annotations

import torch
from marlenv.groups import edge_index, graph_from_group_map, regroup
from tensordict import TensorDictBase

import marlenv

torch.set_num_threads(1)

# %% [markdown]
# The task puts its three agents into one group. Algorithms ask the env for its keys instead of writing them down.

# %%
env = marlenv.make("simple_spread", num_envs=4, seed=1, max_steps=20)
print("one group:", env.action_keys, env.reward_keys)
assert env.action_key == ("agents", "action")
assert env.reward_key == ("agents", "reward")

# %% [markdown]
# Two teams: one key per group, each with its own number of agents. There is no single action key any more, and
# asking for one says so.

# %%
TEAMS = {"scouts": ["agent_0"], "carriers": ["agent_1", "agent_2"]}
teams = marlenv.make("simple_spread", num_envs=4, seed=1, max_steps=20, group_map=TEAMS)
print("two groups:", teams.action_keys)
print(teams.full_action_spec)
assert teams.full_action_spec["carriers", "action"].shape == (4, 2, 2)
try:
    print(teams.action_key)
except KeyError as error:
    print("as expected:", error)

# %% [markdown]
# Groups are a tree. The path of a group is its key, whatever the depth.

# %%
TREE = {"air": {"scouts": ["agent_0"]}, "ground": {"carriers": ["agent_1"], "spares": ["agent_2"]}}
tree = marlenv.make("simple_spread", num_envs=4, seed=1, max_steps=20, group_map=TREE)
print("a tree:", tree.action_keys)
assert ("ground", "spares", "action") in tree.action_keys

# %% [markdown]
# Rules make the usual maps: all in one group, one group per agent, by the prefix of the name, by equal specs.

# %%
for rule in marlenv.MarlGroupMapType:
    made = marlenv.make("simple_spread", num_envs=4, group_map=rule)
    print(f"{rule.name.lower():20s}", made.group_map)

# %% [markdown]
# A policy writes the actions of every group. This one reads the keys off the env, so it runs on all of the maps above.


# %%
def towards_the_first_landmark(td: TensorDictBase, env: marlenv.EnvBase) -> TensorDictBase:
    for observation, action in zip(env.observation_keys, env.action_keys, strict=True):
        td.set(action, td[observation][..., 4:6].clamp(-1, 1))
    return td


observations = {}
for name, one in {"one group": env, "teams": teams, "tree": tree}.items():
    one.set_seed(1)
    data = one.rollout(20, lambda td, one=one: towards_the_first_landmark(td, one))
    places = [one.tree.key(agent, "observation") for agent in env.tree.agents]  # the entry's key, the agent's row in it
    observations[name] = torch.stack([data["next"][key][:, :, row] for key, row in places])
assert torch.equal(observations["one group"], observations["teams"])
assert torch.equal(observations["one group"], observations["tree"])
print("every agent sees the same under every map")

# %% [markdown]
# Data that were recorded under one map can be put under another. A group that was a run of agents stays a view.

# %%
env.set_seed(1)
data = env.rollout(20)
other = regroup(data, env.tree, TEAMS)
assert torch.equal(other["carriers", "observation"], data["agents", "observation"][:, :, 1:])
print("regrouped:", sorted(name for name in other.keys() if name not in ("next", "done", "terminated", "truncated")))

# %% [markdown]
# Flags follow the tree too: `done` stands at the root and in every group, and is always `terminated | truncated`.
# A `"_reset"` mask may stand beside any top `done`: here rows 0 and 2 start anew and the others stay as they are.

# %%
td = env.step_mdp(env.rand_step(env.reset()))
kept = td["agents", "observation"].clone()
td["_reset"] = torch.tensor([[True], [False], [True], [False]])
td = env.reset(td)
assert torch.equal(td["agents", "observation"][[1, 3]], kept[[1, 3]])
assert not torch.equal(td["agents", "observation"][[0, 2]], kept[[0, 2]])

# %% [markdown]
# For graph networks, every group has an edge index; a `networkx` graph can give the groups, and the other way round.

# %%
print("edges inside the carriers:", edge_index(TEAMS)[("carriers",)].tolist())
assert sorted(graph_from_group_map(TEAMS).edges) == [("agent_1", "agent_2")]
