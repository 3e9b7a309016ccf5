"""Scenario files of VMAS: their answers, what they set under names with an underscore, their pictures and copies."""

import copy
import itertools
import pickle

import compat
import pytest
import torch
from compat import FILES, Beside
from sizes import some
from vmas.simulator.utils import TorchUtils as Theirs

from marlenv.errors import ShapeError, Unsupported
from marlenv.physics.vmas_compat import load
from marlenv.physics.vmas_compat.utils import TorchUtils

HEAD = """import torch
from vmas.simulator.core import Agent, Box, Landmark, Sphere, World
from vmas.simulator.scenario import BaseScenario
from vmas.simulator.utils import Color, ScenarioUtils
"""
SMALL = """class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        world, self.step = World(batch_dim, device), 0
        for i in range(2):
            world.add_agent(Agent(f"agent_{i}", shape=Sphere(0.1), color=Color.RED if i else Color.GREEN))
        return world
    def reset_world_at(self, env_index=None): RESET
    def post_step(self): self.step += 1
    def observation(self, agent): return OBSERVATION
    def reward(self, agent): return agent.state.pos[:, 0]
    def info(self, agent): return INFO
"""


def small(folder, rows=3, reset="pass", observation="agent.state.pos", info="{}"):
    file = folder / f"task{len(list(folder.iterdir()))}.py"
    text = SMALL.replace("RESET", reset).replace("OBSERVATION", observation).replace("INFO", info)
    file.write_text(HEAD + text)
    return load(file, rows, seed=0, compile="none")


# --- answers ---------------------------------------------------------------------------------------

WRONG = [
    (
        "agent.state.pos[0]",
        "{}",
        r"observation\('agent_0'\): expected a tensor \[B, ...\] with B = 3, .*got float32 \[2\]",
    ),
    ("[1, 2]", "{}", r"observation\('agent_0'\): .*got list"),
    ("None", "{}", r"observation\('agent_0'\): .*got NoneType"),
    ("torch.zeros(3, 2 + int(self.step == 2))", "{}", r"expected float32 \[B, 2\] .*as before, got float32 \[3, 3\]"),
    (
        "torch.zeros(3, 2) if self.step < 2 else agent.state.pos[0]",
        "{}",
        r"expected float32 \[B, 2\].*got float32 \[2\]",
    ),
    ("{'a': agent.state.pos} if self.step < 2 else {}", "{}", r"expected the names \['a'\], .*got \[\]"),
    ("agent.state.pos", "{'k': 1.0}", r"info\('agent_0'\)\['k'\]: .*got float 1.0"),
    ("agent.state.pos", "{'k': torch.tensor(1.0)}", r"info\('agent_0'\)\['k'\]: .*got float32 \[\]"),
    ("agent.state.pos", "None", r"info\('agent_0'\): expected a dict of tensors \[B, ...\], got NoneType"),
    ("agent.state.pos", "{'late': agent.state.vel} if self.step > 1 else {}", r"info\('agent_0'\): .*got \['late'\]"),
    ("agent.state.pos", "{'k': torch.zeros(3, 1 + (self.step > 1))}", r"info\('agent_0'\)\['k'\]: expected .*\[B, 1\]"),
]


@pytest.mark.parametrize(("observation", "info", "says"), WRONG)
def test_wrong_answers_are_errors_that_name_who_gave_them(observation, info, says, tmp_path):
    with pytest.raises(ShapeError, match=r"Scenario\..*" + says):
        small(tmp_path, observation=observation, info=info).rollout(4)


def test_infos_that_first_appear_after_a_step_are_zeros_at_the_reset(tmp_path):
    env = small(tmp_path, info="{'force': agent.state.force, 'n': torch.full((3,), self.step)} if self.step else {}")
    td = env.reset()
    assert env.scenario.step == 0  # a copy of the file has taken the step that showed the names
    assert (td["agents", "info", "force"] == 0).all()
    td["agents", "action"] = torch.full((3, 2, 2), 0.25)
    info = env.step(td)["next", "agents", "info"]
    assert (info["force"] == 0.25).all()
    assert (info["n"] == 1).all()


