"""Scenario files of VMAS, unmodified, on our engine: equal to VMAS; rows, random numbers, imports and errors."""

import importlib
import random
import sys
from functools import partial
from pathlib import Path

import compat
import numpy as np
import pytest
import torch
from compat import FILES, Beside
from sizes import some

from marlenv.errors import NotInSpec, ShapeError, SpecError, UnknownName
from marlenv.physics import vmas_compat
from marlenv.physics.jit.tiers import Compiled
from marlenv.physics.vmas_compat.loader import draws_nothing
from marlenv.testing import run_contract

load = partial(vmas_compat.load, compile="none")
MINE = {p.stem: p for p in sorted((Path(__file__).parent / "vmas_files").glob("*.py")) if p.stem != "formation_shapes"}
"""Files as users of VMAS write them."""
SOME = ["balance", "football", "navigation", "simple_spread", "simple_world_comm"]
LONG = {"pollock": 12, "road_traffic": 6, "sampling": 15}
"""Steps of what is slow in VMAS."""
STIFF = {"delivery": 9, "joint_passage": 9}
"""Joints in ten substeps: one unit in the last place of positions moves their speeds by 5e-4 and 2.4e-4 in VMAS itself,
and processors round differently; a fifth and half of that is allowed.
"""
CHASE = MINE["chase"]
PLACED = compat.core.Entity._set_state_property


def placed_in_its_row(self, prop, state, new, batch_index):
    """VMAS's ``set_pos`` and ``set_rot`` without what they do to joints of rows in which nothing is placed."""
    joints = [] if batch_index is None else self._observers
    owners = [(joint.landmark.state, name) for joint in joints for name in ("pos", "rot")]
    owners += [(one, "fixed_rotation") for joint in joints for one in joint.joint_constraints]
    before = [torch.as_tensor(getattr(*owner)).clone() for owner in owners]
    PLACED(self, prop, state, new, batch_index)
    for owner, old in zip(owners, before, strict=True):
        if old.ndim:
            old[batch_index] = getattr(*owner)[batch_index]
            setattr(*owner, old)


@pytest.fixture(autouse=True)
def rows_on_their_own(monkeypatch):
    """VMAS looks at the whole batch before it pushes, and places the bars of joints in all rows: without that."""
    monkeypatch.setattr(compat.core.World, "collides", compat.without_gate)
    monkeypatch.setattr(compat.core.Entity, "_set_state_property", placed_in_its_row)


def equal(path, folder, steps=30, **options):
    both = Beside(path, folder, **options)
    errors = both.run(steps)
    assert set(errors) >= {"observation", "reward", "done", "pos"}


