"""What observations hold besides places and speeds of bodies, written once more to compare with them (:mod:`slices`).

A quantity is a value that is computed from the world and from what the scenario remembers, ``[B, A or 1, k]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from marlenv.scenarios.mpe import simple_push, simple_reference, simple_speaker_listener
from marlenv.scenarios.sampling import AROUND
from torch import Tensor

from marlenv.physics import others as but_oneself


class Quantity(NamedTuple):
    """What a part of an observation may be."""

    what: str
    unit: str
    value: Callable[[Any], Tensor]


def between(a: Tensor, b: Tensor) -> Tensor:
    """Places ``b [B, n, 2]`` seen from ``a [B, A, 2]``; ``[B, A, n, 2]``."""
    return b.unsqueeze(1) - a.unsqueeze(2)


def at(index: Tensor, places: Tensor) -> Tensor:
    """The place ``[B, 1, 2]`` of a number ``[B]``."""
    return places[torch.arange(len(index)), index].unsqueeze(1)


def colors(index: Tensor, table: Any) -> Tensor:
    """The colours ``[B, n, 3]`` of numbers ``[B, n]``."""
    return torch.tensor(table)[index]


def ends(s: Any, way: int) -> Tensor:
    """An end of the wheel, seen from the agents."""
    rot = s.line.rot
    return way * s.line_length / 2 * torch.stack((rot.cos(), rot.sin()), -1).unsqueeze(1) - s.agents.pos


def each(s: Any, *parts: Tensor) -> Tensor:
    """Several quantities of each of some things, ``[B, 1 or A, n, k]``, one thing after the other."""
    return torch.cat([part.expand(-1, len(s.agents), -1, -1) for part in parts], -1).flatten(2)


def packages(s: Any) -> Tensor:
    """Of transport."""
    there = s.memory.on_goal.float()[:, None, :, None]
    return each(
        s,
        between(s.goal.pos.unsqueeze(1), s.packages.pos),
        between(s.agents.pos, s.packages.pos),
        s.packages.vel.unsqueeze(1),
        there,
    )


def around(s: Any) -> Tensor:
    """Of sampling: the field at eight places around each agent."""
    places = s.agents.pos.unsqueeze(2) + torch.tensor(AROUND) * s.grid_spacing
    values = s._values_at(places.flatten(1, 2).permute(2, 1, 0))[0]
    return (values / s.memory.highest).t().unflatten(1, (len(s.agents), -1))


def others(s: Any) -> Tensor:
    """Of simple_world_comm: what the leader is told of the other agents, each of them once per forest."""
    sides = [*list(s.adversaries.values())[1:], s.sheep]
    places = torch.cat([side.pos for side in sides], 1) - s.leader.pos
    speeds = torch.cat([side.vel * (side is s.sheep) for side in sides], 1)
    return torch.cat((places, speeds), 1).repeat_interleave(s.num_forests, 1).flatten(1).unsqueeze(1)


def _off(s: Any) -> Tensor:
    return (s.line.ang_vel.abs() - s.desired_velocity).abs()[:, None, None]


GOAL = "the goal, seen from the agent"
SHARE = "m, share 0 to 1"


def in_sight(sensor: Any, without: Tensor) -> Tensor:
    """Of rescue: where those in sight are, and 1, but for some of them; ``[B, A, k, 3]``."""
    near = sensor.measure()
    rows = torch.arange(len(without)).reshape(-1, 1, 1)
    there = (near.mask & ~without[rows, near.index]).unsqueeze(-1)
    return torch.cat((near.offset, torch.ones_like(near.offset[..., :1])), -1) * there


def living(s: Any, side: str, rest: str) -> Tensor:
    """Of predator_prey: where each of the rest is, as those of a side see them, and 1; zeros for the dead."""
    places = between(getattr(s, side).pos, getattr(s, rest).pos)
    whole = torch.cat((places, torch.ones_like(places[..., :1])), -1) * s.alive()[rest][:, None, :, None]
    return (but_oneself(whole) if side == rest else whole).flatten(2)


def units(s: Any, team: str, other: str) -> Tensor:
    """Of skirmish: where the units of a team are and their health, as each of another's sees them; ``[B, A, A, 3]``."""
    count, full = len(s.kinds), torch.tensor([kind.health for kind in s.kinds])
    health = (getattr(s.memory, other) / full)[:, None, :, None].expand(-1, count, -1, -1)
    return torch.cat((between(s.teams[team].pos, s.teams[other].pos), health), -1)


