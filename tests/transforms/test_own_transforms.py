"""Transforms that users write: what their class says is read, what they leave out follows, what is wrong is named."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv import Compose, ParallelEnv, SerialEnv, Transform, TransformedEnv, Unbounded
from marlenv.errors import KeyMissing, SpecError, SpecTypeError
from marlenv.testing import run_contract
from marlenv.testing.comparison import differences
from marlenv.testing.mocks import CountingEnv, GroupedEnv


class Doubled(Transform):
    """Names its family, and writes no ``__init__``."""

    on = "reward"

    def _apply_transform(self, obs: torch.Tensor) -> torch.Tensor:
        return 2 * obs


class Nameless(Transform):
    def _apply_transform(self, obs: torch.Tensor) -> torch.Tensor:
        return 2 * obs


def test_a_class_that_names_its_family_reads_it() -> None:
    base = CountingEnv(9)
    want = base.rollout(3)
    data = TransformedEnv(CountingEnv(9), Doubled()).rollout(3)
    assert torch.equal(data["next", "reward"], 2 * want["next", "reward"])
    assert torch.equal(data["next", "observation"], want["next", "observation"])
    two = GroupedEnv({"wolves": ["w"], "sheep": ["s", "t"]})
    assert TransformedEnv(two, Doubled()).transform.in_keys == two.reward_keys


def test_keys_that_were_given_count_more_than_the_family() -> None:
    for keys, factor in ((["observation"], 1), ([], 1), (None, 2)):
        data = TransformedEnv(CountingEnv(9), Doubled(keys)).rollout(2)["next"]
        assert data["reward"].flatten().tolist() == [factor, factor]
        assert data["observation"].flatten().tolist() == ([2, 4] if keys else [1, 2])


def test_a_transform_that_would_do_nothing_is_refused() -> None:
    with pytest.raises(SpecError, match=r"^Nameless: no keys, so it would do nothing; pass in_keys=\[...\]"):
        TransformedEnv(CountingEnv(), Nameless())
    late = Nameless()
    late.in_keys = late.out_keys = ["observation"]
    assert TransformedEnv(CountingEnv(9), late).rollout(1)["next", "observation"].item() == 2
    assert TransformedEnv(CountingEnv(9), Nameless([])).rollout(1)["next", "observation"].item() == 1, "as was asked"


def test_an_action_whose_name_is_misspelt() -> None:
    class Halved(Transform):
        def _inv_apply_transform(self, state: torch.Tensor) -> torch.Tensor:
            return state / 2

    env = TransformedEnv(CountingEnv(), Halved(in_keys_inv=["acton"]))
    td = env.rand_action(env.reset())
    with pytest.raises(KeyMissing, match=r"^Halved: no entry 'acton'; the data has \['action'"):
        env.step(td)
    env.set_missing_tolerance(True)
    env.step(td)
    stored = TensorDict({"other": torch.ones(2)}, [2])
    assert Halved(in_keys_inv=["acton"]).inv(stored).keys() == stored.keys(), "stored data may lack it"


def ending(**hooks: Any) -> Any:
    """A transform that ends, in its own way, the rows that have counted to two."""
    return type("Ends", (Transform,), hooks)()


def late(nx: Any) -> torch.Tensor:
    return nx["observation"] >= 2


def set_flag(name: str) -> Any:
    return lambda self, td, nx: nx.set(name, nx[name] | late(nx))


def written_into(self: Any, td: Any, nx: Any) -> Any:
    nx["terminated"] |= late(nx)
    return nx


ENDS: dict[str, tuple[Any, str]] = {
    "terminated": (set_flag("terminated"), "terminated"),
    "truncated": (set_flag("truncated"), "truncated"),
    "done": (set_flag("done"), "terminated"),
    "terminated in place": (written_into, "terminated"),
}


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("way", ENDS)
def test_an_end_has_all_its_flags(way: str, inference: bool) -> None:
    """By hand: counting to two takes two steps, so every second step is the last of an episode."""
    step, cause = ENDS[way]
    base = CountingEnv(99, batch_size=[2])
    base.add_truncated_keys()
    env = TransformedEnv(base, Compose(ending(_step=step), marlenv.StepCounter()))
    with torch.inference_mode(inference):
        data = env.rollout(6, break_when_any_done=False)
    want = [False, True] * 3
    for name in ("done", "terminated", "truncated"):
        assert data["next", name].squeeze(-1).tolist() == [want if name in ("done", cause) else [False] * 6] * 2, name
    assert data["next", "step_count"].squeeze(-1).tolist() == [[1, 2] * 3] * 2


def test_who_lets_an_episode_go_on_need_not_clear_done() -> None:
    env = TransformedEnv(CountingEnv(2), ending(_step=lambda self, td, nx: nx.set("terminated", nx["done"] & False)))
    data = env.rollout(4)["next"]
    assert not data["done"].any()
    assert data["observation"].flatten().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("ours_last", [False, True])
def test_an_end_that_another_transform_wrote_stands(ours_last: bool) -> None:
    """A limit under a name of its own sets ``done`` without ``truncated``; who writes ``terminated`` leaves it so."""
    never = ending(_step=lambda self, td, nx: nx.set("terminated", nx["terminated"] | (nx["observation"] > 50)))
    chain = [marlenv.StepCounter(2, truncated_key="cut"), never]
    env = TransformedEnv(CountingEnv(99), Compose(*(chain if ours_last else chain[::-1])))
    data = env.rollout(4, break_when_any_done=False)["next"]
    assert data["done"].flatten().tolist() == [False, True] * 2
    assert data["cut"].flatten().tolist() == [False, True] * 2
    assert not data["terminated"].any()


def test_a_row_that_ends_takes_its_agents_along() -> None:
    """An agent that had ended before keeps its flags."""

    def step(self: Any, td: Any, nx: Any) -> Any:
        nx["truncated"] = nx["agents", "observation"].flatten(1).amax(1, keepdim=True) >= 3
        return nx

    base = GroupedEnv(batch_size=[2], terminate={"agent_0": 2}, rule="all")
    assert TransformedEnv(base, ending(_call=lambda self, nx: nx)).full_done_spec == base.full_done_spec
    out = TransformedEnv(base, ending(_step=step)).rollout(3)["next"]
    assert out["done"][0].flatten().tolist() == [False, False, True]
    assert out["agents", "done"][0, -1].all()
    assert out["agents", "terminated"][0, -1].flatten().tolist() == [True, False, False]
    assert out["agents", "truncated"][0, -1].flatten().tolist() == [False, True, True]


def test_a_function_of_tensordicts_may_end_an_episode() -> None:
    def short(td: Any) -> Any:
        return td.set("terminated", td["observation"] >= 2)

    data = TransformedEnv(CountingEnv(99), short).rollout(9)["next"]
    assert data["done"].flatten().tolist() == [False, True]


def test_the_envs_own_transforms_end_as_they_did() -> None:
    """``update_done=False`` is no mistake, also beside a user's transform."""
    env = TransformedEnv(CountingEnv(99), Compose(marlenv.StepCounter(2, update_done=False), Doubled()))
    data = env.rollout(3, break_when_any_done=False)["next"]
    assert data["truncated"].flatten().tolist() == [False, True, True]
    assert not data["done"].any()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "value": ({"on": "reward", "_apply_transform": lambda self, x: None}, r"_apply_transform: must return the new"),
    "told": (
        {"_inv_call": lambda self, td: None},
        r"_inv_call: must return the tensordict that it edits, got NoneType",
    ),
    "step": ({"_step": lambda self, td, nx: None}, r"_step: must return the tensordict that it edits"),
    "reset": ({"_reset": lambda self, td, nx: 3}, r"_reset: must return the tensordict that it edits, got int"),
    "before": ({"_reset_env_preprocess": lambda self, td: None}, r"_reset_env_preprocess: must return the tensordict"),
}


