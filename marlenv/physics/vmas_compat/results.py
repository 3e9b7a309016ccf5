"""What a scenario file computes of its agents, as machine code where that can be shown to be the same.

Rewards, observations, infos and whether rows are over are Python of the file's own. They are traced as a scenario of
ours is: run once on tensors that hold expressions, in a world that is put back afterwards. That is refused where the
file looks at numbers, changes anything but values of rows, or keeps what nobody can compare; and the code is compared
with the file's own before it is used. It is left where anything that it was made from has changed
(:mod:`~marlenv.physics.vmas_compat.held`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from marlenv.physics.jit import first_use, known, tiers
from marlenv.physics.jit.graph import ROWS, Graph, Untraceable
from marlenv.physics.jit.tracer import Traced, cells_of, traced
from marlenv.physics.laws.integrate import Motion
from marlenv.physics.laws.state import State
from marlenv.physics.maths import rowwise
from marlenv.physics.vmas_compat.distances import Near
from marlenv.physics.vmas_compat.held import walk
from marlenv.physics.vmas_compat.masks import MaskedWrites
from marlenv.physics.vmas_compat.pure import Fast, Pure, Pushes
from marlenv.physics.vmas_compat.states import Vectorized
from marlenv.rng import RowRNG

RESULTS = "results"
LARGEST = 30_000
"""Expressions; more would keep a user waiting for the compiler."""


class FileResults(Pure):
    """What a file says, as a pure function of the motion and of what else it reads of the rows.

    Args:
        environment: the file at work; it is as it was after every call.

    """

    def __init__(self, environment: Any) -> None:
        world = environment.world
        self.environment, self.engine = environment, next(iter(world._engines.values()))
        self.holders = walk(environment.scenario, environment.rows)
        self.entries = [entry for holder in self.holders for entry in holder.entries]
        super().__init__({RESULTS: Pushes(len(environment.agents), 1)}, len(self.engine.bodies))
        self.used: list[int] = []
        """The entries that are read or written."""
        self.written: list[int] = []
        """Those that are written."""
        here = {name: x.clone() for name, x in self.engine.motion()._asdict().items()}
        here |= {f"in.{i}": entry.value.movedim(0, -1) for i, entry in enumerate(self.entries)}
        with self._world_as(here, list(range(len(self.entries)))):
            example = environment.results()
        self.trees = example.observations, example.infos
        self.observations = {RESULTS: dict(enumerate_leaves(example))}
        self._look()

    def stays(self) -> bool:
        """Whether all that the file could read besides values of rows is as it was."""
        return next(iter(self.environment.world._engines.values()), None) is self.engine and all(
            holder.stays() for holder in self.holders
        )

    def _look(self) -> None:
        """Finds out what is read and what is written."""
        graph = Graph(LARGEST, ROWS[0])
        fields = {"pos": (2, self.entities), "vel": (2, self.entities), "rot": (self.entities,)}
        fields["ang_vel"] = (self.entities,)
        state: dict[str, Tensor] = {n: traced(graph, (*shape, 1), torch.float32, -1) for n, shape in fields.items()}
        for i, entry in enumerate(self.entries):
            state[f"in.{i}"] = traced(graph, (*entry.value.shape[1:], 1), entry.value.dtype, -1)
        every = list(range(len(self.entries)))
        with torch.no_grad(), torch.inference_mode(False), rowwise.graph():
            results, changed = self._evaluate(state, every)
        self.written = [i for i in every if changed[i] is not None]
        results = [x for _, x in enumerate_leaves(results)] + results.rewards + [changed[i] for i in self.written]
        wanted, queue = set(), [n for x in results for n in cells_of(graph, x).reshape(-1).tolist()]
        while queue:
            node = queue.pop()
            if node.at not in wanted:
                wanted.add(node.at)
                queue += node.args
        read = [
            i
            for i in every
            if any(n.at in wanted for n in state[f"in.{i}"].cells.reshape(-1).tolist())  # type: ignore[attr-defined]
        ]
        self.used = sorted({*read, *self.written})

    # --- as a simulation -------------------------------------------------------------------------

    def start(self, rng: RowRNG) -> State:
        """Everything zero."""
        rows = rng.rows[0]
        own = {f"in.{i}": self.entries[i].value for i in self.used}
        return {
            **super().start(rng),
            **{name: torch.zeros((*x.shape[1:], rows), dtype=x.dtype) for name, x in own.items()},
        }

    def reset(self, state: State, where: Tensor | None = None, kept: Any = None) -> tuple[State, Any, Any]:
        """Bodies and numbers anywhere, for comparisons."""
        new, _, _ = super().reset(state, where)
        rng = RowRNG.from_state(new["rng"].movedim(-1, 0))
        for i in self.used:
            old = state[f"in.{i}"]
            drawn = rng.uniform(-1.0, 1.0, shape=tuple(old.shape[:-1]), rows_last=True)
            fresh = drawn if old.dtype == torch.float32 else drawn > 0 if old.dtype == torch.bool else old
            new[f"in.{i}"] = fresh if where is None else torch.where(where, fresh, old)
        rows, shown = state["steps"].shape[0], {}
        for name, x in self.observations[RESULTS].items():
            shown[name] = torch.zeros((rows, *x.shape[1:]), dtype=x.dtype)
            if where is not None and kept is not None:
                wide = where.reshape(-1, *(1,) * (x.ndim - 1))
                shown[name] = torch.where(wide, shown[name], kept[RESULTS, "observation", name])
        return new, {RESULTS: shown}, {}

    def compute(self, motion: Motion, given: Mapping[str, Tensor]) -> tuple[Motion, dict[str, Tensor]]:
        """Not used: everything is results at once."""
        raise NotImplementedError

    def transition(self, state: State, actions: Mapping[str, Tensor]) -> tuple[State, Any, dict[str, Tensor], Any, Any]:
        """What is said, and what is written; nothing moves."""
        results, changed = self._evaluate(state, self.used)
        after = {f"in.{i}": changed[i].movedim(0, -1) for i in self.written if changed[i] is not None}
        rewards = torch.stack([x.float() for x in results.rewards], 1)
        over = torch.zeros_like(state["over"])
        seen = {RESULTS: dict(enumerate_leaves(results))}
        return {**state, **after, "steps": state["steps"] + 1, "over": over}, seen, {RESULTS: rewards}, over, {}

    def _evaluate(self, state: State, given: list[int]) -> tuple[Any, dict[int, Any]]:
        """What the file says in a state, and what it then holds of each entry; None where that is the same."""
        with self._world_as(state, given) as put, MaskedWrites(state["pos"]):
            results = self.environment.results()
            changed: dict[int, Any] = dict.fromkeys(range(len(self.entries)))
            for i, (entry, (was, mark)) in enumerate(zip(self.entries, put, strict=True)):
                now = entry.holder[entry.key]
                if type(now) is not type(was) and not isinstance(now, Tensor):
                    raise Untraceable(f"makes something else of {entry.key}")
                if now is was and _unwritten(now, mark):
                    continue
                if now.shape != was.shape or now.dtype != was.dtype:
                    raise Untraceable(f"changes the shape of {entry.key}")
                changed[i] = now
            if not all(holder.stays() for holder in self.holders):
                raise Untraceable("changes what is no value of rows")
            if not all(body.state.clean(name) for body in self.engine.bodies for name in Motion._fields):
                raise Untraceable("moves bodies where it computes rewards, observations or infos")
        return results, changed

    @contextmanager
    def _world_as(self, state: State, given: list[int]) -> Iterator[list[tuple[Any, Any]]]:
        """The world in another state, of other rows; as it was afterwards."""
        environment, world, rows = self.environment, self.environment.world, state["pos"].shape[-1]
        kept, own = [holder.copied() for holder in self.holders], (environment.rows, world._fast, world._near)
        motion = Motion(*(state[name] for name in Motion._fields))
        vectorized = [x for x in _objects(environment) if isinstance(x, Vectorized)]
        sizes = [x._batch_dim for x in vectorized]
        put = []
        try:
            environment.rows, world._fast, world._near = rows, Fast("none", rows, world._fast.device), Near()
            for x in vectorized:
                x._batch_dim = rows
            for place, body in enumerate(self.engine.bodies):
                body.state.moved(motion, place)
            for i, entry in enumerate(self.entries):
                value = (
                    state[f"in.{i}"].movedim(-1, 0).clone()
                    if i in given
                    else entry.value.new_zeros((rows, *entry.value.shape[1:]))
                )
                entry.holder[entry.key] = value
                put.append((value, _mark(value)))
            yield put
        finally:
            environment.rows = own[0]
            for x, size in zip(vectorized, sizes, strict=True):
                x._batch_dim = size
            for holder, before in zip(self.holders, kept, strict=True):
                holder.restore(before)
            world._fast, world._near = own[1:]


def _mark(x: Tensor) -> Any:
    """What changes when somebody writes into a tensor."""
    return x.cells if isinstance(x, Traced) else x._version


def _unwritten(x: Tensor, mark: Any) -> bool:
    return x.cells is mark if isinstance(x, Traced) else x._version == mark


def _alike(x: Any, example: Tensor) -> bool:
    return type(x) is Tensor and x.shape == example.shape and x.dtype == example.dtype and x.is_cpu


def _objects(environment: Any) -> Iterator[Any]:
    """What knows how many rows there are: the world and all in it."""
    world = environment.world
    yield world
    for entity in world.entities:
        yield from (entity, entity.state)
        if hasattr(entity, "action"):
            yield entity.action


def enumerate_leaves(results: Any) -> Iterator[tuple[str, Tensor]]:
    """Observations, infos and ends, by numbers."""
    queue, count = [*results.observations, *results.infos, results.over], 0
    for x in queue:
        for leaf in _leaves(x):
            yield str(count), leaf
            count += 1


def _leaves(x: Any) -> Iterator[Tensor]:
    if isinstance(x, Tensor):
        yield x
    else:
        for one in x.values():
            yield from _leaves(one)


def _filled(tree: Any, leaves: Iterator[Tensor]) -> Any:
    """Leaves in the form of a tree."""
    return next(leaves) if isinstance(tree, Tensor) else {name: _filled(one, leaves) for name, one in tree.items()}


class CompiledResults:
    """What a file says, by machine code.

    Args:
        environment: the file at work.

    Raises:
        Exception: where that cannot be had, or cannot be shown to be the same.

    """

    def __init__(self, environment: Any) -> None:
        pure: Any = FileResults(environment)
        self.pure, self.rows = pure, environment.rows
        source = known.source_of(pure, None, 0, wide=False, largest=LARGEST)
        self.kernel = tiers._soon(source)
        first_use.check(pure, self.kernel, None, wide=False)
        blank = pure.start(RowRNG(rows=[self.rows]))
        self._fixed = {name: blank[name] for name in ("rng", "steps", "over")}
        self._actions = [torch.zeros((*field.shape, self.rows)) for field in self.kernel.actions]
        self._flags = list(torch.zeros((4, self.rows), dtype=torch.bool).unbind(0))

    def holds(self, motion: Motion) -> bool:
        """Whether all that it was made from is as it was, and values of rows are of the same shapes and dtypes."""
        pure = self.pure
        entries = (pure.entries[i] for i in pure.used)
        return (
            bool(pure.stays())
            and all(x.dtype == torch.float32 and x.is_cpu for x in motion)
            and all(
                _alike(holder.get(key) if isinstance(holder, dict) else holder[key], x) for holder, key, x in entries
            )
        )

    def __call__(self, motion: Motion) -> tuple[list[Any], list[Any], list[Tensor], Tensor]:
        """Observations, infos, rewards and ends, from where everything is."""
        pure, kernel = self.pure, self.kernel
        state = {**self._fixed, **{name: x.contiguous() for name, x in motion._asdict().items()}}
        for i in pure.used:
            holder, key, _ = pure.entries[i]
            x = holder[key].movedim(0, -1)
            state[f"in.{i}"] = x.clone(memory_format=torch.contiguous_format) if i in pure.written else x.contiguous()
        outs = [field.empty(self.rows) for field in kernel.outs]
        kernel.run(self.rows, kernel.bind(state, self._actions, outs, self._flags[:3]), self._flags[3])
        for i in pure.written:
            holder, key, _ = pure.entries[i]
            holder[key] = state[f"in.{i}"].movedim(-1, 0)
        *seen, over, rewards = (x.movedim(-1, 0) for x in outs)
        leaves = iter(seen)
        observations, infos = ([_filled(tree, leaves) for tree in some] for some in pure.trees)
        return observations, infos, list(rewards.unbind(1)), over


def compiled_results(environment: Any) -> CompiledResults | None:
    """What says the same as a file by machine code; None where the file's own code must."""
    try:
        with torch.inference_mode(False), torch.no_grad():
            return CompiledResults(environment)
    except Exception:  # whatever it is: the file's own code is always right
        return None
