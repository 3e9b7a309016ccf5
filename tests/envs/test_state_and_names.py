"""States that are values, metadata, and names of envs."""

from __future__ import annotations

import pickle

import pytest
import torch
from tensordict import TensorDict
from torchrl_oracle import envs
from twin_envs import assert_same_data, assert_same_specs, twins

import marlenv
from marlenv import (
    EnvMetaData,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    available,
    get_available_libraries,
    register,
    registration,
    unregister,
)
from marlenv.envs import registry
from marlenv.errors import DtypeError, ShapeError, SpecError, UnknownName, Unsupported
from marlenv.testing.mocks import CountingEnv, GroupedEnv, MaskedEnv, UnevenEnv

STATED = {
    "counting": lambda: CountingEnv(batch_size=[3]),
    "transformed": lambda: TransformedEnv(CountingEnv(batch_size=[3])),
    "serial": lambda: SerialEnv(3, CountingEnv),
}
stated = pytest.mark.parametrize("make", STATED.values(), ids=STATED)


@stated
def test_a_state_put_back_continues_from_there(make):
    env = make()
    td = env.step_mdp(env.rand_step(env.reset()))
    state = env.get_state(td)
    ahead = env.rollout(2, auto_reset=False, tensordict=td.clone())
    again = env.set_state(state)
    assert again["observation"].flatten().tolist() == [1, 1, 1]
    assert not again["done"].any()
    replay = env.rollout(2, actions=ahead["action"].unbind(-2), auto_reset=False, tensordict=again)
    assert torch.equal(replay["next", "observation"], ahead["next", "observation"])


@stated
def test_a_mask_says_which_rows_are_put_back(make):
    env = make()
    state = env.get_state(env.reset())
    env.rand_step(env.reset())
    for mask in (torch.tensor([True, False, True]), torch.tensor([[True], [False], [True]])):
        env.set_state(state, mask)
        assert env.get_state()["count"].flatten().tolist() == [0, 1, 0]
    with pytest.raises(ShapeError, match=r"set_state: the mask must be bool \[3\], got torch.bool \[2\]"):
        env.set_state(state, torch.tensor([True, False]))
    with pytest.raises(ShapeError, match=r"set_state: the mask must be bool \[3\], got torch.float32 \[3\]"):
        env.set_state(state, torch.zeros(3))


@pytest.mark.parametrize(
    "make",
    [*STATED.values(), lambda: marlenv.make("simple_spread", num_envs=3, seed=0, compile="none")],
    ids=[*STATED, "scenario"],
)
def test_a_refused_state_changes_nothing(make):
    env = make()
    state = env.get_state(env.reset())
    env.rand_step(env.reset())
    before = env.get_state()
    rows = torch.tensor([True, False, True])
    for wrong in (state[:2], state[0], torch.cat([state, state])):
        for mask in (None, rows):
            with pytest.raises(ShapeError, match=r"set_state: expected a state of batch size \[3\], got .*expand"):
                env.set_state(wrong, mask)
    with pytest.raises(DtypeError, match=r"set_state: the mask must be a bool tensor \[3\], got list"):
        env.set_state(state, rows.tolist())
    with pytest.raises(DtypeError, match=r"get_state: expected the data, a tensordict, or nothing, got str"):
        env.get_state("x")
    assert (env.get_state() == before).all()


def test_a_state_is_a_value():
    env = CountingEnv(batch_size=[3])
    state = env.get_state(env.reset())
    env.rand_step(env.reset())
    assert not state["count"].any()  # it did not move with the env
    many = CountingEnv(batch_size=[6])
    out = many.set_state(state[:1].expand(6))
    many.rand_step(out)
    assert not state["count"].any()


def test_envs_without_a_state_say_so():
    with pytest.raises(Unsupported, match=r"GroupedEnv: the env does not give its state away"):
        GroupedEnv().get_state()
    with pytest.raises(Unsupported, match=r"MaskedEnv: the env cannot be put into a state"):
        MaskedEnv().set_state(TensorDict({}, []))
    with pytest.raises(Unsupported, match=r"CountingEnv.reset: cannot start from a given state \(set_state=True\)"):
        CountingEnv().reset(set_state=True)
    CountingEnv().reset(set_state=False)


def test_reset_from_a_state_in_the_data():
    class FromState(CountingEnv):
        supports_set_state = True

        def _reset(self, tensordict, set_state=None):
            out = super()._reset(None)
            if set_state and tensordict is not None:
                self.count = tensordict["observation"].clone()
                out["observation"] = self.count
            return out

    env = FromState()
    td = TensorDict({"observation": torch.tensor([3.0])}, [])
    assert env.reset(td.clone(), set_state=True)["observation"].item() == 3
    assert env.reset(td.clone(), set_state=False)["observation"].item() == 0
    assert env.rollout(1, tensordict=td.clone(), set_state=True)["next", "observation"].item() == 4


# --- metadata ------------------------------------------------------------------------------------


