"""What transforms remember is theirs: those without keys pass over it, and it stays whatever others do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import marlenv
from marlenv import Compose, TransformedEnv
from marlenv.testing.mocks import CountingEnv


class Twice(marlenv.Transform):
    """A user's, without keys."""

    on = "observation"

    def _apply_transform(self, obs: torch.Tensor) -> torch.Tensor:
        return obs * 2


DOUBLING: dict[str, Callable[[], Any]] = {
    "norm": lambda: marlenv.ObservationNorm(0.0, 2.0),
    "a user's": Twice,
    "cast": lambda: marlenv.DTypeCastTransform(torch.float32, torch.float64),
    "statistics": lambda: marlenv.VecNormV2(decay=1.0),
    "vectors": marlenv.CatTensors,
}
SEEN = ["observation"]
REMEMBERING: dict[str, tuple[Callable[[], Any], list[Any], list[float]]] = {  # what it shows, doubled
    "late": (lambda: marlenv.ObservationDelay(1), SEEN, [0, 2, 4, 6]),
    "pool": (lambda: marlenv.TimeMaxPool(SEEN, T=2), SEEN, [2, 4, 6, 8]),
    "frames": (lambda: marlenv.CatFrames(2, -1, in_keys=SEEN), SEEN, [0, 2, 2, 4, 4, 6, 6, 8]),
    "sum": (marlenv.RewardSum, ["episode_reward"], [2, 4, 6, 8]),
    "stats": (marlenv.RecordEpisodeStats, [("episode", "return")], [0, 0, 0, 8]),
}


@pytest.mark.parametrize("name", REMEMBERING)
@pytest.mark.parametrize("later", DOUBLING)
def test_a_transform_without_keys_reads_no_memories(name: str, later: str) -> None:
    """Rewards of 1 and observations 1, 2, 3, 4; the numbers are worked out by hand."""
    first, keys, want = REMEMBERING[name]
    env = TransformedEnv(CountingEnv(4), Compose(first(), DOUBLING[later]()))
    env.check_env_specs()
    read = {"observation", *keys, *(["reward"] if later in ("cast", "statistics") else [])}
    if name == "stats" and later in ("a user's", "vectors"):  # which take whole numbers too
        read |= {("episode", "length"), ("episode", "outcome")}
    assert {*env.transform[-1].in_keys} == read
    data = env.rollout(4)["next"]
    if later in ("norm", "a user's"):
        assert data[keys[0]].flatten().tolist() == want
    elif later == "cast":
        assert data[keys[0]].tolist() == (torch.tensor(want, dtype=torch.float64) / 2).reshape(4, -1).tolist()


def test_a_sum_is_as_precise_as_it_was_behind_a_cast() -> None:
    chain = Compose(marlenv.RewardSum(), marlenv.DTypeCastTransform(torch.float32, torch.float16))
    data = TransformedEnv(CountingEnv(2100), chain).rollout(2100)["next", "episode_reward"]
    assert data.dtype == torch.float16
    assert data[-1].item() == 2100.0  # 2048 + 1 is 2048 in float16


def test_vectors_of_all_observations_leave_what_is_counted_to_the_counter() -> None:
    chain = Compose(marlenv.RewardSum(), marlenv.StepCounter(), marlenv.CatTensors())
    data = TransformedEnv(CountingEnv(9), chain).rollout(3)["next", "observation_vector"]
    assert data.tolist() == [[1, 1, 1], [2, 2, 2], [3, 3, 3]]


def test_late_actions_are_halved_once() -> None:
    """The action of two steps before, shown as an observation, halved."""
    seen: list[float] = []

    class Told(CountingEnv):
        def _step(self, tensordict: Any) -> Any:
            seen.append(tensordict["action"].item())
            return super()._step(tensordict)

    env = TransformedEnv(Told(9), Compose(marlenv.ActionDelay(2), marlenv.ObservationNorm(0.0, 0.5)))
    env.rollout(5, lambda td: td.set("action", torch.ones(1)))
    assert seen == [0, 0, 1, 1, 1]


def test_the_first_observation_of_an_episode_is_normalised_once() -> None:
    chain = Compose(marlenv.VecGymEnvTransform(), marlenv.ObservationNorm(10.0, 1.0))
    data = TransformedEnv(CountingEnv(2), chain).rollout(7, break_when_any_done=False)["observation"]
    assert data.flatten().tolist() == [10, 11, 12, 11, 12, 11, 12]


