"""Libraries that know one reward get the one called so, and none that is several numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tensordict import TensorDict, TensorDictBase

import marlenv
from marlenv import Categorical, Composite, EnvBase, LineariseRewards, RenameTransform, RewardScaling, Unbounded
from marlenv.errors import KeyMissing, SpecError

pytestmark = pytest.mark.filterwarnings("ignore")
pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")


class Paid(EnvBase):
    """Each agent is paid ``rewards``: a number, or several, by the name of the entry; in its group, or at the root."""

    def __init__(
        self, rewards: dict[str, list[float]], rows: int | None = None, group: str = "agents", agents: int = 1
    ) -> None:
        super().__init__(batch_size=() if rows is None else (rows,))
        self.group_map = {"agents": list("abc"[:agents])}
        self.rewards, self.group, batch = rewards, group, self.batch_size
        seen = Composite(observation=Unbounded((*batch, agents, 2)), shape=(*batch, agents))
        self.observation_spec = Composite(agents=seen, shape=batch)
        acts = Composite(action=Categorical(2, (*batch, agents)), shape=(*batch, agents))
        self.action_spec = Composite(agents=acts, shape=batch)
        lead = (*batch, agents) if group else batch
        paid = Composite({name: Unbounded((*lead, len(one))) for name, one in rewards.items()}, shape=lead)
        self.reward_spec = Composite({group: paid}, shape=batch) if group else paid

    def _seen(self) -> TensorDict:
        lead = (*self.batch_size, 1)
        return TensorDict({"agents": TensorDict({"observation": torch.zeros(*lead, 2)}, lead)}, self.batch_size)

    def _reset(self, tensordict: TensorDictBase | None, **_: Any) -> TensorDictBase:
        return self._seen()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        out, lead = self._seen(), (*self.batch_size, 1) if self.group else tuple(self.batch_size)
        for name, one in self.rewards.items():
            out[(self.group, name) if self.group else name] = torch.tensor(one).expand(*lead, len(one)).clone()
        return out.set("terminated", torch.zeros(*self.batch_size, 1, dtype=torch.bool))

    def _set_seed(self, seed: int | None) -> None:
        pass


class Export(NamedTuple):
    """An adapter, how many rows it takes, and how to read what the first agent is paid in a step."""

    make: Callable[[Any], Any]
    rows: int | None
    reward: Callable[[Any], Any]
    needs: str = "gymnasium"


EXPORTS = {
    "to_gymnasium": Export(marlenv.to_gymnasium, None, lambda env: env.step(0)[1]),
    "to_gymnasium_vector": Export(marlenv.to_gymnasium_vector, 2, lambda env: env.step(np.zeros(2, int))[1][0]),
    "to_sb3_vec_env": Export(
        marlenv.to_sb3_vec_env, 2, lambda env: env.step(np.zeros(2, int))[1][0], "stable_baselines3"
    ),
    "to_pufferlib": Export(marlenv.to_pufferlib, 2, lambda env: env.step(np.zeros(2, int))[1][0], "pufferlib"),
    "to_alf": Export(marlenv.to_alf, 2, lambda env: env.step(torch.zeros(2, dtype=torch.long)).reward[0]),
    "to_pettingzoo_parallel": Export(
        marlenv.to_pettingzoo_parallel, None, lambda env: env.step({"a": 0})[1]["a"], "pettingzoo"
    ),
    "to_pettingzoo_aec": Export(
        marlenv.to_pettingzoo_aec, None, lambda env: (env.step(0), env.rewards["a"])[1], "pettingzoo"
    ),
    "to_pymarl": Export(lambda env: marlenv.to_pymarl(env, episode_limit=5), None, lambda env: env.step([0])[0]),
    "to_rllib": Export(marlenv.to_rllib, None, lambda env: env.step({"a": 0})[1]["a"], "ray"),
    "to_rllib, groups": Export(
        lambda env: marlenv.to_rllib(env, "groups"), None, lambda env: env.step({"agents": 0})[1]["agents"], "ray"
    ),
}


@pytest.fixture(params=EXPORTS)
def export(request: pytest.FixtureRequest) -> Export:
    found = EXPORTS[request.param]
    pytest.importorskip(found.needs, reason="VENV=.venv tests/simulators.sh")
    return found


def reward(export: Export, env: EnvBase) -> float:
    made = export.make(env)
    made.reset()
    return float(export.reward(made))


@pytest.mark.parametrize("group", ["agents", ""], ids=["group", "root"])
def test_of_several_rewards_the_one_called_so_is_paid(export: Export, group: str) -> None:
    paid = {"bonus": [100.0], "reward": [1.0], "zeal": [7.0]}
    assert reward(export, Paid(paid, export.rows, group)) == 1.0
    assert reward(export, Paid({"score": [3.0]}, export.rows, group)) == 3.0


def test_a_reward_that_is_scaled_beside_it_changes_nothing(export: Export) -> None:
    scaled = RewardScaling(0.0, 10.0, in_keys=[("agents", "reward")], out_keys=[("agents", "a_scaled")])
    assert reward(export, Paid({"reward": [1.0]}, export.rows).append_transform(scaled)) == 1.0


def test_several_of_which_none_is_called_so_are_an_error_until_one_is(export: Export) -> None:
    paid = {"bonus": [100.0], "zeal": [7.0]}
    with pytest.raises(KeyMissing, match=r"^to_\w+: group 'agents' has 2 reward entries, \[\('agents', 'bonus'\), .*"):
        export.make(Paid(paid, export.rows))
    rename = RenameTransform([("agents", "zeal")], [("agents", "reward")])
    assert reward(export, Paid(paid, export.rows).append_transform(rename)) == 7.0


@pytest.mark.parametrize("group", ["agents", ""], ids=["group", "root"])
def test_a_reward_of_several_numbers_is_an_error_until_it_is_weighed(export: Export, group: str) -> None:
    key = (group, "reward") if group else "reward"
    shape = r"\[1, 2\]" if group else r"\[2\]"
    with pytest.raises(SpecError, match=rf"^to_\w+: entry .*'reward'\)? is several numbers, {shape}.*LineariseRewards"):
        export.make(Paid({"reward": [0.75, -1.0]}, export.rows, group))
    weighed = Paid({"reward": [0.75, -1.0]}, export.rows, group).append_transform(
        LineariseRewards([key], weights=[4.0, 10.0])
    )
    assert reward(export, weighed) == 4 * 0.75 - 10


def test_as_many_numbers_at_the_root_as_there_are_agents_are_no_rewards_of_theirs(export: Export) -> None:
    with pytest.raises(SpecError, match="'reward' is several numbers"):
        export.make(Paid({"reward": [1.0, 2.0]}, export.rows, "", agents=2))


@pytest.mark.parametrize("seat", [0, 1])
def test_alf_is_paid_as_the_seat_that_it_plays(seat: int) -> None:
    """Against an opponent, whose reward is the negative."""
    ours, theirs = (marlenv.make("tic_tac_toe", num_envs=64, opponent="random", seat=seat, seed=0) for _ in range(2))
    alf, name, over = marlenv.to_alf(theirs), "xo"[seat], False
    alf.reset()
    td = ours.reset()
    while not over:
        moves = td[name, "action_mask"].byte().argmax(-1)
        step, td = ours.step_and_maybe_reset(td.set((name, "action"), moves))
        reward, over = step["next", name, "reward"].flatten(), bool(step["next", "done"].any())
        assert torch.equal(alf.step(moves.flatten()).reward, reward)
    assert reward.any()