def test_all_41_files_are_there():
    assert len(FILES) == 41
    assert len(MINE) == 10


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
def test_a_file_of_vmas_is_equal(name, tmp_path):
    equal(FILES[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_file_of_vmas_is_equal(name, tmp_path):
    equal(FILES[name], tmp_path, LONG.get(name, 60), rows=24, seed=11, stiff=STIFF.get(name, 0))


@pytest.mark.parametrize("name", MINE)
def test_a_file_of_a_user_is_equal(name, tmp_path):
    equal(MINE[name], tmp_path, 22 if name != "cars" else 12, stiff=STIFF.get(name, 0))


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", ["pilots", "chatter"])
def test_choices_are_equal(name, several, tmp_path):
    equal(MINE[name], tmp_path, mode={"continuous_actions": False, "multidiscrete_actions": several})


def is_machine_code(env):
    return [isinstance(engine, Compiled) for engine, _ in env.world._fast._engines.values()]


@pytest.mark.slow
def test_machine_code_is_equal(tmp_path):
    both = Beside(FILES["balance"], tmp_path, tier="aot", stiff=3)  # rewards are differences of numbers above 100,
    both.run(20)  # of which a last bit is 1.5e-5
    assert is_machine_code(both.ours) == [True] * 3  # the motion, and two distances
    assert both.ours.environment._compiled_results is not None  # and what it says


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", some(("navigation", "flocking", "wind_flocking", "lidar_maze", "delivery", "herd", "swing"), 2)
)
def test_machine_code_of_every_kind_is_equal(name, tmp_path):
    tense = {"delivery": 9}  # joints that pull hard make more of last bits
    both = Beside({**FILES, **MINE}[name], tmp_path, tier="aot", stiff=tense.get(name, 0))
    both.run(30)
    assert is_machine_code(both.ours)
    assert all(is_machine_code(both.ours))


@pytest.mark.slow
def test_machine_code_is_made_anew_for_other_masses(tmp_path):
    both = Beside(FILES["het_mass"], tmp_path, tier="aot")
    both.run(40, restarts=range(4, 40, 5))
    assert is_machine_code(both.ours) == [True] * 4  # no more than a user waits for


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chase", "formation", "chatter"])
def test_the_contract_holds(name):
    def make(num_envs=3, seed=0):
        return load(MINE[name], num_envs, seed=seed)

    broken = [str(result) for result in run_contract(make, steps=16) if result.verdict not in ("held", "skipped")]
    assert not broken


def test_a_wrong_number_is_seen(tmp_path, monkeypatch):
    both = Beside(CHASE, tmp_path)
    observation = both.ours.scenario.observation
    monkeypatch.setattr(both.ours.scenario, "observation", lambda agent: observation(agent) + 2e-4)
    with pytest.raises(AssertionError, match="observation"):
        both.run(2)


def test_the_env_says_what_the_file_says(tmp_path):
    env = load(CHASE, num_envs=5, seed=0, max_steps=4, n_agents=2)
    data = env.rollout(6, break_when_any_done=False)
    assert env.group_map == {"agents": ["agent_0", "agent_1"]}
    assert data["agents", "observation"].shape == (5, 6, 2, 8)
    assert data["next", "agents", "info", "speed"].shape == (5, 6, 2, 1)
    assert data["next", "truncated"][:, 3].all()
    env.check_env_specs()


def test_what_agents_observe_may_differ_and_be_nested():
    env = load(MINE["formation"], num_envs=3, seed=0)
    assert set(env.group_map) == {"big", "small"}
    assert env.rollout(2)["next", "big", "observation"].shape == (3, 2, 2, 6)
    nested = load(MINE["lidar_maze"], num_envs=3, seed=0).rollout(2)
    assert nested["agents", "observation", "walls"].shape == (3, 2, 2, 10)
    apart = load(MINE["chatter"], num_envs=3, seed=0)
    assert [part["observation"].shape[-1] for part in apart.reset()["agents"].unbind(1)] == [3, 14, 11]


def global_states():
    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()


def observed(data):
    return [data[key].clone() for key in data.keys(True, True) if "observation" in key]


@pytest.mark.parametrize("randomness", ["rows", "vmas"])
@pytest.mark.parametrize("name", ["chase", "pilots", "herd", "energy"])
def test_no_global_generator_is_read_or_moved(name, randomness):
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        before = global_states()
        env = load(MINE[name], num_envs=4, seed=0, randomness=randomness)
        data = env.reset()
        for _ in range(3):
            for key in env.action_keys:
                data[key] = env.full_action_spec[key].zero()
            data = env.step_mdp(env.step(data))
        found.append(observed(env.reset(data.set("_reset", torch.tensor([[True], [False], [False], [True]])))))
        assert global_states() == before
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


@pytest.mark.parametrize(
    "name",
    ["simple_spread", "balance", "navigation", "dispersion", "wheel", "chase", "lidar_maze", "herd", "asym_joint"],
)
def test_row_i_does_not_depend_on_other_rows(name):
    path = {**FILES, **MINE}[name]
    found = []
    for rows in (3, 9):
        env = load(path, num_envs=rows, seed=5)
        data, out = env.reset(), []
        coin = torch.Generator().manual_seed(0)
        for t in range(25):
            for key in env.action_keys:
                whole = 2 * torch.rand(25, *env.full_action_spec[key].shape[1:], generator=coin) - 1
                data[key] = whole[:rows].clone()
            data = env.step_mdp(env.step(data))
            out += [x[:3] for x in observed(data)]
            if t == 12:  # others begin anew: row 0 goes on, row 1 begins anew in both
                where = torch.arange(rows).reshape(-1, 1) % 2 == 1
                data = env.reset(data.set("_reset", where))
        found.append(out)
    for one, many in zip(*found, strict=True):
        torch.testing.assert_close(one, many, rtol=0, atol=1e-5)


def test_a_reset_of_one_row_draws_what_a_reset_of_all_draws():
    envs = [load(CHASE, num_envs=4, seed=2) for _ in range(2)]
    first, second = (env.reset() for env in envs)
    assert torch.equal(first["agents", "observation"], second["agents", "observation"])
    where = torch.tensor([[False], [True], [False], [False]])
    some = envs[0].reset(first.clone().set("_reset", where))["agents", "observation"]
    every = envs[1].reset()["agents", "observation"]
    torch.testing.assert_close(some[1], every[1])
    assert torch.equal(some[[0, 2, 3]], first["agents", "observation"][[0, 2, 3]])


JOINED = """import torch
from vmas.simulator.joints import Joint
class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        world = World(batch_dim, device, substeps=2)
        for i in range(2): world.add_agent(Agent(f"agent_{i}"))
        world.add_joint(Joint(*world.agents, anchor_b=(0.5, 0), rotate_a=False, dist=0.5))
        return world
    def reset_world_at(self, env_index=None):
        rows = (self.world.batch_dim,) if env_index is None else ()
        for agent in self.world.agents:
            agent.set_pos(torch.rand(*rows, 2), env_index)
            agent.set_rot(torch.rand(*rows, 1), env_index)
            agent.set_pos(torch.rand(*rows, 2), env_index)
    def observation(self, agent): return agent.state.pos
    def reward(self, agent): return agent.state.pos[:, 0]
"""


def between(world):
    """Where the bar of ``JOINED`` belongs, and how far it is turned from the agent that must not turn against it."""
    (a, b), (bar,) = (agent.state for agent in world.agents), (landmark.state for landmark in world.landmarks)
    tip = b.pos + 0.025 * torch.cat((b.rot.cos(), b.rot.sin()), -1)  # the agents are discs of 5 cm
    way = tip - a.pos
    angle = torch.atan2(way[:, 1:], way[:, :1])
    return [(bar.pos, (a.pos + tip) / 2), (bar.rot, angle), (list(world.joints)[0].fixed_rotation, angle - a.rot)]


def test_a_row_that_is_reset_places_its_bar_alone(tmp_path):
    file = tmp_path / "task.py"
    file.write_text(HEAD + JOINED)
    env = load(file, num_envs=3, seed=0, grad_enabled=True)
    td = env.reset()
    for placed, where in between(env.world):
        torch.testing.assert_close(placed, where)
    td["agents", "action"] = action = torch.ones(3, 2, 2, requires_grad=True)
    td = env.step_mdp(env.step(td))
    before = [placed.clone() for placed, _ in between(env.world)]
    env.reset(td.set("_reset", torch.tensor([[False], [True], [False]])))
    for old, (placed, where) in zip(before, between(env.world), strict=True):
        torch.testing.assert_close(placed[1], where[1])
        assert torch.equal(placed[[0, 2]], old[[0, 2]])
    env.step(td)["next", "agents", "observation"].sum().backward()
    assert action.grad.isfinite().all()


@pytest.mark.parametrize("drawn", ["torch.rand(2)", "torch.rand(world.batch_dim, 2)[i]", "torch.rand_like(all)[i]"])
def test_a_row_that_is_reset_alone_draws_the_same_among_any_others(drawn, tmp_path):
    """Whether or not other rows, which may be as many as the numbers of a point, were reset before."""
    file, found = tmp_path / "task.py", []
    lines = f"""env_index=None):
        if env_index is not None:
            world, i, all = self.world, env_index, self.world.agents[0].state.pos
            world.agents[0].set_pos({drawn}, batch_index=i)
"""
    file.write_text(said("env_index=None): pass\n", lines))
    for rows, first in ((2, [0]), (2, [1, 0]), (3, [0]), (5, [1, 4, 0])):
        env = load(file, num_envs=rows, seed=0)
        td = env.reset()
        for _ in range(2):
            for row in first:
                td = env.reset(td.set("_reset", (torch.arange(rows) == row).unsqueeze(-1)))
        found.append(td["agents", "observation"][0])
    assert all(torch.equal(x, found[0]) for x in found)


def test_what_helpers_of_a_file_draw_comes_from_the_env(tmp_path):
    file, found = tmp_path / "task.py", []
    gust = "class Gust:\n    def __init__(self, rows): self.push = torch.rand(rows, 2)\n"
    text = said("return agent.state.pos\n", "return agent.state.pos + Gust(self.world.batch_dim).push\n")
    file.write_text(text.replace("class Scenario", f"{gust}class Scenario"))
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        found.append(load(file, num_envs=3, seed=0).rollout(3)["next", "agents", "observation"])
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*found)
    assert not torch.equal(found[0][:, 0], found[0][:, 1])


