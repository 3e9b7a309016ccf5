"""One step: what goes in stays as it was, what comes out is complete, and bad input is told so."""

from __future__ import annotations

import pytest
import torch
from marlenv.groups import GroupTree, group_specs
from tensordict import TensorDict

from marlenv import Bounded, Composite, EnvBase, Unbounded, check_env_specs
from marlenv.errors import (
    ContractBroken,
    DeviceError,
    DtypeError,
    EnvClosed,
    KeyMissing,
    NotInSpec,
    ShapeError,
    Unsupported,
)
from marlenv.keys import nested
from marlenv.testing.mocks import CountingEnv, GroupedEnv, MaskedEnv, UnevenEnv

ENVS = {
    "counting": lambda: CountingEnv(batch_size=[2]),
    "grouped": lambda: GroupedEnv(batch_size=[2], terminate={"agent_1": 2}),
    "masked": MaskedEnv,
    "uneven": UnevenEnv,
    "padded": lambda: UnevenEnv("pad"),
}
envs = pytest.mark.parametrize("make", ENVS.values(), ids=ENVS)


@envs
def test_steps_and_resets_never_change_leaves_of_their_input(make):
    env = make()
    env.set_seed(0)
    td = env.reset()
    for _ in range(6):
        acted = env.rand_action(td)
        before = acted.clone()
        step, td = env.step_and_maybe_reset(acted)
        kept, copy = step.exclude("next"), before
        assert (kept == copy).all()
        following = step["next"].clone()
        env.rand_step(td.clone())
        assert (step["next"] == following).all() or any(v.isnan().any() for v in following.values(True, True))
        td = td.clone()


@envs
def test_going_on_does_not_touch_the_step_before(make):
    env = make()
    step = env.rand_step(env.reset())
    keys = set(step.keys(True, True))
    td = env.step_mdp(step)
    env.rand_action(td)
    td["new"] = torch.zeros(td.batch_size)
    for group in env.group_map if hasattr(env, "group_map") else ():
        td[group]["new"] = torch.zeros(td[group].batch_size)
    assert set(step.keys(True, True)) == keys


def test_values_under_next_that_the_env_does_not_give_are_kept():
    env = CountingEnv()
    td = env.rand_action(env.reset())
    td["next"] = TensorDict({"observation": torch.tensor([99.0]), "extra": torch.tensor([1.0])}, [])
    out = env.step(td)["next"]
    assert (out["observation"].item(), out["extra"].item()) == (1, 1)


def test_rewards_get_the_shape_of_their_spec():
    env = CountingEnv(batch_size=[2])
    whole = env._step
    env._step = lambda td: whole(td).set("reward", torch.ones(2))
    assert env.rand_step(env.reset())["next", "reward"].shape == (2, 1)


def stepped(env, **entries):
    td = env.reset()
    return env.step(env.rand_action(td).update(entries))


def with_answer(change):
    """A CountingEnv whose ``_step`` answer is changed."""
    env = CountingEnv()
    whole = env._step
    env._step = lambda td: change(whole(td))
    return env


def test_missing_actions():
    env = CountingEnv()
    with pytest.raises(KeyMissing, match=r"CountingEnv.step: no action under 'action'; the data has \['done', 'observ"):
        env.step(env.reset())
    grouped = GroupedEnv()
    with pytest.raises(KeyMissing, match=r"GroupedEnv.step: no action under \('agents', 'action'\); the data has"):
        grouped.step(grouped.reset())
    with pytest.raises(KeyMissing, match=r"no action under \('agents', 'action'\); the data has \['x'\]"):
        grouped.step(TensorDict({"x": torch.zeros(1)}, []))


def test_actions_of_the_wrong_shape():
    with pytest.raises(ShapeError, match=r"CountingEnv.step: action 'action' must have shape \[1\], got \[2\]"):
        stepped(CountingEnv(), action=torch.zeros(2))
    env = UnevenEnv()
    td = env.rand_action(env.reset())
    td["agents"].tensordicts[1]["action"] = torch.zeros(5)
    with pytest.raises(
        ShapeError, match=r"action \('agents', 'action'\) of agent 1 of its group must have shape \[2\]"
    ):
        env.step(td)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there():
    with pytest.raises(DeviceError, match=r"CountingEnv: device 'cuda' needs a CUDA device, and there is none .*'cpu'"):
        CountingEnv(device="cuda")
    with pytest.raises(DeviceError, match=r"CountingEnv.to: device 'cuda:1' needs a CUDA device"):
        CountingEnv().to("cuda:1")


def test_actions_on_the_wrong_device():
    env = CountingEnv(device="cpu")
    td = env.rand_action(env.reset())
    td.clear_device_()
    td["action"] = torch.zeros(1, device="meta")
    with pytest.raises(
        DeviceError, match=r"action 'action' must be on cpu, got meta; move the data with td.to\('cpu'\)"
    ):
        env.step(td)


