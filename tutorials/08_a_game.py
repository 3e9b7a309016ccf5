# %% [markdown]
"""# 8. A game

Tic-tac-toe: agents take turns. Everything so far holds, and two masks become interesting: `mask` says whose action is
read next, `action_mask` which actions are legal.
"""

# %%
from __future__ import annotations

import torch
from tensordict import TensorDictBase

import marlenv
from marlenv.errors import IllegalAction
from marlenv.games import GameEnv, TicTacToe

torch.set_num_threads(1)
RULES = TicTacToe()

# %% [markdown]
# A group per player. Both write an action at every step; the one whose turn it is not is not read.

# %%
env = marlenv.make("tic_tac_toe", num_envs=1000, seed=0)
print("groups:", env.group_map)
data = env.rollout(9, break_when_all_done=True)
turns = data["x", "mask"][0, :, 0].int().tolist()
print("x acts:", turns)
assert turns[:4] == [1, 0, 1, 0]

# %% [markdown]
# The game is zero-sum, and so are the rewards: the loser gets its -1 in the step in which the winner gets +1.

# %%
x, o = (data["next", player, "reward"].sum(1).flatten() for player in ("x", "o"))
assert torch.equal(x, -o)
shares = [f"{(x == score).float().mean():.0%}" for score in (1, -1, 0)]
print("random play: x wins {}, o wins {}, draws {}".format(*shares))

# %% [markdown]
# Random actions are legal because `rand_action` reads the masks. An illegal one is an error that says what is legal;
# with `illegal="lose"` it loses the game instead.

# %%
td = env.reset()
try:
    td["x", "action"], td["o", "action"] = torch.full((1000, 1), 4), torch.zeros(1000, 1, dtype=torch.int64)
    td = env.step_mdp(env.step(td))
    td["o", "action"] = torch.full((1000, 1), 4)
    env.step(td)
except IllegalAction as error:
    print("as expected:", error)

# %% [markdown]
# Positions travel in the data, so a position is a value: print it, store it, index it, branch it. To judge a move we
# play it, make 1,000 copies of what follows, and let chance finish them.

# %%
PLAYOUTS = 1000
inner = GameEnv(RULES)  # no batch size: takes any
inner.set_seed(1)


def win_rates(td: TensorDictBase) -> torch.Tensor:
    """How often x wins minus how often o does after each of the nine moves; illegal moves are the worst; `[9]`."""
    legal = td["x", "action_mask"][0] if td["x", "mask"][0] else td["o", "action_mask"][0]
    moves = legal.nonzero().flatten()
    branches = td.unsqueeze(0).expand(len(moves), PLAYOUTS).clone()
    for player in ("x", "o"):
        branches[player, "action"] = moves.reshape(-1, 1, 1).expand(-1, PLAYOUTS, 1).clone()
    data = inner.step(branches)
    total = data["next", "x", "reward"].flatten(1).clone()
    td = inner.step_mdp(data)
    while not td["done"].all():
        data = inner.step(inner.rand_action(td))
        total += data["next", "x", "reward"].flatten(1)
        td = inner.step_mdp(data)
    rates = torch.full((9,), -2.0)
    rates[moves] = total.mean(1)
    return rates


opening = win_rates(inner.reset())
print("value of the openings for x:\n", opening.reshape(3, 3).round(decimals=2))
assert opening.argmax() == 4  # the centre

# %% [markdown]
# The other seat can be played by the env: `opponent="random"`, or a policy that reads and writes the env's keys. Then
# every step is a move of ours and the answer to it; what we write for the other seat is not read.


# %%
def think(td: TensorDictBase) -> TensorDictBase:
    """Plays the move of x with the best playouts."""
    return td.set(("x", "action"), win_rates(td).argmax().reshape(1))


NOT_READ = torch.zeros(1, dtype=torch.int64)
match = GameEnv(RULES, opponent="random", seat=0, seed=7)
results = []
for _ in range(20):
    data = match.rollout(9, lambda td: think(td).set(("o", "action"), NOT_READ))
    results.append(data["next", "x", "reward"].sum().item())
print(RULES.show(match.read(data["next"][-1])))
print(f"20 games against chance: {results.count(1.0)} won, {results.count(0.0)} drawn, {results.count(-1.0)} lost")
assert results.count(1.0) >= 17
