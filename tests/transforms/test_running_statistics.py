"""Statistics that are measured while an env is played: of which rows, by which processes, and in which numbers."""

from __future__ import annotations

import copy
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv import ParallelEnv, SerialEnv, TransformedEnv, VecNorm, VecNormV2
from marlenv.errors import KeyMissing, ShapeError, SpecError
from marlenv.testing.mocks import CountingEnv, GroupedEnv


def moments(norm: Any, key: Any) -> tuple[float, torch.Tensor, torch.Tensor]:
    """The count, mean and mean square of what was measured, without decay."""
    if isinstance(norm, VecNorm):
        one, two, count = norm.statistics(key)
        return float(count), one / count, two / count
    one, two, count = norm.statistics(key)
    return float(count.max()), one, two


def test_statistics_of_other_entries_are_refused() -> None:
    one, other = (VecNorm(["observation"]) for _ in range(2))
    TransformedEnv(CountingEnv(), one).rollout(2)
    other.load_state_dict(one.state_dict())
    assert torch.equal(other.loc["observation"], one.loc["observation"])
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\) in state_dict: .*observation"):
        VecNorm(["reward"]).load_state_dict(one.state_dict())
    anything = VecNorm()  # finds its entries when it joins an env
    anything.load_state_dict(one.state_dict())
    assert float(anything.statistics("observation")[2]) == float(one.statistics("observation")[2])


@pytest.mark.parametrize("kind", [VecNorm, partial(VecNormV2, reduce_batch_dims=True)])
@pytest.mark.parametrize("scenario", [False, True])
def test_a_partial_reset_measures_the_rows_that_are_reset(kind: Any, scenario: bool) -> None:
    """What other rows are given meanwhile (a scenario gives zeros) is not there."""
    key = ("agents", "observation") if scenario else "observation"
    base = (
        marlenv.make("simple_spread", num_envs=3, seed=0, max_steps=4, compile="none")
        if scenario
        else SerialEnv(3, CountingEnv, create_env_kwargs=[{"max_steps": n} for n in (2, 3, 9)])
    )
    env = TransformedEnv(
        base, marlenv.Compose(marlenv.RenameTransform([key], ["raw"], create_copy=True), kind([key], decay=1.0))
    )
    td, seen = env.reset(), []
    seen += list(td["raw"])
    for i in range(7):
        step = env.rand_step(td)
        seen += list(step["next", "raw"])
        td = env.step_mdp(step)
        mask = torch.tensor([[i == 1], [i == 4], [i == 4]]) if scenario else td["done"].clone()
        if mask.any():
            td = env.reset(td.set("_reset", mask))
            seen += list(td["raw"][mask.squeeze(-1)])
    count, mean, square = moments(env.transform[1], key)
    want = torch.stack(seen)
    assert count == len(seen)
    assert torch.allclose(mean, want.mean(0), atol=1e-5)
    assert torch.allclose(square, want.pow(2).mean(0), atol=1e-4)


@pytest.mark.parametrize("kind", [VecNorm, partial(VecNormV2, reduce_batch_dims=True)])
@pytest.mark.parametrize("skipped", [False, True])
def test_rows_that_stand_still_are_not_measured(kind: Any, skipped: bool) -> None:
    """Row 0 shows 0, 1, 2 and waits, for it is done or skipped; row 1 shows 0 to 5."""
    limits, first = (9, 5) if skipped else (2, 5), torch.tensor([True, False])
    skip = marlenv.ConditionalSkip(lambda td: first & (td["raw"].squeeze(-1) >= 2))
    chain = marlenv.Compose(
        marlenv.RenameTransform(["observation"], ["raw"], create_copy=True),
        kind(["observation"], decay=1.0),
        *([skip] if skipped else []),
    )
    env = TransformedEnv(SerialEnv(2, [partial(CountingEnv, limit) for limit in limits]), chain)
    env.rollout(5, break_when_all_done=True)
    count, mean, square = moments(env.transform[1], "observation")
    assert count == 3 + 6
    assert float(mean) == pytest.approx((3 + 15) / 9)
    assert float(square) == pytest.approx((5 + 55) / 9)


