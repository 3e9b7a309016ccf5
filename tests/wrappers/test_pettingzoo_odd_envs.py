"""PettingZoo's envs that tell odd infos, or are written for another version of its interface: an error that says what
is wrong, and whose.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from test_pettingzoo_side_by_side import Quiet
from zoo_turn_game import TurnGame

from marlenv import Binary, PettingZooWrapper, SerialEnv
from marlenv.errors import GroupError, SpecError, SpecTypeError

EACH = "a dict by agent each"
RESET = rf"^PettingZooWrapper: Odd\.reset must return \(observations, infos\), {EACH}, got "
ANSWER = rf"^PettingZooWrapper: Odd\.step must return \(observations, .*, infos\), {EACH}, got "


class Telling(Quiet):
    """Tells the same to everybody in every info, and something else from the first step on."""

    at_first: Any = {}
    later: Any = {}

    def _infos(self, agents: list[str]) -> Any:
        return dict.fromkeys(agents, self.later if self.t else self.at_first)


def telling(at_first: Any, later: Any, **options: Any) -> PettingZooWrapper:
    return PettingZooWrapper(type("Odd", (Telling,), {"at_first": at_first, "later": later})(), **options)


def odd(base: Any = Quiet, **hooks: Any) -> Any:
    return type("Odd", (base,), hooks)()


@pytest.mark.parametrize(
    ("value", "then", "dtype"),
    [
        (np.longdouble(1), np.longdouble(2.5), torch.float64),
        (np.array(1, ">f8"), np.array(2.5, ">f8"), torch.float64),
        (np.array(1, ">i4"), np.array(2, ">i4"), torch.int32),
        (torch.tensor(1.0, requires_grad=True), torch.tensor(2.5, requires_grad=True), torch.float32),
        (Fraction(1), Fraction(5, 2), torch.float64),
        (Decimal(1), Decimal("2.5"), torch.float64),
    ],
    ids=str,
)
def test_numbers_of_any_kind_may_stand_in_infos(value: Any, then: Any, dtype: torch.dtype) -> None:
    data = telling({"x": value}, {"x": then}).rollout(2)
    seen = data["next", "wolf", "info", "x"]
    assert seen.dtype == dtype
    assert seen.detach().flatten().tolist() == [then.item() if hasattr(then, "item") else float(then)] * 4
    assert data["wolf", "info", "x"][0].detach().flatten().tolist() == [1, 1]


def test_infos_with_names_that_no_entry_can_have_are_left_out() -> None:
    info = {3: 1.0, ("a", "b"): 2.0, "batch_size": 3.0, "shape": 4.0, "device": 5, "a.b": 6.0, "text": "x", "c": 1j}
    data = telling(info, info).rollout(2)
    assert {*data["wolf", "info"].keys()} == {"a.b"}
    assert data["next", "wolf", "info", "a.b"].flatten().tolist() == [6.0] * 4


def test_agents_may_have_no_infos() -> None:
    for infos in ({}, dict.fromkeys(["wolf_0", "wolf_1", "sheep_0"])):
        sim = odd(_infos=lambda self, agents: infos)  # noqa: B023
        assert "info" not in PettingZooWrapper(sim).rollout(2)["wolf"].keys()
    with pytest.raises(
        SpecTypeError, match="^PettingZooWrapper: the info of agent 'wolf_0' must be a dict, got str 'x'"
    ):
        telling("x", None)


@pytest.mark.parametrize("told", [{}, {"energy": 1.0}], ids=["stepped at once", "agent by agent"])
def test_a_mask_that_comes_late_says_how_to_declare_it(told: dict[str, float]) -> None:
    class Pair(Telling):
        at_first, later = {"action_mask": None, **told}, {"action_mask": np.array([1, 0, 0]), **told}

        def __init__(self) -> None:
            super().__init__()
            self.possible_agents = ["wolf_0", "wolf_1"]

    says = r"^PettingZooWrapper\.step \(number 1 .*\): agent 'wolf_0' got an action_mask, .*; declare its length, "
    for rows in (None, 2):
        env = SerialEnv(rows, lambda: PettingZooWrapper(Pair())) if rows else PettingZooWrapper(Pair())
        with pytest.raises(
            SpecError, match=says + r"info_specs=\{'action_mask': Binary\(3\)\}, before the first reset"
        ):
            env.rollout(2)
    data = PettingZooWrapper(Pair(), info_specs={"action_mask": Binary(3)}).rollout(2)
    assert data["wolf", "action_mask"].tolist() == [[[True] * 3] * 2, [[True, False, False]] * 2]
    assert data["wolf", "action"][1].tolist() == [0, 0]  # the only legal one
    assert ("info" in data["wolf"].keys()) == bool(told)


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (lambda seen, infos: seen, "dict {"),
        (lambda seen, infos: None, r"None; does it end with a return\?"),
        (lambda seen, infos: (seen, None), r"\(dict, NoneType\)"),
        (lambda seen, infos: (seen, infos, {}), r"\(dict, dict, dict\)"),
    ],
)
def test_a_reset_of_another_form_is_an_error(answer: Any, got: str) -> None:
    sim = odd(reset=lambda self, seed=None, options=None: answer(*Quiet.reset(self, seed)))
    with pytest.raises(SpecTypeError, match=RESET + got):
        PettingZooWrapper(sim)
    env = PettingZooWrapper(later := odd())
    later.reset = lambda seed=None: answer(*Quiet.reset(later, seed))
    with pytest.raises(SpecTypeError, match=RESET + got):
        env.reset()


@pytest.mark.parametrize("wrapper", [PettingZooWrapper, type("PettingZooWrapper", (PettingZooWrapper,), {})])
@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (lambda *five: five[:4], r"\(dict, dict, dict, dict\)"),
        (lambda *five: (*five[:4], None), r"\(dict, dict, dict, dict, NoneType\)"),
        (lambda *five: five[0], "dict {"),
        (lambda *five: None, r"None; does it end with a return\?"),
    ],
)
def test_a_step_of_another_form_is_an_error(wrapper: Any, answer: Any, got: str) -> None:
    env = wrapper(odd(step=lambda self, actions: answer(*Quiet.step(self, actions))))
    with pytest.raises(SpecTypeError, match=ANSWER + got):
        env.rollout(2)


def test_a_step_may_answer_with_a_list() -> None:
    env = PettingZooWrapper(odd(step=lambda self, actions: [*Quiet.step(self, actions)]))
    assert len(env.rollout(3)) == 3


def _no_seed(self: Any) -> Any:
    return Quiet.reset(self)


def _no_possible_agents(self: Any) -> None:
    Quiet.__init__(self)
    self.agents = self.__dict__.pop("possible_agents")


def _numbered(self: Any) -> None:
    Quiet.__init__(self)
    self.possible_agents = [0, 1]


def _twice(self: Any) -> None:
    Quiet.__init__(self)
    self.possible_agents = ["wolf_0", "sheep_0", "wolf_0"]


@pytest.mark.parametrize(
    ("hooks", "error", "says"),
    [
        (
            {"reset": _no_seed},
            SpecError,
            r"Odd\.reset takes no seed; PettingZoo's is reset\(seed=",
        ),
        ({"__init__": _no_possible_agents}, SpecError, "Odd has no possible_agents; set them to all agents"),
        ({"__init__": _numbered}, GroupError, "possible_agents of Odd must be strings, got 0; call it 'agent_0', say$"),
        ({"__init__": _twice}, GroupError, "possible_agents of Odd has 'wolf_0' twice"),
        (
            {"observation_space": lambda self, agent: spaces.Sequence(spaces.Discrete(3))},
            SpecError,
            "observation of agent 'wolf_0': spec_of: no conversion for a space of type Sequence",
        ),
        (
            {"action_space": lambda self, agent: spaces.Sequence(spaces.Discrete(3))},
            SpecError,
            "action of agent 'wolf_0': spec_of: no conversion for a space of type Sequence",
        ),
    ],
)
def test_what_an_env_lacks_is_said_when_it_is_wrapped(hooks: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=f"^PettingZooWrapper: {says}"):
        PettingZooWrapper(odd(**hooks))


def test_infos_of_a_turn_based_env_that_are_no_dict_are_an_error() -> None:
    class Odd(TurnGame):
        def reset(self, seed: int | None = None, options: Any = None) -> None:
            super().reset(seed, options)
            self.infos = None

    with pytest.raises(SpecTypeError, match=r"^PettingZooWrapper: infos of Odd must be a dict by agent, got None"):
        PettingZooWrapper(Odd())


def test_options_of_a_reset_are_a_dict() -> None:
    env = PettingZooWrapper(Quiet())
    with pytest.raises(SpecTypeError, match=r"^PettingZooWrapper\.reset: options must be a dict, got int 5"):
        env.reset(options=5)
    assert not bool(env.reset(options={"level": 1})["done"])


def test_a_reset_that_takes_anything_takes_a_seed() -> None:
    env = PettingZooWrapper(odd(reset=lambda self, **told: Quiet.reset(self, told.get("seed"))), seed=3)
    twin = PettingZooWrapper(Quiet(), seed=3)
    assert torch.equal(env.reset()["wolf", "observation"], twin.reset()["wolf", "observation"])


def test_an_observation_that_is_a_dict_in_a_space_that_is_none_says_how_to_declare_it() -> None:
    """As in PettingZoo's tutorial of a custom environment."""

    class Masking(Quiet):
        def reset(self, seed: Any = None, options: Any = None) -> Any:
            seen, infos = super().reset(seed, options)
            return {agent: {"observation": x, "action_mask": np.ones(4, np.int8)} for agent, x in seen.items()}, infos

    env = PettingZooWrapper(odd(Masking))
    says = r"is a dict of \['action_mask', 'observation'\], and its observation_space is none; .*MultiBinary\(4\)\)$"
    with pytest.raises(SpecError, match=says):
        env.reset()


def test_rewards_with_a_number_for_each_aim_are_kept() -> None:
    """As MOMAland's envs pay them, which have a reward_space."""

    class Aiming(Quiet):
        def reward_space(self, agent: str) -> spaces.Box:
            return spaces.Box(-1.0, 1.0, (2,))

        def step(self, actions: Any) -> Any:
            seen, rewards, *rest = super().step(actions)
            return seen, {agent: np.array([self.t, -0.5]) for agent in rewards}, *rest

    data = PettingZooWrapper(odd(Aiming), group_map={"all": odd(Aiming).possible_agents}).rollout(2)
    each = torch.tensor([[1.0, -0.5], [2.0, -0.5]]).unsqueeze(1)
    assert torch.equal(data["next", "all", "reward"], each.expand_as(data["next", "all", "reward"]))
