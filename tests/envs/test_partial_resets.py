"""Partial resets: the examples of the specification, and every sentence around them."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv import Binary, Composite, EnvBase, SerialEnv, Unbounded
from marlenv.errors import EnvClosed, ResetError, ShapeError
from marlenv.testing.mocks import CountingEnv, GroupedEnv, UnevenEnv


class Zeros(EnvBase):
    """Answers zeros to every reset, whatever its masks say; two flags per level, as in the specification."""

    def __init__(self, *levels):
        super().__init__()
        levels = levels or ("",)
        flag = lambda: Binary(shape=(2,), dtype=torch.bool)  # noqa: E731
        obs = {"val": Unbounded((2,), dtype=torch.int64)}
        at = lambda entries: {k: v for name in levels for k, v in ({name: entries()} if name else entries()).items()}  # noqa: E731
        self.observation_spec = Composite(at(lambda: {k: v.clone() for k, v in obs.items()}))
        self.action_spec = Unbounded((1,))
        self.done_spec = Composite(at(lambda: {"done": flag()}))

    def _reset(self, tensordict):
        return self.full_observation_spec.zero()

    def _step(self, tensordict):
        raise NotImplementedError

    def _set_seed(self, seed):
        pass


def data(**entries):
    return TensorDict({k: torch.tensor(v) if not isinstance(v, dict) else data(**v) for k, v in entries.items()}, [])


def test_single_reset_at_the_root():
    td = data(val=[1, 1], _reset=[False, True])
    Zeros().reset(td)
    assert td["val"].tolist() == [1, 0]
    assert "_reset" not in td


def test_nested_resets():
    td = data(
        agent0={"val": [1, 1], "_reset": [False, True]},
        agent1={"val": [2, 2], "_reset": [True, False]},
    )
    Zeros("agent0", "agent1").reset(td)
    assert td["agent0", "val"].tolist() == [1, 0]
    assert td["agent1", "val"].tolist() == [0, 2]
    assert not any("_reset" in str(key) for key in td.keys(True))


def test_nested_resets_are_overridden_by_a_reset_at_the_root():
    td = data(
        _reset=[True, True],
        agent0={"val": [1, 1], "_reset": [False, True]},
        agent1={"val": [2, 2], "_reset": [True, False]},
    )
    Zeros("", "agent0", "agent1").reset(td)
    assert td["agent0", "val"].tolist() == [0, 0]
    assert td["agent1", "val"].tolist() == [0, 0]
    assert not any("_reset" in str(key) for key in td.keys(True))


def test_an_absent_reset_is_a_total_reset_of_its_level():
    td = data(agent0={"val": [1, 1], "_reset": [False, True]}, agent1={"val": [2, 2]})
    Zeros("agent0", "agent1").reset(td)
    assert (td["agent0", "val"].tolist(), td["agent1", "val"].tolist()) == ([1, 0], [0, 0])


def test_a_reset_mask_needs_a_done_flag_beside_it():
    td = data(done=[False, False], nested={"_reset": [True, True]})
    with pytest.raises(
        ResetError, match=r"\('nested', '_reset'\) has no done flag beside it; this env takes \['_reset'\]"
    ):
        Zeros().reset(td)


def test_a_mask_of_the_batch_size_stands_for_one_of_the_flags_shape():
    env = CountingEnv(batch_size=[3])
    td = env.step_mdp(env.rand_step(env.reset()))
    assert env.reset(td.set("_reset", torch.tensor([True, False, True])))["observation"].flatten().tolist() == [0, 1, 0]
    with pytest.raises(
        ResetError, match=r"'_reset' must have the shape of the done flag beside it, \[3, 1\], got \[3, 2\]"
    ):
        env.reset(td.set("_reset", torch.ones(3, 2, dtype=torch.bool)))


@pytest.mark.parametrize("rows", [[True, False, True], [False] * 3, [True] * 3])
def test_rows_that_are_not_reset_are_kept_bit_for_bit(rows):
    env = GroupedEnv(batch_size=[3])
    env.set_seed(0)
    td = env.step_mdp(env.rand_step(env.rand_step(env.reset()).exclude("next")))
    td["left over"] = torch.rand(3)
    before = td.clone()
    after = env.reset(td.set("_reset", torch.tensor(rows).unsqueeze(-1)))
    assert after is td
    assert set(after.keys(True, True)) == set(before.keys(True, True))
    for i, reset in enumerate(rows):
        if not reset:
            assert (after[i] == before[i]).all()
        else:
            assert not after[i]["agents", "observation"][:, 2].any()
            assert not torch.equal(after[i]["noise"], before[i]["noise"])
    assert torch.equal(after["left over"], before["left over"])


def test_reset_all_true_is_reset():
    one, other = GroupedEnv(batch_size=[2]), GroupedEnv(batch_size=[2])
    one.set_seed(4), other.set_seed(4)
    a = one.reset()
    b = other.reset(TensorDict({"_reset": torch.ones(2, 1, dtype=torch.bool)}, [2]))
    assert (a == b).all()


def test_groups_without_a_root_flag_are_reset_by_themselves():
    env = GroupedEnv({"g": ["a", "b"], "h": ["c"]}, terminate={"a": 2, "c": 3}, root_flags=False)
    rollout = env.rollout(6, break_when_any_done=False)
    assert rollout["g", "observation"][:, 0, 2].tolist() == [0, 1, 0, 1, 0, 1]
    assert rollout["g", "observation"][:, 1, 2].tolist() == [0, 1, 2, 3, 4, 5]
    assert rollout["h", "observation"][:, 0, 2].tolist() == [0, 1, 2, 0, 1, 2]


def test_the_final_observation_is_never_lost():
    env = CountingEnv(max_steps=2, batch_size=[2])
    td, seen = env.reset(), []
    for _ in range(5):
        step, td = env.step_and_maybe_reset(env.rand_action(td))
        seen.append((step["next", "observation"].flatten().tolist(), td["observation"].flatten().tolist()))
    assert seen[1] == ([2, 2], [0, 2])
    assert seen[2] == ([1, 3], [1, 0])


def test_the_env_may_answer_anything_for_rows_that_are_not_reset():
    env = CountingEnv(batch_size=[2])
    td = env.step_mdp(env.rand_step(env.reset()))
    whole = env._reset
    env._reset = lambda td: whole(td).apply_(lambda x: x.fill_(float("nan")) if x.is_floating_point() else x)
    out = env.reset(td.set("_reset", torch.zeros(2, 1, dtype=torch.bool)))
    assert out["observation"].flatten().tolist() == [1, 1]


def test_faults_of_resets():
    env = CountingEnv(batch_size=[2])
    whole = env._reset
    env._reset = lambda td: whole(td).set("done", torch.tensor([[True], [False]]))
    with pytest.raises(
        ResetError, match=r"CountingEnv._reset: 'done' is True after a reset; .*allow_done_after_reset=True"
    ):
        env.reset()
    only_second = TensorDict({"_reset": torch.tensor([[False], [True]])}, [2])
    env.reset(only_second)  # the row that is done is not reset, so it may be
    env._reset = lambda td: td
    with pytest.raises(
        ResetError, match=r"_reset: must return a new tensordict, returned its input; start from td.empty"
    ):
        env.reset(TensorDict({}, [2]))
    env._reset = lambda td: None
    with pytest.raises(TypeError, match=r"_reset: must return a tensordict, returned NoneType"):
        env.reset()
    with pytest.raises(ShapeError, match=r"expected a tensordict of batch size \[2\], got \[3\]"):
        env.reset(TensorDict({}, [3]))
    with pytest.raises(TypeError, match=r"expected a tensordict, got dict"):
        env.reset({})
    env.close()
    with pytest.raises(EnvClosed, match=r"CountingEnv: the env is closed; make a new one"):
        env.reset()


def test_done_after_reset_may_be_allowed():
    env = CountingEnv(allow_done_after_reset=True)
    whole = env._reset
    env._reset = lambda td: whole(td).set("done", torch.tensor([True]))
    assert env.reset()["done"].item()


def test_resets_must_return_the_batch_size():
    """Or the error would come later, and blame the caller."""
    env = CountingEnv(batch_size=[3])
    whole = env._reset
    env._reset = lambda td: TensorDict(dict(whole(td).items()), [])
    for td in (None, TensorDict({"_reset": torch.tensor([True, False, True])}, [3])):
        with pytest.raises(ShapeError, match=r"^CountingEnv\._reset: must return batch size \[3\], returned \[\]$"):
            env.reset(td)
    with pytest.raises(ShapeError, match=r"^CountingEnv\._reset: must return batch size"):
        env.rollout(3)


def test_a_partial_reset_must_not_return_what_it_was_given():
    env = CountingEnv(2)
    whole = env._reset
    env._reset = lambda td: whole(td) if td is None else td.update(whole(td))
    with pytest.raises(ResetError, match=r"CountingEnv\._reset: must return a new tensordict, returned its input"):
        env.rollout(5, break_when_any_done=False)


@pytest.mark.parametrize(
    "make_env",
    [
        lambda: SerialEnv(2, [lambda: CountingEnv(max_steps=1), lambda: CountingEnv(max_steps=9)]),
        lambda: GroupedEnv({"g": ["a"], "h": ["b"]}, terminate={"a": 1, "b": 1}, root_flags=False, batch_size=[2]),
        lambda: marlenv.make("simple_spread", num_envs=2, max_steps=1, compile="none"),
    ],
    ids=["rows that differ", "flags per group", "in place"],
)
def test_masks_that_any_done_wrote_are_used_up(make_env):
    """Else the reset that comes next would start anew the same rows only."""
    env = make_env()
    td = env.step_mdp(env.rand_step(env.reset()))
    assert env.any_done(td)
    asked = [key for key in td.keys(True, True) if (key if isinstance(key, str) else key[-1]) == "_reset"]
    assert asked
    td = env.maybe_reset(td)
    assert not set(asked) & set(td.keys(True, True))


def test_a_reset_after_any_done_and_maybe_reset_is_whole():
    env = SerialEnv(2, [lambda: CountingEnv(max_steps=1), lambda: CountingEnv(max_steps=9)])
    td = env.step_mdp(env.rand_step(env.reset()))
    env.any_done(td)
    td = env.maybe_reset(td)
    assert td["observation"].flatten().tolist() == [0.0, 1.0]
    assert env.reset(td)["observation"].flatten().tolist() == [0.0, 0.0]


class Ticks(EnvBase):
    """Counts its steps; every reset starts anew, whatever the masks say, as most simulators do."""

    auto_complete_done_specs = False

    def __init__(self, *levels: str):
        super().__init__()
        self.levels, self.count = levels, 0
        self.observation_spec = Composite(self.at({"count": Unbounded((1,))}))
        self.action_spec = Unbounded((1,))
        self.full_reward_spec = Composite(self.at({"reward": Unbounded((1,))}))
        self.full_done_spec = Composite(
            self.at({name: Binary(shape=(1,), dtype=torch.bool) for name in ("terminated", "truncated")})
        )

    def at(self, entries):
        return {level: dict(entries) for level in self.levels} or entries

    def data(self, **entries):
        return data(**self.at({"count": [float(self.count)], **entries}))

    def _reset(self, tensordict):
        self.count = 0
        return self.data()

    def _step(self, tensordict):
        self.count += 1
        return self.data(reward=[1.0], terminated=[self.count == 2], truncated=[False])

    def _set_seed(self, seed):
        pass


@pytest.mark.parametrize("levels", [(), ("left", "right")])
def test_masks_that_mark_nothing_leave_the_simulator_alone(levels):
    """As in ``td["_reset"] = td["done"]; td = env.reset(td)`` after every step."""
    env = Ticks(*levels)
    td = env.step_mdp(env.rand_step(env.reset()))
    before = td.clone()
    for key in env.reset_keys:
        td[key] = torch.tensor([False])
    assert env.reset(td) is td
    assert (td == before).all()
    assert set(td.keys(True)) == set(before.keys(True))
    following = env.step(td)["next"]
    assert {following[key].item() for key in env.observation_keys} == {2.0}


def test_entries_that_are_not_there_are_zeros_after_a_reset_of_nothing():
    env = Ticks()
    env.rollout(1)
    td = env.reset(data(_reset=[False]))
    assert (td["count"].item(), td["terminated"].item(), env.count) == (0, False, 1)


def cart_pole():
    pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
    return marlenv.GymEnv("CartPole-v1")


@pytest.mark.parametrize("make", [cart_pole, lambda: UnevenEnv("pad")], ids=["gym", "uneven"])
def test_a_reset_of_nothing_changes_no_step(make):
    def third_step(asked):
        env = make()
        env.set_seed(0)
        td = env.step_mdp(env.rand_step(env.reset()))
        if asked:
            td = env.reset(td.set("_reset", td["done"].clone()))
        return env.step(env.rand_action(td))["next"]

    with_it, without = third_step(True), third_step(False)
    assert all(torch.equal(with_it[key], without[key]) for key in without.keys(True, True))


def test_causes_alone_end_and_reset_a_rollout():
    """Where the base adds no ``done`` to the specs."""
    env = Ticks()
    assert env.done_keys == ["terminated", "truncated"]
    assert len(env.rollout(5)) == 2
    assert env.rollout(5, break_when_any_done=False)["next", "count"].flatten().tolist() == [1, 2, 1, 2, 1]
    cut = env.rollout(1, set_truncated=True)["next"]
    assert (cut["truncated"].item(), cut["terminated"].item()) == (True, False)