def test_statistics_of_a_row_count_its_own_steps() -> None:
    """Row 0 starts anew, which is one more number of its own; the other row's normalisation is as it would be."""

    def played(again: bool) -> TensorDict:
        env = TransformedEnv(CountingEnv(9, batch_size=[2]), VecNormV2(["observation"], decay=0.9))
        td = env.step_mdp(env.rand_step(env.reset()))
        td = env.reset(td.set("_reset", torch.tensor([[True], [False]]))) if again else td
        return env.rand_step(env.step_mdp(env.rand_step(td)))["next"]

    assert torch.equal(played(True)["observation"][1], played(False)["observation"][1])
    assert not torch.equal(played(True)["observation"][0], played(False)["observation"][0])


def test_groups_are_measured_when_they_start_anew() -> None:
    env = TransformedEnv(
        GroupedEnv({"g": ["a"], "h": ["b"]}, terminate={"a": 2, "b": 3}, root_flags=False),
        VecNorm([("g", "observation"), ("h", "observation")], decay=1.0),
    )
    env.rollout(6, break_when_any_done=False)
    counts = [float(env.transform.statistics((group, "observation"))[2]) for group in ("g", "h")]
    assert counts == [1 + 6 + 2, 1 + 6 + 1]  # those that end with the rollout do not start anew


@pytest.mark.parametrize("kind", [VecNorm, VecNormV2])
def test_putting_a_state_back_measures_nothing(kind: Any) -> None:
    env = TransformedEnv(CountingEnv(9, batch_size=[2]), kind(["observation"]))
    td = env.rand_step(env.reset())["next"]
    state, before = env.get_state(), [one.clone() for one in env.transform.statistics("observation")]
    loc, scale = env.transform.loc["observation"].clone(), env.transform.scale["observation"].clone()
    back = env.set_state(state)
    assert all(torch.equal(*pair) for pair in zip(before, env.transform.statistics("observation"), strict=True))
    assert torch.allclose(back["observation"], (torch.ones(2, 1) - loc) / scale)
    assert torch.allclose(back["observation"], td["observation"])


@pytest.mark.parametrize("masked", [False, True])
def test_what_statistics_in_the_data_show_is_put_back_with_them(masked: bool) -> None:
    env = TransformedEnv(CountingEnv(9, batch_size=[2]), VecNormV2(["observation"], stateful=False))
    td = env.rollout(3)["next"][:, -1]
    state, later = env.get_state(td), env.rand_step(env.step_mdp(env.rand_step(td)))["next"]
    back = env.set_state(state, torch.tensor([True, False]), later) if masked else env.set_state(state)
    assert torch.equal(back["observation"][0], td["observation"][0])
    assert torch.equal(back["observation"][1], (later if masked else td)["observation"][1])


@pytest.mark.parametrize("kind", [VecNorm, VecNormV2])
def test_the_envs_below_later_transforms_move_the_same_statistics(kind: Any) -> None:
    """Idle steps are played in a copy, before there are any rewards; a deep copy goes on like the env."""
    env = TransformedEnv(
        CountingEnv(9, batch_size=[2]), marlenv.Compose(kind(decay=1.0), marlenv.NoopResetEnv(2, False))
    )
    twin, td = copy.deepcopy(env), env.reset()
    mine, theirs = (one.transform[0] for one in (env, env.transform[1].parent))
    assert dict(mine.named_buffers()).keys() == dict(theirs.named_buffers()).keys()
    assert all(one is dict(theirs.named_buffers())[name] for name, one in mine.named_buffers())
    assert [moments(mine, key)[0] for key in ("observation", "reward")] == [2 * 3, 2 * 2] if kind is VecNorm else [3, 2]
    with pytest.raises(SpecError, match="nothing is known of 'reward' yet"):
        twin.transform[0].statistics("reward")
    later = copy.deepcopy(env)
    steps = [one.rand_step(td.clone())["next"] for one in (env, later)]
    assert torch.equal(steps[0]["reward"], steps[1]["reward"])


def test_statistics_of_no_value_follow_the_specs() -> None:
    env = TransformedEnv(CountingEnv(9), VecNorm(["observation"], decay=1.0))
    env.insert_transform(0, marlenv.CatFrames(2, -1, ["observation"]))
    env.rollout(2)
    assert env.transform[1].loc["observation"].shape == (2,)


