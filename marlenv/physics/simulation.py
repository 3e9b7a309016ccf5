"""A scenario as pure functions of a state: start, reset, transition, observe.

The functions look at no data: no value decides what is computed next, so the same code serves eager mode, compilers,
CUDA graphs and gradients, and a row never depends on another one. Shapes are checked once, on a trial of a few rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.constants import on_cpu
from marlenv.errors import GroupError, KeyMissing, ShapeError
from marlenv.keys import LIFE_NAMES
from marlenv.physics.laws.bodies import Bodies
from marlenv.physics.laws.contacts import Pose
from marlenv.physics.laws.entities import Agent
from marlenv.physics.laws.state import State, merge, single
from marlenv.physics.laws.world_plan import HUGE, PerEntity
from marlenv.physics.maths.geometry import shorten
from marlenv.physics.maths.rowwise import in_graph, pick, put_rows, rolls, take_rows
from marlenv.physics.maths.views import rows_first, rows_last
from marlenv.physics.task.actions import Control, Mode
from marlenv.physics.task.scenario import Scenario
from marlenv.rng import RowRNG
from marlenv.tensordicts import expanded

Grouped: TypeAlias = "dict[str, Tensor]"
Observations: TypeAlias = "dict[str, Tensor | dict[str, Tensor]]"
"""Observations of the groups; a tensor each, or several by name."""
Infos: TypeAlias = "dict[str, dict[str, Tensor]]"
Kept: TypeAlias = "Mapping[tuple[str, ...], Tensor]"
"""What rows see already: observations and infos by path, as :func:`leaves` gives them."""

SHARED = ""
"""The key under which infos carry what belongs to a row and not to a group."""
TOUCH = 1e-5  # metres; bodies that overlap by less touch
FORMS = {
    "alive": (1, 1, "[B, A]"),
    "observe": (1, 2, "[B, A, d]"),
    "info": (2, 2, "[B, A, ...]"),
    "shared_info": (1, 1, "[B, ...]"),
    "rewards": (1, 1, "[B, A]"),
    "over": (0, 0, "[B]"),
}
"""What methods of a scenario return: tensors in how many dicts, at least and at most, and of what shape."""
TRIAL = 11  # rows of the trial; unlikely to be the size of anything else


class Simulation:
    """A scenario, its world and its actions as pure functions.

    Args:
        scenario: the task; it belongs to this simulation from now on.
        mode: what actions are: ``"continuous"``, ``"multidiscrete"`` (one choice per number) or ``"discrete"`` (one in
            all).
        clamp: whether continuous actions outside their range are cut to it.

    >>> from marlenv.scenarios.mpe.simple_spread import SimpleSpread
    >>> sim = Simulation(SimpleSpread(n_agents=2))
    >>> state, observations, infos = sim.reset(sim.start(RowRNG(seed=0, rows=[4])))
    >>> state, observations, rewards, over, infos = sim.transition(state, {"agents": torch.zeros(4, 2, 2)})
    >>> rewards["agents"].shape, observations["agents"].shape
    (torch.Size([4, 2]), torch.Size([4, 2, 10]))

    """

    def __init__(self, scenario: Scenario, mode: Mode = "continuous", *, clamp: bool = False) -> None:
        self.scenario, self.mode, self.clamp = scenario, mode, clamp
        self.world = scenario.world
        self.stepper = self.world.stepper
        self.groups = self.world.agents
        """All groups of agents, in order, scripted ones included."""
        self.controls = {
            name: Control(name, [_agent(e.kind) for e in bodies.entities], self.world.channels, mode, clamp=clamp)
            for name, bodies in self.groups.items()
            if not _agent(bodies.entities[0].kind).scripted
        }
        """The actions of the groups that policies move, in order."""
        self.observations: Observations = {}
        """Observations of a trial of a few rows, for their shapes and dtypes."""
        self.infos: Infos = {}
        """Infos of the same trial."""
        self.borrowed: set[tuple[str, ...]] = set()
        """The observations, infos and rewards, by path, that the scenario gives as views of its state, of constants or
        of each other; whoever hands them out hands out copies."""
        self._limits = {name: _Limits(bodies) for name, bodies in self.groups.items()}
        self._try()

    def __getstate__(self) -> dict[str, Any]:
        return {"scenario": self.scenario, "mode": self.mode, "clamp": self.clamp}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Simulation.__init__(self, **state)

    in_place = False
    """Whether the functions write into the state that they are given: never."""
    watch = None
    """They read what there is, and nothing that was kept."""

    # --- the pure functions ----------------------------------------------------------------------

    def start(self, rng: RowRNG) -> State:
        """The state of ``rng.rows`` rows that were never reset; :meth:`reset` makes them playable."""
        return self.world.blank(rng)

    def reset(
        self, state: State, where: Tensor | None = None, kept: Kept | None = None
    ) -> tuple[State, Observations, Infos]:
        """New episodes in the rows ``where`` (bool ``[B]``; None for all); the others keep every bit.

        Args:
            state: of ``B`` rows.
            where: which of them start anew.
            kept: what the others see, and so what is returned for them; zeros when left out.

        """
        if where is None:
            return self._begin(state["rng"])
        grad = torch.is_grad_enabled()
        if grad and any(x.requires_grad for x in state.values()) and bool(where.all()):
            return self._begin(state["rng"])  # nothing hangs on what was before
        if not in_graph() and where.device.type == "cpu" and not grad:
            at = where.nonzero().flatten()
            if len(at) == len(where):
                return self._begin(state["rng"])
            if len(at) or kept is not None:
                return self._begin_some(state, at, kept)
        new, observations, infos = self._begin(state["rng"])
        fresh = leaves(observations, infos)
        kept = {key: torch.zeros_like(x) for key, x in fresh.items()} if kept is None else kept
        masks = {key: where.reshape(-1, *(1,) * (x.ndim - 1)) for key, x in fresh.items()}
        observations, infos, _ = unflatten({key: torch.where(masks[key], x, kept[key]) for key, x in fresh.items()})
        return merge(where, new, state), observations, infos

    def _begin_some(self, state: State, at: Tensor, kept: Kept | None) -> tuple[State, Observations, Infos]:
        """New episodes in the rows ``at`` (int64 ``[n]``), and nothing computed for the others."""
        if not len(at):
            observations, infos, _ = unflatten(kept or {})
            return dict(state), observations, infos
        new, observations, infos = self._begin(take_rows(state["rng"], at))
        after = {name: put_rows(x, at, new[name]) for name, x in state.items()}
        fresh, rows = leaves(observations, infos), state["rng"].shape[-1]
        if kept is None:
            kept = {key: x.movedim(0, -1).new_zeros((*x.shape[1:], rows)).movedim(-1, 0) for key, x in fresh.items()}
        values = {key: put_rows(rows_last(kept[key]), at, rows_last(x)) for key, x in fresh.items()}
        observations, infos, _ = unflatten({key: rows_first(x) for key, x in values.items()})
        return after, observations, infos

    def _begin(self, streams: Tensor, *, checked: bool = False) -> tuple[State, Observations, Infos]:
        """New episodes of the rows whose random streams are int64 ``[2, B]``; of the trial, if ``checked``."""
        rng = RowRNG.from_state(streams.movedim(-1, 0))
        self.world.stage.open(self.world.blank(rng))
        try:
            self.scenario.spawn()
            self.world.settle()
            self.scenario.after_spawn()
            if checked:
                self._check_answers()
            observations, infos = self._observe()
            return self.world.stage.moment.close(), observations, infos
        finally:
            self.world.stage.shut()

    def transition(
        self, state: State, actions: Mapping[str, Tensor]
    ) -> tuple[State, Observations, Grouped, Tensor, Infos]:
        """One step of all rows.

        Args:
            state: of ``B`` rows.
            actions: ``{group: [B, A, width]}``.

        Returns:
            The next state; observations ``{group: [B, A, d]}``; rewards ``{group: [B, A]}``; whether each row is over,
            bool ``[B]``; infos ``{group: {name: [B, A, ...]}}``, those of rows under ``""``.

        """
        moment = self.world.stage.open(_owned(state))
        try:
            alive = self._alive()
            moment.state["steps"] = state["steps"] + 1
            said = self._decode(actions, alive)
            self.scenario.before_step()
            self._drive()
            self.world.step()
            for name, words in said.items():
                moment.state[f"comm.{name}"] = words.contiguous()
            self.scenario.after_step()
            rewards = self._rewards(alive)
            observations, infos = self._observe(alive)
            over = self._over()
            moment.state["over"] = over
            self.scenario.end_step()
            return moment.close(), observations, rewards, over, infos
        finally:
            self.world.stage.shut()

    def observe(self, state: State) -> tuple[Observations, Infos]:
        """Observations and infos of a state, which stays as it is; for states that were put together by hand."""
        self.world.stage.open(_owned(state))
        try:
            return self._observe()
        finally:
            self.world.stage.shut()

    # --- the parts of a step ---------------------------------------------------------------------

    def _alive(self) -> Grouped:
        """Who lives, bool ``[B, A]`` of every group that acts; empty where nobody can die."""
        alive = self._by_group("alive", self.scenario.alive())
        everybody = self.world.stage.moment.state["over"].new_ones(())
        rows = self.world.stage.moment.rows
        return {
            name: alive[name] if name in alive else everybody.expand(rows, control.agents)
            for name, control in (self.controls if alive else {}).items()
        }

    def _decode(self, actions: Mapping[str, Tensor], alive: Grouped) -> Grouped:
        """Sets the physical actions, those of the dead to 0; returns what is said."""
        moment, said = self.world.stage.moment, {}
        for name, control in self.controls.items():
            if name not in actions:
                raise KeyMissing(
                    f"actions of {name!r} are missing, got {sorted(actions)}; needed: {sorted(self.controls)}"
                )
            u, words = control.decode(actions[name], moment.rng)
            moment.controls[name] = torch.where(alive[name].t(), u, 0.0) if alive else u
            if words is not None:
                said[name] = torch.where(alive[name].t(), words, 0.0) if alive else words
        return said

    def _drive(self) -> None:
        """Physical actions become forces and torques."""
        moment = self.world.stage.moment
        for name, bodies in self.groups.items():
            if name not in moment.controls:
                continue  # a scripted agent that was not moved
            force, torque = _agent(bodies.entities[0].kind).dynamics.drive(
                moment.controls[name], bodies, self.world.laws.dt
            )
            moment.forces[name], moment.torques[name] = self._limits[name](force, torque)

    def _observe(self, before: Grouped | None = None) -> tuple[Observations, Infos]:
        """Observations and infos; ``before`` is who lived before the step."""
        observations: Observations = dict(self._by_group("observe", self.scenario.observe()))
        infos = {
            group: self._spread(group, values) for group, values in self._by_group("info", self.scenario.info()).items()
        }
        for name, lives in self._alive().items():  # who lives, and who lived before: who is born last of all has not
            observations[name] = _where(lives, observations[name])
            lived = lives if before is None else before[name]
            infos[name] = infos.get(name, {}) | dict(zip(LIFE_NAMES, (lives, lived), strict=True))
        if shared := self.scenario.shared_info():
            infos[SHARED] = dict(shared)
        if torch.get_default_dtype() != torch.float32:  # what a scenario computes without saying a dtype
            values = {path: single(x) for path, x in leaves(observations, infos).items()}
            observations, infos, _ = unflatten(values)
        return observations, infos

    def _spread(self, group: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Infos with one entry per agent, where a scenario gave one for all."""
        if group not in self.groups or len(agents := self.groups[group]) == 1:
            return dict(values)
        return {
            name: x.expand(-1, len(agents), *x.shape[2:]) if x.ndim > 1 and x.shape[1] == 1 else x
            for name, x in values.items()
        }

    def _rewards(self, alive: Grouped) -> Grouped:
        """Those of the step, and 0 for whoever was dead before it."""
        rows = self.world.stage.moment.rows
        rewards = {
            name: r.to(torch.float32).expand(rows, len(self.groups[name]))
            for name, r in self._by_group("rewards", self.scenario.rewards()).items()
        }
        return {name: torch.where(alive[name], r, 0.0) if alive else r for name, r in rewards.items()}

    def _over(self) -> Tensor:
        over = self.scenario.over()
        return torch.zeros_like(self.world.stage.moment.state["over"]) if over is None else over

    # --- the trial -------------------------------------------------------------------------------

    def _try(self) -> None:
        """Runs a reset and a step of a few rows, and checks what the scenario's methods return."""
        if not self.controls:
            raise GroupError(f"{self.scenario}: there is no group of agents that a policy moves")
        with torch.no_grad(), on_cpu():
            state, observations, infos = self._begin(self.start(RowRNG(rows=[TRIAL]))["rng"], checked=True)
            self._check_layout(state)
            self._check_infos(infos)
            self.observations, self.infos = observations, infos
            integer = self.mode != "continuous"
            still = {
                name: torch.zeros(TRIAL, c.agents, c.width, dtype=torch.int64 if integer else torch.float32)
                for name, c in self.controls.items()
            }
            self.world.stage.open(state)
            try:
                raw = self._tensors("rewards", self._by_group("rewards", self.scenario.rewards()))
            finally:
                self.world.stage.shut()
            self._check("rewards", raw, 2)
            _, _, _, over, infos = self.transition(state, still)
            self._tensors("over", over)
            self.borrowed = self._find_borrowed(state, still)
        self._check_infos(infos)
        first, later = (sorted(leaves({}, one)) for one in (self.infos, infos))
        if first != later:
            raise KeyMissing(
                f"{self._who('info')}: expected the entries that a reset gives, {first}, after every step too, "
                f"got {later}; "
                f"give zeros where there is nothing to say"
            )
        if over.shape != (TRIAL,) or over.dtype != torch.bool:
            raise ShapeError(
                f"{self._who('over')}: expected bool [B] with B = {TRIAL}, got {over.dtype} {list(over.shape)}"
            )

    def _find_borrowed(self, state: State, actions: Mapping[str, Tensor]) -> set[tuple[str, ...]]:
        """What resets and steps give that has no memory of its own: the same in every call, as no data decide what is
        computed.
        """
        starts = [self.reset(self.start(RowRNG(rows=[TRIAL]))) for _ in range(2)]
        steps = [self.transition(state, actions) for _ in range(2)]
        found = set()
        for first, again in (starts, steps):
            held = {_memory(x) for x in (*state.values(), *first[0].values(), *actions.values())}
            values, others = (leaves(one[1], one[-1], one[2] if len(one) > 3 else {}) for one in (first, again))
            times = Counter(map(_memory, values.values()))
            for path, x in values.items():
                place = _memory(x)
                if place in held or place == _memory(others[path]) or times[place] > 1 or expanded(x):
                    found.add(path)
        return found

    def _check_layout(self, state: State) -> None:
        """Raises where bodies that push each other start within each other, in the same way in every row."""
        pos, rot, axes = state["pos"], state["rot"], self.stepper.axes
        pose = Pose(pos, axes.all(rot, axes.still(rot)))
        for contact in () if self.scenario.may_overlap else self.stepper.contacts:
            pairs, deep = contact.pairs, contact.stuck(pose, TOUCH)
            way = pick(pos, pairs.first) - pick(pos, pairs.second)
            stuck = deep.all(-1) & ((way - way[..., :1]).abs() < 1e-6).all(-1).all(0)
            for i in stuck.nonzero().flatten().tolist()[:1]:
                a, b = (entity.name for entity in pairs.entities[i])
                raise ValueError(
                    f"{self._who('spawn')}: {a!r} and {b!r}, which collide, overlap at every start; "
                    f"place them apart, give one collide=False, or say may_overlap = True in the scenario; "
                    f"got {self.scenario.options()}"
                )

    def _by_group(self, method: str, said: Any) -> Any:
        """What a method of the scenario returned, when it is a dict."""
        if not isinstance(said, Mapping):
            got = f"a tensor {list(said.shape)}" if isinstance(said, Tensor) else type(said).__name__
            raise TypeError(
                f"{self._who(method)}: expected a dict with the groups {sorted(self.controls)} as keys, got {got}"
            )
        return said

    def _tensors(self, method: str, said: Any, path: tuple[str, ...] = ()) -> Any:
        """What a method of the scenario returned, when it holds tensors as :data:`FORMS` says."""
        least, most, shape = FORMS[method]
        if len(path) < most and isinstance(said, (Mapping, TensorDictBase)):
            for name, x in said.items():
                self._tensors(method, x, (*path, name))
        elif len(path) < least or not isinstance(said, Tensor):
            where = ", ".join(map(repr, path)) + " " * bool(path)
            what = "a dict of tensors" if len(path) < least else "a tensor"
            raise TypeError(f"{self._who(method)}: {where}must be {what} {shape}, got {type(said).__name__}")
        return said

    def _who(self, method: str) -> str:
        return f"{type(self.scenario).__name__}.{method}"

    def _check_answers(self) -> None:
        """Raises where what the scenario says of its open state cannot be computed with."""
        scenario, answers = self.scenario, {}
        for method in ("alive", "observe", "info"):
            answers[method] = self._tensors(method, self._by_group(method, getattr(scenario, method)()))
        shared = scenario.shared_info()
        self._tensors("shared_info", {} if shared is None else shared)
        self._check_alive(answers["alive"], answers["info"])
        self._check_observations(answers["observe"])

    def _check_observations(self, observations: Observations) -> None:
        self._check(
            "observe", {name: x for name, x in observations.items() if isinstance(x, Tensor)}, 3, set(observations)
        )
        for name, parts in observations.items():
            for part in () if isinstance(parts, Tensor) else parts.values():
                self._check("observe", {name: part}, 3, set(observations), parts=True)

    def _check(
        self, method: str, got: Mapping[str, Tensor], ndim: int, names: set[str] | None = None, *, parts: bool = False
    ) -> None:
        groups = self.controls
        if (names or set(got)) != set(groups):
            raise GroupError(f"{self._who(method)}: expected the groups {sorted(groups)}, got {sorted(names or got)}")
        for name, x in got.items():
            agents = (groups[name].agents, 1) if method == "rewards" else (groups[name].agents,)
            if (x.ndim < ndim if parts else x.ndim != ndim) or x.shape[0] != TRIAL or x.shape[1] not in agents:
                expected = ["B", agents[0], "d"][:ndim] + ["..."] * parts
                raise ShapeError(
                    f"{self._who(method)}: {name!r} must be {expected} (B = {TRIAL} in this trial), got {list(x.shape)}"
                )

    def _check_alive(self, alive: Grouped, own: Infos) -> None:
        """Raises where not all agents live at the start, or an info has a name that is taken."""
        for name, lives in alive.items():
            shape = (TRIAL, self.controls[name].agents) if name in self.controls else None
            if lives.shape != shape or lives.dtype != torch.bool or not lives.all():
                raise ValueError(
                    f"{self._who('alive')}: expected bool [B, A] of groups among {sorted(self.controls)}, all True "
                    f"when an episode begins, got {name!r}: {lives.dtype} {list(lives.shape)}, "
                    f"{int(lives.bool().sum())} of {lives.numel()} True"
                )
        if taken := sorted({key for values in own.values() for key in values if key in LIFE_NAMES}) if alive else []:
            raise KeyMissing(f"{self._who('info')}: {taken} are given by {self._who('alive')}; leave them out")

    def _check_infos(self, infos: Infos) -> None:
        for name, values in infos.items():
            lead = [TRIAL] if name == SHARED else [TRIAL, len(self.groups[name])] if name in self.groups else None
            if lead is None:
                raise GroupError(f"{self._who('info')}: expected groups among {sorted(self.groups)}, got {name!r}")
            for key, x in values.items():
                if list(x.shape[: len(lead)]) != lead:
                    method = "shared_info" if name == SHARED else "info"
                    expected = ["B", "..."] if name == SHARED else ["B", lead[1], "..."]
                    raise ShapeError(
                        f"{self._who(method)}: {key!r} must be {expected} (B = {TRIAL} in this trial), got "
                        f"{list(x.shape)}"
                    )


