"""Pictures of rows and of episodes: the view that has everything in it, the scenario's own drawing, then the bodies."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from marlenv.errors import ShapeError, whole
from marlenv.options import check_options
from marlenv.physics.laws.bodies import Body
from marlenv.physics.laws.shapes import Sphere
from marlenv.physics.laws.state import State
from marlenv.physics.simulation import Simulation
from marlenv.physics.task.picture import Picture, View

SMALLEST_VIEW = 1.2  # metres from the middle to the edge
FAR = 20.0  # metres; bodies farther away are not looked at
HUGE = 3.0  # metres; larger bodies are not looked at


def check_render(others: Mapping[str, Any]) -> None:
    """Raises where ``render`` is given options of other libraries' envs, such as ``mode`` and ``env_index``."""
    more = "; pictures are always arrays: instead of VMAS's render(mode='rgb_array', env_index=i), render(i)"
    check_options("render", others, {"row": 0, "size": (600, 600)}, more=more)


def draw_row(simulation: Simulation, state: State, row: int, size: tuple[int, int]) -> Any:
    """A picture of a row of a state; uint8 ``[H, W, 3]``, a numpy array.

    It shows the scenario's view. Where that is None, it is wide enough for all visible bodies whose ``x`` and ``y`` are
    within 20 metres and that reach 3 metres at most; others are drawn as far as they lie in it.
    """
    rows = state["rng"].shape[-1]
    row = whole("render", "row", row, -rows, rows - 1)
    if not isinstance(size, Sequence) or len(size) != 2:
        raise ShapeError(f"render: size must be the width and the height in pixels, got {size!r}")
    size = (whole("render", "width", size[0], 1), whole("render", "height", size[1], 1))
    with _opened(simulation, {name: x[..., row % rows].unsqueeze(-1) for name, x in state.items()}):
        return _picture(simulation, size, _fitted(simulation))


def draw_frames(simulation: Simulation, states: Sequence[State], size: tuple[int, int]) -> Iterator[Any]:
    """Pictures of states of one row each, all with one view, that has all views in it: what stands still stays where it
    is.

    Args:
        simulation: whose states they are.
        states: in the order of the frames.
        size: width and height, pixels.

    """
    views = []
    for state in states:
        with _opened(simulation, state):
            views.append(_fitted(simulation))
    low = [min((view[i + 2] - view[i] for view in views), default=-1.0) for i in (0, 1)]
    high = [max((view[i + 2] + view[i] for view in views), default=1.0) for i in (0, 1)]
    both = list(zip(low, high, strict=True))
    whole_view = View(*((b - a) / 2 for a, b in both), *((a + b) / 2 for a, b in both))
    for state in states:
        with _opened(simulation, state):
            picture = _picture(simulation, size, whole_view)
        yield picture


@contextlib.contextmanager
def _opened(simulation: Simulation, state: State) -> Iterator[None]:
    """A state of one row lies open."""
    with torch.no_grad():
        simulation.world.stage.open({name: x.cpu() for name, x in state.items()})
        try:
            yield
        finally:
            simulation.world.stage.shut()


def _fitted(simulation: Simulation) -> View:
    """The view that the scenario asks for, or that has everything in the open state in it."""
    if (view := simulation.scenario.view()) is not None:
        return _checked(view, f"{type(simulation.scenario).__name__}.view")
    bodies = [body for group in simulation.world.groups.values() for body in group if _in_view(body)]
    boxes = [_extent(body) for body in bodies]
    reach = [max((max(abs(box[i]), abs(box[i + 2])) for box in boxes), default=0.0) for i in (0, 1)]
    return View(*(max(SMALLEST_VIEW, math.ceil((at + 0.1) * 4) / 4) for at in reach))


def _checked(view: View, who: str) -> View:
    """A scenario's view, where something can be drawn in it."""
    if not isinstance(view, View):
        raise TypeError(f"{who}: expected a View, such as View(wide=2.0, high=1.5), or None, got {view!r}")
    if not (all(map(math.isfinite, view)) and view.wide > 0 and view.high > 0):
        raise ValueError(f"{who}: expected finite numbers, wide and high above 0, got {view!r}")
    return view


def _picture(simulation: Simulation, size: tuple[int, int], view: View) -> Any:
    """The picture of the open state."""
    world, scenario = simulation.world, simulation.scenario
    picture = Picture(size, view)
    scenario.draw(picture)
    if scenario.draws_edge:
        picture.border(world.laws.x_semidim, world.laws.y_semidim)
    for sensor in world.sensors:
        picture.sensor(sensor)
    picture.bodies([body for bodies in world.groups.values() for body in bodies])
    picture.speech([(name, bodies) for name, bodies in simulation.groups.items() if world.speaks(bodies)])
    return picture.pixels()


def _in_view(body: Body) -> bool:
    return body.entity.kind.visible and body.entity.shape.reach <= HUGE and body.pos.abs().max().item() <= FAR


def _extent(body: Body) -> tuple[float, float, float, float]:
    """Left, bottom, right and top of a body; metres."""
    (x, y), rot, shape = body.pos[0].tolist(), body.rot[0].item(), body.entity.shape
    if isinstance(shape, Sphere):
        a = b = shape.radius
    else:
        u, v = getattr(shape, "length", 0.0) / 2, getattr(shape, "width", 0.0) / 2
        a, b = abs(u * math.cos(rot)) + abs(v * math.sin(rot)), abs(u * math.sin(rot)) + abs(v * math.cos(rot))
    return x - a, y - b, x + a, y + b
