"""Pictures of a row of a scenario file: its own geoms, then its entities."""

from __future__ import annotations

from typing import Any

import torch

from marlenv.physics.task.picture import Picture, View
from marlenv.physics.vmas_compat.environment import Environment
from marlenv.physics.vmas_compat.rendering import Grid


def draw_row(environment: Environment, row: int, size: tuple[int, int]) -> Any:
    """A picture of a row; uint8 ``[H, W, 3]``, a numpy array.

    Args:
        environment: whose.
        row: which one.
        size: width and height, pixels.

    """
    scenario, world = environment.scenario, environment.world
    with torch.no_grad(), environment.draws.current(), environment.draws.govern(row):
        wide, high = (scenario.viewer_zoom**2 * max(1.0, s / min(size)) for s in size)
        picture = Picture(size, View(wide, high))
        if scenario.plot_grid:
            Grid(spacing=scenario.grid_spacing).draw(picture)
        if scenario.visualize_semidims:
            picture.border(world.x_semidim, world.y_semidim)
        geoms = [*scenario.extra_render(row)]
        for entity in world.entities:
            geoms += entity.render(env_index=row)
        for constraint in world.joints:
            geoms += constraint.render(env_index=row)
        for geom in geoms:
            geom.draw(picture)
        return picture.pixels()
