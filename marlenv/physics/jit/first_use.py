"""What machine code computes, beside what separate operations compute, before anybody plays with it.

The first time that a process uses a library, 64 rows are reset, stepped and reset again in both ways, always from the
same state. Two numbers agree where they are equal, where both are NaN, or where they differ by at most 1e-5 of
``1 + |x|``. What differs by more must be something that last bits of the state change too (bodies that just touch, a
rod under tension): by at most ten times what they change it by. Twins of the step say how much that is: every number of
the state is moved by its last bit, up or down as it falls. Where everything moves in one direction, bodies keep their
distances and a stiff rod tells nothing; and one twin may come out the same by chance, so up to 16 are asked, the next
one only while something is unexplained. Bits that are rounded away within the step, over its substeps, are told by the
last of all: the same step in float64.

Nothing of it is kept on disk: it takes a fraction of the time of tracing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from marlenv.errors import Unsupported
from marlenv.physics.jit.kernel import MachineKernel
from marlenv.physics.jit.source import Draw
from marlenv.physics.laws.state import State
from marlenv.physics.simulation import Simulation, leaves
from marlenv.rng import RowRNG

ROWS = 64
STEPS = 6
EPISODE = 8  # steps; every eighth row ends
TOLERANCE = 1e-5
LAST_BITS = 10.0  # how often what a change of last bits leads to
TWINS = 16  # at most; over many seeds all 38 scenarios need 1.4 times what 16 lead to, and 40 times what 2 do

Results: TypeAlias = "dict[tuple[str, ...], Tensor]"
"""What came of a step or a reset by path, ``[..., B]``."""


class Wrong(Unsupported):
    """Machine code that does not compute what separate operations compute."""


class FirstUse:
    """A comparison of machine code with the simulation that it was made from.

    Args:
        simulation: computes what is right.
        kernel: is checked.
        draw: how random actions are made, if machine code makes them.
        wide: whether of float64 numbers.
        device: where it runs.

    """

    def __init__(
        self,
        simulation: Simulation,
        kernel: MachineKernel,
        draw: Draw | None,
        *,
        wide: bool,
        device: torch.device | None = None,
    ) -> None:
        self.simulation, self.draw = simulation, draw if kernel.draws else None
        self.kernel = kernel
        self.unit, self.device = torch.float64 if wide else torch.float32, device
        self.rng = RowRNG(seed=0x6D61726C, rows=[ROWS], device=device)
        self.dtypes = {name: x.dtype for name, x in self._blank(seed=0).items()}

    def check(self) -> None:
        """Raises where they differ.

        Raises:
            Wrong: with the first entry that differs, its row, the step and both numbers.

        """
        blank = self._blank(seed=1)
        self._compare("the first reset", blank, self._reset, self._machine_reset)
        state = self.simulation.reset(blank)[0]
        for t in range(STEPS):
            state = self._stirred(state, t)
            actions = self._actions()
            what = f"step {t + 1}"
            theirs, ours = partial(self._step, actions=actions), partial(self._machine_step, actions=actions)
            state = self._compare(what, state, theirs, ours)
        some = self.rng.uniform() < 0.4
        theirs, ours = partial(self._reset, where=some), partial(self._machine_reset, where=some)
        self._compare("a reset of some rows", state, theirs, ours)

    # --- states and actions ----------------------------------------------------------------------

    def _blank(self, seed: int) -> State:
        """A state that nothing was done to."""
        return self.simulation.start(RowRNG(seed=seed, rows=[ROWS], device=self.device))

    def _stirred(self, state: State, t: int) -> State:
        """A state in which some rows are about to end and, now and then, some are crowded or fast."""
        state = {**state, "steps": self.rng.randint(0, EPISODE)}
        if t % 3 == 1:
            size = 1 - 0.7 * (self.rng.uniform() < 0.3).to(torch.float32)
            state.update(pos=state["pos"] * size, vel=state["vel"] / size)
        return state

    def _actions(self) -> dict[str, Tensor]:
        """Actions ``[B, A, ...]`` of all groups; machine code's own are compared on the way."""
        if self.draw is not None:
            return self._drawn()
        found = {}
        for field in self.kernel.actions:
            control = self.simulation.controls[field.name[0]]
            if control.mode == "continuous":
                low, high = (x.to(self.device) for x in control.bounds())
                found[field.name[0]] = low + (1.5 * self.rng.uniform(shape=field.shape) - 0.25) * (high - low)
            else:
                each = [self.rng.randint(0, n, (control.agents,)) for n in control.sizes]
                found[field.name[0]] = torch.stack(each, -1).reshape(ROWS, *field.shape)
        return found

    def _drawn(self) -> dict[str, Tensor]:
        assert self.draw is not None
        keys, used = self.rng.bits(), 5
        streams = RowRNG.from_state(torch.stack((keys, torch.full_like(keys, used)), -1))
        units = streams.uniform(shape=(self.kernel.draws,), dtype=self.unit)
        right = {group: x.to(self.device) for group, x in self.draw(units.cpu()).items()}
        state = _copied(self._blank(seed=2))
        acts = [field.empty(ROWS, device=self.device) for field in self.kernel.actions]
        self._run(state, acts, keys, used)
        for field, x in zip(self.kernel.actions, acts, strict=True):
            group = field.name[0]
            reference = right[group].reshape(ROWS, *field.shape).movedim(0, -1)
            self._judge("random actions", {(group, "action"): x}, {(group, "action"): reference}, iter(()))
        return right

    # --- both ways -------------------------------------------------------------------------------

    def _step(self, state: State, actions: dict[str, Tensor]) -> tuple[State, Results]:
        """A step, and new episodes where it was the last one, by separate operations."""
        after, observations, rewards, over, infos = self.simulation.transition(state, actions)
        after = {name: x.to(self.dtypes[name]) for name, x in after.items()}  # a state in float64 is rounded here
        done = over | (after["steps"] >= EPISODE)
        found = {path: x.movedim(0, -1) for path, x in leaves(observations, infos, rewards).items()}
        found |= {("terminated",): over, ("done",): done}
        seen = leaves(observations, infos)
        seen = {f.name: seen[f.name].to(f.dtype) for f in self.kernel.observations}
        after, fresh = self._reset(after, done, seen)
        return after, found | {("next episode", *path): x for path, x in fresh.items()}

    def _machine_step(self, state: State, actions: dict[str, Tensor]) -> Results:
        kernel = self.kernel
        acts = [actions[f.name[0]].reshape(ROWS, *f.shape).movedim(0, -1).contiguous() for f in kernel.actions]
        outs, flags, following = self._run(state, acts)
        found = {f.name: x for f, x in zip(kernel.outs, outs, strict=True)}
        found |= {("terminated",): flags[0], ("done",): flags[2]}
        shown = {f.name: x[1] for f, x in zip(kernel.observations, following, strict=True)}
        return found | {("next episode", *path): x for path, x in _named(state, shown).items()}

    def _run(
        self, state: State, acts: list[Tensor], keys: Tensor | None = None, used: int = 0
    ) -> tuple[list[Tensor], Tensor, list[Tensor]]:
        """A step of machine code, in place."""
        kernel = self.kernel
        outs = [f.empty(ROWS, device=self.device) for f in kernel.outs]
        following = [f.empty(ROWS, 2, self.device) for f in kernel.observations]
        flags = torch.zeros((3, ROWS), dtype=torch.bool, device=self.device)
        ended = torch.zeros(2, dtype=torch.uint8, device=self.device)
        places = kernel.bind(state, acts, outs, flags.unbind(0), following, keys)
        kernel.run(ROWS, places, ended, last=1, drawn=used, most=EPISODE, restart=True)
        return outs, flags, following

    def _reset(self, state: State, where: Tensor | None = None, kept: Results | None = None) -> tuple[State, Results]:
        """New episodes by separate operations."""
        if where is not None and kept is None:
            shown = self.kernel.observations
            kept = {f.name: torch.zeros((ROWS, *f.shape), dtype=f.dtype, device=self.device) for f in shown}
        after, observations, infos = self.simulation.reset(state, where, kept)
        return after, _named(after, {path: x.movedim(0, -1) for path, x in leaves(observations, infos).items()})

    def _machine_reset(self, state: State, where: Tensor | None = None) -> Results:
        kernel = self.kernel
        shown = {f.name: f.room(ROWS, self.device, by_rows=kernel.by_rows).zero_() for f in kernel.observations}
        kernel.begin(state, where, list(shown.values()))
        return _named(state, {name: x.movedim(0, -1) for name, x in shown.items()})

    # --- judgement -------------------------------------------------------------------------------

    def _compare(
        self,
        what: str,
        state: State,
        right: Callable[[State], tuple[State, Results]],
        ours: Callable[[State], Results],
    ) -> State:
        """The state that follows; raises where what follows is not the same."""
        after, expected = right(state)
        self._judge(what, ours(_copied(state)), expected, _others(state, right))
        return after

    def _judge(self, what: str, ours: Results, expected: Results, twins: Iterator[Results]) -> None:
        asked: list[Results] = []
        for path, reference in expected.items():
            a, b = ours[path].double(), reference.double()
            apart, allowed = (a - b).abs(), TOLERANCE * (1 + b.abs()) if reference.is_floating_point() else 0.0
            bad = ~((a == b) | (a.isnan() & b.isnan()) | (apart <= allowed))
            for other in _each(asked, twins):  # what is not finite in one of them says nothing
                if not bad.any():
                    break
                shift = (other[path].double() - b).abs()
                bad &= ~((apart <= allowed + LAST_BITS * shift) | ~shift.isfinite())
            if bad.any():
                at = tuple(bad.nonzero()[0].tolist())
                raise Wrong(
                    f"machine code is wrong: in {what}, row {at[-1]}, "
                    f"{path if len(path) > 1 else path[0]!r}{list(at[:-1]) or ''} is {ours[path][at].item()!r}, and "
                    f"{reference[at].item()!r} by separate operations{_exploded(expected, at[-1])}"
                )