class _Limits:
    """The limits of the forces and torques of a group's actions."""

    def __init__(self, bodies: Bodies) -> None:
        kinds = [_agent(entity.kind) for entity in bodies.entities]
        self.max_f, self.f_range, self.max_t, self.t_range = (
            PerEntity([HUGE if (limit := getattr(kind, at)) is None else limit for kind in kinds])
            for at in ("max_f", "f_range", "max_t", "t_range")
        )

    def __call__(self, force: Tensor | None, torque: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        if force is not None and self.max_f.same != HUGE:
            force = torch.stack(shorten(force[0], force[1], self.max_f.on(force)))
        if force is not None and self.f_range.same != HUGE:
            most = self.f_range.on(force)
            force = force.clamp(-most, most)
        for limit in (self.max_t, self.t_range):
            if torque is not None and limit.same != HUGE:
                most = limit.on(torque)
                torque = torque.clamp(-most, most)
        return force, torque


def _owned(state: State) -> State:
    """A copy that authors may write into (``self.memory.fuel -= 1``); what the tracer records stays itself."""
    return state if rolls() else {name: x.clone() for name, x in state.items()}


def _where(lives: Tensor, seen: Tensor | dict[str, Tensor]) -> Tensor | dict[str, Tensor]:
    """What agents observe, ``[B, A, ...]``, and zeros for those who do not live (bool ``[B, A]``)."""
    if isinstance(seen, dict):
        return {part: torch.where(_fitting(lives, x), x, 0) for part, x in seen.items()}
    return torch.where(_fitting(lives, seen), seen, 0)


def _fitting(lives: Tensor, x: Tensor) -> Tensor:
    return lives.reshape(*lives.shape, *(1,) * (x.ndim - 2))


def _agent(kind: object) -> Agent:
    assert isinstance(kind, Agent)
    return kind


def _memory(x: Tensor) -> int:
    """Where the memory of a tensor begins that it shares with its views."""
    return x.untyped_storage().data_ptr()


def leaves(
    observations: Mapping[str, Any], infos: Mapping[str, Any], rewards: Mapping[str, Tensor] | None = None
) -> dict[tuple[str, ...], Tensor]:
    """Observations, infos and rewards by path."""
    out: dict[tuple[str, ...], Tensor] = {}
    for group, x in observations.items():
        for name, part in {"": x}.items() if isinstance(x, Tensor) else x.items():
            out[(group, "observation", name) if name else (group, "observation")] = part
    for group, values in infos.items():
        for name, x in values.items():
            out[group, "info", name] = x
    for group, x in (rewards or {}).items():
        out[group, "reward"] = x
    return out


def unflatten(data: Mapping[tuple[str, ...], Tensor]) -> tuple[Observations, Infos, Grouped]:
    """Observations, infos and rewards of the groups, from values by path."""
    observations: Observations = {}
    infos: Infos = {}
    rewards: Grouped = {}
    for (group, what, *name), x in data.items():
        if what == "reward":
            rewards[group] = x
        elif what == "info":
            infos.setdefault(group, {})[name[0]] = x
        elif name:
            parts = observations.setdefault(group, {})
            assert isinstance(parts, dict)
            parts[name[0]] = x
        else:
            observations[group] = x
    return observations, infos, rewards
