"""Transforms that draw random numbers: what a row gets is its own, whatever other rows, groups and generators do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv import ActionDiscretizer, Compose, DropMessages, FrameSkipTransform, NoopResetEnv, TransformedEnv
from marlenv.errors import Unsupported
from marlenv.testing.comparison import differences
from marlenv.testing.mocks import CountingEnv, GroupedEnv

ANYWHERE = ActionDiscretizer.SamplingStrategy.RANDOM
HIDDEN = {"hidden": marlenv.Unbounded((2,))}
DRAWN: dict[str, Callable[[], Any]] = {
    "idle steps": lambda: NoopResetEnv(4),
    "hidden state": lambda: marlenv.TensorDictPrimer(HIDDEN, random=True, expand_specs=True),
    "hidden state, before": lambda: marlenv.TensorDictPrimer(
        HIDDEN, random=True, expand_specs=True, call_before_env_reset=True
    ),
    "lost messages": lambda: DropMessages(0.5),
    "limits": lambda: Compose(marlenv.StepCounter(), marlenv.RandomTruncationTransform(1, 5, prob=0.5)),
    "lost messages twice as fast": lambda: Compose(DropMessages(0.5), FrameSkipTransform(2)),
}


class Sum(CountingEnv):
    """Observes the sum of its actions."""

    def _reset(self, tensordict: TensorDict | None, **_: object) -> TensorDict:
        where = None if tensordict is None else tensordict.get("_reset", None)
        zero = torch.zeros_like(self.count)
        self.sum = zero if where is None else torch.where(where, zero, self.sum)
        return super()._reset(tensordict).set("observation", self.sum.clone())

    def _step(self, tensordict: TensorDict) -> TensorDict:
        mask = tensordict.get("_step", None)
        where = torch.ones_like(self.count, dtype=torch.bool) if mask is None else mask.reshape(self.count.shape)
        self.sum = torch.where(where, self.sum + tensordict["action"], self.sum)
        return super()._step(tensordict).set("observation", self.sum.clone())

    def _get_state(self, tensordict: TensorDict | None) -> TensorDict:
        return super()._get_state(tensordict).set("sum", self.sum.clone())

    def _set_state(self, state: TensorDict) -> TensorDict:
        self.sum = state["sum"].clone()
        return super()._set_state(state).set("observation", self.sum.clone())


BASES: dict[str, Callable[[int], Any]] = {
    "root": lambda n: Sum(99, batch_size=[n]),
    "one group": lambda n: GroupedEnv({"g": ["a", "b"]}, batch_size=[n]),
    "two groups": lambda n: GroupedEnv({"g": ["a", "b"], "h": ["c"]}, batch_size=[n], root_flags=False),
}


def asked(env: Any, td: TensorDict, row: int) -> TensorDict:
    """The data with masks that ask for a reset of one row."""
    for level in env.plan.done.top:
        mask = torch.zeros(level.shape, dtype=torch.bool)
        mask[row] = True
        td.set((*level.path, "_reset"), mask)
    return td


def played(env: Any, resets: dict[int, int]) -> list[TensorDict]:
    """Data of six steps with the same action everywhere; before some of them a row is reset."""
    env.set_seed(3)
    td = env.reset()
    found = [td.clone()]
    for i in range(6):
        td = env.reset(asked(env, td, resets[i])) if i in resets else td
        for key, leaf in env.full_action_spec.items(True, True):
            td.set(key, torch.full(leaf.shape, 0.5))
        found.append(env.step(td).clone())
        td = env.step_mdp(found[-1])
    return found


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", DRAWN)
def test_rows_draw_the_same_whatever_other_rows_do(name: str, base: str) -> None:
    """Row 2 starts anew more often, and there is a fourth row; rows 0 and 1 are as they were."""
    few, many = (TransformedEnv(BASES[base](n), DRAWN[name]()) for n in (3, 4))
    one, other = played(few, {2: 0, 4: 1}), played(many, {1: 2, 2: 0, 3: 2, 4: 1, 5: 3})
    for ours, want in zip(other, one, strict=True):
        assert not differences(ours[:2], want[:2])


@pytest.mark.parametrize("name", DRAWN)
def test_no_global_generator_is_read_or_moved(name: str) -> None:
    found = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        np.random.seed(seed)
        before = torch.get_rng_state(), np.random.get_state()[1].copy()
        found.append(played(TransformedEnv(BASES["root"](3), DRAWN[name]()), {2: 0}))
        assert torch.equal(torch.get_rng_state(), before[0])
        assert (np.random.get_state()[1] == before[1]).all()
    assert not any(differences(*pair) for pair in zip(*found, strict=True))


PLACED = {
    **{name: DRAWN[name] for name in ("idle steps", "hidden state", "lost messages twice as fast", "limits")},
    "idle steps of intervals": lambda: Compose(ActionDiscretizer(3, sampling=ANYWHERE), NoopResetEnv(4)),
}


@pytest.mark.parametrize("name", PLACED)
def test_streams_are_put_back_with_the_state(name: str) -> None:
    """Those too that an env within the env draws from."""
    env = TransformedEnv(BASES["root"](3), PLACED[name]())
    env.set_seed(0)

    def go_on(td: TensorDict) -> list[TensorDict]:
        found = []
        for i in range(4):
            td = env.step(env.reset(asked(env, td, i % 3)).set("action", env.action_spec.zero()))
            found.append(td.clone())
            td = env.step_mdp(td)
        return found

    td = env.step_mdp(env.step(env.reset().set("action", env.action_spec.zero())))
    state = env.get_state(td)
    first = go_on(td.clone())
    back = env.set_state(state)
    assert not differences(back, td.select(*back.keys(True, True)))
    again = go_on(td.clone().update(back))
    assert not any(differences(*pair) for pair in zip(first, again, strict=True))


def test_idle_actions_are_drawn_and_not_those_of_the_policy() -> None:
    env = TransformedEnv(Sum(99, batch_size=[50]), NoopResetEnv(1, random=False))
    env.set_seed(0)
    td = env.reset()
    start = td["observation"].clone()
    assert start.unique().numel() == 50
    assert start.abs().max() <= 1
    chosen = env.rand_action(td)["action"]
    assert not torch.isclose(chosen, start).any()
    bare = Sum(99, batch_size=[50])
    bare.set_seed(0)
    assert torch.equal(chosen, bare.rand_action(bare.reset())["action"])  # which idle steps have not moved


@pytest.mark.parametrize("name", ["connect_four", "chess"])
def test_idle_steps_of_a_game_are_legal_and_leave_its_own_stream_alone(name: str) -> None:
    found = []
    for seed in (0, 0, 1):
        env = marlenv.make(name, num_envs=1).append_transform(NoopResetEnv(3, random=False))
        env.set_seed(seed)
        found.append(env.reset())
        assert env.base_env.action_stream.used == env.action_stream.used == 0
    assert not differences(*found[:2])
    assert differences(*found[1:])
    bare = marlenv.make(name, num_envs=1)
    bare.set_seed(0)
    start = bare.reset()
    assert int((found[0]["state", "board"] != start["state", "board"]).sum()) in range(3, 9)


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
def test_idle_steps_of_a_row_of_a_game_are_its_own(name: str) -> None:
    """A game whose position is in the data steps some of its rows, as an env that reads masks does."""

    def rows(n: int) -> TensorDict:
        env = marlenv.make(name, num_envs=n).append_transform(NoopResetEnv(5))
        env.set_seed(1)
        return env.rollout(40, break_when_any_done=False)

    alone, three = rows(1), rows(3)
    assert not differences(alone, three[:1])
    assert not torch.equal(three["turn"][0], three["turn"][1])


def test_one_group_that_starts_anew_by_itself_has_no_idle_steps() -> None:
    env = TransformedEnv(BASES["two groups"](2), NoopResetEnv(2))
    td = env.reset()
    for group, mask in (("g", True), ("h", False)):
        td.set((group, "_reset"), torch.full(env.full_done_spec[group, "done"].shape, mask))
    with pytest.raises(Unsupported, match=r"NoopResetEnv: GroupedEnv resets some of .* in a row and not the others"):
        env.reset(td)


@pytest.mark.parametrize("discrete", [False, True])
def test_rows_that_stand_still_draw_no_action(discrete: bool) -> None:
    class Few(Sum):
        def __init__(self) -> None:
            super().__init__(99, batch_size=[40])
            self.action_spec = marlenv.OneHot(2, (40, 2))

        def _step(self, tensordict: TensorDict) -> TensorDict:
            return super()._step(tensordict.copy().set("action", tensordict["action"][..., :1].float()))

    def sums(waits: int) -> torch.Tensor:
        if discrete:
            env = TransformedEnv(Few(), marlenv.DiscreteActionProjection(2, 4))
            action = torch.nn.functional.one_hot(torch.full((40,), 3), 4)
        else:
            env = TransformedEnv(Sum(99, batch_size=[40]), ActionDiscretizer(2, sampling=ANYWHERE))
            action = torch.ones(40, 1, dtype=torch.int64)
        env.set_seed(0)
        td = env.reset()
        for i in range(3 + waits):
            td.set("action", action)
            mask = torch.ones(40, dtype=torch.bool)
            mask[:20] = i >= waits
            td = env.step_mdp(env.step(td.set("_step", mask)))
        return td["observation"][:20]

    assert torch.equal(sums(2), sums(0))
    assert sums(0).unique().numel() > 1


FREE = {name: make for name, make in DRAWN.items() if not name.endswith((", before", "as fast"))}


def swung(transform: Any, rows: int, resets: dict[int, int]) -> list[TensorDict]:
    """Data of a pendulum that takes any number of rows; before some steps a row is reset."""
    env = TransformedEnv(marlenv.PendulumEnv(), transform)
    env.set_seed(3)
    td = env.reset(TensorDict({}, [rows]))
    found = [td.clone()]
    for i in range(5):
        if i in resets:
            td = env.reset(td.set("_reset", torch.arange(rows).unsqueeze(-1) == resets[i]))
        found.append(env.step(td.set("action", torch.full((rows, 1), 0.5))).clone())
        td = env.step_mdp(found[-1])
    return found


@pytest.mark.parametrize("name", FREE)
def test_rows_of_an_env_that_takes_any_number_draw_by_themselves(name: str) -> None:
    few = swung(FREE[name](), 3, {2: 0, 4: 1})
    many = swung(FREE[name](), 4, {1: 2, 2: 0, 3: 2, 4: 1})
    assert not any(differences(one[:2], other[:2]) for one, other in zip(few, many, strict=True))
    assert differences(few[-1][2:], many[-1][2:3])


def test_messages_are_lost_as_in_an_env_of_that_many_rows() -> None:
    """And those of other rows, afterwards, are not the first ones again."""
    entry = {"in_keys": ["outcome"], "flag_name": "arrived"}
    free = TransformedEnv(marlenv.make("tic_tac_toe", None), DropMessages(0.25, **entry))
    bound = TransformedEnv(marlenv.make("tic_tac_toe", 300), DropMessages(0.25, **entry))
    found = []
    for env in (free, bound):
        env.set_seed(0)
        td = env.reset(TensorDict({}, [300]))
        found.append([td["arrived"], env.step(env.rand_action(td))["next", "arrived"]])
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
    share = torch.cat(found[0]).float().mean()
    assert abs(share - 0.75) < 4 * (0.75 * 0.25 / found[0][0].numel() / 2) ** 0.5  # four standard deviations
    wider = free.reset(TensorDict({}, [20, 20]))["arrived"].flatten()
    assert not torch.equal(wider[:300], found[0][0].flatten())


@pytest.mark.parametrize("rows", [[], [5], [2, 3]])
def test_idle_steps_in_an_env_that_takes_any_number_of_rows(rows: list[int]) -> None:
    env = TransformedEnv(marlenv.make("tic_tac_toe", None), NoopResetEnv(2, random=False))
    env.set_seed(0)
    td = env.reset(TensorDict({}, rows))
    assert td.batch_size == tuple(rows)
    assert (td["turn"] == 0).all()  # of x, again, after two plies
    assert (td["x", "action_mask"].sum(-1) == 9 - 2).all()
    again = env.reset(TensorDict({}, rows))
    assert not torch.equal(td["state", "code"], again["state", "code"])


def test_actions_are_drawn_by_rows_in_an_env_that_takes_any_number_of_them() -> None:
    """Whatever number of rows there is, which of them are stepped, and how many there were before."""

    def swings(rows: int, stepped: int) -> torch.Tensor:
        env = TransformedEnv(marlenv.PendulumEnv(), ActionDiscretizer(2, sampling=ANYWHERE))
        env.set_seed(0)
        td, found = env.reset(TensorDict({}, [rows])), []
        for _ in range(3):
            td = td.set("action", torch.ones((rows, 1), dtype=torch.int64)).set("th", torch.zeros(rows))
            told = env.transform.inv(td.clone().set("_step", torch.arange(rows) < stepped))
            found.append(told["action"])
        return torch.cat(found, -1)

    few, many = swings(3, 3), swings(5, 4)
    assert torch.equal(few, many[:3])
    assert few.unique().numel() == few.numel()
    assert many[4].unique().numel() == 1  # it stands still, and its stream too


@pytest.mark.parametrize("again", ["look", "append", "load"])
def test_streams_go_on_where_the_specs_are_derived_once_more(again: str) -> None:
    def played(often: bool) -> torch.Tensor:
        chain = Compose(DropMessages(0.5, in_keys=["observation"]), marlenv.RewardScaling(0.0, 2.0))
        env = TransformedEnv(Sum(99, batch_size=[40]), chain, cache_specs=again != "look")
        env.set_seed(0)
        found = [env.rollout(3)["next", "observation"]]
        if often and again == "append":
            env.append_transform(marlenv.StepCounter())
        if often and again == "load":
            env.load_state_dict(env.state_dict())
        if often and again == "look":
            assert env.observation_spec is not None
        found.append(env.rollout(3)["next", "observation"])
        return torch.stack(found) == 0

    assert torch.equal(played(True), played(False))
    assert not torch.equal(*played(True))
    chain = Compose(DropMessages(0.5, in_keys=["observation"]))
    drops = []
    for _ in range(2):  # in another env they begin anew
        base = Sum(99, batch_size=[40])
        base.set_seed(5)
        env = TransformedEnv(base, chain)
        drops.append(env.rollout(3)["next", "observation"] == 0)
        env.transform = marlenv.RewardSum()
    assert torch.equal(*drops)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_streams_go_on_in_a_copy_of_an_env_whose_chain_is_changed(copied: Callable[[Any], Any]) -> None:
    env = TransformedEnv(Sum(99, batch_size=[40]), Compose(DropMessages(0.5, in_keys=["observation"])))
    env.set_seed(0)
    before = env.rollout(3)["next", "observation"] == 0
    twin = copied(env)
    twin.append_transform(marlenv.StepCounter())
    following = [one.rollout(3)["next", "observation"] == 0 for one in (env, twin)]
    assert torch.equal(*following)
    assert not torch.equal(before, following[1])


def test_transforms_draw_other_numbers_than_the_env_under_them() -> None:
    """With one seed for both, what is drawn would else follow from where the agents begin."""
    rows, names = 500, marlenv.Unbounded((8,))
    base = marlenv.make("simple_spread", num_envs=rows, compile="none")
    env = TransformedEnv(base, marlenv.TensorDictPrimer(noise=names, random=True, expand_specs=True))
    env.set_seed(7)
    td = env.reset()
    seen, drawn = td["agents", "observation"].flatten(1), td["noise"]
    seen = seen[:, seen.std(0) > 0]
    both = torch.corrcoef(torch.cat((seen, drawn), -1).T)[: seen.shape[1], seen.shape[1] :]
    assert both.abs().max() < 0.25
    bits = marlenv.RowRNG(7, [rows]).bits([64]).flatten()
    assert not set(bits.tolist()) & set(env.transform.stream.fork(0).bits([64]).flatten().tolist())
    assert not torch.equal(env.transform.stream.key, marlenv.RowRNG(7, [rows]).key)


def limits(env: Any) -> torch.Tensor:
    return env.reset()["_horizon"].flatten()


def cut_off(base: Any) -> TransformedEnv:
    return TransformedEnv(base, Compose(marlenv.StepCounter(), marlenv.RandomTruncationTransform(1, 1 << 30)))


def test_without_a_seed_every_env_draws_other_numbers() -> None:
    """So that the envs of a pool do not end their episodes together; and so do transforms of one chain."""
    pool = marlenv.SerialEnv(4, lambda: cut_off(CountingEnv(99)))
    assert limits(pool).unique().numel() == 4
    assert not torch.equal(*(limits(cut_off(CountingEnv(99, batch_size=[2]))) for _ in "ab"))
    two = [DropMessages(0.5, in_keys=["observation"], out_keys=[name]) for name in "ab"]
    env = TransformedEnv(Sum(99, batch_size=[40]), Compose(*two))
    td = env.rollout(3)["next"]
    assert not torch.equal(td["a"] == 0, td["b"] == 0)
    env = cut_off(CountingEnv(99, batch_size=[2]))
    env.set_seed(None)
    before = limits(env)
    env.set_seed(None)
    assert not torch.equal(limits(env), before)


def test_an_env_that_has_a_seed_seeds_its_transforms() -> None:
    """As if it had been seeded with them; and so does one of the envs of a pool."""
    make = partial(marlenv.make, "simple_spread", num_envs=2, compile="none")
    three, four, again = (limits(cut_off(make(seed=seed))) for seed in (3, 4, 3))
    assert torch.equal(three, again)
    assert not torch.equal(three, four)
    whole = cut_off(make(seed=8))
    whole.set_seed(3)
    assert torch.equal(limits(whole), three)
    pools = [marlenv.SerialEnv(2, lambda: make(seed=3)) for _ in "ab"]
    assert torch.equal(*(limits(cut_off(pool)) for pool in pools))


def test_streams_go_on_where_an_env_moves() -> None:
    env = cut_off(CountingEnv(99, batch_size=[2]))
    before = limits(env)
    env.to("cpu")
    assert env.transform[1].stream.device == torch.device("cpu")
    assert not torch.equal(limits(env), before)


def test_a_pool_is_not_started_by_transforms_that_draw() -> None:
    pool = marlenv.ParallelEnv(2, partial(CountingEnv, 99))
    try:
        started = pool.is_closed
        env = cut_off(pool)
        assert pool.is_closed == started
        assert limits(env).unique().numel() == 2
    finally:
        pool.close(raise_if_closed=False)