@pytest.mark.parametrize(
    ("line", "quiet"),
    [
        ("return agent.state.pos", True),
        ("return agent.state.pos + 0.1 * torch.randn(3, 2)", False),
        ("self.reset_world_at(0); return agent.state.pos", False),
        ("from torch.nn import functional as F; return F.relu(agent.state.pos)", False),
        ("return agent.state.pos.clone().normal_()", False),
        ("import somewhere; return somewhere.noise(agent.state.pos)", False),
    ],
)
def test_steps_are_watched_unless_their_text_shows_that_they_draw_nothing(line, quiet, tmp_path):
    file = tmp_path / "task.py"
    file.write_text(said("return agent.state.pos\n", line + "\n"))
    assert draws_nothing(file) is quiet


def test_vmas_itself_is_untouched():
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "vmas"}
    env = load(MINE["lidar_maze"], num_envs=2, seed=0)
    env.reset()
    env.render()  # imports in the middle of a function
    assert {name: module for name, module in sys.modules.items() if name.split(".")[0] == "vmas"} == before
    assert not isinstance(env.world, compat.core.World)


def test_vmas_need_not_be_installed(monkeypatch):
    for name in [n for n in sys.modules if n.split(".")[0] == "vmas"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])
    with pytest.raises(ImportError):
        __import__("vmas")
    for path in (FILES["navigation"], *MINE.values()):
        load(path, num_envs=2, seed=0).rollout(2)