def floor(s: Any, team: str, kind: str) -> Tensor:
    """Of territory: whose the cells around each agent are, ``[B, A, 25]``, cell by cell."""
    owned = {name: getattr(s.memory, name).unflatten(1, (s.n_cells, s.n_cells)) for name in s.teams}
    out, side = [], 2 * s.semidim / s.n_cells
    for row, places in enumerate(s.teams[team][kind].pos.tolist()):
        for x, y in places:
            i, j = (min(int((at + s.semidim) // side), s.n_cells - 1) for at in (x, y))
            for a, b in ((i + di, j + dj) for di in range(-2, 3) for dj in range(-2, 3)):
                if not (0 <= a < s.n_cells and 0 <= b < s.n_cells) or owned[team][row, a, b]:
                    out.append(1.0)
                else:
                    out.append(-1.0 if any(x[row, a, b] for x in owned.values()) else 0.0)
    return torch.tensor(out).reshape(len(owned[team]), -1, 25)


def players(s: Any, team: str) -> Tensor:
    """Of football: the other players of a team as each blue one sees them, ``[B, A, n * 8]``."""
    blue, side = s.sides["blue"], s.sides[team]
    pos, vel = (-between(getattr(blue, at), getattr(side, at)) for at in ("pos", "vel"))
    own = [x.unsqueeze(1).expand(-1, len(blue), -1, -1) for x in (side.vel, getattr(s.memory, f"{team}_force"))]
    whole = torch.cat((pos, vel, *own), -1)
    return (but_oneself(whole) if team == "blue" else whole).flatten(2)


def right_goal(s: Any) -> Tensor:
    """Of football."""
    return torch.tensor([s.pitch_length / 2 + s.ball_size / 2, 0.0])


def from_car(s: Any, points: Tensor) -> Tensor:
    """Of road_traffic: points ``[B, A, n, 2]`` as each car sees them, in units of ten lengths of a car."""
    way = torch.view_as_complex((points - s.cars.pos.unsqueeze(2)).contiguous())
    turned = way * torch.polar(torch.ones_like(s.cars.rot), -s.cars.rot).unsqueeze(-1)
    return torch.view_as_real(turned) / (10 * s.agent_length)


PAIR = torch.tensor([8, 9])
"""Of the numbers about another car, its velocity."""


def nearest_cars(s: Any) -> Tensor:
    """Of road_traffic: corners, velocities and distances of the two nearest cars, ``[B, A, 22]``."""
    pos, rot, count = s.cars.pos, s.cars.rot, len(s.cars)
    far, which = (torch.cdist(pos, pos) + 99 * torch.eye(count)).topk(2, largest=False)
    box = torch.tensor([(1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0)]) * torch.tensor(s.size) / 2
    turn = torch.polar(torch.ones_like(rot), rot).unsqueeze(-1)
    corners = pos.unsqueeze(2) + torch.view_as_real(torch.view_as_complex(box) * turn)
    rows = torch.arange(len(pos)).reshape(-1, 1, 1)
    parts = []
    for k in range(2):
        one = which[..., k]
        speed = s.cars.vel.norm(dim=-1)[rows[..., 0], one]
        off = rot[rows[..., 0], one] - rot
        vel = torch.stack((speed * off.cos(), speed * off.sin()), -1) / s.max_speed
        seen = torch.cat(
            (from_car(s, corners[rows[..., 0], one]).flatten(2), vel, far[..., k : k + 1] / (3 * s.lane_width)), -1
        )
        blank = torch.tensor([1.0] * 8 + [0.0] * 2 + [1.0])
        parts.append(torch.where(far[..., k : k + 1] >= 10 * s.agent_length, blank, seen))
    return torch.cat(parts, -1)


def on_road(s: Any, name: str) -> Tensor:
    """Of road_traffic: a note, ``[B, A]``."""
    s.watch.look()
    note: Tensor = getattr(s.notes, name)
    return note


def lanes(s: Any, name: str) -> Tensor:
    """Of road_traffic: a distance in units of three lanes, ``[B, A, 1]``."""
    return on_road(s, name).unsqueeze(-1) / (3 * s.lane_width)


LANES = "three lanes"
PLAYERS = "where the agent is, seen from it; the velocity relative to it; its velocity; its force"
QUANTITIES: dict[str, list[Quantity]] = {
    "commons": [
        Quantity(
            "for each patch: where it is, seen from the agent; its stock",
            "m, 0 to 1",
            lambda s: each(s, between(s.agents.pos, s.patches.pos), s.memory.stock[:, None, :, None]),
        )
    ],
    "rescue": [
        Quantity(
            "for each victim in sight, the nearest first: where it is, seen from the agent, and 1; else zeros",
            "m, 0 or 1",
            lambda s: in_sight(s.eyes, s.memory.rescued).flatten(2),
        ),
        Quantity(
            "for each other agent in sight, the nearest first: where it is, seen from the agent, and 1; else zeros",
            "m, 0 or 1",
            lambda s: in_sight(s.mates[0], torch.zeros(len(s.agents.pos), len(s.agents)) > 0).flatten(2),
        ),
    ],
    "predator_prey": [
        Quantity("own energy", "0 to 1", lambda s: s.memory.energy.unsqueeze(-1)),
        *(
            Quantity(
                f"for each {who}: where it is, seen from the agent, and 1; zeros for the dead",
                "m, 0 or 1",
                lambda s, a=side, b=rest: living(s, a, b),
            )
            for side, rest, who in (
                ("predators", "predators", "other predator"),
                ("predators", "prey", "prey"),
                ("prey", "prey", "other prey"),
                ("prey", "predators", "predator"),
            )
        ),
    ],
    "skirmish": [
        Quantity("own health", "share, 0 to 1", lambda s: (s.memory.red / s._each("health")).unsqueeze(-1)),
        Quantity(
            "own kind: fighter, archer, healer",
            "0 or 1",
            lambda s: torch.eye(3)[
                torch.tensor([("fighter", "archer", "healer").index(k.name) for k in s.kinds])
            ].expand(len(s.memory.red), -1, -1),
        ),
        *(
            Quantity(
                "for each other unit of the team: where it is, seen from the unit; its health",
                SHARE,
                lambda s, t=team: but_oneself(units(s, t, t)).flatten(2),
            )
            for team in ("red", "blue")
        ),
        *(
            Quantity(
                "for each unit of the other team: where it is, seen from the unit; its health",
                SHARE,
                lambda s, t=team, o=other: units(s, t, o).flatten(2),
            )
            for team, other in (("red", "blue"), ("blue", "red"))
        ),
    ],
    "territory": [
        Quantity(
            "the 5 x 5 cells around: 1 own or outside, 0 nobody's, -1 of another team",
            "-1, 0 or 1",
            lambda s, t=team, k=kind: floor(s, t, k),
        )
        for team in ("red", "green", "blue")
        for kind in ("scouts", "guards")
    ],
    "dispersion": [
        Quantity(
            "for each food: where it is, seen from the agent; whether it is eaten",
            "m, 0 or 1",
            lambda s: each(s, between(s.agents.pos, s.food.pos), s.memory.eaten.float()[:, None, :, None]),
        )
    ],
    "dropout": [Quantity("whether the goal was reached", "0 or 1", lambda s: s.memory.eaten.float().reshape(-1, 1, 1))],
    "football": [
        Quantity("own force", "N", lambda s: s.memory.blue_force),
        Quantity("where the agent is, seen from the ball", "m", lambda s: s.sides["blue"].pos - s.ball.pos[:, None]),
        Quantity("own velocity, relative to the ball's", "m/s", lambda s: s.sides["blue"].vel - s.ball.vel[:, None]),
        Quantity("the ball, seen from the goal to score in", "m", lambda s: s.ball.pos[:, None] - right_goal(s)),
        Quantity("the ball's velocity", "m/s", lambda s: s.ball.vel[:, None]),
        Quantity("the ball's force", "N", lambda s: s.memory.ball_force[:, None]),
        Quantity("where the agent is, seen from that goal", "m", lambda s: s.sides["blue"].pos - right_goal(s)),
        Quantity(f"for each adversary: {PLAYERS}", "m, m/s, m/s, N", lambda s: players(s, "red")),
        Quantity(f"for each teammate: {PLAYERS}", "m, m/s, m/s, N", lambda s: players(s, "blue")),
    ],
    "joint_passage_size": [
        Quantity(f"the agent, seen from the {n} gap", "m", lambda s, n=n: s.agents.pos - getattr(s.memory, n)[:, None])
        for n in ("large", "small")
    ],
    "multi_give_way": [
        Quantity("how far the goal is", "m", lambda s: (s.agents.pos - s.goals.pos).norm(dim=-1, keepdim=True))
    ],
    "navigation": [
        Quantity(
            "how much of its range each ray of the lidar does not go",
            "m",
            lambda s: s.lidar_range - s.lidars[0].measure(),
        )
    ],
    "road_traffic": [
        Quantity("own speed", "max_speed", lambda s: s.cars.vel.norm(dim=-1, keepdim=True) / s.max_speed),
        Quantity(
            "the next points of the route, seen from the car",
            "ten lengths of a car",
            lambda s: from_car(s, s.watch.aims(on_road(s, "on")).permute(3, 2, 1, 0)).flatten(2),
        ),
        Quantity("how far the center line is", LANES, lambda s: lanes(s, "off")),
        Quantity("how far the line to the left is", LANES, lambda s: lanes(s, "left")),
        Quantity("how far the line to the right is", LANES, lambda s: lanes(s, "right")),
        Quantity(
            "for each of the two nearest cars, seen from the car: its four corners, from the front left on; its "
            "speed (never below 0) in the direction that it faces; how far its middle is",
            "ten lengths of a car, max_speed, three lanes",
            nearest_cars,
        ),
    ],
    "sampling": [Quantity("the field around, by the highest value", "", around)],
    "simple_adversary": [Quantity(GOAL, "m", lambda s: at(s.memory.goal, s.landmarks.pos) - s.friends.pos)],
    "simple_crypto": [
        Quantity("the secret", "0 or 1", lambda s: s.memory.secret[:, None]),
        Quantity("the key", "0 or 1", lambda s: s.memory.key[:, None]),
    ],
    "simple_push": [
        Quantity(GOAL, "m", lambda s: at(s.memory.goal, s.landmarks.pos) - s.sheep.pos),
        Quantity(
            "the colour that tells the goal", "0 to 1", lambda s: colors(s.memory.goal[:, None], simple_push.HINTS)
        ),
        Quantity(
            "colours of the landmarks",
            "0 to 1",
            lambda s: torch.tensor(simple_push.MARKS).expand(s.rows, -1, -1).flatten(1)[:, None],
        ),
    ],
    "simple_reference": [
        Quantity(
            "the colour of the goal of the other agent",
            "0 to 1",
            lambda s: colors(s.memory.goals, simple_reference.COLORS),
        ),
        Quantity("what the other agent says", "", lambda s: s.agents.said.flip(1)),
    ],
    "simple_speaker_listener": [
        Quantity(
            "the colour of the goal", "0 to 1", lambda s: colors(s.memory.goal[:, None], simple_speaker_listener.COLORS)
        )
    ],
    "simple_world_comm": [
        Quantity(
            "the other agents, seen from the agent, each of them once per forest; then their velocities, likewise, "
            "zeros for adversaries",
            "m, m/s",
            others,
        )
    ],
    "transport": [
        Quantity(
            "for each package: where it is, seen from the goal, and from the agent; its velocity; whether it is at the "
            "goal",
            "m, m, m/s, 0 or 1",
            packages,
        )
    ],
    "wheel": [
        Quantity("one end of the line, seen from the agent", "m", lambda s: ends(s, 1)),
        Quantity("the other end", "m", lambda s: ends(s, -1)),
        Quantity("how fast the line turns, either way", "rad/s", lambda s: s.line.ang_vel.abs()[:, None, None]),
        Quantity("how far that is from the desired speed", "rad/s", _off),
    ],
}
