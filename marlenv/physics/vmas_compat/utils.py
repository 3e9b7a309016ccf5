"""VMAS's ``utils``: colours, constants, ``TorchUtils``, ``ScenarioUtils`` and observers, under VMAS's names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import ShapeError
from marlenv.physics.laws.entities import COLORS
from marlenv.physics.laws.integrate import Laws
from marlenv.physics.maths.geometry import LINE_WIDTH

X, Y, Z = 0, 1, 2
ALPHABET = "".join(chr(65 + i) for i in range(26))
VIEWER_DEFAULT_ZOOM = 1.2
INITIAL_VIEWER_SIZE = (700, 700)
LINE_MIN_DIST = LINE_WIDTH
COLLISION_FORCE, JOINT_FORCE = 100, 130
TORQUE_CONSTRAINT_FORCE = 1
DRAG, LINEAR_FRICTION, ANGULAR_FRICTION = Laws.drag, Laws.linear_friction, Laws.angular_friction
DEVICE_TYPING = torch.device | str | int
AGENT_OBS_TYPE = Tensor | dict[str, Tensor]
AGENT_INFO_TYPE = dict[str, Tensor]
AGENT_REWARD_TYPE = Tensor
OBS_TYPE = list[AGENT_OBS_TYPE] | dict[str, AGENT_OBS_TYPE]
INFO_TYPE = list[AGENT_INFO_TYPE] | dict[str, AGENT_INFO_TYPE]
REWARD_TYPE = list[AGENT_REWARD_TYPE] | dict[str, AGENT_REWARD_TYPE]
DONE_TYPE = Tensor

MANY_TRIES = 50_000


class Color(Enum):
    """VMAS's colours: the same as ours."""

    RED = COLORS["red"]
    GREEN = COLORS["green"]
    BLUE = COLORS["blue"]
    LIGHT_GREEN = COLORS["light_green"]
    WHITE = COLORS["white"]
    GRAY = COLORS["gray"]
    BLACK = COLORS["black"]
    ORANGE = COLORS["orange"]
    PINK = COLORS["pink"]
    PURPLE = COLORS["purple"]
    YELLOW = COLORS["yellow"]


