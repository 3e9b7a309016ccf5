"""A rod, and perhaps a weight on it, that two agents carry through a wall of bricks: the world of the joint tasks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from marlenv.scenarios.parts.bricks import RADIUS, Bricks, above, below
from marlenv.scenarios.parts.rods import UPRIGHT, add_weight, draw_ends, place_border, touches
from torch import Tensor

from marlenv.constants import constant
from marlenv.physics import (
    Agent,
    Landmark,
    Line,
    Picture,
    Scenario,
    World,
    distance,
    heading,
)
from marlenv.physics.maths.geometry import between_lines


class Rod:
    """Agents, rod, weight, goal, border and bricks, added to a world in this order.

    Args:
        world: where they are added.
        agents: the two agents.
        length: of the rod, metres.
        weight: its mass, kg, and where it is on the rod, 1 being at the second agent; None for none.
        brick: the length of a brick, metres.
        gaps: how many bricks are gaps.
        fixed: whether those are in the middle; the rod then meets only the bricks beside them.

    """

    def __init__(
        self,
        world: World,
        agents: Sequence[Agent],
        length: float,
        weight: tuple[float, float] | None,
        brick: float,
        gaps: int,
        *,
        fixed: bool,
    ) -> None:
        self.length, self.fixed, self.weight_at = length, fixed, 0.0 if weight is None else weight[1]
        self.agents = world.add("agents", list(agents))
        met: set[str] = set()
        self.joint = world.join(*self.agents, dist=length, collidable=True, collides_with=lambda e: e.name in met)
        self.bar = self.joint.bar
        """The rod itself."""
        self.weight = None if weight is None else add_weight(world, self.bar, *weight)
        self.goal = world.add("joint_goal", Landmark(Line(length), collide=False, color="green"))
        self.border = world.add("walls", [Landmark(Line(2 + 2 * RADIUS), color="black")] * 4)
        self.bricks = Bricks(world, brick, gaps)
        met |= self.bricks.beside_gaps() if fixed else {name for part in self.bricks.walls for name in part.names}

    def spawn(self, scenario: Scenario, *, any_start: bool, any_goal: bool) -> None:
        """Places everything: the rod somewhere below the bricks, its goal above, at any angle or flat."""
        angles = [scenario.uniform(-UPRIGHT, UPRIGHT) if free else scenario.zeros() for free in (any_start, any_goal)]
        reach, goal_reach = (self.length / 2 * heading(angle).t() for angle in angles)
        middle = scenario.uniform(*below(reach), 2)
        self.goal.pos, self.goal.rot = scenario.uniform(*above(goal_reach), 2), angles[1]
        reach = reach * (scenario.randint(0, 2, 1) * 2 - 1)  # either agent is on the left
        self.agents.pos = torch.stack((middle - reach, middle + reach), 1)
        if self.weight is not None:
            self.weight.pos = middle + self.weight_at * reach
        place_border(scenario, self.border)
        slots = constant(self.bricks.middle, scenario.device, torch.int64).expand(scenario.rows, -1)
        self.bricks.place(slots if self.fixed else scenario.randint(0, self.bricks.count - 1, len(self.bricks.middle)))

    def off(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """How far the rod is off: metres from the nearest gap and from its goal, radians from upright and from its
        goal.
        """
        bar, goal = self.bar, self.goal
        far = {"before": distance(bar, self.bricks.gaps).amin(1), "behind": distance(bar, goal)}
        return far, {"upright": between_lines(bar.rot, UPRIGHT), "turned": between_lines(bar.rot, goal.rot)}

    def hits(self, near: float) -> Tensor:
        """How many things are within ``near`` metres of agents and weight, and how many bricks of the rod; ``[B]``."""
        bodies = [self.agents] if self.weight is None else [self.agents, self.weight.alone]
        walls = self.bricks.walls
        return touches(bodies, [*walls, self.border], near) + touches([self.bar.alone], walls, near)

    def draw(self, picture: Picture) -> None:
        """Where the agents are when the rod is at its goal."""
        draw_ends(picture, self.goal, self.length)
