"""What TorchRL's wrappers say of their simulator, ours say too: on the class, on instances, with the same values."""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any

import pytest
from torchrl_oracle import envs

import marlenv

CASES = {
    "vmas, alike": ("VmasEnv", ("balance",), {"num_envs": 2, "n_agents": 3}),
    "vmas, two groups": ("VmasEnv", ("simple_tag",), {"num_envs": 2}),
    "vmas, unequal": (
        "VmasEnv",
        ("simple_tag",),
        {"num_envs": 2, "group_map": marlenv.MarlGroupMapType.ALL_IN_ONE_GROUP},
    ),
    "vmas, unequal in observations": ("VmasEnv", ("simple_speaker_listener",), {"num_envs": 2}),
    "pettingzoo, parallel": ("PettingZooEnv", ("knights_archers_zombies_v11",), {"parallel": True, "seed": 3}),
    "open_spiel, in turn": ("OpenSpielEnv", ("kuhn_poker",), {}),
    "open_spiel, at once": ("OpenSpielEnv", ("goofspiel(num_cards=3)",), {}),
}
ASKED = (
    "agent_names",
    "agent_names_to_indices_map",
    "het_specs",
    "het_specs_map",
    "has_action_mask",
    "parallel",
    "seed",
)
ASKED += ("has_observation", "has_information_state", "scenario_name", "task_name", "game_string")
ASKED += ("categorical_actions", "return_state", "done_on_any", "libname", "git_url", "group_map", "max_steps")


def theirs_of(name: str, args: Any, options: dict[str, Any]) -> Any:
    options = dict(options)
    if "group_map" in options:
        options["group_map"] = envs.MarlGroupMapType[options["group_map"].name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(envs, name)(*args, **options)


@pytest.mark.reference
@pytest.mark.parametrize(("name", "args", "options"), CASES.values(), ids=CASES)
def test_attributes_have_the_same_values(name: str, args: Any, options: dict[str, Any]) -> None:
    theirs, ours = theirs_of(name, args, options), getattr(marlenv, name)(*args, **options)
    theirs.reset(), ours.reset()
    compared = 0
    for asked in ASKED:
        mine = vars(type(theirs)).get(asked) is not None or asked in vars(theirs)
        if not mine or asked in ("libname", "git_url"):
            continue
        expected, got = getattr(theirs, asked), getattr(ours, asked)
        if asked == "agent_names" and name == "PettingZooEnv":
            expected, got = sorted(expected), sorted(got)
        assert got == expected, (asked, got, expected)
        compared += 1
    assert compared >= 3
    assert ours.lib is theirs.lib is type(ours).lib


@pytest.mark.reference
@pytest.mark.parametrize(("name", "args", "options"), CASES.values(), ids=CASES)
def test_members_of_the_simulator_are_reached_through_the_env(name: str, args: Any, options: dict[str, Any]) -> None:
    theirs, ours = theirs_of(name, args, options), getattr(marlenv, name)(*args, **options)
    theirs.reset(), ours.reset()
    names = [member for member in dir(theirs._env) if not member.startswith("_") and hasattr(theirs, member)]
    assert len(names) >= 10
    kinds = {member: callable(getattr(theirs, member)) for member in names}
    assert {member: callable(getattr(ours, member, None)) for member in names if hasattr(ours, member)} == kinds


@pytest.mark.parametrize("name", ["VmasEnv", "PettingZooEnv", "OpenSpielEnv"])
@pytest.mark.parametrize("kind", ["Env", "Wrapper"])
def test_the_tasks_are_a_list_on_the_class_and_on_an_env(name: str, kind: str) -> None:
    _, args, options = next(case for case in CASES.values() if case[0] == name)
    env, cls = getattr(marlenv, name)(*args, **options), getattr(marlenv, name.replace("Env", kind))
    assert isinstance(cls.available_envs, list)
    assert env.available_envs == cls.available_envs
    assert set(getattr(envs, name).available_envs) <= set(cls.available_envs)


def test_a_simulator_that_is_not_there_has_no_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    assert marlenv.OpenSpielEnv.available_envs == []
    with pytest.raises(marlenv.errors.MissingExtra, match=r"OpenSpielEnv needs 'pyspiel'.*marlenv-torch\[open_spiel\]"):
        marlenv.OpenSpielEnv.lib  # noqa: B018


def test_rows_of_vmas_may_be_said_twice_but_not_otherwise() -> None:
    assert marlenv.VmasEnv("balance", num_envs=3, batch_size=[3]).batch_size == (3,)
    for wrong in ([4], [3, 1]):
        says = re.escape(f"VmasEnv: batch_size must be [num_envs], got {wrong} for an env with num_envs=3; leave")
        with pytest.raises(TypeError, match=says):
            marlenv.VmasEnv("balance", num_envs=3, batch_size=wrong)
        with pytest.raises(TypeError):
            envs.VmasEnv("balance", num_envs=3, batch_size=wrong)


def test_melting_pot_and_starcraft_have_the_names_too() -> None:
    for cls in (marlenv.MeltingpotWrapper, marlenv.SMACv2Wrapper):
        assert isinstance(cls.available_envs, list)
        assert hasattr(cls, "agent_names_to_indices_map")