def test_statistics_in_the_data_stay_where_all_else_is_left_out() -> None:
    kind = marlenv.VecNormV2(SEEN, stateful=False)
    want = TransformedEnv(CountingEnv(6), kind.clone()).rollout(4)["next", "observation"]
    chain = Compose(kind, marlenv.SelectTransform("observation"))
    assert torch.equal(TransformedEnv(CountingEnv(6), chain).rollout(4)["next", "observation"], want)


class Game(CountingEnv):
    """Loses a life at every second step."""

    def lives(self) -> int:
        return 3 - int(self.count) // 2


LATER: dict[str, Callable[[], Any]] = {
    "nothing": Compose,
    "signs": lambda: marlenv.SignTransform(["lives"]),
    "zeros": lambda: marlenv.UnaryTransform(["lives"], ["lives"], fn=lambda x: x * 0),
    "another name": lambda: marlenv.RenameTransform(["lives"], ["hearts"]),
    "left out": lambda: marlenv.ExcludeTransform("lives"),
    "others chosen": lambda: marlenv.SelectTransform("observation", "end-of-life"),
}


@pytest.mark.parametrize("later", LATER)
def test_lost_lives_are_marked_whatever_becomes_of_their_number(later: str) -> None:
    env = TransformedEnv(Game(9), Compose(marlenv.EndOfLifeTransform(eol_attribute="lives"), LATER[later]()))
    env.check_env_specs()
    assert env.rollout(6)["next", "end-of-life"].flatten().tolist() == [False, True] * 3


def test_episodes_are_numbered_on_after_set_state() -> None:
    """Every number is given once, and none is passed over; saved rows go on with theirs."""
    env = TransformedEnv(CountingEnv(2, batch_size=[2]), marlenv.TrajCounter())

    def numbers(td: Any) -> list[list[int]]:
        data = env.rollout(4, auto_reset=False, tensordict=td, break_when_any_done=False)
        return data["traj_count"].squeeze(-1).tolist()

    td = env.reset()
    state, bare = env.get_state(td), env.get_state(None)
    assert numbers(td) == [[0, 0, 2, 2], [1, 1, 1, 3]]
    assert numbers(env.set_state(state)) == [[0, 0, 4, 4], [1, 1, 1, 5]]
    assert numbers(env.set_state(bare)) == [[6, 6, 8, 8], [7, 7, 7, 9]]  # nothing says which episodes these are
    assert env.reset()["traj_count"].flatten().tolist() == [10, 11]


def test_a_copy_numbers_episodes_as_the_original_does() -> None:
    env = TransformedEnv(CountingEnv(2, batch_size=[2]), marlenv.TrajCounter())
    td = env.rollout(3, break_when_any_done=False)[:, -1]["next"]
    td = env.maybe_reset(td)
    state, twin = env.get_state(td), pickle.loads(pickle.dumps(env))
    twin.load_state_dict(env.state_dict())
    want = env.rollout(4, auto_reset=False, tensordict=td.clone(), break_when_any_done=False)
    got = twin.rollout(4, auto_reset=False, tensordict=twin.set_state(state), break_when_any_done=False)
    assert torch.equal(got["traj_count"], want["traj_count"])
    assert int(want["traj_count"].max()) > 3


@pytest.mark.parametrize("rows", [None, 2])
def test_late_actions_are_kept_in_the_actions_own_dtype(rows: int | None) -> None:
    """Actions of float64 made what is on its way float64 from the second step on; pools took it or refused it."""

    def made() -> Any:
        return TransformedEnv(marlenv.PendulumEnv(seed=0), marlenv.ActionDelay(1))

    def double(td: Any) -> Any:
        return td.set("action", torch.full((*td.batch_size, 1), 0.1, dtype=torch.float64))

    env = made() if rows is None else marlenv.SerialEnv(rows, made)
    data = env.rollout(4, double)
    assert {data["_action_line"].dtype, data["next", "_action_line"].dtype} == {torch.float32}
    assert torch.equal(data["next", "_action_line"].flatten(), torch.full((4 * (rows or 1),), 0.1))
    assert data["_action_line"].reshape(-1, 4)[:, 0].tolist() == [0.0] * (rows or 1)