def test_metadata_travels():
    env = GroupedEnv({"g": ["a", "b"], "h": ["c"]})
    meta = EnvMetaData.metadata_from_env(env)
    assert (meta.batch_size, meta.batch_locked, meta.env_str) == (torch.Size([]), True, str(env))
    assert meta.specs == env.specs.to("cpu")
    assert (meta.tensordict == env.fake_tensordict()).all()
    back = pickle.loads(pickle.dumps(meta))
    assert back.specs == meta.specs
    wide = meta.expand(4)
    assert (wide.batch_size, wide.specs.shape, wide.tensordict.shape) == (torch.Size([4]),) * 3
    assert wide.specs["input_spec", "full_action_spec", "g", "action"].shape == (4, 2, 2)
    assert wide[0].specs == meta.specs
    copy = meta.clone()
    copy.tensordict.apply_(lambda x: x + 1 if x.is_floating_point() else x)
    assert not meta.tensordict["g", "observation"].any()
    assert meta.to(None) is meta
    moved = meta.to("meta")
    assert {d.type for d in moved.device_map.values()} == {"meta"}
    assert moved.tensordict["noise"].device.type == "meta"


def test_metadata_of_agents_that_differ_is_expanded_agent_by_agent():
    env = UnevenEnv("stack")
    wide = EnvMetaData.metadata_from_env(env).expand(4)
    assert wide.specs["output_spec", "full_observation_spec"].is_in(wide.tensordict["next"])
    sizes = [agent["observation"].shape for agent in wide.tensordict["agents"].unbind(1)]
    assert sizes == [(4, *agent["observation"].shape) for agent in env.reset()["agents"].unbind(0)]
    wide.tensordict["agents"].unbind(1)[0]["observation"][0] += 1  # rows share no memory
    assert not wide.tensordict["agents"].unbind(1)[0]["observation"][1:].any()


@pytest.mark.reference
def test_metadata_is_torchrls():
    theirs, ours = twins("navigation", "Navigation")
    a, b = envs.EnvMetaData.metadata_from_env(theirs), EnvMetaData.metadata_from_env(ours)
    leave_out = ("_reset", ("agents", "_reset"))  # torchrl's example data hold the masks too
    assert_same_data(a.tensordict.exclude(*leave_out), b.tensordict)
    assert_same_specs(a.specs, b.specs)
    assert (a.batch_size, a.batch_locked, set(a.device_map) - set(leave_out)) == (
        b.batch_size,
        b.batch_locked,
        set(b.device_map),
    )
    assert_same_data(a.expand(2, 4).tensordict.exclude(*leave_out), b.expand(2, 4).tensordict)


# --- names ---------------------------------------------------------------------------------------


def test_names_can_be_given_and_taken_back():
    register("my_counter", CountingEnv, options={"max_steps": 2}, summary="counts")
    try:
        entry = registration.find("my_counter")
        assert (entry.kind, entry.installed, entry.summary) == ("custom", True, "counts")
        assert entry.load()(**entry.options).rollout(9).shape == (2,)
        assert "my_counter" in available()
        assert "my_counter" in available("custom")
        assert "my_counter" not in available("game")
        with pytest.raises(SpecError, match=r"register: the name 'my_counter' is taken by"):
            register("my_counter", CountingEnv)
        with pytest.raises(UnknownName, match=r"no env is called 'my_countr'; did you mean 'my_counter'\?"):
            registration.find("my_countr")
        assert registration.find("my_counter/level_3").options == {"max_steps": 2, "task": "level_3"}
    finally:
        unregister("my_counter")
    with pytest.raises(UnknownName, match=r"no env is called 'my_counter'"):
        unregister("my_counter")


def test_what_takes_a_task_is_a_family():
    register("my_family", lambda task: CountingEnv(max_steps=int(task)))
    try:
        assert registration.make("my_family/3").rollout(9).shape == (3,)
    finally:
        unregister("my_family")


def test_factories_are_loaded_on_use():
    assert registry.load("marlenv.testing.mocks:CountingEnv") is CountingEnv
    with pytest.raises(SpecError, match=r"expected 'module:name', got 'marlenv'"):
        registry.load("marlenv")
    for file in ("./folder/mine.py:make", "mine.py:make"):
        with pytest.raises(SpecError, match=r"got the file '(\./folder/)?mine\.py'; .* write 'mine:make'"):
            registry.load(file)
    with pytest.raises(UnknownName, match=r"no module is called 'no_such_module'"):
        registry.load("no_such_module:x")
    with pytest.raises(UnknownName, match=r"module 'marlenv.keys' has no 'besid'; did you mean 'beside'\?"):
        registry.load("marlenv.keys:besid")


def test_missing_simulators_are_known():
    libraries = get_available_libraries()
    assert libraries["torchrl"] is True
    assert set(libraries.values()) <= {True, False}
    by_hand = {"isaacgym", "isaaclab", "mlagents_envs", "smacv2", "habitat", "robohive", "procgen"}
    assert by_hand | {"gym", "gymnasium", "ale_py", "vmas"} <= libraries.keys()
    entry = registry.Registration("x", "custom", "a:b", needs="no_such_module")
    assert not entry.installed


def test_transformed_and_closed():
    env = TransformedEnv(SerialEnv(2, CountingEnv), StepCounter())
    children = env.base_env.children_envs
    env.close()
    assert env.is_closed
    assert all(child.is_closed for child in children)
    assert marlenv.EnvBase is not None