def override(cls: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Marks a method that overrides one of ``cls``; a NameError where there is none."""

    def check(method: Callable[..., Any]) -> Callable[..., Any]:
        if not hasattr(cls, method.__name__):
            raise NameError(f"{method.__qualname__} overrides nothing: {cls.__name__} has no {method.__name__!r}")
        return method

    return check


class Observable:
    """What tells others that it has changed."""

    def __init__(self) -> None:
        self._observers: list[Any] = []

    def subscribe(self, observer: Any) -> None:
        """From now on ``observer.notify`` is called."""
        self._observers.append(observer)

    def unsubscribe(self, observer: Any) -> None:
        """No more."""
        self._observers.remove(observer)

    def notify_observers(self, *args: Any, **kwargs: Any) -> None:
        """Tells all of them."""
        for observer in self._observers:
            observer.notify(self, *args, **kwargs)


class Observer:
    """What is told that others have changed."""

    def notify(self, observable: Any, *args: Any, **kwargs: Any) -> None:
        """Is called by :class:`Observable`."""
        raise NotImplementedError


def extract_nested_with_index(data: Any, index: int) -> Any:
    """A row of a tensor, or of all tensors of a nested dict."""
    if isinstance(data, Mapping):
        return {key: extract_nested_with_index(value, index) for key, value in data.items()}
    return data[index]


def save_video(*_: Any, **__: Any) -> None:
    """Is VMAS's; here films are made by ``marlenv render`` and :class:`~marlenv.VideoRecorder`."""
    raise NotImplementedError("save_video: use marlenv's VideoRecorder, or frames of env.render()")


class TorchUtils:
    """Arithmetic that scenarios use; vectors are ``[..., 2]``."""

    @staticmethod
    def clamp_with_norm(tensor: Tensor, max_norm: float) -> Tensor:
        """Vectors cut to a length."""
        size = torch.linalg.vector_norm(tensor, dim=-1).unsqueeze(-1)
        return torch.where(size > max_norm, (tensor / size.clamp(min=1e-30)) * max_norm, tensor)

    @staticmethod
    def rotate_vector(vector: Tensor, angle: Tensor) -> Tensor:
        """Vectors turned by an angle ``[...]`` or ``[..., 1]``, radians."""
        angle = angle.squeeze(-1) if angle.ndim == vector.ndim else angle
        if vector.shape[:-1] != angle.shape or vector.shape[-1] != 2:
            raise ShapeError(
                f"TorchUtils.rotate_vector: expected vectors [..., 2] and angles [...], "
                f"got {list(vector.shape)} and {list(angle.shape)}"
            )
        cos, sin, x, y = torch.cos(angle), torch.sin(angle), vector[..., 0], vector[..., 1]
        return torch.stack((x * cos - y * sin, x * sin + y * cos), -1)

    @staticmethod
    def cross(vector_a: Tensor, vector_b: Tensor) -> Tensor:
        """The cross product, ``[..., 1]``."""
        return (vector_a[..., 0] * vector_b[..., 1] - vector_a[..., 1] * vector_b[..., 0]).unsqueeze(-1)

    @staticmethod
    def compute_torque(f: Tensor, r: Tensor) -> Tensor:
        """The torque of the force ``f`` at ``r``, ``[..., 1]``."""
        return TorchUtils.cross(r, f)

    @staticmethod
    def to_numpy(data: Any) -> Any:
        """Nested tensors as numpy arrays."""
        if isinstance(data, Tensor):
            return data.detach().cpu().numpy()
        if isinstance(data, Mapping):
            return {key: TorchUtils.to_numpy(value) for key, value in data.items()}
        return [TorchUtils.to_numpy(value) for value in data]

    @staticmethod
    def recursive_clone(value: Any) -> Any:
        """Nested tensors in memory of their own."""
        if isinstance(value, Tensor):
            return value.clone()
        return {key: TorchUtils.recursive_clone(one) for key, one in value.items()}

    @staticmethod
    def recursive_require_grad_(value: Any) -> None:
        """Gradients flow to all numbers of nested tensors."""
        if isinstance(value, Tensor):
            if value.is_floating_point():
                value.requires_grad_(True)
            return
        for one in value.values() if isinstance(value, Mapping) else value:
            TorchUtils.recursive_require_grad_(one)

    @staticmethod
    def where_from_index(env_index: Any, new_value: Any, old_value: Tensor) -> Tensor:
        """``old_value`` with some rows replaced, as a new tensor: the dtypes and shapes of ``torch.where``."""
        where = torch.zeros_like(old_value, dtype=torch.bool)
        where[env_index] = True
        return torch.where(where, new_value, old_value)


class ScenarioUtils:
    """What scenarios do again and again."""

    @staticmethod
    def spawn_entities_randomly(
        entities: Sequence[Any],
        world: Any,
        env_index: int | None,
        min_dist_between_entities: float,
        x_bounds: Sequence[float],
        y_bounds: Sequence[float],
        occupied_positions: Tensor | None = None,
        disable_warn: bool = False,
    ) -> None:
        """Places entities at random, each far enough from those before it.

        Args:
            entities: which.
            world: where they are.
            env_index: in which row; all when None.
            min_dist_between_entities: between their centres, metres.
            x_bounds: lowest and highest x, metres.
            y_bounds: likewise.
            occupied_positions: further places to keep away from, ``[B or 1, n, 2]``.
            disable_warn: say nothing where it takes very many tries.

        """
        if occupied_positions is None:
            occupied_positions = torch.zeros(world.batch_dim if env_index is None else 1, 0, 2, device=world.device)
        for entity in entities:
            pos = ScenarioUtils.find_random_pos_for_entity(
                occupied_positions, env_index, world, min_dist_between_entities, x_bounds, y_bounds, disable_warn
            )
            occupied_positions = torch.cat((occupied_positions, pos), 1)
            entity.set_pos(pos.squeeze(1), batch_index=env_index)

    @staticmethod
    def find_random_pos_for_entity(
        occupied_positions: Tensor,
        env_index: int | None,
        world: Any,
        min_dist_between_entities: float,
        x_bounds: Sequence[float],
        y_bounds: Sequence[float],
        disable_warn: bool = False,
    ) -> Tensor:
        """A place for one entity, ``[B or 1, 1, 2]``; see :meth:`spawn_entities_randomly`."""
        rows, draws = world.batch_dim if env_index is None else 1, world._draws

        def draw(where: Tensor | None = None) -> Tensor:
            return draws.point(rows, x_bounds, y_bounds, world.device, where)

        def crowded(pos: Tensor) -> Tensor:
            return (torch.cdist(occupied_positions, pos) < min_dist_between_entities).squeeze(2).any(1)

        pos = draw()
        if not occupied_positions.shape[1] or not bool((where := crowded(pos)).any()):
            return pos
        fresh, tries = draw(where), 1
        while True:
            pos = torch.where(where.reshape(-1, 1, 1), fresh, pos)
            fresh = draw() if draws.shared else fresh  # VMAS draws before it looks
            where = crowded(pos)
            if not bool(where.any()):
                return pos
            fresh = fresh if draws.shared else draw(where)
            tries += 1
            if tries == MANY_TRIES and not disable_warn:
                warnings.warn(
                    f"spawn_entities_randomly: {tries} tries were not enough; are the bounds {x_bounds}, {y_bounds} "
                    f"too tight for entities {min_dist_between_entities} m apart? disable_warn=True stops this warning",
                    stacklevel=2,
                )

    @staticmethod
    def check_kwargs_consumed(dictionary_of_kwargs: Mapping[str, Any], warn: bool = True) -> None:
        """Warns, or raises, where options are left that the scenario has not taken."""
        if dictionary_of_kwargs:
            message = f"the scenario takes no options {sorted(dictionary_of_kwargs)}"
            if not warn:
                raise ValueError(message)
            warnings.warn(message, stacklevel=2)

    @staticmethod
    def render_agent_indices(
        scenario: Any, env_index: int, start_from: int = 0, exclude: Sequence[Any] | None = None
    ) -> list[Any]:
        """The numbers of the agents, for pictures."""
        from marlenv.physics.vmas_compat import rendering

        return [
            rendering.label(str(i + start_from), agent.state.pos[env_index])
            for i, agent in enumerate(scenario.world.agents)
            if exclude is None or agent not in exclude
        ]

    @staticmethod
    def plot_entity_rotation(entity: Any, env_index: int, length: float = 0.15) -> Any:
        """Where an entity points, for pictures."""
        from marlenv.physics.vmas_compat import rendering

        line = rendering.Line((0.0, 0.0), (length, 0.0), width=2)
        return rendering.placed(line, entity.state, env_index, entity.color)
