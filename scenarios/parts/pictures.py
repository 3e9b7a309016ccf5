"""What the pictures of scenarios show besides their bodies."""

from __future__ import annotations

import math

import torch
from marlenv.scenarios.discovery import Discovery
from marlenv.scenarios.dispersion import Dispersion
from marlenv.scenarios.joint_passage import JointPassage
from marlenv.scenarios.mpe.simple_speaker_listener import COLORS, SimpleSpeakerListener
from marlenv.scenarios.reverse_transport import ReverseTransport
from marlenv.scenarios.sampling import Sampling
from marlenv.scenarios.transport import Transport
from marlenv.scenarios.wind_flocking import WindFlocking

from marlenv.physics.draw import Picture
from marlenv.physics.relations import overlap
from marlenv.physics.views import rows_last


def discovery(scenario: Discovery, picture: Picture) -> None:
    """How near is near a target."""
    for x, y in scenario.targets.pos[0].tolist():
        picture.circle((x, y), scenario.covering_range, "light_green", fill="none", width=1.0)


def dispersion(scenario: Dispersion, picture: Picture) -> None:
    """Food that is eaten is gone."""
    picture.hide(scenario.food, scenario.memory.eaten)


def joint_passage(scenario: JointPassage, picture: Picture) -> None:
    """Where the agents are when the rod is at its goal."""
    goal, half = scenario.rod.goal, scenario.joint_length / 2
    (x, y), rot = goal.pos[0].tolist(), goal.rot[0].item()
    for side in (-half, half):
        picture.circle((x + side * math.cos(rot), y + side * math.sin(rot)), 0.03333, "light_green")


def simple_speaker_listener(scenario: SimpleSpeakerListener, picture: Picture) -> None:
    """Which landmark is the goal; the listener has a light shade of its colour."""
    goal = int(scenario.memory.goal)
    x, y = scenario.landmarks.pos[0, goal].tolist()
    picture.circle((x, y), 0.07, "orange", fill="none", width=3.0)
    red, green, blue = (min(1.0, part + 0.45) for part in COLORS[goal])
    picture.paint(scenario.listener, torch.ones(1, 1, dtype=torch.bool), (red, green, blue))


def reverse_transport(scenario: ReverseTransport, picture: Picture) -> None:
    """A package at its goal is green."""
    picture.paint(scenario.package.alone, overlap(scenario.package.alone, scenario.goal), "green")


def sampling(scenario: Sampling, picture: Picture) -> None:
    """The field, without what was sampled."""
    x, y = (
        torch.arange(-d, d, scenario.grid_spacing) + scenario.grid_spacing / 2 for d in (scenario.xdim, scenario.ydim)
    )
    field = scenario._field(x.reshape(-1, 1, 1), y.reshape(1, -1, 1)) / rows_last(scenario.memory.highest)
    left = torch.where(rows_last(scenario.memory.sampled), 0.0, field)
    picture.heat(left[..., 0], (scenario.xdim, scenario.ydim), (0.2, 0.55, 0.45))


def transport(scenario: Transport, picture: Picture) -> None:
    """Packages at their goal are green."""
    picture.paint(scenario.packages, scenario.memory.on_goal, "green")


def wind_flocking(scenario: WindFlocking, picture: Picture) -> None:
    """The line between the agents, and the height to reach."""
    a, b = scenario.agents.pos[0].tolist()
    picture.line(a, b, "black", width=1.0)
    height = scenario.horizon * scenario.world.laws.dt * scenario.wanted
    picture.line((-0.5, height), (0.5, height), "red", width=1.5)