def test_double_statistics_leave_entries_as_they_are() -> None:
    start = TensorDict({"observation_sum": torch.zeros(1), "observation_ssq": torch.full((1,), 1e-4),
                        "observation_count": torch.tensor([1e-4])}).double()  # fmt: skip
    env = TransformedEnv(CountingEnv(9), VecNorm(["observation"], shared_td=start, decay=1.0))
    env.check_env_specs()
    assert env.rollout(3)["observation"].dtype == torch.float32
    assert start["observation_count"].item() > 3
    assert env.transform.loc["observation"].dtype == torch.float64


# --- shared between processes ---------------------------------------------------------------------


def worker(kind: str, shared: Any, keys: Any, first: int) -> TransformedEnv:
    """An env of a worker: it counts from ``first``, in steps of one."""
    norm = (
        VecNorm(keys, shared_td=shared, decay=1.0)
        if kind == "VecNorm"
        else VecNormV2(keys, shared_data=shared, decay=1.0, reduce_batch_dims=True)
    )
    return TransformedEnv(CountingEnv(first), norm)


@pytest.mark.slow
@pytest.mark.parametrize("pool", [SerialEnv, ParallelEnv])
def test_workers_move_the_same_statistics(pool: Any) -> None:
    """Each of three workers measures 1 reset and 20 steps; and in the parent, the statistics are there to be used."""
    shared = VecNorm.build_td_for_shared_vecnorm(CountingEnv(), ["observation"])
    env = pool(3, [partial(worker, "VecNorm", shared, ["observation"], 99)] * 3)
    try:
        env.rollout(20)
    finally:
        env.close()
    seen = torch.arange(21.0)
    assert shared["observation_count"].item() == 3 * 21
    assert shared["observation_sum"].item() == 3 * seen.sum()
    assert shared["observation_ssq"].item() == 3 * seen.pow(2).sum()
    mine = VecNorm(["observation"], shared_td=shared, decay=1.0)
    assert torch.allclose(mine.loc["observation"], seen.mean())
    alone = copy.deepcopy(mine)
    TransformedEnv(CountingEnv(), mine).reset()
    assert shared["observation_count"].item() == 64
    assert alone.statistics("observation")[2].item() == 63


def test_workers_move_the_same_averages(tmp_path: Path) -> None:
    zeros = {"observation": torch.zeros(1)}
    shared = TensorDict(
        {"loc": dict(zeros), "var": dict(zeros), "count": {"observation": torch.zeros(1, dtype=torch.int64)}}
    )
    shared.memmap_(prefix=str(tmp_path / "shared"))
    env = ParallelEnv(2, [partial(worker, "VecNormV2", shared, ["observation"], 99)] * 2)
    try:
        env.rollout(10)
    finally:
        env.close()
    assert shared["count", "observation"].item() == 22
    assert torch.allclose(shared["loc", "observation"], torch.tensor(5.0))
    assert torch.allclose(shared["var", "observation"], torch.arange(11.0).pow(2).mean())


def test_one_at_a_time_moves_what_is_shared() -> None:
    """Who comes while another holds the file waits for it, as the kernel has it for threads and processes alike."""
    shared = VecNorm.build_td_for_shared_vecnorm(CountingEnv(), ["observation"])
    first, second = (VecNorm(["observation"], shared_td=shared) for _ in "ab")
    other = threading.Thread(target=second, args=(TensorDict({"observation": torch.ones(1)}),))
    with first._locked():
        other.start()
        other.join(0.3)
        assert other.is_alive()
        assert shared["observation_count"].item() == 0
    other.join(10)
    assert shared["observation_count"].item() == 1


def test_shared_statistics_of_groups_and_of_keys_that_are_found() -> None:
    make = lambda: GroupedEnv({"g": ["a", "b"], "h": ["c"]})  # noqa: E731
    shared = VecNorm.build_td_for_shared_vecnorm(make())
    env = TransformedEnv(SerialEnv(2, make), VecNorm(shared_td=shared))
    assert ("g", "reward") in env.transform.in_keys
    env.rollout(3)
    assert shared["g", "observation_sum"].shape == (2, 3)
    assert float(shared["g", "observation_count"]) > 7
    assert float(shared["noise_count"]) > 7
    with pytest.raises(KeyMissing, match=r"VecNorm: no entry 'obs'; the env gives \["):
        VecNorm.build_td_for_shared_vecnorm(make(), ["obs"])
    with pytest.raises(KeyMissing, match=r"VecNorm: no entry 'x_sum'; shared_td has \["):
        VecNorm(["x"], shared_td=shared)
    with pytest.raises(KeyMissing, match=r"VecNormV2: no entry 'x'; shared_data\['loc'\] has \['y'\]"):
        VecNormV2(["x"], shared_data=TensorDict({"loc": {"y": torch.ones(1)}}))


