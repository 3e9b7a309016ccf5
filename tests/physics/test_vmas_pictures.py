"""Pictures of scenario files show what VMAS's window shows: texts on top, colours of compounds, grids, edges."""

import pytest
import torch

from marlenv.physics.task.picture import PAPER, Picture, View
from marlenv.physics.vmas_compat import load
from marlenv.physics.vmas_compat.rendering import Compound, Grid, make_capsule, make_circle, render_function_util

FILE = """
import torch
from vmas.simulator.core import Agent, Box, World
from vmas.simulator.scenario import BaseScenario
from vmas.simulator.utils import ScenarioUtils

class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        self.plot_grid, self.grid_spacing, self.viewer_zoom = {grid}, 1.0, 2.0
        world = World(batch_dim, device, x_semidim={x}, y_semidim={y})
        world.add_agent(Agent("agent_0", shape=Box(1.0, 1.0), alpha=1.0))
        return world

    def reset_world_at(self, env_index=None): ...

    def observation(self, agent):
        return agent.state.pos

    def reward(self, agent):
        return agent.state.pos[:, 0]

    def extra_render(self, env_index=0):
        return ScenarioUtils.render_agent_indices(self, env_index) if {numbers} else []
"""
TEAL = (0, 153, 153)


def drawn(folder, grid=False, x=None, y=None, numbers=False):
    path = folder / "mine.py"
    path.write_text(FILE.format(grid=grid, x=x, y=y, numbers=numbers))
    env = load(path, 1, seed=0, compile="none")
    env.reset()
    return torch.from_numpy(env.render(size=(400, 400)).copy())


def inked(pixels):
    """The columns and the rows in which there is anything."""
    dirty = (pixels != torch.tensor(PAPER)).any(-1)
    return dirty.any(0).nonzero().flatten().tolist(), dirty.any(1).nonzero().flatten().tolist()


def test_numbers_of_agents_lie_on_the_agents(tmp_path):
    plain, numbered = drawn(tmp_path), drawn(tmp_path, numbers=True)
    changed = (plain != numbered).any(-1)
    assert changed[190:210, 190:210].any()  # in the middle of the agent, 50 pixels wide
    assert (numbered[changed].float().mean(-1) < plain[changed].float().mean(-1)).all()  # the digit is dark


@pytest.mark.parametrize(("x", "y"), [(None, None), (1.5, None), (None, 1.5), (1.5, 1.5)])
def test_worlds_have_the_edges_that_they_have(x, y, tmp_path):
    pixels = drawn(tmp_path, x=x, y=y)  # 400 pixels are 8 metres: 1.5 metres are 75 pixels, and the agent is 50 wide
    if x is None and y is None:
        ends = (175, 225), (175, 225)
    else:
        ends = tuple((0, 399) if at is None else (125, 275) for at in (x, y))
    for found, expected in zip(inked(pixels), ends, strict=True):
        assert (found[0], found[-1]) == pytest.approx(expected, abs=2)


def test_far_worlds_without_edges_have_none_at_20_metres():
    picture = Picture((400, 400), View(30.0, 30.0))
    picture.border(None, None)
    assert inked(torch.from_numpy(picture.pixels())) == ([], [])
    picture.border(None, 10.0)
    columns, rows = inked(torch.from_numpy(picture.pixels()))
    assert columns == list(range(400))
    assert {abs(row - 200) // 10 for row in rows} == {6}  # 10 metres are 67 pixels


@pytest.mark.parametrize(("view", "columns"), [(View(4.0, 4.0, 10.0, 0.0), 8), (View(30.0, 30.0), 50)])
def test_grids_end_at_25_metres_as_in_vmas(view, columns):
    picture = Picture((1000, 1000), view)
    Grid(spacing=1.0, width=1.0).draw(picture)
    row = (torch.from_numpy(picture.pixels())[505 if columns == 8 else 503] != torch.tensor(PAPER)).any(-1)
    starts = (row[1:] & ~row[:-1]).sum().item()
    assert abs(starts - columns) <= 1  # VMAS's lines are at numpy.arange(-25, 25, 1)


def colors_of(geom):
    picture = Picture((300, 300), View(1.0, 1.0))
    geom.draw(picture)
    pixels = torch.from_numpy(picture.pixels()).reshape(-1, 3)
    return {tuple(x) for x in pixels.tolist()}


def test_compounds_have_the_colour_that_they_are_given():
    capsule, parts = make_capsule(0.5, 0.3), [make_circle(0.3)]
    capsule.set_color(0, 0.6, 0.6)
    assert TEAL in colors_of(capsule)
    parts[0].set_color(1, 0, 0)  # as in VMAS, whose compounds take the colours from their parts
    around = Compound([Compound(parts)])
    around.set_color(0, 0.6, 0.6)
    assert TEAL in colors_of(around)
    assert (255, 0, 0) not in colors_of(around)


def test_values_of_a_function_keep_their_colours():
    squares = render_function_util(lambda at: torch.as_tensor(at)[:, :1], 0.5, precision=0.1)
    assert len(colors_of(squares)) > 10
