"""A scenario as an environment: tensordicts in and out, keys and shapes as TorchRL's ``VmasEnv``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.buffer_pool import BufferPool
from marlenv.envs import EnvBase
from marlenv.envs.registry import load
from marlenv.envs.rollout import RolloutOptions
from marlenv.envs.seeding import fresh_seed
from marlenv.errors import DtypeError, KeyMissing, ShapeError, nearest, whole
from marlenv.groups import GroupTree, MarlGroupMapType, resolve
from marlenv.groups.maps import GroupMap
from marlenv.groups.specs import PAD_MASK
from marlenv.keys import DONE_NAMES
from marlenv.physics.actions import Mode
from marlenv.physics.compiling import TIERS, Compiled, Tier, engine_of
from marlenv.physics.draw import draw_row
from marlenv.physics.facing import FastStep
from marlenv.physics.fused import drawing, fits, fused
from marlenv.physics.lanes import in_graph
from marlenv.physics.layout import FLAGS, Layout
from marlenv.physics.restarting import restart
from marlenv.physics.scenario import Scenario
from marlenv.physics.seating import Seating, layout, wrap
from marlenv.physics.simulation import SHARED, Grouped, Infos, Kept, Seen, Simulation, leaves, unflatten
from marlenv.physics.specs import action_spec, entries_of, free, numbers, pad_masks, stacked
from marlenv.physics.state import State, merge
from marlenv.physics.views import rows_first, rows_last
from marlenv.rng import RowRNG
from marlenv.specs import Categorical, Composite, Unbounded
from marlenv.tensordicts import get, new, put, rows

CPU = torch.device("cpu")
MADE = ("engine", "_fast_step", "pool")
"""What an env makes on its first steps, for its device and its process; no part of copies and pickles."""


class ScenarioEnv(EnvBase):
    """Many rows of a scenario, stepped at once.

    ===================================== ============== =====================================================
    key                                   shape          meaning
    ===================================== ============== =====================================================
    ``(group, "observation")``            ``[B, A, d]``  what agents see; nested where the scenario names parts
    ``(group, "action")``                 ``[B, A, u]``  what they do; ``[B, A]`` for one discrete choice
    ``(group, "reward")``                 ``[B, A, 1]``  what the step was worth to them
    ``(group, "info", ...)``              ``[B, A, k]``  what else the scenario says about agents
    ``("info", ...)``                     ``[B, k]``     and about the row
    done, terminated, truncated           ``[B, 1]``     at the root, and for the agents of each group the same
    ===================================== ============== =====================================================

    Row ``i`` of a batch lives the same life in a batch of any size. The task terminates; a time limit truncates.

    Args:
        scenario: the task; it belongs to this env from now on.
        num_envs: how many rows, ``B``.
        device: where the rows live.
        seed: of all that is random; from the operating system when left out.
        group_map: agents in groups of one's own: a map, a rule or its name; left out, the groups are the scenario's.
        max_steps: episodes of this length are truncated; left out, they go on.
        continuous_actions: whether actions are numbers, or choices.
        multidiscrete_actions: with choices: one for each number of the action, or one in all.
        clamp_actions: whether numbers outside their range are cut to it; otherwise they act as they are.
        categorical_actions: with choices: whether they are numbered or one-hot.
        grad_enabled: whether gradients flow through steps, from rewards and observations to actions.
        compile: how fast: ``"none"``, ``"compile"``, ``"aot"`` or ``"auto"`` (:mod:`marlenv.physics.compiling`); all give the
            same numbers up to rounding.
        run_type_checks: check every action and every answer against its spec. Without it actions that are not finite, and
            choices that there are not, are errors too, but only on the CPU: elsewhere nothing looks at data.

    >>> from marlenv.scenarios.mpe.simple_spread import SimpleSpread
    >>> env = ScenarioEnv(SimpleSpread(n_agents=2), num_envs=8, seed=0, max_steps=100)
    >>> env.rollout(3)["next", "agents", "reward"].shape
    torch.Size([8, 3, 2, 1])
    """

    handles_partial_steps = True
    resets_without_looking = True
    resets_in_place = True

    def __init__(
        self,
        scenario: Scenario,
        num_envs: int = 1,
        *,
        device: torch.device | str | int | None = None,
        seed: int | None = None,
        group_map: GroupMap | MarlGroupMapType | str | None = None,
        max_steps: int | None = None,
        continuous_actions: bool = True,
        multidiscrete_actions: bool = False,
        clamp_actions: bool = False,
        categorical_actions: bool = True,
        grad_enabled: bool = False,
        compile: Tier = "none",
        run_type_checks: bool = False,
    ) -> None:
        flags = {
            "clamp_actions": clamp_actions,
            "categorical_actions": categorical_actions,
            "grad_enabled": grad_enabled,
            "continuous_actions": continuous_actions,
            "multidiscrete_actions": multidiscrete_actions,
        }
        _check_options(num_envs, max_steps, compile, flags)
        super().__init__(
            device="cpu" if device is None else device, batch_size=[num_envs], run_type_checks=run_type_checks
        )
        mode: Mode = "continuous" if continuous_actions else "multidiscrete" if multidiscrete_actions else "discrete"
        self.simulation = Simulation(scenario, mode, clamp=clamp_actions)
        """The pure functions behind the env."""
        self.max_steps = max_steps
        self.grad_enabled = grad_enabled
        self.tier = compile
        """How fast it was asked to be."""
        self._one_hot = not continuous_actions and not categorical_actions
        self._make_groups(group_map)
        self._now: State | None = None
        self.set_seed(fresh_seed() if seed is None else seed)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in MADE}

    # --- what it is ------------------------------------------------------------------------------

    @property
    def scenario(self) -> Scenario:
        """The task."""
        return self.simulation.scenario

    @property
    def num_envs(self) -> int:
        """How many rows."""
        return self.batch_size[0]

    @property
    def n_agents(self) -> int:
        """How many agents act."""
        return len(self.tree.agents)

    @property
    def agent_names(self) -> list[str]:
        """The agents that act, group by group of the scenario."""
        return [name for group in self.simulation.controls for name in self.simulation.groups[group].names]

    def _make_groups(self, group_map: GroupMap | MarlGroupMapType | str | None) -> None:
        """The groups, and all specs."""
        simulation = self.simulation
        native = {group: list(simulation.groups[group].names) for group in simulation.controls}
        entries = {group: entries_of(simulation, group) for group in native}
        seen, acts = {}, {}
        for group, agents in native.items():
            for i, agent in enumerate(agents):
                seen[agent] = free(entries[group], 2)
                acts[agent] = Composite(action=action_spec(simulation.controls[group], i, one_hot=self._one_hot))
        both = {agent: Composite({**seen[agent], **acts[agent]}) for agent in seen}
        self.tree = GroupTree(resolve(group_map, list(seen), default=native, specs=both))
        """The groups."""
        self.group_map = self.tree.group_map
        """The same as a plain map: group -> agents, nested."""
        layouts = {group: layout(one) for group, one in entries.items()}
        widths = {group: next(iter(acts[agents[0]]["action"].shape), None) for group, agents in native.items()}
        self.seating = Seating(self.tree, native, layouts, widths)
        """Where the agents of the world sit in the groups."""
        self._make_specs(seen, acts, both)

    def _make_specs(
        self, seen: Mapping[str, Composite], acts: Mapping[str, Composite], both: Mapping[str, Composite]
    ) -> None:
        """All specs, from what each agent sees and does."""
        tree, rows, padded, shared = (
            self.tree,
            self.batch_size[0],
            self.seating.padded,
            self.simulation.infos.get(SHARED),
        )
        self._pad_masks = {path: masks.to(self.device) for path, masks in pad_masks(tree, both, padded).items()}
        observation = stacked(tree, seen, rows, padded)
        for path, masks in self._pad_masks.items():
            flags = {key: Categorical(2, mask.shape, dtype=torch.bool) for key, mask in masks.items(True, True)}
            observation[(*path, PAD_MASK)] = Composite(flags, shape=masks.batch_size).expand(rows, *masks.batch_size)
        if shared is not None:
            observation["info"] = free({name: _column(x) for name, x in shared.items()}, 1).expand(rows)
        self.observation_spec = observation
        self.action_spec = stacked(tree, acts, rows, padded)
        self.reward_spec = stacked(tree, dict.fromkeys(seen, Composite(reward=Unbounded((1,)))), rows)
        flag = Categorical(2, (1,), dtype=torch.bool)
        done = stacked(tree, dict.fromkeys(seen, Composite(dict.fromkeys(DONE_NAMES, flag))), rows)
        for name in DONE_NAMES:
            done[name] = flag.expand(rows, 1)
        self.full_done_spec = done

    def _on_move(self) -> None:
        for name in (*MADE, "_layout"):  # made anew on the new device, or refused there
            self.__dict__.pop(name, None)
        self._pad_masks = {path: masks.to(self.device) for path, masks in self._pad_masks.items()}

    def render(self, row: int = 0, *, size: tuple[int, int] = (600, 600)) -> Any:
        """A picture of a row: uint8 ``[H, W, 3]``, a numpy array. Needs Pillow.

        Args:
            row: which one.
            size: width and height, pixels.

        """
        return draw_row(self.simulation, self._state, row, size)

    # --- how fast it is --------------------------------------------------------------------------

    @cached_property
    def engine(self) -> Any:
        """What moves the rows: made, and compiled where that was asked for, on the first use."""
        draw, draws, wide = drawing(self)
        grad = self.grad_enabled
        return engine_of(self.simulation, self.tier, self.device, draw, draws, wide=wide, grad=grad)

    @cached_property
    def _layout(self) -> Layout | None:
        """Where the data hold what; None where the groups are not those of the world, or where a subclass has hooks of its own."""
        seating = self.seating
        own = len(seating.whole) == len(self.tree.groups) and not seating.padded and type(self) is ScenarioEnv
        return Layout(self) if own else None

    @cached_property
    def _fast_step(self) -> FastStep | None:
        """Steps without a detour, where the env runs as machine code."""
        plain = self._layout is not None and isinstance(self.engine, Compiled)
        return FastStep(self, self._layout) if plain else None  # type: ignore[arg-type]

    @cached_property
    def pool(self) -> BufferPool:
        """Where the memory of rollouts comes from."""
        return BufferPool()

    def own_state(self) -> State:
        """Where the env stands, in memory that its machine code may write to."""
        self._now = self.engine.own(self._state)
        return self._now

    # --- the env's hooks -------------------------------------------------------------------------

    def _set_seed(self, seed: int | None) -> None:
        rng = RowRNG(fresh_seed() if seed is None else seed, self.batch_size, self.device)
        self._rng = rows_last(rng.state).contiguous()
        if self._now is not None:
            self._now = {**self._now, "rng": self._rng}

    def _restart(self, tensordict: TensorDictBase, mask: Tensor) -> bool:
        return self._layout is not None and restart(self, self._layout, tensordict, mask)

    def _rollout(self, max_steps: int, policy: Any, options: RolloutOptions) -> TensorDictBase | None:
        layout = self._layout
        return fused(self, layout, max_steps, policy, options) if layout and fits(self, layout, options) else None

    def _reset(self, tensordict: TensorDictBase | None, **_: Any) -> TensorDictBase:
        mask = None if tensordict is None or self._now is None else get(tensordict, "_reset")
        with self._gradients():
            observations, infos = self._begin(None if mask is None else rows(mask, 1))
            return self._data(observations, infos, None, None)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        where = get(tensordict, "_step")
        if where is None and self._fast_step is not None:
            return self._fast_step.step(self.taken(tensordict))
        with self._gradients():
            before = self._state
            kept = (
                {name: x.clone() for name, x in before.items()}
                if where is not None and self.engine.in_place
                else before
            )
            actions = {group: x.clone() for group, x in self.taken(tensordict).items()}  # the state may keep them
            after, observations, rewards, over, infos = self.engine.transition(before, actions)
            self._now = after if where is None else merge(rows(where, 1), after, kept)
            if not self.engine.in_place:
                observations, infos, rewards = self._own(observations, infos, rewards)
            return self._data(observations, infos, rewards, (over, after["steps"]))

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        return TensorDict({name: rows_first(x).clone() for name, x in self._state.items()}, self.batch_size)

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        self._now = self._checked(state)
        with self._gradients():
            observations, infos, _ = self._own(*self.simulation.observe(self._now))
            return self._data(observations, infos, None, (self._now["over"], self._now["steps"]))

    # --- the state -------------------------------------------------------------------------------

    @property
    def _state(self) -> State:
        """Where the env stands; the first use starts an episode in all rows."""
        if self._now is None:
            with self._gradients():
                self._begin(None)
        now: State = self._now  # type: ignore[assignment]
        if now["rng"].device != self.device:
            now = self._now = {name: x.to(self.device) for name, x in now.items()}
        return now

    def _begin(self, where: Tensor | None, kept: Kept | None = None) -> tuple[Seen, Infos]:
        """New episodes in the rows ``where``, or in all; the others see what is ``kept``."""
        if self._now is None:
            rng = RowRNG.from_state(rows_first(self._rng).to(self.device))
            state = self.simulation.start(rng)
        else:
            state = self._state
        self._now, observations, infos = self.engine.reset(state, where, kept)
        return (observations, infos) if self.engine.in_place else self._own(observations, infos)[:2]

    def _own(self, observations: Seen, infos: Infos, rewards: Grouped | None = None) -> tuple[Seen, Infos, Grouped]:
        """The same with memory of its own for all that could share it with the state, with constants or with each other."""
        borrowed = self.simulation.borrowed
        if not borrowed and self.num_envs > 1:
            return observations, infos, rewards or {}
        values = leaves(observations, infos, rewards)
        for path in (
            borrowed if self.num_envs > 1 else values
        ):  # one row's views are contiguous more often than those of many
            if path in values:
                values[path] = values[path].clone()
        return unflatten(values)

    def _checked(self, state: TensorDictBase) -> State:
        """The entries of a state that was handed in, rows last."""
        who, own = f"{type(self.scenario).__name__}.set_state", self._state
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

    def _gradients(self) -> Any:
        return torch.set_grad_enabled(self.grad_enabled and torch.is_grad_enabled())

    # --- data ------------------------------------------------------------------------------------

    def taken(self, td: TensorDictBase) -> dict[str, Tensor]:
        """The actions of the groups of the world, ``[B, A, ...]``, from data of the env."""
        actions, controls = self.seating.actions(td), self.simulation.controls
        if self._one_hot:
            return {group: numbers(x, controls[group]) for group, x in actions.items()}
        if self.device == CPU and not in_graph():  # elsewhere a look at data would wait for the device
            where = get(td, "_step")
            for group, x in actions.items():
                controls[group].check(x, self.simulation.groups[group].names, None if where is None else rows(where, 1))
        return actions

    def _data(
        self,
        observations: Seen,
        infos: Infos,
        rewards: Mapping[str, Tensor] | None,
        ends: tuple[Tensor, Tensor] | None,
    ) -> TensorDictBase:
        """The tensordict of a reset (without ``ends``) or a step; ``ends`` are whether rows are over, and how many steps they have."""
        batch, device = self.batch_size, self.device
        groups: dict[str, dict[str, Any]] = {}
        for group, seen in observations.items():
            entries: dict[str, Any] = {"observation": seen}
            if group in infos:
                entries["info"] = {name: x if x.ndim > 2 else x.unsqueeze(-1) for name, x in infos[group].items()}
            if rewards is not None:
                entries["reward"] = rewards[group].unsqueeze(-1)
            groups[group] = entries
        flags = torch.zeros((3, *batch), dtype=torch.bool, device=device) if ends is None else self._flags(*ends)
        own = flags.unsqueeze(-1).repeat(1, 1, 1 + self.n_agents)  # the row's, and those of all agents
        out: dict[str, Any] = {name: x[:, :1] for name, x in zip(FLAGS, own, strict=True)}
        start = 1
        for path, agents in self.tree.groups.items():
            td = self.seating.seat(path, groups, batch, device)
            if path in self._pad_masks:
                put(td, PAD_MASK, self._pad_masks[path].expand(*batch, len(agents)).clone())
            for name, flag in zip(FLAGS, own.narrow(2, start, len(agents)).unsqueeze(-1), strict=True):
                put(td, name, flag)
            start += len(agents)
            level = out
            for name in path[:-1]:
                level = level.setdefault(name, new({}, batch, device))._tensordict
            level[path[-1]] = td
        if SHARED in infos:
            out["info"] = wrap({name: _column(x) for name, x in infos[SHARED].items()}, batch, device)
        return new(out, batch, device)

    def _flags(self, over: Tensor, steps: Tensor) -> Tensor:
        """Whether rows are terminated, truncated, done; bool ``[3, B]``."""
        late = torch.zeros_like(over) if self.max_steps is None else steps >= self.max_steps
        return torch.stack((over, late, over | late))


def _column(x: Tensor) -> Tensor:
    """``[B]`` as ``[B, 1]``."""
    return x if x.ndim > 1 else x.unsqueeze(-1)


def _check_options(num_envs: int, max_steps: int | None, tier: str, flags: Mapping[str, bool]) -> None:
    for name, value in (("num_envs", num_envs), ("max_steps", 1 if max_steps is None else max_steps)):
        whole("ScenarioEnv", name, value, 1)
    if tier not in TIERS:
        raise ValueError(f"ScenarioEnv: compile must be one of {list(TIERS)}, got {tier!r}")
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise DtypeError(f"ScenarioEnv: {name} must be True or False, got {flag!r}")
    if flags["continuous_actions"] and flags["multidiscrete_actions"]:
        raise ValueError("ScenarioEnv: multidiscrete_actions=True needs continuous_actions=False, got True")


def make_scenario(
    scenario: str | type[Scenario] | Scenario, num_envs: int | None = None, **options: Any
) -> ScenarioEnv:
    """An env of a scenario, with the options of both in one list.

    Args:
        scenario: a scenario, its class, or where the class is: ``"module:name"``.
        num_envs: how many rows; one when left out.
        **options: those of :class:`ScenarioEnv`, and fields of the scenario.

    Raises:
        TypeError: nobody has such an option.

    >>> env = make_scenario("marlenv.scenarios.mpe.simple_spread:SimpleSpread", num_envs=4, n_agents=2)
    >>> env.group_map
    {'agents': ['agent_0', 'agent_1']}
    """
    own = {name: options.pop(name) for name in ENV_OPTIONS if name in options}
    rows = 1 if num_envs is None else num_envs
    if isinstance(scenario, Scenario):
        if options:
            raise TypeError(f"make_scenario: {scenario!r} is made already, got more options for it: {sorted(options)}")
        return ScenarioEnv(scenario, rows, **own)
    cls: type[Scenario] = load(scenario) if isinstance(scenario, str) else scenario
    known = {field.name: field.default for field in fields(cls)}
    for name in options:
        if name not in known:
            listed = ", ".join(f"{key}={value!r}" for key, value in known.items()) or "none"
            raise TypeError(
                f"{cls.__name__} has no option {name!r}; {nearest(name, [*known, *ENV_OPTIONS])} Its options: {listed}; "
                f"those of every scenario: num_envs, {', '.join(ENV_OPTIONS)}"
            )
    return ScenarioEnv(cls(**options), rows, **own)


ENV_OPTIONS = tuple(
    name
    for name, p in inspect.signature(ScenarioEnv.__init__).parameters.items()
    if p.kind is inspect.Parameter.KEYWORD_ONLY
)
