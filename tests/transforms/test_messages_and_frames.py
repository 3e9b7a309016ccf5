"""Messages lost by row and by agent, frames of agents that end at their own times, and maxima from the start."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from tensordict import TensorDict, TensorDictBase

from marlenv import (
    ActionDelay,
    Bounded,
    Categorical,
    CatFrames,
    Composite,
    DropMessages,
    MultiOneHot,
    ObservationDelay,
    OneHot,
    TimeMaxPool,
    Transform,
    TransformedEnv,
)
from marlenv.errors import KeyMissing, ShapeError
from marlenv.specs import Binary, TensorSpec
from marlenv.testing.mocks import CountingEnv, GroupedEnv

SEEN = ("wolves", "observation")


class Shows(CountingEnv):
    """A counting env that observes values of a spec: after ``t`` steps the ``t``-th of a list."""

    def __init__(self, spec: TensorSpec, values: list[torch.Tensor], batch_size: tuple[int, ...] = ()) -> None:
        super().__init__(len(values) - 1, batch_size)
        self.values = torch.stack(values)
        shape = self.batch_size
        self.observation_spec = Composite(observation=spec.expand(*shape, *spec.shape), shape=shape)

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        return self._shown(super()._reset(tensordict))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._shown(super()._step(tensordict))

    def _shown(self, td: TensorDictBase) -> TensorDictBase:
        at = td["observation"].squeeze(-1).long().clamp(max=len(self.values) - 1)
        return td.set("observation", self.values[at])


# --- messages that are lost ------------------------------------------------------------------------


def test_rows_of_single_numbers_are_lost_by_themselves() -> None:
    """An observation without a dimension of its own, such as a Categorical, is a message all the same."""

    def make(*rows):
        return Shows(Categorical(5), [torch.tensor(4)] * 9, rows)

    def lose():
        return DropMessages(0.25, in_keys=["observation"], flag_name="arrived")

    env = TransformedEnv(make(2000), lose())
    env.set_seed(0)
    out = env.rollout(4)["next"]
    assert out["observation"].shape == out["arrived"].shape == (2000, 4)
    assert torch.equal(out["observation"], 4 * out["arrived"].long())
    assert abs(out["arrived"].double().mean() - 0.75) < 4 * (0.75 * 0.25 / 8000) ** 0.5
    few = TransformedEnv(make(3), lose())
    few.set_seed(0)
    assert torch.equal(few.rollout(4)["next", "arrived"], out["arrived"][:3])
    assert TransformedEnv(make(), lose()).reset()["observation"].shape == ()


class Voices(CountingEnv):
    """A counting env of eight agents in a group; agent ``i`` observes the number ``i + 1``."""

    def __init__(self, batch_size: tuple[int, ...] = ()) -> None:
        super().__init__(300, batch_size)
        self.group_map = {"agents": [f"a{i}" for i in range(8)]}
        shape = (*self.batch_size, 8)
        inside = Composite(observation=Categorical(9, shape), shape=shape)
        self.observation_spec = Composite(agents=inside, shape=self.batch_size)

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        return self._heard(super()._reset(tensordict))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._heard(super()._step(tensordict))

    def _heard(self, td: TensorDictBase) -> TensorDictBase:
        shape = (*self.batch_size, 8)
        inside = TensorDict({"observation": torch.arange(1, 9).expand(shape).clone()}, shape)
        return td.exclude("observation").set("agents", inside)


def test_agents_lose_single_numbers_by_themselves() -> None:
    """How many of eight arrive varies as it must where each is lost by itself: 8 p (1 - p), not 64 p (1 - p)."""
    env = TransformedEnv(Voices((4,)), DropMessages(0.5, flag_name="arrived"))
    env.set_seed(0)
    env.check_env_specs()
    out = env.rollout(250)["next", "agents"]
    assert out["arrived"].shape == (4, 250, 8)
    assert torch.equal(out["observation"], torch.arange(1, 9) * out["arrived"])
    count = out["arrived"].sum(-1).double()
    assert abs(count.mean() - 4) < 0.2
    assert 1.6 < count.var() < 2.4


@pytest.mark.parametrize("rows", [(), (64,)])
def test_an_image_is_lost_as_a_whole(rows: tuple[int, ...]) -> None:
    image = torch.full((5, 4, 3), 7, dtype=torch.uint8)
    env = Shows(Bounded(0, 255, (5, 4, 3), dtype=torch.uint8), [image] * 40, rows)
    env = TransformedEnv(env, DropMessages(0.5, in_keys=["observation"], flag_name="arrived"))
    env.check_env_specs()
    out = env.rollout(39)["next"]
    assert out["arrived"].shape == (*rows, 39)
    assert torch.equal(out["observation"], 7 * out["arrived"].byte()[..., None, None, None].expand(*rows, 39, 5, 4, 3))
    assert 0 < out["arrived"].sum() < out["arrived"].numel()


# --- frames of stored data -------------------------------------------------------------------------


def pack() -> GroupedEnv:
    """Two wolves, of which the second ends first, and a sheep; flags in the groups only."""
    groups = {"wolves": ["w0", "w1"], "sheep": ["s0"]}
    return GroupedEnv(groups, terminate={"w0": 4, "w1": 2, "s0": 3}, root_flags=False)


@pytest.mark.parametrize("padding", ["same", "constant"])
def test_frames_of_stored_data_end_with_each_agent(padding: str) -> None:

    def frames(**how):
        return CatFrames(3, -1, [SEEN], padding=padding, padding_value=-7, **how)

    stored = pack().rollout(12, break_when_any_done=False)
    made = frames(done_key=("wolves", "done"), mask_key="early")(stored.clone())
    online = TransformedEnv(pack(), frames()).rollout(12, break_when_any_done=False)
    assert torch.equal(made[SEEN], online[SEEN])
    steps, early = stored[SEEN][..., 2], made["early"]
    assert early.shape == (12, 2, 3)
    first = torch.arange(12)[:, None] - steps.long()  # where each agent's episode began, by its own count
    for lag in range(3):
        before = torch.arange(12)[:, None] - lag
        assert torch.equal(early[..., 2 - lag], before < first)
        at = before.clamp(min=first).long()
        want = steps.gather(0, at)
        want = torch.where(early[..., 2 - lag], -7.0, want) if padding == "constant" else want
        assert torch.equal(made[SEEN][..., 3 * (2 - lag) + 2], want)


def test_frames_to_come_end_with_each_agent() -> None:
    stored = pack().rollout(6, break_when_any_done=False)
    made = CatFrames(2, -1, [SEEN], done_key=("wolves", "done"), future=True)(stored.clone())[SEEN]
    assert made[:, 0, [2, 5]].tolist() == [[0, 1], [1, 2], [2, 3], [3, 3], [0, 1], [1, 1]]
    assert made[:, 1, [2, 5]].tolist() == [[0, 1], [1, 1], [0, 1], [1, 1], [0, 1], [1, 1]]


def test_the_time_may_stand_anywhere_and_rows_may_be_many() -> None:
    one = pack().rollout(8, break_when_any_done=False)

    def make():
        return CatFrames(2, -1, [SEEN], done_key=("wolves", "done"))

    want = make()(one.clone())[SEEN]
    two = torch.stack([one, one], 1)
    two.names = ["time", None]
    assert torch.equal(make()(two)[SEEN], torch.stack([want, want], 1))
    two = torch.stack([one, one], 0)
    two.names = [None, "time"]
    assert torch.equal(make()(two)[SEEN], torch.stack([want, want]))


def test_flags_of_others_are_refused() -> None:
    stored = pack().rollout(6, break_when_any_done=False)
    said = (
        "CatFrames: the flags ('wolves', 'done') of [2] agents end their episodes at different times, and "
        "('sheep', 'observation') is not theirs, got [6, 1, 3]; name its own flag in done_key"
    )
    with pytest.raises(ShapeError, match=re.escape(said)):
        CatFrames(2, -1, [("sheep", "observation")], done_key=("wolves", "done"))(stored)
    together = GroupedEnv({"wolves": ["w0", "w1"]}, terminate={"w0": 2, "w1": 2}, root_flags=False)
    stored = together.rollout(5, break_when_any_done=False).set("x", torch.arange(5.0)[:, None])
    made = CatFrames(2, -1, ["x"], done_key=("wolves", "done"))(stored)["x"]  # they end together: rows do
    assert made.tolist() == [[0, 0], [0, 1], [2, 2], [2, 3], [4, 4]]


# --- memories of another length --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "size"),
    [
        (None, lambda: CatFrames(3, -1, in_keys=["observation"]), 1),
        (lambda: CatFrames(2, -1, in_keys=["observation"]), lambda: CatFrames(3, -1, in_keys=["observation"]), 2),
        (lambda: CatFrames(3, -1, in_keys=["observation"]), lambda: CatFrames(2, -1, in_keys=["observation"]), 3),
        (lambda: TimeMaxPool(T=2), lambda: TimeMaxPool(T=4), 2),
        (lambda: ObservationDelay(1), lambda: ObservationDelay(3), 1),
        (lambda: ActionDelay(1), lambda: ActionDelay(2), 1),
    ],
)
def test_what_another_kept_is_not_gone_on_from(
    before: Callable[[], Transform] | None, after: Callable[[], Transform], size: int
) -> None:
    env = TransformedEnv(CountingEnv(9, batch_size=[2]), None if before is None else before())
    td = env.step_mdp(env.rand_step(env.reset()))
    env.transform = after()
    said = (
        rf"{type(after()).__name__}: .* in the data must have size \d along dimension -1, got {size}, .* env.reset\(\)"
    )
    with pytest.raises(KeyMissing, match=said):
        env.rand_step(td)
    env.check_env_specs()


# --- the greatest values -----------------------------------------------------------------------------


def test_the_greatest_value_is_one_that_there_was() -> None:
    values = [-4.0, -3.0, -5.0, -2.0, -9.0, -8.0, -7.0]
    spec = Bounded(-10.0, -1.0, (1,))
    env = TransformedEnv(Shows(spec, [torch.tensor([v]) for v in values], (2,)), TimeMaxPool(T=3))
    env.check_env_specs()
    out = env.rollout(9, break_when_any_done=False)
    want = [max(values[max(0, t - 2) : t + 1]) for t in range(7)]
    assert out["observation"][0, :6].flatten().tolist() == want[:6]
    assert out["next", "observation"][0, :6].flatten().tolist() == want[1:]
    assert out["observation"][0, 6:].flatten().tolist() == want[:3]  # and anew
    assert env.full_observation_spec["observation"] == env.base_env.full_observation_spec["observation"]


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
@pytest.mark.parametrize("kind", [OneHot, MultiOneHot])
def test_the_greatest_of_one_hot_vectors_may_have_several_ones(kind: type, dtype: torch.dtype) -> None:
    spec = OneHot(4, dtype=dtype) if kind is OneHot else MultiOneHot([2, 2], dtype=dtype)
    rows = [[1, 0, 0, 0], [0, 0, 1, 0]] if kind is OneHot else [[1, 0, 1, 0], [0, 1, 1, 0]]
    env = TransformedEnv(Shows(spec, [torch.tensor(row).to(dtype) for row in rows]), TimeMaxPool(T=2))
    env.check_env_specs()
    assert isinstance(env.full_observation_spec["observation"], Binary)
    td = env.rand_step(env.reset())
    assert td["observation"].tolist() == rows[0]
    assert td["next", "observation"].tolist() == [max(a, b) for a, b in zip(*rows, strict=True)]
    assert env.full_observation_spec["observation"].is_in(td["next", "observation"])