class Hidden:
    """Hides vmas from imports."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "vmas":
            raise ModuleNotFoundError(name)


@pytest.mark.parametrize("name", ["lidar_maze", "cars", "swing", "formation"])
def test_pictures_show_what_the_file_draws(name):
    env = load(MINE[name], num_envs=2, seed=0)
    env.reset()
    picture = env.render(1, size=(120, 100))
    assert picture.shape == (100, 120, 3)
    assert len({tuple(pixel) for row in picture for pixel in row}) > 5


def test_geoms_of_extra_render_are_in_the_picture(monkeypatch):
    env = load(MINE["lidar_maze"], num_envs=1, seed=0)
    env.reset()
    with_them = env.render()
    monkeypatch.setattr(env.scenario, "extra_render", lambda env_index=0: [])
    assert (with_them != env.render()).any()


def test_gradients_flow_where_they_are_asked_for():
    env = load(CHASE, num_envs=2, seed=0, grad_enabled=True)
    data = env.reset()
    action = torch.zeros(2, 3, 2, requires_grad=True)
    data["agents", "action"] = action
    env.step(data)["next", "agents", "observation"].sum().backward()
    assert action.grad.abs().sum() > 0
    assert action.grad.isfinite().all()


HEAD = (
    "from vmas.simulator.core import Agent, World, Landmark, Sphere\nfrom vmas.simulator.scenario import BaseScenario\n"
)
BODY = """import torch
class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        world = World(batch_dim, device)
        world.add_agent(Agent("agent_0"))
        return world
    def reset_world_at(self, env_index=None): pass
    def observation(self, agent): return agent.state.pos
    def reward(self, agent): return agent.state.pos[:, 0]
