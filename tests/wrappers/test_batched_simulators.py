"""Wrappers of simulators that step a batch of worlds: what their authors forget is an error, data stay as they were,
and a time limit cuts rows off.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from marlenv import Categorical, Composite, Unbounded
from marlenv.errors import DtypeError, KeyMissing, ShapeError, SpecError, SpecTypeError
from marlenv.testing import run_contract
from marlenv.wrappers import AgentSpecs, BatchedAgentsEnv

ROWS, STARTS = 3, torch.arange(8) * 10.0
Data = dict[str, Any]


class Clock:
    """Counts the steps of each row, in place: that of row ``i`` shows ``10 * i + steps``."""

    def __init__(self, rows: int) -> None:
        self.now = STARTS[:rows].clone()

    def reset(self, where: Any) -> None:
        self.now[where] = STARTS[: len(self.now)][where]


class Batch(BatchedAgentsEnv):
    """``a_0`` and ``a_1`` are alike, ``c`` sees more: under ``"unequal"`` it shares a group with them. An agent ends in
    the step in which its row has come to ``ends`` of it.
    """

    rows_are_chosen = True
    agents_end = True
    ends = {"a_1": 2.0, "c": 31.0}
    slip: Callable[[Data, Data, bool], Any] | None = None

    def _build_env(self) -> Clock:
        return Clock(*self.batch_size)

    def agent_specs(self) -> dict[str, AgentSpecs]:
        seen = Composite(time=Unbounded((1,), dtype=torch.float64), lane=Unbounded((), dtype=torch.int64))
        alike = AgentSpecs(Composite(observation=seen), Categorical(2), actions=2, info=Composite(i=Unbounded((1,))))
        more = Composite(observation=seen.clone().update({"pad": Unbounded((2,))}))
        return {"a_0": alike, "a_1": alike, "c": AgentSpecs(more, Categorical(3))}

    def root_specs(self) -> Composite:
        return Composite(state=Unbounded((1,)))

    def look(self, playing: bool) -> TensorDict:
        time = self._env.now.unsqueeze(-1)
        agents = {name: self.of_agent(name, time) for name in self.agent_names}
        over = torch.zeros(len(time), dtype=torch.bool)
        root = {"state": time, "terminated": over, "truncated": over, "done": over}
        for entries in agents.values() if playing else ():
            entries["reward"] = self._env.now
        if self.slip is not None:
            type(self).slip(agents, root, playing)
        return self.gather(agents, root)

    def of_agent(self, name: str, time: Any) -> Data:
        rows = torch.arange(len(time))
        begun = time.squeeze(-1) > STARTS[: len(time)]
        ended = begun & (time.squeeze(-1) >= self.ends.get(name, 1e9))
        live = ~ended
        seen = {"time": time.double(), "lane": rows}
        flags = {"terminated": ended, "truncated": torch.zeros_like(ended), "alive": live, "mask": live}
        if name == "c":
            return {"observation": {**seen, "pad": time.expand(-1, 2)}, **flags}
        legal = torch.ones(len(time), 2, dtype=torch.bool)
        return {"observation": seen, "action_mask": legal, "info": {"i": self._env.now}, **flags}

    def sim_reset(self, where: Any) -> Any:
        self._env.reset(slice(None) if where is None else where)
        return self.look(False)

    def sim_step(self, tensordict: Any) -> Any:
        self._env.now += 1
        return self.look(True)

    def _set_seed(self, seed: int | None) -> None:
        """Nothing is drawn."""


GROUPS = {"alike": None, "unequal": "all_in_one_group"}


def made(slip: Any = None, groups: str = "alike", **options: Any) -> Batch:
    cls = type("Mine", (Batch,), {} if slip is None else {"slip": staticmethod(slip)})
    return cls(batch_size=[ROWS], group_map=GROUPS[groups], **options)


def column(env: Batch, data: Any, agent: str) -> Any:
    (group,), i = env.tree.place[agent]
    return data[group][:, i]


# --- slips -------------------------------------------------------------------------------------


def sets(place: str, *path: Any) -> Any:
    """Writes the last of ``path`` under the names before it."""

    def slip(agents: Data, root: Data, playing: bool) -> None:
        at: Any = root if place == "root" else agents[place]
        for name in path[:-2]:
            at = at[name]
        at[path[-2]] = path[-1]

    return slip


def drops(place: str, *path: str) -> Any:
    def slip(agents: Data, root: Data, playing: bool) -> None:
        at: Any = {"root": root, "all": agents}.get(place) or agents[place]
        for name in path[:-1]:
            at = at[name]
        del at[path[-1]]

    return slip


def all_of(*slips: Any) -> Any:
    return lambda agents, root, playing: [slip(agents, root, playing) for slip in slips]


FLAGS = ("terminated", "truncated")
B = torch.bool
SLIPS: dict[str, tuple[Any, Any, str]] = {
    "an agent": (drops("all", "a_1"), KeyMissing, "there are no data of agent 'a_1'"),
    "the observation of the first": (drops("a_0", "observation"), KeyMissing, "agent 'a_0' has no 'observation'"),
    "the observation of the second": (drops("a_1", "observation"), KeyMissing, "agent 'a_1' has no 'observation'"),
    "a part of it": (drops("c", "observation", "lane"), KeyMissing, r"agent 'c' has no \('observation', 'lane'\)"),
    "a mask of all": (
        all_of(*(drops(a, "action_mask") for a in ("a_0", "a_1"))),
        KeyMissing,
        "agent 'a_0' has no 'action_mask'",
    ),
    "who lives": (drops("c", "alive"), KeyMissing, "agent 'c' has no 'alive'"),
    "an entry of the root": (drops("root", "state"), KeyMissing, "the root has no 'state'"),
    "an entry too many": (
        sets("a_0", "observation", "tim", torch.zeros(ROWS)),
        SpecError,
        r"agent 'a_0' got \('observation', 'tim'\), which its AgentSpecs do not declare; did you mean 'time'",
    ),
    "a mask that nobody declared": (
        sets("c", "action_mask", torch.ones(ROWS, 2, dtype=B)),
        SpecError,
        "agent 'c' got 'action_mask', which its AgentSpecs do not declare",
    ),
    "an entry too many at the root": (
        sets("root", "stat", torch.zeros(ROWS)),
        SpecError,
        "the root got 'stat', which root_specs does not declare; did you mean 'state'",
    ),
    "a shape": (
        sets("c", "observation", "pad", torch.zeros(ROWS, 5)),
        ShapeError,
        r"\('observation', 'pad'\) of agent 'c' must have shape \[3, 2\], batch included, got \[3, 5\]",
    ),
    "too few rows": (sets("a_0", "alive", torch.ones(2, dtype=B)), ShapeError, r"shape \[3\].* got \[2\]"),
    "the root's shape": (sets("root", "state", torch.zeros(3)), ShapeError, r"'state' of the root must have shape"),
    "an int mask": (
        sets("a_1", "action_mask", torch.ones(ROWS, 2, dtype=torch.int64)),
        DtypeError,
        r"'action_mask' of agent 'a_1' must be torch\.bool, got torch\.int64",
    ),
    "floats for ints": (sets("c", "observation", "lane", torch.zeros(ROWS)), DtypeError, r"must be torch\.int64, got"),
    "a float flag": (sets("root", "terminated", torch.zeros(ROWS)), DtypeError, "'terminated' of the root must be"),
    "an array": (
        sets("c", "observation", "pad", torch.zeros(ROWS, 2).numpy()),
        SpecTypeError,
        r"\('observation', 'pad'\) of agent 'c' must be a tensor \[B, \.\.\.\], got ndarray",
    ),
    "no dict": (sets("a_0", "observation", torch.zeros(ROWS)), SpecTypeError, r"must be a dict of \['lane', 'time'\]"),
    "an array of infos": (sets("a_0", "info", "i", torch.zeros(3).numpy()), SpecTypeError, r"\('info', 'i'\) of agent"),
    "an info's shape": (sets("a_0", "info", "i", torch.zeros(3, 2)), ShapeError, r"\('info', 'i'\) of agent 'a_0'"),
}  # fmt: skip
OF_STEPS: dict[str, tuple[Any, Any, str]] = {
    "a reward": (drops("c", "reward"), KeyMissing, "agent 'c' has no 'reward'"),
    "a lone number": (sets("a_0", "reward", 1.0), SpecTypeError, r"'reward' of agent 'a_0' must be a tensor .*float 1"),
    "flags of the root": (
        all_of(*(drops("root", name) for name in (*FLAGS, "done"))),
        KeyMissing,
        "the root has no flags; 'terminated' and 'truncated' .B. say how",
    ),
    "flags of an agent": (all_of(*(drops("c", name) for name in FLAGS)), KeyMissing, "agent 'c' has no flags"),
    "done without an end": (
        sets("c", "done", torch.tensor([False, False, True])),
        SpecError,
        "'done' of agent 'c' in row 2 is True, with terminated=False and truncated=False; it must be",
    ),
}  # fmt: skip


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_in_a_reset_is_named(slip: str, groups: str) -> None:
    wrong, kind, says = SLIPS[slip]
    with pytest.raises(kind, match=rf"^Mine\.reset: .*{says}"):
        made(wrong, groups).reset()


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("slip", [*SLIPS, *OF_STEPS])
def test_a_slip_in_any_step_is_named(slip: str, groups: str) -> None:
    wrong, kind, says = {**SLIPS, **OF_STEPS}[slip]
    count = 0

    def in_the_second(agents: Data, root: Data, playing: bool) -> None:
        nonlocal count
        count += playing
        if playing and count == 2:
            wrong(agents, root, playing)

    with pytest.raises(kind, match=rf"^Mine\.step: .*{says}"):
        made(in_the_second, groups).rollout(4)
    assert count == 2


@pytest.mark.parametrize("hook", ["sim_reset", "sim_step"])
@pytest.mark.parametrize("answer", [None, {}])
def test_what_is_no_tensordict_is_named(hook: str, answer: Any) -> None:
    env = type("Mine", (Batch,), {hook: lambda self, _: answer})(batch_size=[ROWS])
    with pytest.raises(SpecTypeError, match=rf"^Mine\.{hook} must return a tensordict, as self\.gather.* got"):
        env.rollout(2)


def test_a_reward_in_a_reset_and_flags_of_agents_that_have_none_are_named() -> None:
    with pytest.raises(SpecError, match=r"^Mine\.reset: agent 'a_0' got a reward, and there are none in a reset"):
        made(sets("a_0", "reward", torch.zeros(ROWS))).reset()
    mine = type("Mine", (Batch,), {"agents_end": False, "slip": staticmethod(drop_masks)})
    with pytest.raises(SpecError, match=r"^Mine\.reset: agent 'a_0' got 'terminated'; .* agents_end = True"):
        mine(batch_size=[ROWS]).reset()


def drop_masks(agents: Data, root: Data, playing: bool) -> None:
    for entries in agents.values():
        del entries["alive"], entries["mask"]


@pytest.mark.parametrize("batch_size", [None, [], [2, 2]])
def test_rows_have_one_dimension(batch_size: Any) -> None:
    with pytest.raises(ShapeError, match=r"^Batch: batch_size must be \[n\], the number of rows, got .*; give batch_s"):
        Batch(batch_size=batch_size)
    assert Batch(batch_size=2).reset().batch_size == (2,)


def test_an_env_that_never_says_how_many_rows_there_are_is_told_so() -> None:
    mine = type("Mine", (Batch,), {"rows_are_chosen": False, "_build_env": lambda self: Clock(2)})
    with pytest.raises(ShapeError, match=r"^Mine: .* _build_env sets self\.batch_size, or the class says rows_are_ch"):
        mine()


# --- what is right -----------------------------------------------------------------------------


def rewrites(**values: Any) -> Any:
    """Rewards of another dtype or shape."""
    return lambda agents, root, playing: [
        entries.update({name: make(entries[name]) for name, make in values.items()})
        for entries in agents.values()
        if playing
    ]


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("make", [lambda x: x.double(), lambda x: x.long(), lambda x: x.unsqueeze(-1)])
def test_rewards_come_as_their_spec_has_them(make: Any, groups: str) -> None:
    env = made(rewrites(reward=make), groups)
    data = env.step(env.rand_action(env.reset()))["next"]
    assert env.full_reward_spec.is_in(data.select(*env.full_reward_spec.keys(True, True)))
    assert [column(env, data, a)["reward"].tolist() for a in ("a_1", "c")] == [[[1.0], [11.0], [21.0]]] * 2


@pytest.mark.parametrize("given", [("terminated",), ("done",), FLAGS, (*FLAGS, "done"), ("done", "truncated")])
def test_flags_that_are_left_out_follow(given: tuple[str, ...]) -> None:
    over = torch.tensor([True, False, True])
    how = {"terminated": over, "truncated": torch.zeros(3, dtype=B), "done": over}

    def slip(agents: Data, root: Data, playing: bool) -> None:
        for entries in (root, agents["c"]) if playing else ():
            for name in (*FLAGS, "done"):
                entries.pop(name, None)
            entries.update({name: how[name] for name in given})

    env = made(slip)
    data = env.step(env.rand_action(env.reset()))["next"]
    for node in (data, data["c"][:, 0]):
        assert {name: node[name].squeeze(-1).tolist() for name in how} == {n: x.tolist() for n, x in how.items()}


@pytest.mark.parametrize("groups", GROUPS)
def test_older_data_stay_when_the_simulator_writes_in_place(groups: str) -> None:
    env = made(groups=groups)
    reset = env.reset()
    first = env.step(env.rand_action(reset.clone()))["next"]
    env.step(env.rand_action(first.clone()))
    for data, steps in ((reset, 0), (first, 1)):
        want = (STARTS[:ROWS] + steps).unsqueeze(-1)
        assert data["state"].tolist() == want.tolist()
        assert column(env, data, "c")["observation", "pad"].tolist() == want.expand(-1, 2).tolist()
        assert column(env, data, "a_0")["observation", "time"].tolist() == want.tolist()
    assert column(env, first, "c")["reward"].tolist() == [[1.0], [11.0], [21.0]]


# --- time limits -------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", GROUPS)
def test_a_time_limit_cuts_rows_off_and_whoever_has_not_ended(groups: str) -> None:
    env = made(groups=groups, max_steps=3)
    data = env.rollout(6, break_when_any_done=False)["next"]
    shown = {n: data[n].squeeze(-1).int().tolist() for n in ("terminated", "truncated", "done")}
    assert shown == {"terminated": [[0] * 6] * 3, "truncated": [[0, 0, 1] * 2] * 3, "done": [[0, 0, 1] * 2] * 3}
    third = data[:, 2]  # at 3, 13 and 23: a_1 is past its end, c will be at 31
    assert [column(env, third, a)["terminated"].flatten().tolist() for a in env.agent_names] == [
        [False] * 3, [True] * 3, [False] * 3,
    ]  # fmt: skip
    assert [column(env, third, a)["truncated"].flatten().tolist() for a in env.agent_names] == [
        [True] * 3, [False] * 3, [True] * 3,
    ]  # fmt: skip
    for agent in env.agent_names:
        one = column(env, third, agent)
        assert one["done"].all()
        assert not (one["alive"] | one["mask"]).any()


def test_rows_that_are_reset_count_from_nothing() -> None:
    env = made(max_steps=3)
    td = env.reset()
    cut = []
    for step in range(7):
        following = env.step(env.rand_action(td))["next"]
        cut.append(following["truncated"].flatten().int().tolist())
        td = following.exclude(("a", "reward"), ("c", "reward"))
        again = torch.tensor([step == 0, False, False]) | following["done"].flatten()
        if bool(again.any()):
            td = env.reset(td.set("_reset", again.unsqueeze(-1)))
    assert cut == [[0, 0, 0], [0, 0, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0], [0, 1, 1], [1, 0, 0]]


def test_what_terminates_at_the_time_limit_is_not_truncated() -> None:
    over = torch.tensor([True, False, False])
    env = made(lambda agents, root, playing: root.update(terminated=over, done=over) if playing else None, max_steps=1)
    data = env.step(env.rand_action(env.reset()))["next"]
    assert data["terminated"].flatten().tolist() == [True, False, False]
    assert data["truncated"].flatten().tolist() == [False, True, True]
    assert bool(data["done"].all())


def test_a_copy_and_a_state_carry_the_count() -> None:
    class Kept(Batch):
        def _get_state(self, tensordict: Any) -> TensorDict:
            return TensorDict({"now": self._env.now.clone(), "steps": self.row_steps.clone()}, self.batch_size)

        def _set_state(self, state: Any) -> TensorDict:
            self._env.now, self.row_steps = state["now"].clone(), state["steps"].clone()
            return self.look(False)

    env = Kept(batch_size=[ROWS], max_steps=3)
    first = env.rollout(2)[:, -1]["next"]
    state = env.get_state()
    for one in (copy.deepcopy(env), env):
        assert one.step(one.rand_action(first.clone()))["next", "truncated"].all()
    env.reset()
    back = env.set_state(state)
    assert not back["done"].any()
    assert back["state"].tolist() == first["state"].tolist()
    assert env.step(env.rand_action(back))["next", "truncated"].all()


@pytest.mark.slow
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("max_steps", [None, 2])
def test_the_contract_holds(groups: str, max_steps: int | None) -> None:
    found = run_contract(
        lambda num_envs=ROWS: Batch(batch_size=[num_envs], group_map=GROUPS[groups], max_steps=max_steps), steps=8
    )
    assert [(one.name, one.says) for one in found if one.verdict == "broken"] == []
