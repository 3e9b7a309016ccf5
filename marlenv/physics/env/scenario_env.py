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

from marlenv.constants import on_cpu
from marlenv.envs.compiling import outside_graphs
from marlenv.envs.plan import Plan
from marlenv.envs.registry import load
from marlenv.envs.rollout import RolloutOptions
from marlenv.envs.seeding import fresh_seed
from marlenv.errors import GroupError, flag, whole
from marlenv.groups import GroupTree, MarlGroupMapType, resolve
from marlenv.groups.maps import GroupMap
from marlenv.groups.specs import PAD_MASK, padding
from marlenv.keys import DONE_NAMES, Path
from marlenv.options import check_options, of_making
from marlenv.physics.env.draw import check_render, draw_row
from marlenv.physics.env.fast_step import FastStep
from marlenv.physics.env.fused_rollout import fits, fused
from marlenv.physics.env.grouping import Grouping
from marlenv.physics.env.layout import Layout, by_group, world_entries
from marlenv.physics.env.partial_reset import restart
from marlenv.physics.env.simulation_env import SimulationEnv, check_tier
from marlenv.physics.env.specs import action_spec, free, stacked
from marlenv.physics.jit.tiers import MachineCode, Tier
from marlenv.physics.laws.state import State, merge
from marlenv.physics.maths.views import rows_first, rows_last
from marlenv.physics.simulation import SHARED, Simulation, leaves
from marlenv.physics.task.actions import Mode
from marlenv.physics.task.scenario import Scenario
from marlenv.rng import RowRNG
from marlenv.specs import Categorical, Composite, Unbounded
from marlenv.tensordicts import get, rows

CPU = torch.device("cpu")
MADE = ("_engines", "_fast_steps", "pool")
"""What an env makes on its first steps, for its device and its process; no part of copies and pickles."""
GRAPHS = (
    "make the env with compile='auto' or compile='compile', which compile the scenario, and compile the policy apart"
)

VMAS = {
    "action_space": "`action_spec`",
    "agents": "`agent_names`; what they do and see is in the data, `td[group, 'observation']`",
    "get_random_action": "`rand_action(td)`",
    "get_random_actions": "`rand_action(td)`",
    "observation_space": "`observation_spec`",
    "reset_at": "`reset(td)`, where the data have a '_reset' mask of the rows",
    "seed": "`set_seed(seed)`",
    "steps": "`current_state['steps']`",
    "world": "`scenario.world.laws`, with `dt` and the like; where things are is in `current_state`",
}
"""What VMAS's env has under names of its own -> what this one has instead."""


