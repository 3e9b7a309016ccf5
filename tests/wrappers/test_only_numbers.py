"""Observations and infos are real numbers, and flags are 0 or 1: whatever else a simulator gives is an error that names
the agent.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from test_pettingzoo_side_by_side import Quiet

from marlenv import Binary, Categorical, Composite, PettingZooWrapper, Unbounded
from marlenv.errors import DtypeError, KeyCollision, ShapeError
from marlenv.wrappers import AgentSpecs, AgentStep, BatchedAgentsEnv, ParallelSimEnv

STEP = r"^Told\.step \(number 1 of the episode\): entry "
NO_NUMBERS = {
    "complex": np.array([1j, 2]),
    "a complex tensor": torch.tensor([1j, 2]),
    "texts": np.array(["1", "2"]),
    "bytes": np.array([b"1", b"2"]),
    "a list of texts": ["1", "2"],
    "dates": np.array(["2020-01-01", "2020-01-02"], "M8[D]"),
    "spans": np.array([1, 2], "m8[s]"),
    "nothing": np.array([1.0, None], object),
    "hidden": np.ma.array([1.0, 2.0], mask=[False, True]),
    "a set": {1, 2},
}
NUMBERS = {
    "a list": ([1, 2], [1.0, 2.0]),
    "objects": (np.array([1, 2.5], object), [1.0, 2.5]),
    "fractions": ([Fraction(1, 2), Fraction(1, 4)], [0.5, 0.25]),
    "nothing hidden": (np.ma.array([1.0, 2.0], mask=[False, False]), [1.0, 2.0]),
    "long": (np.array([1, 2], np.longdouble), [1.0, 2.0]),
    "big-endian": (np.array([1, 2], ">f4"), [1.0, 2.0]),
    "flags": (np.array([True, False]), [1.0, 0.0]),
}


class Told(ParallelSimEnv):
    """The agents that are in ``whose`` observe what they are told in the first step."""

    seen: Any = [0.0, 0.0]
    info: Any = None
    whose = ("a_0", "a_1")
    spec: Any = Unbounded((2,))

    def _build_env(self) -> Any:
        return object()

    def agent_specs(self) -> dict[str, AgentSpecs]:
        info = Composite(n=Unbounded((), dtype=torch.int64), x=Unbounded(()), flag=Binary(shape=(), dtype=torch.bool))
        one = AgentSpecs(Composite(observation=self.spec), Categorical(2), info=info)
        return {"a_0": one, "a_1": one}

    def sim_reset(self, seed: int | None) -> dict[str, AgentStep]:
        return {a: AgentStep({"observation": np.zeros(2, np.float32)}) for a in ("a_0", "a_1")}

    def sim_step(self, actions: dict[str, Any]) -> dict[str, AgentStep]:
        plain = np.zeros(2, np.float32)
        return {
            a: AgentStep({"observation": self.seen}, 1.0, info=self.info)
            if a in self.whose
            else AgentStep({"observation": plain}, 1.0)
            for a in actions
        }


def told(**attributes: Any) -> Told:
    return type("Told", (Told,), attributes)()


@pytest.mark.parametrize("whose", [("a_0", "a_1"), ("a_1",)], ids=str)
@pytest.mark.parametrize("what", NO_NUMBERS)
def test_observations_that_are_no_real_numbers_are_an_error(what: str, whose: Any) -> None:
    with pytest.raises(DtypeError, match=rf"{STEP}'observation' of agent '{whose[0]}': expected numbers, got "):
        told(seen=NO_NUMBERS[what], whose=whose).rollout(1)


@pytest.mark.parametrize("whose", [("a_0", "a_1"), ("a_1",)], ids=str)
@pytest.mark.parametrize("what", NUMBERS)
def test_numbers_may_come_in_other_forms(what: str, whose: Any) -> None:
    seen, numbers = NUMBERS[what]
    rows = told(seen=seen, whose=whose).rollout(1)["next", "a", "observation"][0].tolist()
    assert rows == [numbers if a in whose else [0.0, 0.0] for a in ("a_0", "a_1")]


@pytest.mark.parametrize(
    ("info", "says"),
    [
        ({"n": "3"}, r"'n'\) of agent 'a_0': expected numbers, got array\('3'"),
        ({"x": "3"}, r"'x'\) of agent 'a_0': expected numbers, got array\('3'"),
        ({"x": 1j}, r"'x'\) of agent 'a_0': expected numbers"),
        ({"n": [1.5]}, r"'n'\) of agent 'a_0': expected whole numbers for torch\.int64, got \[1\.5\]"),
        ({"n": np.array(Fraction(3, 2), object)}, r"'n'\) of agent 'a_0': expected whole numbers .* got \[1\.5\]"),
        ({"flag": 3}, r"'flag'\) of agent 'a_0': expected 0 or 1 for torch\.bool, got \[3\]"),
        ({"flag": -1}, r"'flag'\) of agent 'a_0': expected 0 or 1 for torch\.bool, got \[-1\]"),
        ({"flag": 2.0}, r"'flag'\) of agent 'a_0': expected 0 or 1 for torch\.bool, got \[2\.0\]"),
        ({"flag": np.int8(2)}, r"'flag'\) of agent 'a_0': expected 0 or 1 for torch\.bool, got \[2\]"),
        ({"flag": torch.tensor(2)}, r"'flag'\) of agent 'a_0': expected 0 or 1 for torch\.bool, got \[2\]"),
    ],
)
def test_infos_that_their_specs_do_not_hold_are_an_error(info: Any, says: str) -> None:
    with pytest.raises(DtypeError, match=rf"{STEP}\('info', {says}"):
        told(info=info).rollout(1)


@pytest.mark.parametrize("flag", [True, 1, 1.0, np.int8(1), np.bool_(1), np.array([1]), torch.tensor(True)], ids=repr)
def test_flags_are_0_or_1(flag: Any) -> None:
    data = told(info={"flag": flag}, whose=("a_1",)).rollout(1)
    assert data["next", "a", "info", "flag"].flatten().tolist() == [False, True]


@pytest.mark.parametrize("what", ["complex", "texts", "nothing", "dates", "hidden"])
def test_observations_of_pettingzoo_that_are_no_real_numbers_are_an_error(what: str) -> None:
    class Odd(Quiet):
        def step(self, actions: dict[str, Any]) -> Any:
            observations, *rest = super().step(actions)
            two: Any = NO_NUMBERS[what]
            observations["wolf_1"] = np.ma.concatenate([two, two]) if what == "hidden" else two.repeat(2)
            return observations, *rest

    says = r"^PettingZooWrapper\.step \(number 1 .*\): entry 'observation' of agent 'wolf_1': expected numbers, got "
    with pytest.raises(DtypeError, match=says):
        PettingZooWrapper(Odd()).rollout(2)


def test_a_wrong_shape_is_still_one() -> None:
    with pytest.raises(ShapeError, match=rf"{STEP}'observation' of agent 'a_0' must have shape \[2\], got \[3\]"):
        told(seen=np.zeros(3)).rollout(1)


# --- entries that the wrapper writes itself ----------------------------------------------------


def owning(name: str, base: Any = ParallelSimEnv, **more: Any) -> Any:
    """A class of wrapper whose second agent observes an entry of this name."""

    def agent_specs(self: Any) -> dict[str, AgentSpecs]:
        seen = Composite(observation=Unbounded((2,)))
        own = AgentSpecs(Composite({**dict(seen.items()), name: Unbounded((2,))}), Categorical(3), **more)
        return {"a_0": AgentSpecs(seen, Categorical(3)), "a_1": own}

    def build(self: Any) -> Any:
        return object()

    hooks = dict.fromkeys(("sim_reset", "sim_step", "_set_seed"), lambda self, *args: None)
    return type("Own", (base,), {**hooks, "agent_specs": agent_specs, "_build_env": build, "rows_are_chosen": True})


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("alive", {}),
        ("mask", {}),
        ("pad_mask", {}),
        ("info", {"info": Composite(x=Unbounded(()))}),
        ("action_mask", {"actions": 3}),
    ],
)
def test_an_observation_called_like_an_entry_of_the_wrapper_is_an_error(name: str, more: Any) -> None:
    says = rf"^Own\.agent_specs: agent 'a_1' observes '{name}', an entry that the wrapper writes itself; call it "
    with pytest.raises(KeyCollision, match=says):
        owning(name, **more)()
    batched = owning(name, BatchedAgentsEnv, **more)
    batched.agents_end = True
    with pytest.raises(KeyCollision, match=says):
        batched(batch_size=[2])


def test_what_the_wrapper_does_not_write_may_be_observed() -> None:
    for name in ("info", "action_mask"):
        env = owning(name)(unequal="pad")
        assert env.observation_spec["a", name].shape == (2, 2)
    env = owning("mask")(unequal="pad", use_mask=False)
    assert env.observation_spec["a", "mask"].shape == (2, 2)
    assert owning("alive", BatchedAgentsEnv)(batch_size=[2]).observation_spec is not None
