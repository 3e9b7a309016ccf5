"""Melting Pot's substrates on the real game engine, compared entry by entry with what the engine said.

No run of Melting Pot can be repeated, so the raw substrate is not played beside the wrapper: it is listened to.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import marlenv
from marlenv.errors import IllegalAction, NeedsReset, SpecError, UnknownName, Unsupported
from marlenv.optional import has
from marlenv.testing import run_contract
from marlenv.wrappers.meltingpot import MeltingpotEnv, MeltingpotWrapper

pytestmark = [
    pytest.mark.sim,
    pytest.mark.slow,
    pytest.mark.usefixtures("tensorflow_names"),
    pytest.mark.skipif(not has("meltingpot"), reason="needs Melting Pot: VENV=.venv tests/simulators.sh meltingpot"),
]

THREE = ["commons_harvest__open", "collaborative_cooking__ring", "predator_prey__alley_hunt"]


def substrates() -> list[str]:
    """The names of all substrates, read off the source: nothing is imported to collect tests."""
    if not has("meltingpot"):
        return []
    folder = Path(find_spec("meltingpot").submodule_search_locations[0])
    source = (folder / "configs" / "substrates" / "__init__.py").read_text()
    return sorted(re.findall(r"^    '(\w+)',$", source, re.MULTILINE))


class Heard:
    """A substrate that notes down what it was told and what it said."""

    def __init__(self, sim: Any) -> None:
        self.sim = sim

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sim, name)

    def reset(self) -> Any:
        self.told, self.said = None, self.sim.reset()
        return self.said

    def step(self, actions: Any) -> Any:
        self.told, self.said = list(actions), self.sim.step(actions)
        return self.said


def heard(substrate: Any, **options: Any) -> tuple[MeltingpotWrapper, Heard]:
    sim = Heard(substrate)
    return MeltingpotWrapper(sim, **options), sim


def check(env: MeltingpotWrapper, sim: Heard, td: Any, cut: bool) -> None:
    said = sim.said
    for i, agent in enumerate(env.agent_names):
        path, row = env.tree.place[agent]
        group = td.get(path if len(path) > 1 else path[0])
        for name, value in said.observation[i].items():
            if not name.startswith("WORLD."):
                got = group[row]["observation", name].numpy()
                assert np.array_equal(got, np.asarray(value).reshape(got.shape)), (agent, name)
        if sim.told is not None:
            assert float(group["reward"][row]) == float(said.reward[i]), agent
            assert group["reward"].dtype == torch.float64
        over = said.last() or cut
        flags = [bool(group[name][row]) for name in ("terminated", "truncated", "done", "alive", "mask")]
        assert flags == [said.last(), cut and not said.last(), over, not over, not over], agent
    assert np.array_equal(td["RGB"].numpy(), said.observation[0]["WORLD.RGB"])
    assert bool(td["done"]) == (said.last() or cut)


def follow(substrate: Any, steps: int, **options: Any) -> None:
    env, sim = heard(substrate, **options)
    td = env.reset()
    check(env, sim, td, False)
    for i in range(steps):
        td = env.step(env.rand_action(td))
        actions = [td.get(env.tree.place[a][0])["action"][env.tree.place[a][1]] for a in env.agent_names]
        one_hot = not env.categorical_actions
        assert sim.told == [int(a.int().argmax() if one_hot else a) for a in actions]
        check(env, sim, td["next"], env.max_steps is not None and i + 1 >= env.max_steps)
        td = env.step_mdp(td)
        if bool(td["done"]):
            break
    env.close()


@pytest.mark.parametrize("name", THREE)
def test_every_number_is_the_substrates(name: str) -> None:
    follow(MeltingpotEnv(name)._env, 10, max_steps=9)


SHOWN = [*{name.split("__")[0]: name for name in substrates() if "chemistry" not in name}.values()][::2]  # of families


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHOWN else pytest.mark.full) for name in substrates()]
)
def test_every_substrate_resets_and_steps_in_any_groups(name: str) -> None:
    rng, plain = np.random.default_rng(len(name)), MeltingpotEnv(name)  # made once: chemistry takes half a minute
    names = [f"player_{i}" for i in rng.permutation(len(plain.agent_names))]
    groups = {"first": names[:1], "rest": {"of_them": names[1:]}}
    follow(plain._env, 3, group_map=groups if len(names) > 1 else None, categorical_actions=bool(rng.integers(2)))


def test_there_are_49_substrates() -> None:
    assert len(substrates()) == 49
    assert substrates() == MeltingpotEnv.available_envs


def test_the_contract_holds() -> None:
    exempt = {
        "making_and_seeding_move_no_global_generator": "Melting Pot draws from Python's generator when it is made"
    }
    found = list(run_contract(lambda: MeltingpotEnv("collaborative_cooking__ring", max_steps=5), exempt))
    broken = [f"{r.name}: {r.says}" for r in found if r.verdict == "broken"]
    assert not broken, "\n".join(broken)


def test_roles_are_chosen() -> None:
    env = MeltingpotEnv("predator_prey__alley_hunt", roles=["predator", "prey", "prey"])
    assert env.group_map == {"agents": ["player_0", "player_1", "player_2"]}
    assert env.rollout(2)["next", "agents", "reward"].shape == (2, 3, 1)
    with pytest.raises(SpecError, match=r"roles \['wolf'\] make no sense; this substrate has \['predator', 'prey'\]"):
        MeltingpotEnv("predator_prey__alley_hunt", roles=["wolf"])


def test_a_time_limit_truncates_and_the_world_is_at_the_root() -> None:
    env = marlenv.make("meltingpot/collaborative_cooking__ring", max_steps=3)
    data = env.rollout(9)
    assert data["next", "truncated"].flatten().tolist() == [False, False, True]
    assert not data["next", "terminated"].any()
    assert torch.equal(env.get_rgb_image(), data["next", "RGB"][-1])


def seven_frames() -> Any:
    """The config of a substrate whose settings allow seven frames; 1000 are usual."""
    config = marlenv.optional.need("meltingpot.substrate", "a test").get_config("collaborative_cooking__ring")
    settings = config.lab2d_settings_builder
    with config.unlocked():
        config.lab2d_settings_builder = lambda **told: {**settings(**told), "maxEpisodeLengthFrames": 7}
    return config


@pytest.mark.parametrize(("frame_skip", "steps"), [(1, 7), (2, 4)])
def test_the_substrates_own_time_limit_truncates(frame_skip: int, steps: int) -> None:
    env = MeltingpotEnv(seven_frames(), frame_skip=frame_skip)
    for _ in range(2):
        data = env.rollout(20)["next"]
        assert data["truncated"].flatten().tolist() == [False] * (steps - 1) + [True]
        assert data["agents", "truncated"][-1].all()
        assert not data["terminated"].any()


def test_the_time_limit_is_the_one_of_the_settings() -> None:
    assert MeltingpotEnv("collaborative_cooking__ring").max_frames == 1000
    sim = MeltingpotEnv(seven_frames())._env
    for told, ends in ((7, "truncated"), (9, "terminated"), (None, "terminated")):  # an end before the last frame
        data = MeltingpotWrapper(sim, max_frames=told).rollout(20)["next"]
        assert len(data) == 7
        assert [bool(data[name][-1]) for name in ("terminated", "truncated")] == [
            ends == name for name in ("terminated", "truncated")
        ]


@pytest.mark.parametrize("number", [-1, 8, 99])
def test_numbers_of_no_action_are_refused(number: int) -> None:
    env = MeltingpotEnv("collaborative_cooking__ring")
    td = env.reset()
    td["agents", "action"] = torch.tensor([0, number])
    with pytest.raises(IllegalAction, match=rf"actions of agent 'player_1' are .* from 0 to below 8, got {number}$"):
        env.step(td)


def test_there_is_no_picture_before_a_reset() -> None:
    with pytest.raises(NeedsReset, match=r"^MeltingpotEnv\.get_rgb_image: the env was not reset"):
        MeltingpotEnv("collaborative_cooking__ring").get_rgb_image()


def test_nobody_is_promised_a_seed() -> None:
    with pytest.raises(Unsupported, match="Melting Pot cannot be seeded; two runs with the same seed differ"):
        MeltingpotEnv("collaborative_cooking__ring").set_seed(0)


def test_bad_input_is_named() -> None:
    with pytest.raises(
        UnknownName, match="no substrate is called 'commons_harvest__opn'; did you mean 'commons_harvest__open'"
    ):
        MeltingpotEnv("commons_harvest__opn")
    with pytest.raises(SpecError, match="max_frames must be an integer from 1 on, got 0"):
        MeltingpotWrapper(3, max_frames=0)
    with pytest.raises(SpecError, match="expected a substrate of Melting Pot, got int"):
        MeltingpotWrapper(3)
