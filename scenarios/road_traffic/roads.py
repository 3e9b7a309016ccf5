"""The map: lanelets, and the routes through them.

A lanelet is a piece of a lane between two lines, ``[n, 2]`` each. A route is a sequence of lanelets; where lanes lie
side by side the lines beside a route are those of all of them together. Numbers are in ``roads.json``, which says where
they come from; other maps with lanelets of the same numbers are read from files of the format of CommonRoad.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import torch
from torch import Tensor

HOME = Path(__file__).with_name("roads.json")
SAME = 1e-4  # metres; points nearer to each other are one
HALF = 52  # lanelets; the other ones are those, turned by half a turn
PARTS = {"1": ("whole",), "3": ("crossing", "merging_in", "merging_out")}
"""The routes of each type of map, by their names; a route of the whole map is a loop."""

Lanelet = tuple[Tensor, Tensor]


class Route(NamedTuple):
    """The lines along a route."""

    center: Tensor
    """In the middle of its own lanelets, ``[n, 2]``, metres."""
    left: Tensor
    """To the left of all lanes, ``[m, 2]``."""
    right: Tensor
    """To the right of them."""

    @property
    def loop(self) -> bool:
        """Whether it ends where it begins."""
        return bool((self.center[0] - self.center[-1]).norm() <= SAME)


@lru_cache(maxsize=1)
def numbers() -> dict[str, Any]:
    """What is known of the map of the lab."""
    known: dict[str, Any] = json.loads(HOME.read_text())
    return known


def lanelets(path: str | None = None) -> dict[int, Lanelet]:
    """The lanelets by their numbers, float32.

    Args:
        path: a file of the format of CommonRoad; left out, the map of the lab.

    >>> len(lanelets()), lanelets()[1][0][0]
    (104, tensor([2.2500, 3.8200]))

    """
    if path is not None:
        return _read(path)
    known, found = numbers(), {}
    size = torch.tensor(known["size"])
    for i, sides in enumerate(known["lanelets"], 1):
        lines = [torch.tensor(side).reshape(-1, 2) for side in sides]
        found[i] = lines
        found[i + (78 if i <= HALF // 2 else 26)] = [size - line for line in lines]
    return {i: (_metres(left), _metres(right)) for i, (left, right) in sorted(found.items())}


def _metres(line: Tensor) -> Tensor:
    return (line.double() / 1e9).float()


def _read(path: str) -> dict[int, Lanelet]:
    """The lanelets of a file."""
    try:
        nodes = ElementTree.parse(path).getroot().findall("lanelet")
        found = {int(node.attrib["id"]): (_side(node, "leftBound"), _side(node, "rightBound")) for node in nodes}
    except (OSError, ElementTree.ParseError, KeyError, ValueError, TypeError) as error:
        raise ValueError(
            f"RoadTraffic: map_file_path={path!r} is no map of the format of CommonRoad: {error}"
        ) from error
    for i, (left, right) in found.items():
        if not len(left) == len(right) >= 2 or not (left.isfinite().all() and right.isfinite().all()):
            raise ValueError(
                f"RoadTraffic: map_file_path={path!r}: both sides of a lanelet need equally many points, two or more, "
                f"all finite; lanelet {i} has {len(left)} on the left and {len(right)} on the right"
            )
    if missing := {i for names in numbers()["beside"] for i in names} - found.keys():
        raise ValueError(f"RoadTraffic: map_file_path={path!r} has no lanelets {sorted(missing)}, which routes need")
    return found


def _side(node: ElementTree.Element, name: str) -> Tensor:
    points = node.findall(f"{name}/point")
    return torch.tensor([[float(str(point.findtext(at))) for at in ("x", "y")] for point in points])


def route(known: dict[int, Lanelet], names: Sequence[int]) -> Route:
    """The lines along the lanelets ``names``, one after the other; points where two lanelets meet stand once."""
    own: tuple[list[Tensor], list[Tensor]] = ([], [])
    outer: tuple[list[Tensor], list[Tensor]] = ([], [])
    beside = {i: together for together in numbers()["beside"] for i in together}
    for name in names:
        for side, widest in ((0, 0), (1, -1)):
            line, far = known[name][side], known[beside[name][widest]][side]
            meet = bool(own[side]) and bool((own[side][-1][-1] - line[0]).norm() < SAME)
            own[side].append(line[1:] if meet else line)
            outer[side].append(far[1:] if meet else far)
    center = (torch.cat(own[0]) + torch.cat(own[1])) / 2
    return Route(center, torch.cat(outer[0]), torch.cat(outer[1]))


def routes(known: dict[int, Lanelet], part: str) -> list[Route]:
    """All routes of a part of the map."""
    if part != "whole":
        return [route(known, names) for names in numbers()[part]]
    found = []
    for loop, first in numbers()["starts"]:
        names = numbers()["loops"][loop - 1]
        at = names.index(first)
        found.append(route(known, names[at:] + names[:at]))
    return found