def _exploded(expected: Results, row: int) -> str:
    """What to look at first where numbers of a row are not finite by separate operations either."""
    odd = (path for path, x in expected.items() if x.is_floating_point() and not x[..., row].isfinite().all())
    path = next(odd, None)
    if path is None:
        return ""
    name = path if len(path) > 1 else repr(path[0])
    return f"; {name} is not finite there in either, so look first whether forces or substeps let this world explode"


def _each(asked: list[Results], more: Iterator[Results]) -> Iterator[Results]:
    """Those that were asked before, then more, which are kept."""
    yield from asked
    for one in more:
        asked.append(one)
        yield one


def _named(state: State, shown: Results) -> Results:
    return {("state", name): x for name, x in state.items()} | shown


def _copied(state: State) -> State:
    return {name: x.clone(memory_format=torch.contiguous_format) for name, x in state.items()}


def _others(state: State, right: Callable[[State], tuple[State, Results]]) -> Iterator[Results]:
    """What separate operations compute of the state's twins, and in the end of the state itself in float64."""
    for twin in _twins(state):
        yield right(twin)[1]
    try:
        exact = right({name: x.double() if x.is_floating_point() else x for name, x in state.items()})[1]
    except Exception:  # whatever it is: a scenario need not take float64
        return
    yield exact


