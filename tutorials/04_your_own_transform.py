# %% [markdown]
"""# 4. A transform of your own

In `simple_spread` an agent hears only how the team is doing. We tell it more: a little for coming nearer to a landmark.
That is a transform: it changes what the env says, and the env need not know.
"""

# %%
from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

import marlenv
from marlenv import Compose, Composite, RewardSum, StepCounter, Transform, TransformedEnv, Unbounded
from marlenv.testing import run_contract

torch.set_num_threads(1)

# %% [markdown]
# A transform of single values writes one method. Keys, specs and resets follow from it: the new spec is read off by
# passing values through it.


# %%
class Scale(Transform):
    """Multiplies entries by a number; all rewards, unless `in_keys` says otherwise."""

    on = "reward"

    def __init__(self, factor: float, in_keys: list | None = None) -> None:
        super().__init__(in_keys)
        self.factor = factor

    def _apply_transform(self, x: Tensor) -> Tensor:
        return self.factor * x


plain = marlenv.make("simple_spread", num_envs=8)
scaled = TransformedEnv(marlenv.make("simple_spread", num_envs=8), Scale(0.1))
plain.set_seed(0), scaled.set_seed(0)
assert torch.equal(scaled.rollout(5)["next", scaled.reward_key], 0.1 * plain.rollout(5)["next", plain.reward_key])
print("Scale: every reward is a tenth")

# %% [markdown]
# A transform with memory keeps it *in the data*, beside what it is about. Then rows stay independent, states can be
# stored, and a rollout shows what was remembered. Such a transform edits the specs, and writes `_reset` and `_step`. It
# never sees a reset mask: `_reset` answers for all rows, and the env keeps the answer where rows were reset.
#
# Ours pays for the change of a potential (Ng, Harada and Russell 1999): that leaves the best policies as they are.


# %%
class Shaping(Transform):
    """Adds to every reward how much nearer the agent came to its nearest landmark, times `weight`.

    Writes `potential` beside `observation`: minus the distance to the nearest landmark, metres.
    """

    def __init__(self, weight: float, landmarks: int = 3) -> None:
        super().__init__()
        self.weight, self.landmarks = weight, landmarks

    def join(self, env: marlenv.EnvBase) -> None:
        self.groups = [key[:-1] for key in env.reward_keys]

    def respec(self, specs: dict[str, Composite]) -> None:
        for group in self.groups:
            specs["observation"][(*group, "potential")] = Unbounded(specs["reward"][(*group, "reward")].shape)

    def _reset(self, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for group in self.groups:
            tensordict_reset[(*group, "potential")] = self.potential(tensordict_reset[(*group, "observation")])
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        next_tensordict = self._reset(None, next_tensordict)
        for group in self.groups:
            change = next_tensordict[(*group, "potential")] - tensordict[(*group, "potential")]
            next_tensordict[(*group, "reward")] = next_tensordict[(*group, "reward")] + self.weight * change
        return next_tensordict

    def potential(self, observation: Tensor) -> Tensor:
        """Minus the distance to the nearest landmark; `[*B, A, 1]`."""
        observation = observation[..., 4 : 4 + 2 * self.landmarks].unflatten(-1, (self.landmarks, 2))
        return -observation.norm(dim=-1).amin(-1, keepdim=True)


# %% [markdown]
# Transforms are chained; the first comes first. `RewardSum` then adds up the rewards as they leave the chain.


# %%
def make_env(rows: int = 8) -> marlenv.EnvBase:
    env = marlenv.make("simple_spread", num_envs=rows)
    return TransformedEnv(env, Compose(Shaping(weight=2.0), Scale(0.1), RewardSum(), StepCounter(max_steps=20)))


env = make_env()
print(env.full_observation_spec)
env.set_seed(0)
data = env.rollout(20)
gained = 2 * (data["next", "agents", "potential"][:, -1] - data["agents", "potential"][:, 0])
plain.set_seed(0)
unshaped = plain.rollout(20)["next", "agents", "reward"].sum(1)
summed = data["next", "agents", "episode_reward"][:, -1]
torch.testing.assert_close(summed, 0.1 * (unshaped + gained), rtol=1e-4, atol=1e-4)
print("Shaping: over an episode the changes add up to last potential minus first")

# %% [markdown]
# The contract runs on the whole: partial resets, states, seeds, specs, flags.

# %%
results = list(run_contract(lambda: make_env(rows=3)))
print("contract:", sum(r.verdict == "held" for r in results), "clauses hold")
assert not [r for r in results if r.verdict == "broken"]