@pytest.mark.parametrize("name", ["VecNorm", "VecNormV2"])
def test_frozen_copies_of_shared_statistics_stand_still(name: str) -> None:
    """In an env of their own, too; and so does a copy of an env when its chain is changed."""
    zeros = {"observation": torch.zeros(1)}
    count = {"observation": torch.zeros(1, dtype=torch.int64)}
    averages = TensorDict({"loc": dict(zeros), "var": dict(zeros), "count": count})
    shared = VecNorm.build_td_for_shared_vecnorm(CountingEnv(), ["observation"]) if name == "VecNorm" else averages
    env = worker(name, shared, ["observation"], 9)
    env.rollout(5)
    frozen, twin = env.transform.frozen_copy(), copy.deepcopy(env)
    before = frozen.loc["observation"].clone()
    fresh = TransformedEnv(CountingEnv(9), frozen)
    twin.append_transform(marlenv.StepCounter())
    env.rollout(9)
    assert env.transform.loc["observation"] > before
    fresh.rollout(9)
    assert torch.equal(frozen.loc["observation"], before)
    assert torch.equal(twin.transform[0].loc["observation"], before)


def test_statistics_in_files_are_saved_as_numbers(tmp_path: Path) -> None:
    shared = VecNorm.build_td_for_shared_vecnorm(CountingEnv(), ["observation"])
    norm = VecNorm(["observation"], shared_td=shared, decay=1.0)
    TransformedEnv(CountingEnv(), norm).rollout(3)
    saved = norm.state_dict()
    assert {type(value) for value in saved.values()} == {torch.Tensor}
    torch.save(saved, tmp_path / "norm.pt")
    other = VecNorm(["observation"])
    other.load_state_dict(torch.load(tmp_path / "norm.pt"))
    assert torch.equal(other.loc["observation"], norm.loc["observation"])


@pytest.mark.parametrize("decay", [1.0, 0.99])
@pytest.mark.parametrize("options", [{"reduce_batch_dims": True}, {}, {"stateful": False}])
def test_entries_that_are_almost_or_always_alike_stay_finite(decay: float, options: dict[str, bool]) -> None:
    """The square of their mean may come out above the mean of their squares, by rounding."""
    values = torch.rand(1, 16, generator=torch.Generator().manual_seed(0)) * 100

    def show(td: Any) -> Any:
        noise = torch.tensor(0.0) if td["count"].sum() % 3 else torch.tensor(1e-4)
        return td.set("constant", values.expand(8, 16) + noise)

    named = marlenv.RenameTransform(["observation"], ["count"])
    norm = VecNormV2(["constant"], decay=decay, **options)
    out = TransformedEnv(CountingEnv(99, batch_size=[8]), marlenv.Compose(named, show, norm)).rollout(60)
    assert out["next", "constant"].isfinite().all()
    assert out["next", "constant"].abs().max() <= 2e-4 / norm.eps


def test_statistics_of_each_row_are_of_as_many_rows() -> None:
    """Of one row they stand for all rows, once they are not measured any more."""

    def played(rows: int, norm: VecNormV2) -> VecNormV2:
        TransformedEnv(CountingEnv(9, batch_size=[rows]), norm).rollout(3)
        return norm

    three, one = played(3, VecNormV2(["observation"])), played(1, VecNormV2(["observation"]))
    for norm in (three.clone(), three.frozen_copy(), one.clone()):
        with pytest.raises(
            ShapeError,
            match=r"VecNormV2: the statistics of 'observation' are \[[13], 1\], and its values \[5, 1\]; play as many "
            r"rows as were measured, or measure with reduce_batch_dims=True",
        ):
            played(5, norm)
    assert torch.equal(played(5, one.frozen_copy()).loc["observation"], one.loc["observation"])
    with pytest.raises(ShapeError, match=r"are \[3, 1\], and its values \[1, 1\]; play as many"):
        played(1, three.frozen_copy())
    with pytest.raises(ShapeError, match=r"are \[1\], and its values \[2, 3\]; take statistics of such entries"):
        TransformedEnv(CountingEnv(9, batch_size=[2]), VecNorm(["observation"])).transform(
            TensorDict({"observation": torch.zeros(2, 3)}, [2])
        )
