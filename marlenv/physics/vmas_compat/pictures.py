"""Pictures of a row of a scenario file: its own geoms, then its entities."""

from __future__ import annotations

import math
from typing import Any

import torch

from marlenv.errors import SpecError
from marlenv.physics.task.picture import Picture, View
from marlenv.physics.vmas_compat.environment import Environment
from marlenv.physics.vmas_compat.rendering import Grid, TextLine


def view(scenario: Any, row: int, size: tuple[int, int]) -> View:
    """What a picture shows, as in VMAS: about the scenario's origin, and so much that all agents are in it.

    Args:
        scenario: whose.
        row: of which row.
        size: width and height, pixels.

    """
    x, y = (float(at) for at in scenario.render_origin)
    zoom, agents = float(scenario.viewer_zoom), scenario.world.agents
    if zoom <= 0:
        raise SpecError(f"{type(scenario).__name__}.viewer_zoom must be above 0, got {zoom}")
    shown = [zoom * max(1.0, side / min(size)) for side in size]
    room = 2 * max((agent.shape.circumscribed_radius() for agent in agents), default=0.0)
    places = [agent.state.pos[row].tolist() for agent in agents]
    needed = [max((abs(at[k] - middle) for at in places), default=0.0) + room for k, middle in enumerate((x, y))]
    wider = max([zoom, *(far / side for far, side in zip(needed, shown, strict=True) if math.isfinite(far))])
    return View(shown[0] * wider, shown[1] * wider, x, y)


def draw_row(environment: Environment, row: int, size: tuple[int, int]) -> Any:
    """A picture of a row; uint8 ``[H, W, 3]``, a numpy array.

    Args:
        environment: whose.
        row: which one.
        size: width and height, pixels.

    """
    scenario, world, draws = environment.scenario, environment.world, environment.draws
    with torch.no_grad(), draws.current(), draws.unmoved(), draws.govern(), draws.row_by_row() as turn_to:
        turn_to(row)
        picture = Picture(size, view(scenario, row, size))
        if scenario.plot_grid:
            Grid(spacing=scenario.grid_spacing).draw(picture)
        if scenario.visualize_semidims:
            picture.border(world.x_semidim, world.y_semidim)
        geoms = [*scenario.extra_render(row)]
        for entity in world.entities:
            geoms += entity.render(env_index=row)
        for constraint in world.joints:
            geoms += constraint.render(env_index=row)
        for geom in sorted(geoms, key=lambda geom: isinstance(geom, TextLine)):  # texts lie on everything else
            geom.draw(picture)
        return picture.pixels()
