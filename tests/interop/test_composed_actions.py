"""Actions of several entries, such as a move and a word: which adapters take them, and what the others say."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict, TensorDictBase

import marlenv
from marlenv import Bounded, Categorical, Composite, EnvBase, RenameTransform, Unbounded, group_keys, to_torchrl
from marlenv.errors import GroupError, SpecError

pytestmark = pytest.mark.filterwarnings("ignore")
pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
MOVE, SPEAK = ("agents", "action", "move"), ("agents", "action", "speak")
FLAT = [("agents", "move"), ("agents", "speak")]


class Talkers(EnvBase):
    """Two agents that move and speak; each is paid the first number of its move and ten times its word.

    Args:
        flat: ``move`` and ``speak`` lie in the group itself, rather than under ``action``.
    """

    def __init__(self, rows: int = 1, flat: bool = False) -> None:
        super().__init__(batch_size=(rows,))
        self.group_map, self.flat, lead = {"agents": ["a", "b"]}, flat, (rows, 2)

        def of_agents(spec: Composite) -> Composite:
            return Composite(agents=spec, shape=(rows,))

        action = Composite(move=Bounded(-1, 1, (*lead, 2)), speak=Categorical(4, lead), shape=lead)
        self.observation_spec = of_agents(Composite(observation=Unbounded((*lead, 3)), shape=lead))
        self.action_spec = of_agents(action if flat else Composite(action=action, shape=lead))
        self.reward_spec = of_agents(Composite(reward=Unbounded((*lead, 1)), shape=lead))
        flags = {name: Categorical(2, (*lead, 1), dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        whole = {name: Categorical(2, (rows, 1), dtype=torch.bool) for name in flags}
        self.done_spec = Composite({**whole, "agents": Composite(flags, shape=lead)}, shape=(rows,))

    def _seen(self) -> TensorDict:
        lead = (*self.batch_size, 2)
        seen = torch.linspace(-1, 1, 6 * self.batch_size[0]).reshape(*lead, 3)
        return TensorDict({"agents": TensorDict({"observation": seen}, lead)}, self.batch_size)

    def _reset(self, tensordict: TensorDictBase | None, **_: Any) -> TensorDictBase:
        return self._seen()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        action, out = tensordict["agents"] if self.flat else tensordict["agents", "action"], self._seen()
        out["agents", "reward"] = action["move"][..., :1] + 10 * action["speak"].unsqueeze(-1)
        out["agents", "terminated"] = torch.zeros(*self.batch_size, 2, 1, dtype=torch.bool)
        return out.set("terminated", torch.zeros(*self.batch_size, 1, dtype=torch.bool))

    def _set_seed(self, seed: int | None) -> None:
        pass


def renamed(env: EnvBase) -> EnvBase:
    """As the errors say."""
    return env.append_transform(RenameTransform([], [], in_keys_inv=FLAT, out_keys_inv=[MOVE, SPEAK]))


ONE_BY_ONE = {
    "to_pettingzoo_parallel": (marlenv.to_pettingzoo_parallel, "pettingzoo"),
    "to_pettingzoo_aec": (marlenv.to_pettingzoo_aec, "pettingzoo"),
    "to_rllib": (marlenv.to_rllib, "ray"),
}
AS_ONE = {
    "to_gymnasium": (marlenv.to_gymnasium, "gymnasium"),
    "to_gymnasium_vector": (marlenv.to_gymnasium_vector, "gymnasium"),
    "to_alf": (marlenv.to_alf, "torch"),
    "to_sb3_vec_env": (marlenv.to_sb3_vec_env, "stable_baselines3"),
    "to_pufferlib": (marlenv.to_pufferlib, "pufferlib"),
    "to_rllib, groups": (partial(marlenv.to_rllib, agents="groups"), "ray"),
}


@pytest.mark.parametrize("made", [Talkers, lambda: renamed(Talkers(flat=True))], ids=["under", "renamed"])
@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_agents_act_in_dicts(name: str, made: Callable[[], EnvBase]) -> None:
    adapt, needs = ONE_BY_ONE[name]
    pytest.importorskip(needs, reason="VENV=.venv tests/simulators.sh")
    env = adapt(made())
    env.reset()
    actions = {
        "a": {"move": np.array([0.5, -1], np.float32), "speak": 2},
        "b": {"move": np.array([-0.25, 0], np.float32), "speak": 3},
    }
    if name == "to_pettingzoo_aec":
        for agent in "ab":
            env.step(actions[agent])
        rewards = env.rewards
    else:
        rewards = env.step(actions)[1]
    assert rewards == {"a": 20.5, "b": 29.75}


@pytest.mark.parametrize("name", [*ONE_BY_ONE, "to_pymarl"])
def test_actions_that_do_not_lie_under_one_entry_are_named(name: str) -> None:
    adapt, needs = ONE_BY_ONE.get(name, (partial(marlenv.to_pymarl, episode_limit=5), "gymnasium"))
    pytest.importorskip(needs, reason="VENV=.venv tests/simulators.sh")
    with pytest.raises(
        SpecError, match=rf"^{name}: group 'agents' has 2 action entries, .*; RenameTransform"
    ) as raised:
        adapt(Talkers(flat=True))
    assert f"in_keys_inv={FLAT}, out_keys_inv={[MOVE, SPEAK]}" in str(raised.value)


@pytest.mark.parametrize("flat", [False, True], ids=["under", "flat"])
@pytest.mark.parametrize("name", AS_ONE)
def test_where_one_action_is_taken_the_error_says_how_many_there_are(name: str, flat: bool) -> None:
    adapt, needs = AS_ONE[name]
    pytest.importorskip(needs, reason="VENV=.venv tests/simulators.sh")
    with pytest.raises(SpecError, match=rf"^{name.partition(',')[0]}: group 'agents' has 2 action entries, .*'speak'"):
        adapt(Talkers(flat=flat))


def test_an_agent_without_a_group_is_told_of_its_actions() -> None:
    import gymnasium

    class Env(gymnasium.Env):  # type: ignore[type-arg]
        observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gymnasium.spaces.Dict(
            move=gymnasium.spaces.Box(-1, 1, (2,), np.float32), speak=gymnasium.spaces.Discrete(3)
        )

    with pytest.raises(SpecError, match=r"^to_gymnasium: the env has 2 action entries, \['move', 'speak'\], and one"):
        marlenv.to_gymnasium(marlenv.GymWrapper(Env()))


# --- TorchRL's losses ----------------------------------------------------------------------------


@pytest.mark.parametrize("flat", [False, True], ids=["under", "flat"])
@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "to_torchrl"])
def test_keys_of_a_composed_action_are_a_list(flat: bool, theirs: bool) -> None:
    env: Any = Talkers(flat=flat)
    found = group_keys(to_torchrl(env) if theirs else env, "agents")
    flags = {name: ("agents", name) for name in ("reward", "done", "terminated")}
    assert found == {"action": FLAT if flat else [MOVE, SPEAK], **flags}


def test_what_holds_an_action_is_no_group() -> None:
    with pytest.raises(GroupError, match=r"no group \('agents', 'action'\) with actions; known: \['agents'\]$"):
        group_keys(Talkers(), ("agents", "action"))


@pytest.mark.parametrize("flat", [False, True], ids=["under", "flat"])
def test_ppo_learns_a_composed_action(flat: bool) -> None:
    """With no key set by hand; the ratio of the policy that played to itself is 1."""
    from tensordict.nn import (
        CompositeDistribution,
        ProbabilisticTensorDictModule,
        ProbabilisticTensorDictSequential,
        TensorDictModule,
        set_composite_lp_aggregate,
    )
    from torch import distributions, nn
    from torchrl.objectives import ClipPPOLoss, ValueEstimators

    torch.manual_seed(0)
    keys = dict(zip(("move", "speak"), FLAT if flat else (MOVE, SPEAK), strict=True))
    heads = {name: nn.Linear(3, n) for name, n in (("move", 2), ("speak", 4))}
    parts = [("params", "move", "loc"), ("params", "move", "scale"), ("params", "speak", "logits")]
    net = TensorDictModule(
        lambda seen: (heads["move"](seen), 0.1 + 0 * seen[..., :2], heads["speak"](seen)),
        [("agents", "observation")],
        parts,
    )
    net.heads = nn.ModuleDict(heads)
    kinds = {
        "move": lambda loc, scale: distributions.Independent(distributions.Normal(loc, scale), 1),
        "speak": distributions.Categorical,
    }
    draw = ProbabilisticTensorDictModule(
        ["params"],
        list(keys.values()),
        distribution_class=CompositeDistribution,
        distribution_kwargs={"distribution_map": kinds, "name_map": keys},
        return_log_prob=True,
        default_interaction_type="random",
    )
    with set_composite_lp_aggregate(False):
        actor = ProbabilisticTensorDictSequential(net, draw)
        critic = TensorDictModule(nn.Linear(3, 1), [("agents", "observation")], [("agents", "state_value")])
        loss = ClipPPOLoss(actor, critic)
        env: Any = to_torchrl(Talkers(rows=3, flat=flat))
        found = group_keys(env, "agents", loss)
        assert found["action"] == list(keys.values())
        assert found["sample_log_prob"] == [(*key[:-1], f"{key[-1]}_log_prob") for key in keys.values()]
        assert found["advantage"] == ("agents", "advantage")
        loss.set_keys(**found)
        loss.make_value_estimator(ValueEstimators.GAE, gamma=0.9, lmbda=0.8)
        with torch.no_grad():
            data = env.rollout(8, actor, break_when_any_done=False)
            loss.value_estimator(data)
        losses = loss(data)
    assert losses["max_ratio"] == pytest.approx(1, abs=1e-5)
    sum(value for name, value in losses.items() if name.startswith("loss")).backward()
    grads = {name: p.grad for name, p in loss.named_parameters() if p.requires_grad}
    assert grads
    assert all(grad is not None and grad.isfinite().all() for grad in grads.values())