def test_type_checks_look_at_values():
    env = CountingEnv(run_type_checks=True)
    with pytest.raises(DtypeError, match=r"CountingEnv.step: 'action' must be torch.float32, got torch.float64"):
        stepped(env, action=torch.zeros(1, dtype=torch.float64))
    with pytest.raises(NotInSpec) as caught:
        stepped(env, action=torch.tensor([3.0]))
    assert "under 'action', in CountingEnv.step" in caught.value.__notes__
    assert stepped(CountingEnv(), action=torch.tensor([3.0]))["next", "reward"].item() == 1  # off by default
    whole = env._step
    env._step = lambda td: whole(td).set("observation", torch.zeros(1, dtype=torch.float64))
    with pytest.raises(DtypeError, match=r"CountingEnv._step: 'observation' must be torch.float32, got torch.float64"):
        stepped(env)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda out: out.exclude("reward"), KeyMissing,
         r"CountingEnv._step: returned no reward under 'reward'; it returned \['done', 'ob"),
        (lambda out: out.set("reward", torch.zeros(3)), ShapeError,
         r"_step: reward 'reward' must have shape \[1\], got \[3\]"),
        (lambda out: out.set("done", torch.zeros(3).bool()), ShapeError,
         r"CountingEnv._step: 'done' must have shape \[1\], got \[3\]"),
        (lambda out: dict(out.items()), TypeError, r"CountingEnv._step: must return a new tensordict, returned a dict"),
        (lambda out: out.expand(4), ShapeError, r"CountingEnv._step: must return batch size \[\], returned \[4\]"),
    ],
)  # fmt: skip
def test_answers_that_cannot_be_right(change, error, text):
    with pytest.raises(error, match=text):
        stepped(with_answer(change))


FLOATS = (torch.float32, torch.float64)
WHOLE = (torch.uint8, torch.int64)


@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE], ids=str)
@pytest.mark.parametrize(
    "names", [("done",), ("terminated",), ("done", "terminated"), ("terminated", "truncated")], ids="+".join
)
def test_done_flags_must_be_bool(names, dtype):
    """With numbers, ``~`` and ``|`` would say something else: a rollout played over the end."""
    env = CountingEnv(3)
    env.add_truncated_keys()
    whole = env._step

    def step(td):
        out = whole(td)
        done = out.pop("done")
        return out.update({name: (done if name != "truncated" else done & ~done).to(dtype) for name in names})

    env._step = step
    text = rf"CountingEnv._step: '{names[0]}' must be torch.bool, got {dtype}; return a comparison, or flag.bool\(\)"
    for how in ({}, {"break_when_any_done": False}, {"break_when_all_done": True}):
        with pytest.raises(DtypeError, match=text):
            env.rollout(8, **how)
    with pytest.raises(ContractBroken, match=text):
        check_env_specs(env)
    dtype = torch.bool
    assert env.rollout(8, break_when_all_done=True)["next", "observation"].flatten().tolist() == [1, 2, 3]


def test_flags_of_resets_and_groups_must_be_bool():
    env = CountingEnv()
    whole = env._reset
    env._reset = lambda td: whole(td).set("terminated", torch.zeros(1))
    with pytest.raises(DtypeError, match="CountingEnv._reset: 'terminated' must be torch.bool, got torch.float32"):
        env.reset()
    env = GroupedEnv(terminate={"agent_0": 2})
    step = env._step

    def numbers(td):
        out = step(td)
        return out.set(("agents", "done"), out["agents", "done"].int())

    env._step = numbers
    with pytest.raises(DtypeError, match=r"GroupedEnv._step: \('agents', 'done'\) must be torch.bool, got torch.int32"):
        env.rand_step(env.reset())


@pytest.mark.parametrize("groups", [{"a": ["x", "y"]}, {"a": {"b": ["x", "y"]}}], ids=["group", "branch"])
def test_a_tensor_in_place_of_a_group_is_told(groups):
    reward = nested((*next(iter(GroupTree(groups).groups)), "reward"))
    env = GroupedEnv(groups)
    step, reset = env._step, env._reset
    env._step = lambda td: step(td).set("a", torch.zeros(2))
    with pytest.raises(TypeError) as caught:
        env.rollout(2)
    text = f"GroupedEnv._step: 'a' is a group, got a tensor [2]; return a tensordict with {reward!r}"
    assert str(caught.value) == text
    env._reset = lambda td: reset(td).set("a", torch.zeros(2))
    with pytest.raises(TypeError, match=r"done flags: 'a' is a group, got a tensor \[2\]"):
        env.reset()


def test_step_must_not_return_its_input():
    env = CountingEnv()
    env._step = lambda td: td
    with pytest.raises(TypeError, match=r"CountingEnv._step: must return a new tensordict, returned its input"):
        stepped(env)