"""


def said(old="", new=""):
    """The smallest file, with something in it replaced."""
    assert old in BODY
    return HEAD + BODY.replace(old, new)


OBSERVED = "return agent.state.pos\n"
AGENT = 'Agent("agent_0")'
WRONG = [
    (HEAD + "class Mine(BaseScenario): pass\n", UnknownName, r"no class Scenario\(BaseScenario\); it has \['Mine'\]"),
    ("from vmas.simulator.core import Planet\n", ImportError, "has no 'Planet'; it has .*'Agent'"),
    (
        HEAD + "from .parts import Wing\n",
        ImportError,
        "from .parts import Wing: .* executed on its own, .* package's n",
    ),
    ("x = 1\n", UnknownName, r"expected the file of a scenario .*task.py has none, .* made by marlenv.make\(name\)"),
    ("import vmas.simulator.weather\n", ImportError, "no module 'weather'"),
    ("from vmas import make_env\nmake_env('balance')\n", NotImplementedError, r"use marlenv.*load\(path\) instead"),
    (said("return world", "return None"), TypeError, "make_world: expected the World"),
    (said("pos[:, 0]", "pos"), ShapeError, r"reward\('agent_0'\): expected \[B\] with B = 3, got \[3, 2\]"),
    (
        said("env_index=None): pass", "env_index=None): self.world.agents[0].set_pos(torch.zeros(3), env_index)"),
        ShapeError,
        r"agent_0.*expected \[3, 2\], got \[3, 3\]",
    ),
    (said(OBSERVED, "return self.world._cast_ray_to_box\n"), AttributeError, "no such part; use cast_ray instead"),
    (said(OBSERVED, "return self.world.wind\n"), AttributeError, "no attribute 'wind'"),
    (said(AGENT, 'Agent("agent_0", u_range=[1.0])'), ShapeError, "u_range must be one number or a list of 2"),
    (said(AGENT, 'Agent("agent_0", silent=False)'), SpecError, "needs a world with channels"),
]


@pytest.mark.parametrize(("text", "error", "says"), WRONG)
def test_errors_say_what_to_do(text, error, says, tmp_path):
    file = tmp_path / "task.py"
    file.write_text(text)
    with pytest.raises(error, match=says):
        load(file, num_envs=3).rollout(2)


def test_bad_arguments_are_errors():
    with pytest.raises(UnknownName, match="no file"):
        load("nowhere.py")
    with pytest.raises(UnknownName, match="no file and no module"):
        load("nowhere.at.all")
    with pytest.raises(UnknownName, match=r"'sys' is not made of a file of Python; its origin is built-in"):
        load("sys")
    with pytest.raises(UnknownName, match=r"expected the file of a scenario for VMAS, .*json.__init__.py has none"):
        load("json")
    with pytest.raises(SpecError, match="expected a path"):
        load(3)
    with pytest.raises(SpecError, match="randomness must be one of"):
        load(CHASE, randomness="mine")
    with pytest.raises(SpecError, match="num_envs"):
        load(CHASE, num_envs=0)
    env = load(CHASE, num_envs=2)
    data = env.reset()
    data["agents", "action"] = torch.full((2, 3, 2), torch.nan)
    with pytest.raises(NotInSpec, match="row 0, agent 'agent_0'"):
        env.step(data)


def test_modules_and_dotted_names_do():
    assert load("vmas.scenarios.balance", num_envs=2, seed=0).n_agents == 3
    assert load(importlib.import_module("vmas.scenarios.balance"), num_envs=2, seed=0).n_agents == 3
