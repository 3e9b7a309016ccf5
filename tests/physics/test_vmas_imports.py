"""Scenario files are executed as Python executes them: their encodings, dataclasses and imports."""

import os
import subprocess
import sys

import pytest
import torch
from compat import FILES, in_vmas

from marlenv.physics.vmas_compat import load

FILE = """
import torch
from vmas.simulator.core import Agent, World
from vmas.simulator.scenario import BaseScenario
{above}

class Scenario(BaseScenario):
    \"\"\"{words}\"\"\"

    def make_world(self, batch_dim, device, **kwargs):
        world = World(batch_dim, device)
        for i in range({count}):
            world.add_agent(Agent(f"agent_{{i}}"))
        return world

    def reset_world_at(self, env_index=None): ...

    def observation(self, agent):
        return agent.state.pos

    def reward(self, agent):
        return agent.state.pos[:, 0]
"""
OPTIONS = """
from dataclasses import dataclass, fields
from typing import ClassVar

@dataclass
class Options:
    n_agents: int = 3
    most: ClassVar[int] = 5
"""


def text(above="", count="3", words="Still."):
    return FILE.format(above=above, count=count, words=words)


def agents_of(path):
    return load(path, 2, seed=0, compile="none").rollout(2)["next", "agents", "observation"].shape[2]


@pytest.mark.parametrize("first", ["", "from __future__ import annotations\n"])
@pytest.mark.parametrize("beside", [False, True])
def test_files_may_have_dataclasses(first, beside, tmp_path):
    path, modules = tmp_path / "mine.py", set(sys.modules)
    (tmp_path / "my_options.py").write_text(f"{first}import vmas\n{OPTIONS}")
    above = "from my_options import Options, fields" if beside else OPTIONS
    path.write_text(first + text(above, "Options().n_agents + len(fields(Options)) - 1"))
    assert agents_of(path) == 3
    assert not [name for name in set(sys.modules) - modules if "mine" in name or "my_options" in name]


def test_annotations_of_a_file_are_values(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(text("def some(x: 1 + 2): ...", "some.__annotations__['x']"))
    assert agents_of(path) == 3


WAYS = {
    "utf-8": text(words="Größe: 3 m²").encode(),
    "utf-8 with a mark": b"\xef\xbb\xbf" + text(words="Größe").encode(),
    "latin-1": b"# -*- coding: latin-1 -*-\n" + text(count="len('äöü')").encode("latin-1"),
}


@pytest.mark.parametrize("way", WAYS)
def test_files_are_read_as_python_reads_them(way, tmp_path):
    path = tmp_path / "mine.py"
    path.write_bytes(WAYS[way])
    assert agents_of(path) == 3


@pytest.mark.slow
def test_files_are_read_in_the_same_way_under_any_locale(tmp_path):
    path = tmp_path / "mine.py"
    path.write_bytes(WAYS["utf-8"])
    (tmp_path / "helper.py").write_text("# äöü\nimport vmas\n", encoding="utf-8")
    path.write_bytes(path.read_bytes() + b"import helper\n")
    code = f"from marlenv.physics.vmas_compat import load; print(load({str(path)!r}).rollout(2).shape)"
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-P", "-c", code], env={**os.environ, **plain}, check=True)


SUB = """
import torch
{how}

class Scenario({base}):
    def make_world(self, batch_dim, device, **kwargs):
        return super().make_world(batch_dim, device, **kwargs)

    def reward(self, agent):
        return super().reward(agent) - 0.1 * torch.linalg.vector_norm(agent.action.u, dim=-1)
"""
HOW = {
    "from vmas.scenarios.navigation import Scenario as Nav": "Nav",
    "from vmas.scenarios import navigation": "navigation.Scenario",
    "from vmas.scenarios.mpe.simple import Scenario as Simple": "Simple",
}


@pytest.mark.parametrize("how", HOW)
def test_scenarios_of_vmas_can_be_extended(how, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SUB.format(how=how, base=HOW[how]))
    theirs = in_vmas(path, 4, 3)
    ours = load(path, 4, seed=3, randomness="vmas", compile="none")
    theirs.seed(3)
    theirs.reset()
    ours.environment.reset()
    coin = torch.Generator().manual_seed(0)
    for _ in range(5):
        actions = [torch.rand(4, 2, generator=coin) * 2 - 1 for _ in theirs.agents]
        seen, rewards, _, _ = theirs.step([x.clone() for x in actions])
        told = ours.environment.step([torch.stack(actions, 1)])
        for one, other in zip([*told.observations, *told.rewards], [*seen, *rewards], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_what_a_scenario_of_vmas_draws_is_watched(tmp_path):
    path = tmp_path / "mine.py"
    for how, base in HOW.items():
        path.write_text(SUB.format(how=how, base=base))
        assert not load(path, 1).environment.quiet


def test_without_vmas_an_import_of_its_scenarios_says_what_to_do(tmp_path, monkeypatch):
    path = tmp_path / "mine.py"
    path.write_text(SUB.format(how="from vmas.scenarios.navigation import Scenario as Nav", base="Nav"))
    monkeypatch.setitem(sys.modules, "vmas", None)
    with pytest.raises(ImportError, match=r"^vmas.scenarios.navigation: .* copy .* beside yours, .* 'from navigation"):
        load(path)
    (tmp_path / "navigation.py").write_bytes(FILES["navigation"].read_bytes())
    path.write_text(SUB.format(how="from navigation import Scenario as Nav", base="Nav"))
    assert load(path, 2).rollout(2).shape == (2, 2)


def test_a_scenario_that_vmas_has_not_is_named(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SUB.format(how="from vmas.scenarios.navigatio import Scenario as Nav", base="Nav"))
    with pytest.raises(ImportError, match="marlenv knows no module 'navigatio' of vmas"):
        load(path)