def _twins(state: State) -> Iterator[State]:
    """States with every number that has a last bit one such bit away, up or down as it falls."""
    rng = RowRNG(seed=0x7477696E, rows=[ROWS], device=state["rng"].device)
    for _ in range(TWINS):
        yield {name: _nudged(x, rng) if x.is_floating_point() else x for name, x in state.items()}


def _nudged(x: Tensor, rng: RowRNG) -> Tensor:
    up = rng.uniform(shape=x.shape[:-1]).movedim(0, -1) < 0.5
    return torch.nextafter(x, torch.where(up, math.inf, -math.inf).to(x.dtype))


_checked: set[str] = set()


def check(
    simulation: Simulation, kernel: MachineKernel, draw: Draw | None, *, wide: bool, device: torch.device | None = None
) -> None:
    """Compares machine code with the simulation that it was made from, once in a process.

    Args:
        simulation: computes what is right, where machine code runs.
        kernel: is checked.
        draw: how random actions are made, if machine code makes them.
        wide: whether of float64 numbers.
        device: where it runs.

    Raises:
        Wrong: they differ.

    """
    name = kernel.name if device is None else f"{kernel.name} on {device}"
    if name not in _checked:
        FirstUse(simulation, kernel, draw, wide=wide, device=device).check()
        _checked.add(name)


__all__ = ["FirstUse", "Wrong", "check"]