def test_dtypes_that_hold_less_become_those_of_the_first_answer(tmp_path):
    env = small(tmp_path, observation="agent.state.pos.to(torch.int32 if self.step == 1 else torch.float32)")
    assert env.rollout(3)["next", "agents", "observation"].dtype == torch.float32


def test_positions_of_other_dtypes_move_like_float32(tmp_path):
    """Two discs that overlap, so that they push each other."""
    found = []
    for dtype in ("float32", "float64"):
        values = f"torch.tensor([[0.15 * i, 0.0]] * self.world.batch_dim, dtype=torch.{dtype})"
        reset = f"[a.set_pos({values}, None) for i, a in enumerate(self.world.agents)]"
        env = small(tmp_path, reset=reset)
        td = env.reset()
        td["agents", "action"] = torch.zeros(3, 2, 2)
        found.append(env.step(td)["next", "agents", "observation"])
    assert torch.equal(*found)
    assert (found[0][:, 1, 0] - found[0][:, 0, 0] > 0.15).all()


# --- names with an underscore ----------------------------------------------------------------------

CHANGES = [
    "a._max_speed = 0.1", "a._max_speed = None; a._mass = 5.0", "a._f_range = 0.1", "a._f_range = None; a._max_f = 0.2",
    "w._drag = 0.7", "w._linear_friction = 0.05", "a._linear_friction = 0.02", "a._drag = 0.05", "w._x_semidim = 0.4",
    "w._gravity = torch.tensor([0.0, -3.0], device=w.device)", "w._gravity[1] = 2.0", "w._dt = 0.2; w._sub_dt = 0.1",
    "w._collision_force = 500.0", "a._shape = Sphere(0.3)", "w.landmarks[0]._movable = False", "a._rotatable = False",
    "a._collide = False", "a._movable = False",
]  # fmt: skip
MOVING = """class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        world, self.t = World(batch_dim, device, x_semidim=1.0, y_semidim=1.0, substeps=2), 0
        for i in range(3):
            world.add_agent(Agent(f"agent_{i}", shape=Sphere(0.1) if i else Box(0.2, 0.1), u_multiplier=2.0))
        world.add_landmark(Landmark("rock", shape=Sphere(0.2), movable=True, mass=2.0))
        return world
    def reset_world_at(self, env_index=None):
        spread = (-0.6, 0.6), (-0.6, 0.6)
        ScenarioUtils.spawn_entities_randomly(self.world.entities, self.world, env_index, 0.3, *spread)
    def pre_step(self):
        a, w, self.t = self.world.agents[0], self.world, self.t + 1
        CHANGES
    def observation(self, agent):
        rock = self.world.landmarks[0].state
        return torch.cat([agent.state.pos, agent.state.vel, agent.state.rot, agent.state.force, rock.pos, rock.vel], -1)
    def reward(self, agent): return -torch.linalg.vector_norm(agent.state.pos, dim=-1)
"""


def test_what_a_file_sets_under_names_with_an_underscore_holds_at_once(tmp_path, monkeypatch):
    """One change before every second step, all of them in one life, beside VMAS's engine."""
    monkeypatch.setattr(compat.core.World, "collides", compat.without_gate)
    lines = "".join(f"\n        if self.t == {2 * k + 2}: {line}" for k, line in enumerate(CHANGES))
    file = tmp_path / "moving.py"
    file.write_text(HEAD + MOVING.replace("CHANGES", lines.strip()))
    errors = Beside(file, tmp_path, rows=3).run(2 * len(CHANGES) + 4, restarts=())
    assert set(errors) >= {"observation", "reward", "pos"}