@pytest.mark.parametrize("which", WRONG)
def test_an_answer_that_is_none_names_the_transform(which: str) -> None:
    hooks, says = WRONG[which]
    mine = type("Mine", (Transform,), hooks)
    with pytest.raises(SpecTypeError, match=f"^Mine.{says}"):
        TransformedEnv(CountingEnv(2), mine()).rollout(5, break_when_any_done=False)


def test_a_value_that_is_told_and_none() -> None:
    mine = type("Mine", (Transform,), {"_inv_apply_transform": lambda self, x: None})
    with pytest.raises(SpecTypeError, match=r"^Mine._inv_apply_transform: must return the new value"):
        TransformedEnv(CountingEnv(), mine(in_keys_inv=["action"])).rollout(1)


def test_a_family_that_there_is_not() -> None:
    with pytest.raises(SpecError, match=r"^Mine: on must be one of \['action', .*'state'\], got 'observations'"):
        type("Mine", (Transform,), {"on": "observations"})


def test_a_transform_that_is_half_made() -> None:
    mine = type("Mine", (Transform,), {"__init__": lambda self: None})()
    with pytest.raises(SpecError, match=r"^Mine.__init__: must begin with super\(\).__init__"):
        TransformedEnv(CountingEnv(), mine)


class Slowed(Transform):
    """A moving average of the observation beside it, and half of every action: memory and an inverse."""

    def respec(self, specs: Any) -> None:
        specs["observation"]["slow"] = Unbounded(specs["observation"]["observation"].shape)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return tensordict_reset.set("slow", tensordict_reset["observation"].clone())

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        return next_tensordict.set("slow", (tensordict["slow"] + next_tensordict["observation"]) / 2)

    def _inv_apply_transform(self, state: torch.Tensor) -> torch.Tensor:
        return state / 2


