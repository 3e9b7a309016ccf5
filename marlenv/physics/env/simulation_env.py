"""An env around a simulation: where its rows stand, what moves them, and the actions that they get."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from functools import cached_property
from operator import attrgetter
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.buffer_pool import BufferPool
from marlenv.envs import EnvBase
from marlenv.envs.plan import Plan
from marlenv.errors import KeyMissing, NeedsReset, NotCompiled, ShapeError, users_line, whole
from marlenv.groups import GroupTree
from marlenv.physics.env.grouping import Grouping
from marlenv.physics.env.specs import check_one_hot, numbers
from marlenv.physics.jit.source import Draw
from marlenv.physics.jit.tiers import TIERS, MachineCode, Tier, engine_of
from marlenv.physics.laws.state import State
from marlenv.physics.maths.rowwise import in_graph
from marlenv.physics.maths.views import rows_first, rows_last
from marlenv.physics.simulation import Grouped, Infos, Kept, Observations, Simulation, leaves, unflatten
from marlenv.rng import RowRNG
from marlenv.tensordicts import get, rows

CPU = torch.device("cpu")


class SimulationEnv(EnvBase):
    """The base of :class:`~marlenv.ScenarioEnv`, which makes it a whole env: what fast steps, rollouts and resets are
    given.
    """

    simulation: Simulation
    """The pure functions behind the env."""
    tree: GroupTree
    """The groups."""
    grouping: Grouping
    """How the groups of the world become those of the data."""
    grad_enabled: bool
    tier: Tier
    """How fast it was asked to be."""
    one_hot: bool
    """Whether choices are one-hot."""
    last_state: State | None
    """Where the env stands; None before the first reset."""
    _drawn_as: Plan | None  # what machine code drew actions from when it was made
    _max_steps: int | None
    _rng: Tensor

    @property
    def num_envs(self) -> int:
        """How many rows."""
        return self.batch_size[0]

    def _set_max_steps(self, most: int | None) -> None:
        self._max_steps = None if most is None else whole(type(self).__name__, "max_steps", most, 1)

    max_steps = property(attrgetter("_max_steps"), _set_max_steps, doc="Where episodes are truncated; None: nowhere.")

    # --- how fast it is --------------------------------------------------------------------------

    @property
    def engine(self) -> Any:
        """What moves the rows now: made, and compiled where that was asked for, on the first use.

        It is another one while gradients flow, and when :attr:`tier` is another.
        """
        key = self._engine_key
        if key not in self._engines:
            check_tier(self.tier)
            draw, draws, wide = drawing(self)
            if self._drawn_as is not self.plan:
                self._engines.clear()
            self._drawn_as = self.plan
            self._engines[key] = engine_of(self.simulation, self.tier, self.device, draw, draws, wide=wide, grad=key[1])
        return self._engines[key]

    @property
    def _engine_key(self) -> tuple[str, bool]:
        return self.tier, bool(self.grad_enabled and torch.is_grad_enabled())

    def renew(self) -> bool:
        """Lets go of code that was made from what a user's scenario does not hold any more; whether there was any.

        Warns:
            NotCompiled: ``compile="auto"`` goes on without.
        """
        engine = self._engines.get(self._engine_key)
        if engine is None or engine.watch is None or engine.watch.stays():
            return False
        self._engines.clear()
        if self.tier == "auto":
            who, what = type(self.scenario).__name__, engine.watch.changed()
            said = (
                f"{who}: compile='auto' plays with separate operations from here on, slower, as {what} is not what it "
                f"was when the machine code was made; make another env for other values, or declare what changes in "
                f"build with world.remember(...); compile='none' plays so without this warning, compile='aot' compiles "
                f"again"
            )
            warnings.warn(said, NotCompiled, stacklevel=users_line())
            self._engines[self._engine_key] = self.simulation
        return True

    @cached_property
    def _engines(self) -> dict[tuple[str, bool], Any]:
        """Those that were made, by tier and by whether gradients flow."""
        return {}

    def draws_actions(self) -> bool:
        """Whether machine code draws the random actions: as the specs say that there were when it was made."""
        engine = self.engine
        return isinstance(engine, MachineCode) and engine.kernel.draws > 0 and self._drawn_as is self.plan

    @cached_property
    def pool(self) -> BufferPool:
        """Where the memory of rollouts comes from."""
        return BufferPool()

    @cached_property
    def shown(self) -> BufferPool:
        """Where the memory of what policies are shown comes from; the last of it is seen while the next is written."""
        return BufferPool(spare=1)

    # --- where it stands -------------------------------------------------------------------------

    def check_began(self, verb: str) -> None:
        """Raises before the first reset or state."""
        if self.last_state is None:
            raise NeedsReset.before(type(self.scenario).__name__, verb)

    def own_state(self) -> State:
        """Where the env stands, in memory that its machine code may write to."""
        self.last_state = self.engine.own(self.current_state)
        return self.last_state

    @property
    def current_state(self) -> State:
        """Where the env stands; the first use starts an episode in all rows."""
        if self.last_state is None:
            with self.gradients():
                self.begin(None)
        now: State = self.last_state  # type: ignore[assignment]
        if now["rng"].device != self.device:
            now = self.last_state = {name: x.to(self.device) for name, x in now.items()}
        if self.grad_enabled and torch.is_grad_enabled() and any(x.is_inference() for x in now.values()):
            now = self.last_state = {
                name: x.clone() for name, x in now.items()
            }  # no graph takes what inference_mode made
        return now

    def begin(self, where: Tensor | None, kept: Kept | None = None) -> tuple[Observations, Infos]:
        """New episodes in the rows ``where``, or in all; the others see what is ``kept``."""
        if self.last_state is None:
            rng = RowRNG.from_state(rows_first(self._rng).to(self.device))
            state = self.simulation.start(rng)
        else:
            state = self.current_state
        self.last_state, observations, infos = self.engine.reset(state, where, kept)
        return (observations, infos) if self.engine.in_place else self.owned(observations, infos)[:2]

    def owned(
        self, observations: Observations, infos: Infos, rewards: Grouped | None = None
    ) -> tuple[Observations, Infos, Grouped]:
        """The same row by row in memory, and of its own for all that could share it with the state, with constants or
        with each other.
        """
        borrowed, one = self.simulation.borrowed, self.num_envs == 1  # whose views lie row by row whatever they are
        values = {
            path: x.clone(memory_format=torch.contiguous_format) if one or path in borrowed else x.contiguous()
            for path, x in leaves(observations, infos, rewards).items()
        }
        return unflatten(values)

    def checked(self, state: TensorDictBase) -> State:
        """The entries of a state that was handed in, rows last."""
        who, own = f"{type(self.scenario).__name__}.set_state", self.current_state
        if missing := sorted(set(own) - set(state.keys())):
            raise KeyMissing(f"{who}: the state has no {missing}; it must have {sorted(own)}")
        out = {}
        for name, mine in own.items():
            x = state.get(name)
            want = rows_first(mine).shape
            if x.shape != want or x.dtype != mine.dtype:
                raise ShapeError(
                    f"{who}: {name!r} must be {mine.dtype} {list(want)}, got {x.dtype} {list(x.shape)}; "
                    f"state.expand({self.num_envs}) makes many rows of one"
                )
            out[name] = rows_last(x.to(self.device)).clone(memory_format=torch.contiguous_format)
        return out

    def gradients(self) -> Any:
        return torch.set_grad_enabled(self.grad_enabled and torch.is_grad_enabled())

    # --- actions and flags -----------------------------------------------------------------------

    def taken(self, td: TensorDictBase) -> dict[str, Tensor]:
        """The actions of the groups of the world, ``[B, A, ...]``, from data of the env."""
        actions, controls = self.grouping.actions(td), self.simulation.controls
        where = get(td, "_step")
        self.check_values(actions, None if where is None else rows(where, 1))
        return {group: numbers(x, controls[group]) for group, x in actions.items()} if self.one_hot else actions

    def check_values(self, actions: Mapping[str, Tensor], where: Tensor | None = None) -> None:
        """Raises where actions of the groups of the world are none, in the rows ``where`` or in all.

        On other devices than the CPU a look at data would wait for the device, so nothing is looked at.
        """
        if self.device == CPU and not in_graph():
            for group, x in actions.items():
                control, names = self.simulation.controls[group], self.simulation.groups[group].names
                if self.one_hot:
                    check_one_hot(x, control, names, where)
                else:
                    control.check(x, names, where)

    def row_flags(self, over: Tensor, steps: Tensor) -> Tensor:
        """Whether rows are terminated, truncated, done; bool ``[3, B]``."""
        late = torch.zeros_like(over) if self.max_steps is None else steps >= self.max_steps
        return torch.stack((over, late, over | late))


def check_tier(tier: str) -> None:
    """Raises where there is no such tier."""
    if tier not in TIERS:
        raise ValueError(f"ScenarioEnv: compile must be one of {list(TIERS)}, got {tier!r}")


def drawing(env: SimulationEnv) -> tuple[Draw | None, int, bool]:
    """How random actions come of uniform numbers: a function, of how many numbers, and whether of float64 ones."""
    plan, whole = env.plan, env.grouping.whole
    simple = (
        plan.dense_actions and not env.one_hot and all(e.mask is None and e.path[:-1] in whole for e in plan.actions)
    )
    if not simple:
        return None, 0, False

    parts = [(whole[entry.path[:-1]], entry.draw, entry.spec[0]) for entry in plan.actions]

    def draw(unit: Tensor) -> dict[str, Tensor]:
        at, out = 0, {}
        for group, shape, spec in parts:  # no more than is needed: two envs draw the same where these are equal
            part = unit[:, at : at + math.prod(shape)].reshape(unit.shape[0], *shape)
            at += math.prod(shape)
            out[group] = spec.to(unit.device).from_unit(part)  # traces are on the CPU, wherever the env is
        return out

    wide = any(entry.spec.unit_dtype == torch.float64 for entry in plan.actions)
    return draw, sum(math.prod(entry.draw) for entry in plan.actions), wide


__all__ = ["SimulationEnv", "check_tier", "drawing"]
