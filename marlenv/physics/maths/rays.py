"""Rays: how far it is from a point, in a direction, to the outline of a body.

Vectors are ``[2, ...]``, rows last, and broadcast with each other; rays that miss get ``far``. Those that start inside
meet the outline where they leave it if ``leaving`` says so; else they get what VMAS gives them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.physics.maths.geometry import FLAT, cross, dot, rotate

THIN = 1e-8  # square metres; a ray that goes less deep into a disc has no finite gradient
LEVEL = 1e-20  # what a direction along a side counts as, across it


def hit_disc(way: Tensor, ray: Tensor, radius: Tensor, far: float, *, leaving: bool = False) -> Tensor:
    """The distance to a disc; from inside, unless ``leaving``, that to the rim behind, below 0, or ``far``.

    Args:
        way: from the start of the ray to the centre, metres.
        ray: the direction, of length 1.
        radius: metres.
        far: metres.
        leaving: whether rays from inside meet the rim.

    >>> hit_disc(torch.tensor([1.0, 0.05]), torch.tensor([1.0, 0.0]), torch.tensor(0.13), 9.0)
    tensor(0.8800)
    """
    ahead, aside = dot(way, ray), cross(way, ray).abs()
    deep = torch.sqrt((radius**2 - aside**2).clamp(min=THIN))
    near = ahead - deep
    if leaving:
        last = ahead + deep
        return torch.where((aside < radius) & (last > 0), torch.where(near > 0, near, last), far)
    return torch.where((aside < radius) & (ahead > 0), near, far)


def hit_line(way: Tensor, ray: Tensor, along: Tensor, half: Tensor, far: float) -> Tensor:
    """The distance to a line that points ``along`` and is ``2 * half`` metres long."""
    slant = cross(ray, along)
    flat = slant.abs() < FLAT
    slant = torch.where(flat, 1.0, slant)
    ahead, beside = cross(way, along) / slant, cross(way, ray) / slant
    return torch.where(~flat & (beside.abs() <= half) & (ahead >= 0), ahead, far)


def hit_box(
    way: Tensor,
    ray: Tensor,
    along: Tensor,
    half_length: Tensor,
    half_width: Tensor,
    far: float,
    *,
    leaving: bool = False,
) -> Tensor:
    """The distance to the outline of a box that points ``along``; from inside, unless ``leaving``, ``far``."""
    back = torch.stack((along[0], -along[1]))
    start, ray = -rotate(way, back), rotate(ray, back)
    steep = torch.where(ray.abs() < LEVEL, LEVEL, ray)
    enter, leave = [], []
    for axis, half in ((0, half_length), (1, half_width)):
        one, other = (-half - start[axis]) / steep[axis], (half - start[axis]) / steep[axis]
        enter.append(torch.minimum(one, other))
        leave.append(torch.maximum(one, other))
    near, last = torch.maximum(*enter), torch.minimum(*leave)
    if leaving:
        return torch.where((last >= near) & (last > 0), torch.where(near > 0, near, last), far)
    return torch.where((last >= near) & (near > 0), near, far)