# --- arithmetic ------------------------------------------------------------------------------------

PLACES = [1, [0, 2], torch.tensor([0, 2]), None, slice(1, 3)]
VALUES = [0.5, 1, True, torch.tensor(0.5), torch.ones(2), torch.ones(2).double(), torch.ones(4, 1), torch.ones(1, 2)]
OLD = [torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.int64), torch.zeros(4, 2, dtype=torch.bool)]


@pytest.mark.parametrize(("where", "new", "old"), list(itertools.product(PLACES, VALUES, OLD)))
def test_where_from_index_is_that_of_vmas(where, new, old):
    ours, theirs = (utils.where_from_index(where, new, old) for utils in (TorchUtils, Theirs))
    assert ours.dtype == theirs.dtype
    assert torch.equal(ours, theirs)


# --- pictures and copies ---------------------------------------------------------------------------

PLACED = "[a.set_pos(torch.tensor([X + 0.5 * i, 2.0]), env_index) for i, a in enumerate(self.world.agents)]"


def middle(picture, colour):
    """The middle of the pixels of an agent, column and row: those in which its colour is the strongest, and clear."""
    others = [k for k in range(3) if k != colour]
    where = (picture[..., colour].astype(int) - picture[..., others].max(-1)) > 40
    rows, columns = where.nonzero()
    return columns.mean() + 0.5, rows.mean() + 0.5


def test_pictures_are_about_the_origin_of_the_scenario(tmp_path):
    env = small(tmp_path, reset=PLACED.replace("X", "3.0"))
    env.scenario.render_origin, env.scenario.viewer_zoom = (3.0, 2.0), 1.0
    env.reset()
    picture = env.render(0, size=(200, 100))  # 4 m wide and 2 m high: 50 pixels a metre
    assert middle(picture, 1) == pytest.approx((100, 50), abs=1)
    assert middle(picture, 0) == pytest.approx((125, 50), abs=1)


def test_pictures_are_as_wide_as_it_takes_to_show_all_agents(tmp_path):
    """As in VMAS: the farthest agent is two of its radii from the edge."""
    env = small(tmp_path, reset=PLACED.replace("X", "3.0"))
    env.reset()
    half = 3.5 + 0.2  # metres to the edge, where 100 pixels are
    picture = env.render(0, size=(200, 200))
    assert middle(picture, 0) == pytest.approx((100 + 3.5 / half * 100, 100 - 2.0 / half * 100), abs=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flocking", *some([name for name in FILES if name != "flocking"], 14)])
def test_a_copy_goes_on_as_the_env_does_before_and_after_there_is_machine_code(name):
    """Flocking's goal is moved by a function that was made inside of a method; machine code comes in the third step."""
    for steps in (0, 1, 5):
        env = load(FILES[name], num_envs=2, seed=0)
        td = env.reset()
        for _ in range(steps):
            td = env.step_and_maybe_reset(env.rand_action(td))[1]
        other = copy.deepcopy(env)
        (first, _), (second, _) = (walked(one, td.clone(), 5) for one in (env, other))
        assert bool((first == second).all())


def walked(env, td, steps):
    """Random steps, one after another, and the data to go on from."""
    made = []
    for _ in range(steps):
        step, td = env.step_and_maybe_reset(env.rand_action(td))
        made.append(step)
    return torch.stack(made), td


def test_copies_live_on_and_pickles_say_what_to_do(tmp_path):
    env = small(tmp_path, observation="agent.state.pos + torch.rand(3, 2)")
    td = env.reset()
    other = copy.deepcopy(env)
    td["agents", "action"] = torch.ones(3, 2, 2)
    assert torch.equal(*(e.step(td.clone())["next", "agents", "observation"] for e in (env, other)))
    with pytest.raises(Unsupported, match=r"VmasFileEnv of Scenario: it cannot be pickled, .* calls load\(path, ...\)"):
        pickle.dumps(env)
