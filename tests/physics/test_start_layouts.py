"""Where bodies that push each other may start: beside each other, and inside hollow boxes."""

import math
from dataclasses import dataclass

import pytest
import torch

from marlenv.physics import Agent, Box, Landmark, Line, Scenario, Sphere, World
from marlenv.physics.env import ScenarioEnv
from marlenv.physics.laws.shapes import Shape


@dataclass(eq=False)
class Start(Scenario):
    """An agent somewhere, and a landmark at the origin, turned by 30 degrees."""

    agent: Shape
    landmark: Shape
    x: float = 0.0

    def build(self):
        world = World(linear_friction=0.0, drag=0.0)
        self.agents = world.add("agents", [Agent(self.agent)])
        self.wall = world.add("wall", Landmark(self.landmark))
        return world

    def spawn(self):
        self.wall.rot = self.agents.rot = math.pi / 6
        self.agents.pos = (self.x * math.cos(math.pi / 6), self.x * math.sin(math.pi / 6))

    def observe(self):
        return {"agents": self.agents.vel}

    def rewards(self):
        return {"agents": self.agents.rot}


ROOM, BLOCK = Box(2.0, 1.0, hollow=True), Box(2.0, 1.0)
BALL = Sphere(0.1)


@pytest.mark.parametrize("x", [0.0, 0.5, 0.899, 1.101, 1.5])
@pytest.mark.parametrize("agent", [BALL, Box(0.2, 0.2), Line(0.2)], ids=str)
def test_a_body_starts_inside_a_room_or_outside_it(agent, x):
    env = ScenarioEnv(Start(agent, ROOM, x), 1, compile="none")
    td = env.reset()
    td["agents", "action"] = torch.zeros(1, 1, 2)
    pushed = env.step(td)["next", "agents", "observation"].abs().max().item()
    assert (pushed > 0) == (min(abs(x - 0.9), abs(x - 1.1)) < 0.007)  # a wall is felt from 0.0067 metres on


@pytest.mark.parametrize("x", [0.91, 1.0, 1.09])
def test_a_disc_in_the_wall_of_a_room_is_an_error(x):
    with pytest.raises(ValueError, match=r"Start.spawn: 'wall' and 'agent_0', which collide, overlap at every start"):
        ScenarioEnv(Start(BALL, ROOM, x), 1, compile="none")


@pytest.mark.parametrize("x", [0.0, 0.5, 0.899, 1.0, 1.09])
def test_a_disc_in_a_solid_box_is_an_error(x):
    with pytest.raises(ValueError, match="overlap at every start"):
        ScenarioEnv(Start(BALL, BLOCK, x), 1, compile="none")


def test_a_disc_that_lies_on_a_box_starts_there():
    ScenarioEnv(Start(BALL, BLOCK, 1.1), 1, compile="none").reset()
