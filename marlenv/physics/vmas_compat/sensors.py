"""VMAS's ``sensors``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from marlenv.physics.vmas_compat.utils import Color


class Sensor:
    """What an agent measures; a scenario may write its own. Abstract."""

    def __init__(self, world: Any) -> None:
        self._world, self.agent = world, None

    def measure(self) -> Any:
        """What it measures now."""
        raise NotImplementedError(f"{type(self).__name__} must have a method measure")

    def render(self, env_index: int = 0) -> list[Any]:
        """What a picture of a row shows of it."""
        return []

    def to(self, device: Any) -> None:
        """Moves its tensors."""


class Lidar(Sensor):
    """Rays around an agent, and how far each goes until it meets something."""

    def __init__(
        self,
        world: Any,
        angle_start: float = 0.0,
        angle_end: float = 2 * math.pi,
        n_rays: int = 8,
        max_range: float = 1.0,
        entity_filter: Callable[[Any], bool] = lambda _: True,
        render_color: Any = Color.GRAY,
        alpha: float = 1.0,
        render: bool = True,
    ) -> None:
        super().__init__(world)
        around = (angle_start - angle_end) % (2 * math.pi) < 1e-5
        self._angle = torch.linspace(angle_start, angle_end, n_rays + around, device=world.device)[:n_rays]
        self.entity_filter, self.alpha = entity_filter, alpha
        self._max_range, self._render, self._render_color = max_range, render, render_color
        self._last_measurement: Tensor | None = None

    @property
    def _angles(self) -> Tensor:
        return self._angle.repeat(self._world.batch_dim, 1)

    @property
    def render_color(self) -> Any:
        """Of the points where rays end."""
        return self._render_color.value if isinstance(self._render_color, Color) else self._render_color

    def to(self, device: Any) -> None:
        """Moves its tensors."""
        self._angle = self._angle.to(device)

    def set_render(self, render: bool) -> None:
        """Whether pictures show it."""
        self._render = render

    def measure(self, vectorized: bool = True) -> Tensor:
        """How far the rays go, ``[B, R]``, metres."""
        agent: Any = self.agent
        angles = (self._angle.unsqueeze(-1) + agent.state.rot.t()).t()
        self._last_measurement = self._world.cast_rays(agent, angles, self._max_range, self.entity_filter)
        return self._last_measurement

    def render(self, env_index: int = 0) -> list[Any]:
        """The rays of a row, and where they end."""
        from marlenv.physics.vmas_compat import rendering

        if not self._render or self._last_measurement is None:
            return []
        agent: Any = self.agent
        start, geoms = agent.state.pos[env_index], []
        angles = (self._angle + agent.state.rot[env_index]).tolist()
        for angle, far in zip(angles, self._last_measurement[env_index].tolist(), strict=True):
            end = start + far * start.new_tensor((math.cos(angle), math.sin(angle)))
            ray, point = rendering.Line(start, end, width=0.05), rendering.make_circle(0.01)
            ray.set_color(0, 0, 0, alpha=self.alpha)
            red, green, blue = self.render_color
            point.set_color(red, green, blue, alpha=self.alpha)
            point.add_attr(rendering.Transform(translation=end))
            geoms += [ray, point]
        return geoms