class ScenarioEnv(SimulationEnv):
    """Many rows of a scenario, stepped at once.

    ===================================== ============== =====================================================
    key                                   shape          meaning
    ===================================== ============== =====================================================
    ``(group, "observation")``            ``[B, A, d]``  what agents see; nested where the scenario names parts
    ``(group, "action")``                 ``[B, A, u]``  what they do; ``[B, A]`` for one discrete choice
    ``(group, "reward")``                 ``[B, A, 1]``  what the step was worth to them
    ``(group, "info", ...)``              ``[B, A, k]``  what else the scenario says about agents
    ``("info", ...)``                     ``[B, k]``     and about the row
    ``(group, "alive")``, ``"mask"``      ``[B, A]``     who lives and acts, where agents may die
    done, terminated, truncated           ``[B, 1]``     at the root, and for the agents of each group; the dead are
                                                         done while their row goes on
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
        compile: how fast: ``"auto"``, ``"none"``, ``"aot"`` or ``"compile"`` (:mod:`marlenv.physics.jit.tiers`); all
            give the same numbers up to rounding. Left out, machine code is made on the first use, where that takes
            seconds at most.
        run_type_checks: check every action and every answer against its spec. Without it actions that are not finite,
            choices that there are not, and vectors that are not one-hot (floats may be off by 0.001), are errors too,
            but only on the CPU: elsewhere nothing looks at data.

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
        compile: Tier = "auto",
        run_type_checks: bool = False,
    ) -> None:
        flags = {
            "clamp_actions": clamp_actions,
            "categorical_actions": categorical_actions,
            "grad_enabled": grad_enabled,
            "continuous_actions": continuous_actions,
            "multidiscrete_actions": multidiscrete_actions,
        }
        _check_options(num_envs, compile, flags)
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
        self.one_hot = not continuous_actions and not categorical_actions
        with on_cpu():  # it is moved where it belongs
            self._make_groups(group_map)
        self.last_state: State | None = None
        self._drawn_as: Plan | None = None  # what machine code drew actions from when it was made
        self.set_seed(fresh_seed() if seed is None else seed)

    def __getstate__(self) -> dict[str, Any]:
        own = {name: value for name, value in self.__dict__.items() if name not in MADE}
        if self.last_state is not None:  # copies begin graphs of their own
            own["last_state"] = {name: x.detach() if x.requires_grad else x for name, x in self.last_state.items()}
        return own

    def __getattr__(self, name: str) -> Any:
        if name in VMAS:
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}, as VMAS's env has; it has {VMAS[name]}"
            )
        return super().__getattr__(name)

    # --- what it is ------------------------------------------------------------------------------

    @property
    def scenario(self) -> Scenario:
        """The task."""
        return self.simulation.scenario

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
        self._entries = world_entries(simulation)
        trial = by_group(self._entries[0], leaves(simulation.observations, simulation.infos))
        shared = trial.pop(SHARED, {})
        observed, acts = {}, {}
        for group, agents in native.items():
            for i, agent in enumerate(agents):
                observed[agent] = free(trial[group], 2)
                acts[agent] = Composite(action=action_spec(simulation.controls[group], i, one_hot=self.one_hot))
        both = {agent: Composite({**observed[agent], **acts[agent]}) for agent in observed}
        default = simulation.scenario.group_map() or native
        self.tree = GroupTree(resolve(group_map, list(observed), default=default, specs=both))
        """The groups."""
        self.group_map = self.tree.group_map
        """The same as a plain map: group -> agents, nested."""
        widths = {group: next(iter(acts[agents[0]]["action"].shape), None) for group, agents in native.items()}
        self.grouping = Grouping(self.tree, native, trial, widths)
        """How the groups of the world become those of the data."""
        self._make_specs(observed, acts, both, shared)

    def _make_specs(
        self,
        observed: Mapping[str, Composite],
        acts: Mapping[str, Composite],
        both: Mapping[str, Composite],
        shared: Mapping[str, Any],
    ) -> None:
        """All specs, from what each agent observes and does, and what rows observe."""
        tree, rows, padded = self.tree, self.batch_size[0], self.grouping.plan.padded
        masks = {path: TensorDict(dict(padding(tree, both, path)), [len(tree.groups[path])]) for path in padded}
        self._pad_masks = {path: mask.to(self.device) for path, mask in masks.items()}
        observation = stacked(tree, observed, rows, padded)
        for path, masks in self._pad_masks.items():
            flags = {key: Categorical(2, mask.shape, dtype=torch.bool) for key, mask in masks.items(True, True)}
            observation[(*path, PAD_MASK)] = Composite(flags, shape=masks.batch_size).expand(rows, *masks.batch_size)
        for name, spec in free(shared, 1).items():
            if name in observation:
                raise GroupError(
                    f"{self.scenario}.shared_info: what all share stands under {name!r}, and so does a group of that "
                    f"name; call the group otherwise"
                )
            observation[name] = spec.expand(rows)
        self.observation_spec = observation
        self.action_spec = stacked(tree, acts, rows, padded)
        self.reward_spec = stacked(
            tree, dict.fromkeys(observed, Composite(reward=Unbounded((1,), dtype=torch.float32))), rows
        )
        flag = Categorical(2, (1,), dtype=torch.bool)
        done = stacked(tree, dict.fromkeys(observed, Composite(dict.fromkeys(DONE_NAMES, flag))), rows)
        for name in DONE_NAMES:
            done[name] = flag.expand(rows, 1)
        self.full_done_spec = done

    def _on_move(self) -> None:
        for name in (*MADE, "_layout"):  # made anew on the new device, or refused there
            self.__dict__.pop(name, None)
        self._pad_masks = {path: masks.to(self.device) for path, masks in self._pad_masks.items()}

    def render(self, row: int = 0, *, size: tuple[int, int] = (600, 600), **others: Any) -> Any:
        """A picture of a row: uint8 ``[H, W, 3]``, a numpy array. Needs Pillow.

        Args:
            row: which one.
            size: width and height, pixels.
            **others: options of other libraries' envs; an error that says what to call.

        """
        check_render(others)
        return draw_row(self.simulation, self.current_state, row, size)

    # --- how fast it is --------------------------------------------------------------------------

    @cached_property
    def _layout(self) -> Layout:
        """Where the data hold what."""
        return Layout(self._entries, self.tree, self.grouping, self._pad_masks, self.batch_size, self.device)

    @property
    def _direct(self) -> bool:
        """Whether there are short cuts: the groups are those of the world, and no subclass has hooks of its own."""
        return self._layout.direct and type(self) is ScenarioEnv

    def _fast_step(self) -> FastStep | None:
        """Steps without a detour, where the env runs as machine code."""
        engine = self.engine
        if not self._direct or not isinstance(engine, MachineCode):
            return None
        if engine not in self._fast_steps:
            self._fast_steps[engine] = FastStep(self, self._layout)
        return self._fast_steps[engine]

    @cached_property
    def _fast_steps(self) -> dict[MachineCode, FastStep]:
        return {}

    # --- the env's hooks -------------------------------------------------------------------------

    def _set_seed(self, seed: int | None) -> None:
        rng = RowRNG(fresh_seed() if seed is None else seed, self.batch_size, self.device)
        self._rng = rows_last(rng.state).contiguous()
        if self.last_state is not None:
            self.last_state = {**self.last_state, "rng": self._rng}

    def _restart(self, tensordict: TensorDictBase, mask: Tensor) -> bool:
        self.renew()
        return self._direct and restart(self, self._layout, tensordict, mask)

    def _rollout(self, max_steps: int, policy: Any, options: RolloutOptions) -> TensorDictBase | None:
        self.renew()
        layout = self._layout
        fit = self._direct and fits(self, layout, policy, options)
        return fused(self, layout, max_steps, policy, options) if fit else None

    @outside_graphs(GRAPHS)
    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        self.renew()
        mask = None if tensordict is None or self.last_state is None else get(tensordict, "_reset")
        with self.gradients():
            observations, infos = self.begin(None if mask is None else rows(mask, 1))
            return self._data(leaves(observations, infos), None)

    @outside_graphs(GRAPHS)
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.check_began("step")
        self.renew()
        where = get(tensordict, "_step")
        if where is None and (fast := self._fast_step()) is not None:
            return fast.step(tensordict)
        with self.gradients():
            before = self.current_state
            kept = (
                {name: x.clone() for name, x in before.items()}
                if where is not None and self.engine.in_place
                else before
            )
            actions = {group: x.clone() for group, x in self.taken(tensordict).items()}  # the state may keep them
            after, observations, rewards, over, infos = self.engine.transition(before, actions)
            self.last_state = after if where is None else merge(rows(where, 1), after, kept)
            if not self.engine.in_place:
                observations, infos, rewards = self.owned(observations, infos, rewards)
            return self._data(leaves(observations, infos, rewards), (over, after["steps"]))

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        return TensorDict({name: rows_first(x).clone() for name, x in self.current_state.items()}, self.batch_size)

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        self.last_state = self.checked(state)
        with self.gradients():
            observations, infos, _ = self.owned(*self.simulation.observe(self.last_state))
            return self._data(leaves(observations, infos), (self.last_state["over"], self.last_state["steps"]))

    def _data(self, values: Mapping[Path, Tensor], ends: tuple[Tensor, Tensor] | None) -> TensorDictBase:
        """The data of a reset (without ``ends``) or a step; ``ends`` are whether rows are over, and how many steps they
        have.
        """
        return self._layout.data(values, None if ends is None else self.row_flags(*ends))


def _check_options(num_envs: int, tier: str, flags: Mapping[str, bool]) -> None:
    whole("ScenarioEnv", "num_envs", num_envs, 1)
    check_tier(tier)
    for name, value in flags.items():
        flag("ScenarioEnv", name, value)
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
    every = f"; those of every scenario: num_envs, {', '.join(ENV_OPTIONS)}"
    check_options(cls.__name__, options, known, ENV_OPTIONS, every)
    return ScenarioEnv(cls(**options), rows, **own)


ENV_OPTIONS = (
    *(name for name, p in inspect.signature(ScenarioEnv.__init__).parameters.items() if p.kind is p.KEYWORD_ONLY),
    *of_making(ScenarioEnv),
)