class Short(Transform):
    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        return next_tensordict.set("terminated", next_tensordict["terminated"] | (next_tensordict["slow"] > 1.5))


def chain() -> Compose:
    return Compose(Slowed(in_keys_inv=["action"]), Doubled(), Short(), marlenv.RewardSum())


def short_count() -> TransformedEnv:
    return TransformedEnv(CountingEnv(4), chain())


def test_own_transforms_work_in_pools_and_around_them_alike() -> None:
    """Averages by hand: 0.5, 1.25, 2.125, so an episode ends with its third step."""
    makers = [
        lambda: SerialEnv(2, short_count),
        lambda: TransformedEnv(SerialEnv(2, lambda: CountingEnv(4)), chain()),
        lambda: TransformedEnv(CountingEnv(4, batch_size=[2]), chain()),
        lambda: ParallelEnv(2, short_count),
    ]
    found = []
    for make in makers:
        env = make()
        env.set_seed(0)
        found.append(env.rollout(7, lambda td: td.set("action", torch.zeros(2, 1)), break_when_any_done=False))
        td = env.step(env.reset().set("action", torch.zeros(2, 1)))["next"]
        td["_reset"] = torch.tensor([[True], [False]])
        assert env.reset(td)["slow"].flatten().tolist() == [0, 0.5], "the row that is not reset remembers"
        env.close()
    assert found[0]["next", "slow"][0].flatten().tolist() == [0.5, 1.25, 2.125] * 2 + [0.5]
    assert found[0]["next", "done"][0].flatten().tolist() == [False, False, True] * 2 + [False]
    assert found[0]["next", "episode_reward"][0].flatten().tolist() == [2, 4, 6] * 2 + [2]
    for other in found[1:]:
        assert not differences(other, found[0])


def test_own_transforms_are_copied_and_pickled() -> None:
    env = short_count()
    want = env.rollout(5, break_when_any_done=False)["next", "slow"]
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env)), TransformedEnv(CountingEnv(4), chain().clone())):
        assert torch.equal(twin.rollout(5, break_when_any_done=False)["next", "slow"], want)
    assert not [r for r in run_contract(short_count, steps=6) if r.verdict == "broken"]
