"""Chains of transforms put together at random, by hypothesis: whatever stands in them, the laws hold."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from marlenv.groups import GroupTree, regroup
from tensordict import TensorDict

import marlenv
from marlenv import Compose, ParallelEnv, SerialEnv, TransformedEnv
from marlenv.keys import nested
from marlenv.testing.comparison import differences
from marlenv.testing.mocks import CountingEnv, GroupedEnv

Keys = list[Any]
LINKS: dict[str, Callable[[Keys], Any]] = {  # of the observations of all groups
    "norm": lambda keys: marlenv.ObservationNorm(0.5, 2.0, keys),
    "clip": lambda keys: marlenv.ClipTransform(keys, low=-1.0, high=2.5),
    "double": lambda keys: marlenv.DTypeCastTransform(torch.float32, torch.float64, keys),
    "wide": lambda keys: marlenv.UnsqueezeTransform(-1, in_keys=keys),
    "copy": lambda keys: marlenv.RenameTransform(keys, [named(key, "copied") for key in keys], create_copy=True),
    "frames": lambda keys: marlenv.CatFrames(2, -1, keys),
    "pool": lambda keys: marlenv.TimeMaxPool(keys, T=2),
    "late": lambda keys: marlenv.ObservationDelay(2, keys),
    "lost": lambda keys: marlenv.DropMessages(0.4, "last", keys),
    "late actions": lambda keys: marlenv.ActionDelay(1),
    "actions": lambda keys: marlenv.ClipTransform(
        in_keys_inv=[named(key, "action") for key in keys], low=-0.25, high=9.0
    ),
    "reward": lambda keys: marlenv.RewardScaling(1.0, 3.0),
    "signs": lambda keys: marlenv.BinarizeReward(),
    "sum": lambda keys: marlenv.RewardSum(),
    "goal": lambda keys: marlenv.TargetReturn(9.0),
    "count": lambda keys: marlenv.StepCounter(4),
    "init": lambda keys: marlenv.InitTracker(),
    "stats": lambda keys: marlenv.RecordEpisodeStats(),
    "twice": lambda keys: marlenv.FrameSkipTransform(2),
    "late start": lambda keys: marlenv.NoopResetEnv(2),
    "finite": lambda keys: marlenv.FiniteTensorDictCheck(),
}
AGENTS: dict[str, Callable[[Keys], Any]] = {
    "team": lambda keys: marlenv.TeamReward("mean", per="team"),
    "who": lambda keys: marlenv.AgentIndex(),
    "all": marlenv.SharedObservation,
}
BASES: dict[str, tuple[Callable[[int], Any], Keys]] = {
    "root": (lambda n: CountingEnv(3, batch_size=[n]), ["observation"]),
    "one group": (
        lambda n: GroupedEnv({"g": ["a", "b"]}, terminate={"a": 3}, batch_size=[n]),
        [("g", "observation")],
    ),
    "two groups": (
        lambda n: GroupedEnv({"g": ["a", "b"], "h": ["c"]}, terminate={"a": 3}, truncate={"c": 5}, batch_size=[n]),
        [("g", "observation"), ("h", "observation")],
    ),
}
NAMES = st.lists(st.sampled_from([*LINKS, *AGENTS]), max_size=4, unique=True)


def named(key: Any, name: str) -> Any:
    return name if isinstance(key, str) else nested((*key[:-1], name))


def chain(names: list[str], base: str) -> list[Any]:
    """The transforms of these names; those of agents where there are any."""
    keys = BASES[base][1]
    links = LINKS if base == "root" else {**LINKS, **AGENTS}
    return [links[name](keys) for name in names if name in links]


def acted(env: Any, td: TensorDict) -> TensorDict:
    for key, leaf in env.full_action_spec.items(True, True):
        td.set(key, torch.full(leaf.shape, 0.5))
    return td


def played(env: Any, steps: int = 6) -> TensorDict:
    env.set_seed(3)
    return env.rollout(steps, lambda td: acted(env, td), break_when_any_done=False)


@pytest.mark.slow
@settings(max_examples=20)
@given(names=NAMES, base=st.sampled_from(list(BASES)), cut=st.integers(0, 4))
def test_however_a_chain_is_put_together_it_is_one_after_the_other(names: list[str], base: str, cut: int) -> None:
    make = BASES[base][0]
    whole = TransformedEnv(make(2), Compose(*chain(names, base)))
    whole.check_env_specs()
    want = played(whole)
    a, b = chain(names, base)[:cut], chain(names, base)[cut:]
    assert not differences(played(TransformedEnv(make(2), Compose(Compose(*a), Compose(*b)))), want)
    env = TransformedEnv(make(2))
    for one in chain(names, base):
        env.append_transform(one)
    assert not differences(played(env), want)
    assert not differences(played(pickle.loads(pickle.dumps(env))), want)
    twin = TransformedEnv(make(2), env.transform.clone())
    assert not differences(played(twin), want)
    other = TransformedEnv(make(2), Compose(*chain(names, base)))
    other.load_state_dict(env.state_dict())
    assert not differences(played(other), played(env))


@pytest.mark.slow
@settings(max_examples=30)
@given(names=NAMES, base=st.sampled_from(list(BASES)), rows=st.integers(1, 3))
def test_a_batch_is_a_stack_of_singles_and_rows_start_anew_by_themselves(
    names: list[str], base: str, rows: int
) -> None:
    make = BASES[base][0]
    env = TransformedEnv(make(rows + 1), Compose(*chain(names, base)))
    few = TransformedEnv(make(rows), Compose(*chain(names, base)))
    assert not differences(played(env)[:rows], played(few))
    env.set_seed(1)
    td = env.reset()
    for _ in range(2):
        td = env.step_mdp(env.step(acted(env, td)))
    before = td.clone()
    mask = torch.zeros(rows + 1, 1, dtype=torch.bool)
    mask[rows] = True
    td = env.reset(td.set("_reset", mask))
    assert not differences(td[:rows], before[:rows].select(*td.keys(True, True), strict=False))
    again = env.step(acted(env, td.clone()))
    assert not again["next", "done"][rows].any() or "count" in names or {"twice", "late start"} & {*names}


QUIET = [name for name in LINKS if name not in ("lost", "late start")]  # inside, every env has a seed of its own


@settings(max_examples=25)
@given(names=st.lists(st.sampled_from(QUIET), max_size=4, unique=True))
@example(names=["wide", "twice"])
@example(names=["signs", "goal"])
@example(names=["frames", "double"])
def test_a_chain_around_a_series_is_a_series_of_chains(names: list[str]) -> None:
    """The envs end at different times."""
    makers = [lambda n=n: CountingEnv(n) for n in (3, 4)]
    inside = SerialEnv(2, [lambda make=make: TransformedEnv(make(), Compose(*chain(names, "root"))) for make in makers])
    outside = TransformedEnv(SerialEnv(2, makers), Compose(*chain(names, "root")))
    assert not differences(played(inside, 9), played(outside, 9))


def test_a_reshaped_series_is_the_series_reshaped() -> None:
    makers = [lambda n=n: CountingEnv(n) for n in (3, 4, 3, 5)]
    grid = TransformedEnv(
        SerialEnv(4, makers), marlenv.BatchSizeTransform(reshape_fn=lambda td: td.reshape(2, 2, *td.shape[1:]))
    )
    assert grid.batch_size == (2, 2)
    assert not differences(played(grid, 8).reshape(4, 8), played(SerialEnv(4, makers), 8))


def test_skipped_rows_of_other_shapes_stand_still() -> None:
    def wait(td: TensorDict) -> torch.Tensor:
        return torch.tensor([True, False]) & (td["observation"][..., 0] >= 2)

    for base in (CountingEnv(9, batch_size=[2]), SerialEnv(2, lambda: CountingEnv(9))):
        chained = Compose(marlenv.CatFrames(2, -1, ["observation"]), marlenv.ConditionalSkip(wait))
        out = played(TransformedEnv(base, chained), 5)["next", "observation"]
        assert out[0].tolist() == [[0, 1], [1, 2], [2, 3], [2, 3], [2, 3]]
        assert out[1].tolist() == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]


def inner_chain(kind: str, steps: int) -> TransformedEnv:
    links = {
        "frames": lambda: marlenv.CatFrames(2, -1, ["observation"]),
        "sum": marlenv.RewardSum,
        "count": lambda: marlenv.StepCounter(5),
    }
    return TransformedEnv(CountingEnv(steps), links[kind]())


OUTER: dict[str, Callable[[], Any]] = {
    "frames": lambda: marlenv.ObservationNorm(1.0, 2.0, ["observation"]),
    "sum": lambda: marlenv.ExcludeTransform("episode_reward"),
    "count": lambda: marlenv.RenameTransform(["step_count"], ["n"]),
}


def shown(td: TensorDict) -> TensorDict:
    return td.exclude(*[key for key in td.keys(True, True) if str(key if isinstance(key, str) else key[-1])[0] == "_"])


@pytest.mark.slow
@pytest.mark.parametrize("pool", [SerialEnv, ParallelEnv])
def test_what_envs_of_a_pool_remember_is_theirs_whatever_is_done_outside(pool: Any) -> None:
    """The pool of envs with a chain inside, and the rest of it outside, is the bare envs with all of it outside."""
    for kind, outer in OUTER.items():
        makers = [partial(inner_chain, kind, n) for n in (3, 4)]
        env = TransformedEnv(pool(2, makers), Compose(outer(), marlenv.FrameSkipTransform(1 + (kind == "count"))))
        try:
            env.check_env_specs()
            ours = played(env, 8)
            td = env.step_mdp(env.step(acted(env, env.reset())))
            state = env.get_state(td)
            first = env.step(acted(env, td.clone()))
            again = env.step(acted(env, td.clone().update(env.set_state(state))))
            assert not differences(first, again)
        finally:
            env.close()
        bare = SerialEnv(2, [partial(CountingEnv, n) for n in (3, 4)])
        inside = inner_chain(kind, 3).transform.clone()
        want = TransformedEnv(bare, Compose(inside, outer(), marlenv.FrameSkipTransform(1 + (kind == "count"))))
        assert not differences(shown(ours), shown(played(want, 8))), kind


SEEN = [("g", "observation")]
UPSIDE_DOWN = partial(marlenv.UnaryTransform, SEEN, SEEN, fn=lambda x: -x)  # so that a maximum looks back
AGAIN: dict[str, tuple[list[Callable[[], Any]], list[Callable[[], Any]]]] = {  # and what does the same
    "late": ([partial(marlenv.ObservationDelay, 1, SEEN)] * 3, [partial(marlenv.ObservationDelay, 3, SEEN)]),
    "late actions": ([partial(marlenv.ActionDelay, 1)] * 3, [partial(marlenv.ActionDelay, 3)]),
    "pool": (
        [UPSIDE_DOWN, *[partial(marlenv.TimeMaxPool, SEEN, T=2)] * 3],
        [UPSIDE_DOWN, partial(marlenv.TimeMaxPool, SEEN, T=4)],
    ),
}


def put_together(how: str, links: list[Callable[[], Any]]) -> Any:
    """Two rows that end at different times, seen through transforms."""
    inner = len(links) - 2 if how == "around a pool" else 0
    makers = [partial(GroupedEnv, {"g": ["a", "b"]}, terminate={"a": n, "b": n}) for n in (5, 8)]
    env: Any = SerialEnv(2, [lambda make=make: TransformedEnv(make(), Compose(*[f() for f in links[:inner]]))
                             for make in makers])  # fmt: skip
    if how == "each in its own":
        for link in links:
            env = TransformedEnv(env, link(), auto_unwrap=False)
        return env
    return TransformedEnv(env, Compose(*[link() for link in links[inner:]]))


def moved(env: Any, td: TensorDict, steps: range) -> list[TensorDict]:
    """What follows actions that differ from step to step."""
    found = []
    for i in steps:
        step, td = env.step_and_maybe_reset(td.set(("g", "action"), torch.full((2, 2, 2), i / 16)))
        found.append(shown(step["next"]))
    return [*found, td]


@pytest.mark.parametrize("name", AGAIN)
@pytest.mark.parametrize("how", ["a chain", "each in its own", "around a pool"])
def test_transforms_of_a_kind_remember_each_for_itself(name: str, how: str) -> None:
    env, once = put_together(how, AGAIN[name][0]), put_together("a chain", AGAIN[name][1])
    env.check_env_specs()
    for one in (env, once):
        one.set_seed(0)
    *ours, td = moved(env, env.reset(), range(11))
    *want, _ = moved(once, once.reset(), range(11))
    assert not differences(torch.stack(ours), torch.stack(want))
    twin = copy.deepcopy(env)
    first, again = (moved(one, td.clone(), range(4))[:-1] for one in (env, twin))
    assert not differences(torch.stack(first), torch.stack(again))


def test_frames_of_frames_are_found_whatever_comes_later() -> None:
    frames = partial(marlenv.CatFrames, 2, -1, ["observation"])
    links = [frames(), frames(), marlenv.ObservationNorm(0.0, 2.0, ["observation"])]
    env = TransformedEnv(CountingEnv(9), Compose(*links))
    seen = env.rollout(4)["next", "observation"]
    assert seen.tolist() == [[0, 0, 0, 2], [0, 2, 2, 4], [2, 4, 4, 6], [4, 6, 6, 8]]
    td = env.step_mdp(env.rand_step(env.step_mdp(env.rand_step(env.reset()))))
    back = env.set_state(env.get_state(td))
    assert env.rand_step(back)["next", "observation"].tolist() == seen[2].tolist()


def test_steps_within_a_step_remember_what_later_transforms_change() -> None:
    links = [marlenv.CatFrames(2, -1, ["observation"]) for _ in range(2)]
    links += [marlenv.FrameSkipTransform(2), marlenv.ObservationNorm(0.0, 2.0, ["observation"])]
    env = TransformedEnv(CountingEnv(9), Compose(*links))
    env.check_env_specs()
    assert env.rollout(3)["next", "observation"].tolist() == [[0, 2, 2, 4], [4, 6, 6, 8], [8, 10, 10, 12]]
    idle = Compose(links[0].clone(), marlenv.NoopResetEnv(3, random=False), links[3].clone())
    assert TransformedEnv(CountingEnv(9), idle).rollout(1)["next", "observation"].tolist() == [[6, 8]]


def test_messages_are_lost_twice_by_numbers_of_their_own() -> None:
    lost = [marlenv.DropMessages(0.5, flag_name=name) for name in ("one", "two")]
    env = TransformedEnv(CountingEnv(batch_size=[400]), Compose(*lost))
    env.set_seed(0)
    out = env.rollout(2)["next"]
    assert 0.4 < (out["one"] == out["two"]).float().mean() < 0.6


REMEMBERING = ["frames", "pool", "late", "sum", "goal", "count", "init", "stats", "lost", "twice", "finite"]


@pytest.mark.parametrize("name", REMEMBERING)
@pytest.mark.parametrize("groups", [{"all": ["a", "b", "c"]}, {"x": ["c", "a"], "y": ["b"]}])
def test_what_is_remembered_follows_the_agents_into_other_groups(name: str, groups: Any) -> None:
    make, keys = BASES["two groups"]
    link = LINKS[name]
    plain = played(TransformedEnv(make(2), link(keys)), 9)
    want = regroup(shown(plain.exclude("next")), GroupTree({"g": ["a", "b"], "h": ["c"]}), groups)
    env = TransformedEnv(make(2), Compose(link(keys), marlenv.RegroupTransform(groups)))
    env.check_env_specs()
    assert not differences(shown(played(env, 9).exclude("next")).select(*want.keys()), want)


@pytest.mark.parametrize("name", REMEMBERING)
def test_what_is_remembered_follows_the_rows_into_another_batch(name: str) -> None:
    """Rows that end at different times."""
    makers = [partial(CountingEnv, n) for n in (3, 4, 3, 5)]
    grid = marlenv.BatchSizeTransform(reshape_fn=lambda td: td.reshape(2, 2, *td.shape[1:]))
    env = TransformedEnv(SerialEnv(4, makers), Compose(LINKS[name](["observation"]), grid))
    want = TransformedEnv(SerialEnv(4, makers), LINKS[name](["observation"]))
    assert not differences(played(env, 9).reshape(4, 9), played(want, 9))


@pytest.mark.parametrize("name", REMEMBERING)
def test_what_is_remembered_stays_where_all_else_is_left_out(name: str) -> None:
    """``SelectTransform`` keeps the memories, whose names begin with an underscore."""
    make = partial(CountingEnv, 5, batch_size=[2])
    env = TransformedEnv(make(), Compose(LINKS[name](["observation"]), marlenv.SelectTransform("observation")))
    data, want = played(env, 9), played(TransformedEnv(make(), LINKS[name](["observation"])), 9)
    for key in ("observation", ("next", "observation"), ("next", "reward"), ("next", "done")):
        assert torch.equal(data[key], want[key]), key
    shown_too = {"episode"} if name == "stats" else set()  # under which the memories are
    assert set(data["next"].exclude(*shown_too).keys()) >= {"observation", "reward", "done"}
    public = {key for key in data["next"].exclude(*shown_too).keys() if key[0] != "_"}
    assert public <= {"observation", "reward", "done", "terminated", "truncated"}
