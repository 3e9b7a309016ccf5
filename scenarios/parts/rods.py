"""What the tasks with a rod that two agents carry have in common: its weight, what agents observe of it, its border."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from marlenv.scenarios.parts.bricks import RADIUS
from torch import Tensor

from marlenv.physics import Bodies, Body, Entity, Landmark, Picture, Scenario, Sphere, World, gap, heading

UPRIGHT = math.pi / 2
STANDING = 0.8  # metres: the longest rod that stands on end between wall and border, with discs at its ends


def touches(bodies: Sequence[Bodies], things: Sequence[Bodies], near: float) -> Tensor:
    """How many pairs of a body and a thing are within ``near`` metres of each other; int64 ``[B]``."""
    count = torch.zeros_like(bodies[0].pos[:, 0, 0], dtype=torch.int64)
    for body in bodies:
        for thing in things:
            count = count + (gap(body, thing) <= near).sum((1, 2))
    return count


def add_weight(world: World, bar: Body, mass: float, at: float, *, collide: bool = True) -> Body:
    """A weight on a rod, which pushes everything but discs, or nothing.

    Args:
        world: where it is added.
        bar: the rod.
        mass: kg.
        at: where it is on the rod: from -1, at the first agent, to 1, at the second.
        collide: whether it pushes anything.

    """
    meets: Callable[[Entity], bool] = lambda other: not isinstance(other.shape, Sphere)  # noqa: E731
    small = Sphere(RADIUS * (2 / 3))
    kind = Landmark(small, movable=True, mass=mass, collide=collide, collides_with=meets, color="black")
    weight = world.add("mass", kind)
    world.join(weight, bar, anchor_b=(at, 0.0))
    return weight


def check_weight(scenario: Scenario, at: float, *, carried: bool) -> None:
    """Raises where a weight that is carried would not be on the rod."""
    if carried and not -1 <= at <= 1:
        raise ValueError(f"{type(scenario).__name__}: mass_position must be in [-1, 1], got {at!r}")


def check_rod(scenario: Any) -> None:
    """Raises where there is noise on the direction of a rod that nobody observes, or its weight would not be on it."""
    check_weight(scenario, scenario.mass_position, carried=scenario.asym_package)
    if scenario.joint_angle_obs_noise and not scenario.observe_joint_angle:
        raise ValueError(
            f"{type(scenario).__name__}: joint_angle_obs_noise is noise on what observe_joint_angle=True shows; "
            f"got joint_angle_obs_noise={scenario.joint_angle_obs_noise!r} without it"
        )


def check_length(scenario: Any) -> None:
    """Raises where a rod that may stand on end has no room below or above the wall."""
    start, goal = scenario.random_start_angle, scenario.random_goal_angle
    if (start or goal) and scenario.joint_length > STANDING:
        raise ValueError(
            f"{type(scenario).__name__}: joint_length must be at most {STANDING} with random_start_angle or "
            "random_goal_angle, as a rod that stands on end has no more room between wall and border; "
            f"got joint_length={scenario.joint_length!r}, random_start_angle={start}, random_goal_angle={goal}"
        )


def direction(scenario: Scenario, bar: Body, noise: float) -> Tensor:
    """The direction of a rod as its two agents observe it, each with Gaussian noise of its own; ``[B, 1 or 2, 2]``."""
    angle = bar.rot.unsqueeze(1)
    if noise:
        angle = angle + noise * scenario.normal(2)
    return heading(angle).permute(1, 2, 0)


def place_border(scenario: Scenario, border: Bodies) -> None:
    """Puts four lines around the world, so far out that the middles of agents stay within it."""
    edge = 1 + RADIUS
    border.pos = scenario.tensor([[edge, 0], [0, edge], [-edge, 0], [0, -edge]])
    border.rot = scenario.tensor([UPRIGHT, 0, UPRIGHT, 0])


def draw_ends(picture: Picture, goal: Body, length: float) -> None:
    """Where the agents are when a rod is at its goal."""
    (x, y), rot = goal.pos[0].tolist(), goal.rot[0].item()
    for side in (-length / 2, length / 2):
        picture.circle((x + side * math.cos(rot), y + side * math.sin(rot)), RADIUS, "light_green")
