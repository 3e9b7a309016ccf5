"""What of a scenario file's steps can be machine code: motion, distances and rays, which are the engine's own.

A file computes what it likes in Python. But what moves its world, how far apart two outlines are and how far rays go
are pure functions of places and forces. Each is put into the form of a
:class:`~marlenv.physics.simulation.Simulation`; :func:`~marlenv.physics.jit.tiers.engine_of` compiles it, and compares
it with separate operations at its first use.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from marlenv.physics.jit.tiers import Tier, engine_of
from marlenv.physics.laws.integrate import Motion, Stepper
from marlenv.physics.laws.state import State
from marlenv.physics.maths.views import rows_last
from marlenv.physics.task.relations import Outlines
from marlenv.rng import RowRNG

SPREAD = 1.0  # metres; where bodies are put for a comparison
SOON = 3  # calls after which it is worth a compiler's time
MOST = 4  # functions of a world; more would keep a user waiting for the compiler
GIVEN = "given"


class Pushes(NamedTuple):
    """Numbers that are given to a function, ``[B, A, width]``, as actions are to a simulation."""

    agents: int
    width: int
    most: float = 1.0
    """The largest that a comparison tries."""
    mode: str = "continuous"

    def bounds(self) -> tuple[Tensor, Tensor]:
        """What a comparison tries; ``[A, width]`` each."""
        most = torch.full((self.agents, self.width), self.most)
        return -most, most


class Pure(ABC):
    """A pure function of rows, as machine code wants a simulation. Abstract.

    Args:
        controls: what is given to it, ``[B, A, width]`` each.
        entities: how many bodies it moves, one at least.

    """

    mode = "continuous"
    in_place = False

    def __init__(self, controls: Mapping[str, Pushes], entities: int = 1) -> None:
        self.controls, self.entities = dict(controls), entities
        self.observations: dict[str, Any] = {}
        self.infos: dict[str, Any] = {}

    @property
    def scenario(self) -> Pure:
        """What must not change while it is traced: this."""
        return self

    def start(self, rng: RowRNG) -> State:
        """Everything at the origin."""
        rows, n = rng.rows[0], self.entities
        sizes = {"pos": (2, n), "vel": (2, n), "rot": (n,), "ang_vel": (n,)}
        motion = {name: torch.zeros(*size, rows) for name, size in sizes.items()}
        steps = torch.zeros(rows, dtype=torch.int64)
        return {**motion, "rng": rows_last(rng.state).contiguous(), "steps": steps, "over": steps.bool()}

    def reset(self, state: State, where: Tensor | None = None, kept: Any = None) -> tuple[State, Any, Any]:
        """Bodies anywhere, for comparisons."""
        rng, n = RowRNG.from_state(state["rng"].movedim(-1, 0)), self.entities
        sizes = {"pos": (2, n), "vel": (2, n), "rot": (n,), "ang_vel": (n,)}
        new = {name: rng.uniform(-SPREAD, SPREAD, shape=size, rows_last=True) for name, size in sizes.items()}
        new["rng"] = rows_last(rng.state).contiguous()
        new |= {"steps": torch.zeros_like(state["steps"]), "over": torch.zeros_like(state["over"])}
        if where is not None:
            new = {name: torch.where(where, x, state[name]) for name, x in new.items()}
        return new, {}, {}

    def transition(self, state: State, actions: Mapping[str, Tensor]) -> tuple[State, Any, dict[str, Tensor], Any, Any]:
        """What follows, and ``[B, A]`` for all that is given."""
        given = {name: x.permute(2, 1, 0) for name, x in actions.items()}  # [width, A, B]
        after, results = self.compute(Motion(*(state[name] for name in Motion._fields)), given)
        over = torch.zeros_like(state["over"])
        rewards = {name: results[name].t() if name in results else x[..., 0] * 0.0 for name, x in actions.items()}
        return {**state, **after._asdict(), "steps": state["steps"] + 1, "over": over}, {}, rewards, over, {}

    @abstractmethod
    def compute(self, motion: Motion, given: Mapping[str, Tensor]) -> tuple[Motion, dict[str, Tensor]]:
        """The motion that follows, and numbers ``[A, B]`` by the names of what is given, ``[width, A, B]``."""


class Motions(Pure):
    """How a world moves.

    Args:
        stepper: what moves it.
        turned: whether actions have torques.
        pulled: whether bodies have gravity of their own.
        bends: how many joints keep the angle of their spawn.

    """

    def __init__(self, stepper: Stepper, turned: bool, pulled: bool, bends: int) -> None:
        self.stepper, movers = stepper, stepper.plan.movers
        controls = {"force": Pushes(movers, 2)}
        controls |= {"torque": Pushes(movers, 1)} if turned else {}
        controls |= {"gravity": Pushes(movers, 2)} if pulled else {}
        controls |= {"bends": Pushes(bends, 1)} if bends else {}
        super().__init__(controls, len(stepper.plan.entities))

    def compute(self, motion: Motion, given: Mapping[str, Tensor]) -> tuple[Motion, dict[str, Tensor]]:
        """One step later."""
        after = self.stepper(
            motion,
            [given["force"]],
            [given["torque"][0]] if "torque" in given else None,
            [given["gravity"]] if "gravity" in given else None,
            given["bends"][0] if "bends" in given else None,
        )
        return after, {}


class Gap(Pure):
    """How far apart two outlines are, and whether they overlap: of two bodies ``x``, ``y`` and rotation."""

    def __init__(self, outlines: Outlines) -> None:
        super().__init__({GIVEN: Pushes(2, 3)})
        self.outlines = outlines

    def compute(self, motion: Motion, given: Mapping[str, Tensor]) -> tuple[Motion, dict[str, Tensor]]:
        """The gap in metres, and 1 where they overlap."""
        poses = given[GIVEN]
        one, two = _At(poses[:, :1]), _At(poses[:, 1:])
        gap, over = self.outlines(one, two)  # type: ignore[arg-type]
        return motion, {GIVEN: torch.stack((gap[0], over[0].to(gap.dtype)))}


class _At:
    """A body at ``x``, ``y`` and a rotation, ``[3, 1, B]``."""

    def __init__(self, pose: Tensor) -> None:
        self.pose = pose

    def planar(self, name: str) -> Tensor:
        """Its position ``[2, 1, B]`` or rotation ``[1, B]``."""
        return self.pose[:2] if name == "pos" else self.pose[2]


class Rays(Pure):
    """How far rays go: from the first of some bodies, among the others.

    Args:
        hits: from the start ``[2, B]``, directions ``[R, B]`` and poses of the others ``[3, M, B]`` to distances
            ``[R, B]``.
        rays: how many, ``R``.
        bodies: how many others, ``M``.

    """

    def __init__(self, hits: Callable[[Tensor, Tensor, Tensor], Tensor], rays: int, bodies: int) -> None:
        super().__init__({"rays": Pushes(rays, 1, math.pi), "bodies": Pushes(1 + bodies, 3)})
        self.hits = hits

    def compute(self, motion: Motion, given: Mapping[str, Tensor]) -> tuple[Motion, dict[str, Tensor]]:
        """The distances, metres."""
        bodies = given["bodies"]
        return motion, {"rays": self.hits(bodies[:2, 0], given["rays"][0], bodies[:, 1:])}


class Fast:
    """The pure functions of a world, compiled when they have been called a few times.

    Args:
        tier: how fast; ``"none"`` compiles nothing.
        rows: how many rows, ``B``.
        device: where they are.

    """

    def __init__(self, tier: Tier, rows: int, device: torch.device) -> None:
        self.tier, self.rows, self.device = tier, rows, device
        self._calls: dict[Hashable, int] = {}
        self._engines: dict[Hashable, tuple[Any, State]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Fast:
        """Shares what was compiled, which computes from what it is given and nothing else."""
        new = copy.copy(self)
        memo[id(self)] = new
        new._calls = copy.deepcopy(self._calls, memo)
        new._engines = {copy.deepcopy(key, memo): found for key, found in self._engines.items()}
        return new

    def engine(self, key: Hashable, make: Callable[[], Pure]) -> tuple[Any, State] | None:
        """What computes a function, and a blank state for it; None where separate operations do."""
        if self.tier == "none" or torch.is_grad_enabled() or self.device.type != "cpu":
            return None
        if (found := self._engines.get(key)) is not None:
            return found
        self._calls[key] = calls = self._calls.get(key, 0) + 1
        if calls < SOON or len(self._engines) >= MOST:
            return None
        pure: Any = make()
        engine = engine_of(pure, self.tier, self.device, None, 0, wide=False, grad=False)
        self._engines[key] = engine, pure.start(RowRNG(rows=[self.rows]))
        return self._engines[key]
