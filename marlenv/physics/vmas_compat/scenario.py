"""VMAS's ``BaseScenario`` and ``BaseHeuristicPolicy``: what a user's file subclasses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import NeedsReset
from marlenv.physics.vmas_compat.states import Rows
from marlenv.physics.vmas_compat.utils import INITIAL_VIEWER_SIZE, VIEWER_DEFAULT_ZOOM


class BaseScenario(ABC):
    """A task in VMAS's form: a world, and functions of single agents."""

    def __init__(self) -> None:
        self._world: Any = None
        self.viewer_size, self.viewer_zoom = INITIAL_VIEWER_SIZE, VIEWER_DEFAULT_ZOOM
        self.render_origin = (0.0, 0.0)
        self.plot_grid, self.grid_spacing, self.visualize_semidims = False, 0.1, True

    @property
    def world(self) -> Any:
        """The world that ``make_world`` made."""
        if self._world is None:
            raise NeedsReset(f"{type(self).__name__}: there is no world yet; it is what make_world returns")
        return self._world

    def to(self, device: Any) -> None:
        """Moves its tensors and its world."""
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(self, name, value.to(device))
        self.world.to(device)

    def env_make_world(self, batch_dim: int, device: Any, **kwargs: Any) -> Any:
        """Makes the world; called by the env."""
        self._world = self.make_world(Rows(batch_dim), device, **kwargs)
        return self._world

    def env_reset_world_at(self, env_index: int | None) -> None:
        """A new episode in one row, or in all; called by the env."""
        self.world.reset(env_index)
        self.reset_world_at(env_index)

    def env_process_action(self, agent: Any) -> None:
        """From an agent's action to its force; called by the env."""
        if agent.action_script is not None:
            agent.action_callback(self.world)
        self.process_action(agent)
        agent.dynamics.check_and_process_action()

    @abstractmethod
    def make_world(self, batch_dim: int, device: Any, **kwargs: Any) -> Any:
        """The world, with its agents and landmarks."""

    @abstractmethod
    def reset_world_at(self, env_index: int | None = None) -> None:
        """Places the entities, in one row or in all."""

    @abstractmethod
    def observation(self, agent: Any) -> Any:
        """What an agent observes, ``[B, d]``, or a dict of that."""

    @abstractmethod
    def reward(self, agent: Any) -> Tensor:
        """The reward of an agent, ``[B]``."""

    def done(self) -> Tensor:
        """Whether rows are over, bool ``[B]``."""
        return torch.zeros(self.world.batch_dim, dtype=torch.bool, device=self.world.device)

    def info(self, agent: Any) -> dict[str, Tensor]:
        """What else there is to say about an agent."""
        return {}

    def extra_render(self, env_index: int = 0) -> list[Any]:
        """What else a picture of a row shows."""
        return []

    def process_action(self, agent: Any) -> None:  # noqa: B027
        """May change ``agent.action.u`` before it acts."""

    def pre_step(self) -> None:  # noqa: B027
        """Is called before every step of the world."""

    def post_step(self) -> None:  # noqa: B027
        """Is called after every step of the world."""


class BaseHeuristicPolicy(ABC):
    """A policy written by hand, for one agent at a time."""

    def __init__(self, continuous_action: bool) -> None:
        self.continuous_actions = continuous_action

    @abstractmethod
    def compute_action(self, observation: Tensor, u_range: float) -> Tensor:
        """The action ``[B, n]`` for an observation ``[B, d]``."""


class RandomPolicy(BaseHeuristicPolicy):
    """Gaussian actions, cut to their range."""

    def compute_action(self, observation: Tensor, u_range: float) -> Tensor:
        """Two numbers for each row."""
        return torch.randn(observation.shape[0], 2).clamp(-u_range, u_range)