def test_closed_envs_and_wrong_batches():
    env = CountingEnv(batch_size=[2])
    td = env.rand_action(env.reset())
    with pytest.raises(ShapeError, match=r"CountingEnv: expected a tensordict of batch size \[2\], got \[\]"):
        env.step(td[0])
    with pytest.raises(TypeError, match=r"CountingEnv: expected a tensordict, got dict"):
        env.step({"action": torch.zeros(1)})
    env.close()
    with pytest.raises(EnvClosed, match=r"CountingEnv: the env is closed; make a new one"):
        env.step(td)
    with pytest.raises(EnvClosed, match=r"the env is closed"):
        env.rollout(2)
    with pytest.raises(EnvClosed, match=r"the env is closed"):
        env.rand_action(td)


def test_an_env_is_not_called():
    with pytest.raises(Unsupported, match=r"CountingEnv: an env is not called; use step\(\), reset\(\) or rollout\(\)"):
        CountingEnv()(TensorDict({}, []))


class Nested(EnvBase):
    """Rewards and actions two levels deep, some groups without observations."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(a=Composite(b=Composite(x=Unbounded((1,)))))
        self.action_spec = Composite(
            a=Composite(b=Composite(action=Bounded(-1, 1, (1,)))), only=Composite(act=Unbounded((1,)))
        )
        self.reward_spec = Composite(
            a=Composite(b=Composite(reward=Unbounded((1,)))), paid=Composite(reward=Unbounded((1,)))
        )

    def _reset(self, tensordict):
        return TensorDict({"a": {"b": {"x": torch.zeros(1)}}}, [])

    def _step(self, tensordict):
        x = tensordict["a", "b", "action"] + tensordict["only", "act"]
        return TensorDict({"a": {"b": {"x": x, "reward": x}}, "paid": {"reward": x}, "done": torch.tensor([False])}, [])

    def _set_seed(self, seed):
        pass


def test_groups_of_any_depth_and_groups_of_rewards_only():
    env = Nested()
    assert env.reward_keys == [("paid", "reward"), ("a", "b", "reward")]
    rollout = env.rollout(3)
    assert rollout["next", "a", "b", "reward"].shape == (3, 1)
    td = env.step_mdp(env.rand_step(env.reset()))
    assert set(td.keys(True, True)) == {("a", "b", "x"), ("a", "b", "action"), ("only", "act"), "done", "terminated"}
    env.check_env_specs()


def test_uneven_agents_keep_entries_that_only_some_have():
    env = UnevenEnv()
    td = env.rand_action(env.reset())
    td["agents"].tensordicts[0]["memory"] = torch.ones(1)
    step, td = env.step_and_maybe_reset(td)
    assert td["agents"].tensordicts[0]["memory"].item() == 1
    assert "memory" not in td["agents"].tensordicts[1]
    rollout = env.rollout(9, break_when_any_done=False)
    assert rollout["agents"][..., 0]["action"].shape == (9, 1)
    assert rollout["agents"][..., 1]["observation"][:, 0].tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert rollout["next", "agents"][..., 1]["observation"][:, 0].tolist() == [1, 2, 3, 4, 1, 2, 3, 4, 1]


class Vehicles(EnvBase):
    """Two agents that see alike and act unlike: what they see is one tensor, their actions are not."""

    def __init__(self):
        super().__init__(batch_size=[3])
        tree = GroupTree({"agents": ["car", "crane"]})
        sees = Composite(observation=Unbounded((2,)))
        acts = {"car": Composite(action=Bounded(-1, 1, (2,))), "crane": Composite(action=Bounded(-1, 1, (3,)))}
        self.observation_spec = group_specs(tree, dict.fromkeys(acts, sees)).expand(3)
        self.action_spec = group_specs(tree, acts).expand(3)
        self.reward_spec = Composite(agents=Composite(reward=Unbounded((3, 2, 1)), shape=(3, 2)), shape=(3,))

    def _seen(self, count):
        return TensorDict({"observation": torch.full((3, 2, 2), count)}, [3, 2])

    def _reset(self, tensordict):
        self.count = 0.0
        return TensorDict({"agents": self._seen(0.0)}, [3])

    def _step(self, tensordict):
        self.count += 1
        agents = self._seen(self.count).set("reward", torch.ones(3, 2, 1))
        return TensorDict({"agents": agents, "done": torch.full((3, 1), self.count > 2)}, [3])

    def _set_seed(self, seed):
        pass


def test_actions_of_different_sizes_beside_observations_of_one():
    env = Vehicles()
    td = env.reset()
    for i in range(7):
        td = env.rand_action(td)
        actions = [one["action"] for one in td["agents"].unbind(1)]
        assert [a.shape[-1] for a in actions] == [2, 3]
        step, td = env.step_and_maybe_reset(td)
        assert td["agents", "observation"].unique().tolist() == [(i + 1) % 3]
        assert step["next", "agents", "observation"].unique().tolist() == [i % 3 + 1]
        assert ("agents", "reward") not in td.keys(True)
        assert all(torch.equal(one["action"], a) for one, a in zip(td["agents"].unbind(1), actions, strict=True))
