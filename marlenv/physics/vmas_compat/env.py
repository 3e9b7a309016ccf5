"""A scenario file of VMAS as an environment: keys and shapes as TorchRL's ``VmasEnv``."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.envs.seeding import fresh_seed
from marlenv.errors import NeedsReset, SpecError, Unsupported, whole
from marlenv.groups import GroupTree, MarlGroupMapType, group_specs, resolve
from marlenv.groups.maps import GroupMap, numbered_groups
from marlenv.groups.side_by_side import fitted, side_by_side
from marlenv.keys import DONE_NAMES, Path, nested
from marlenv.physics.env.draw import check_render
from marlenv.physics.env.specs import action_spec, numbers
from marlenv.physics.jit.tiers import Tier
from marlenv.physics.task.actions import Control, Mode
from marlenv.physics.vmas_compat.draws import Draws
from marlenv.physics.vmas_compat.environment import Environment, Results
from marlenv.physics.vmas_compat.pictures import draw_row
from marlenv.physics.vmas_compat.pure import Fast
from marlenv.physics.vmas_compat.scenario import BaseScenario
from marlenv.specs import Binary, Composite, StackedComposite, TensorSpec, Unbounded
from marlenv.tensordicts import columns, get, nest, parts, plant, rows

CPU = torch.device("cpu")


class VmasFileEnv(EnvBase):
    """Many rows of a scenario in VMAS's form, made by :func:`~marlenv.physics.vmas_compat.load`.

    Per group of ``A`` agents; by name prefix, where a lone group ``"agent"`` is called ``"agents"``, and there is one
    group ``"agents"`` if any name has no number:

    | key | shape | meaning |
    |---|---|---|
    | `observation` | `[B, A, *obs]` | nested where the scenario observes dicts |
    | `action` | `[B, A, *act]` | forces (and messages), or discrete |
    | `reward` | `[B, A, 1]` | |
    | `info` | `[B, A, *]` each | zeros for agents that lack an entry that others of their group have |

    At the root `done`, `terminated` and `truncated` `[B, 1]`: a time limit truncates. VMAS ends rows, not agents.

    Args:
        scenario: an instance of the file's ``Scenario``.
        num_envs: how many rows, ``B``.
        draws: where its random numbers come from.
        quiet: whether its steps are known to draw none.
        closed: whether what it says of agents is known to depend on nothing outside, and to do nothing there.
        device: where the rows live.
        seed: of all that is random.
        group_map: agents in groups of one's own: a map, a rule or its name.
        max_steps: episodes of this length are truncated.
        continuous_actions: whether actions are numbers, or choices.
        multidiscrete_actions: with choices: one for each number of the action, or one in all.
        clamp_actions: whether numbers outside their range are cut to it; otherwise they act as they are.
        categorical_actions: with choices: whether they are numbered or one-hot.
        grad_enabled: whether gradients flow through steps.
        compile: ``"auto"``: motion, distances and rays become machine code where that takes seconds at most, and what
            the file says of agents where that can be shown to be the same; ``"aot"``: the former must; ``"none"``:
            separate operations, and the file's own code.
        run_type_checks: check every action and every answer against its spec.
        **options: the scenario's, as ``make_world`` takes them.

    """

    def __init__(
        self,
        scenario: BaseScenario,
        num_envs: int = 1,
        *,
        draws: Draws,
        quiet: bool = False,
        closed: bool = False,
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
        **options: Any,
    ) -> None:
        if max_steps is not None:
            whole("load", "max_steps", max_steps, 1)
        if continuous_actions and multidiscrete_actions:
            raise SpecError("load: multidiscrete_actions=True needs continuous_actions=False")
        super().__init__(
            device="cpu" if device is None else device, batch_size=[num_envs], run_type_checks=run_type_checks
        )
        mode: Mode = "continuous" if continuous_actions else "multidiscrete" if multidiscrete_actions else "discrete"
        self.max_steps, self.grad_enabled = max_steps, grad_enabled
        self.one_hot = not continuous_actions and not categorical_actions
        assert self.device is not None
        self.environment = Environment(
            scenario, num_envs, self.device, draws, mode,
            clamp=clamp_actions, grad=grad_enabled, quiet=quiet, closed=closed, options=options,
        )  # fmt: skip
        """The scenario at work, agent by agent."""
        if compile not in ("auto", "aot", "none"):
            raise SpecError(f"load: compile must be 'auto', 'aot' or 'none', got {compile!r}")
        self.world._fast = Fast(compile, num_envs, self.device)
        seed = fresh_seed() if seed is None else seed
        draws.seed(seed)
        self._make_specs(group_map, *self.environment.learn())
        self._steps: Tensor | None = None  # of the episodes, int64 [B]; None before the first reset
        self.set_seed(seed)

    # --- what it is ------------------------------------------------------------------------------

    @property
    def scenario(self) -> Any:
        """The scenario of the file."""
        return self.environment.scenario

    @property
    def world(self) -> Any:
        """Its world."""
        return self.environment.world

    @property
    def num_envs(self) -> int:
        """How many rows."""
        return self.batch_size[0]

    @property
    def n_agents(self) -> int:
        """How many agents act."""
        return len(self.agent_names)

    def render(self, row: int = 0, *, size: tuple[int, int] = (600, 600), **others: Any) -> Any:
        """A picture of a row: uint8 ``[H, W, 3]``, a numpy array. Needs Pillow; ``others`` are an error that says what
        to call.
        """
        check_render(others)
        self._check_began("render")
        return draw_row(self.environment, whole("render", "row", row, 0, self.num_envs - 1), size)

    def _make_specs(
        self, group_map: GroupMap | MarlGroupMapType | str | None, said: Sequence[Any], infos: Sequence[Any]
    ) -> None:
        agents = self.environment.agents
        self.agent_names = names = [agent.name for agent in agents]
        """The agents that act, in the world's order."""
        at = {id(agent): (control, i) for control, some in self.environment.controls for i, agent in enumerate(some)}
        seen = {name: _spec_of(x) for name, x in zip(names, said, strict=True)}
        acts = {agent.name: action_spec(*at[id(agent)], one_hot=self.one_hot) for agent in agents}
        both = {name: Composite(observation=seen[name], action=acts[name]) for name in names}
        self.group_map = resolve(group_map, names, default=numbered_groups(names), specs=both)
        self.tree = GroupTree(self.group_map)
        """The groups."""
        place = {name: i for i, name in enumerate(names)}
        self._members = {path: [place[name] for name in members] for path, members in self.tree.groups.items()}
        self._infos: dict[Path, dict[str, TensorSpec]] = {
            path: {key: _spec_of(x) for i in members for key, x in infos[i].items()}
            for path, members in self._members.items()
        }
        observed = {
            names[i]: {"observation": seen[names[i]], **({"info": Composite(has)} if has else {})}
            for path, has in self._infos.items()
            for i in self._members[path]
        }
        self.full_observation_spec = self._grouped(observed)
        self.full_action_spec = self._grouped({name: {"action": spec} for name, spec in acts.items()})
        flat = Unbounded((1,), dtype=torch.float32)
        self.full_reward_spec = self._grouped({name: {"reward": flat} for name in names})
        flags = {name: Binary(shape=(1,), dtype=torch.bool) for name in DONE_NAMES}
        self.full_done_spec = Composite(flags).expand(*self.batch_size)
        self._lazy = {p: isinstance(self.full_observation_spec[nested(p)], StackedComposite) for p in self.tree.groups}
        self._sources = [
            (control, [place[agent.name] for agent in some]) for control, some in self.environment.controls
        ]

    def _grouped(self, agents: Mapping[str, Mapping[str, TensorSpec]]) -> Composite:
        specs = {name: Composite(dict(entries)).to(self.device) for name, entries in agents.items()}
        return group_specs(self.tree, specs, batch_size=self.batch_size)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = object.__new__(type(self))
        memo[id(self)] = new
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return new

    def __copy__(self) -> Self:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    def __reduce_ex__(self, _: Any) -> Any:
        name = type(self.scenario).__name__
        raise Unsupported(
            f"VmasFileEnv of {name}: it cannot be pickled, for its file was executed for it alone, and no other "
            f"process has its classes; give the other process a function that calls load(path, ...), or copy it in "
            f"this one with copy.deepcopy"
        )

    # --- the env's hooks -------------------------------------------------------------------------

    def _check_began(self, verb: str) -> None:
        if self._steps is None:
            raise NeedsReset.before(type(self.scenario).__name__, verb)

    def _set_seed(self, seed: int | None) -> None:
        self.environment.draws.seed(fresh_seed() if seed is None else seed)

    def _on_move(self) -> None:
        if "environment" in self.__dict__ and self.environment.device != self.device:
            assert self.device is not None
            self.environment.to(self.device)
            self._steps = None if self._steps is None else self._steps.to(self.device)

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        mask = None if tensordict is None or self._steps is None else get(tensordict, "_reset")
        where = None if mask is None else rows(mask, 1)
        results = self.environment.reset(where)
        zero = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)
        self._steps = zero if where is None or self._steps is None else torch.where(where, zero, self._steps)
        return self._data(results, results.over)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._check_began("step")
        assert self._steps is not None
        results = self.environment.step(self._taken(tensordict))
        self._steps = self._steps + 1
        late = torch.zeros_like(results.over) if self.max_steps is None else self._steps >= self.max_steps
        return self._data(results, late)

    def _data(self, results: Results, late: Tensor) -> TensorDict:
        over = results.over.clone()
        root: dict[str, Any] = {"terminated": over, "truncated": late.clone(), "done": over | late}
        root = {name: x.unsqueeze(-1) for name, x in root.items()}
        for path, members in self._members.items():
            entries = [self._results_of(results, i, self._infos[path]) for i in members]
            plant(root, path, side_by_side(entries, self.batch_size, self._lazy[path]))
        return nest(root, self.batch_size).to(self.device) if self.device != CPU else nest(root, self.batch_size)

    def _results_of(self, results: Results, i: int, infos: Mapping[str, TensorSpec]) -> dict[str, Any]:
        """What an agent got."""
        out: dict[str, Any] = {"observation": _shaped(results.observations[i])}
        if results.rewards:
            out["reward"] = results.rewards[i].float()
        if infos:
            has, batch = results.infos[i], self.batch_size
            out["info"] = {name: _fitted(has.get(name), spec, batch, self.device) for name, spec in infos.items()}
        return out

    # --- actions ---------------------------------------------------------------------------------

    def _taken(self, td: TensorDictBase) -> list[Tensor]:
        """The actions of agents that are alike, ``[B, A, width]``, in memory of the world's own, planar."""
        each: list[Any] = [None] * self.n_agents
        whole: dict[tuple[int, ...], Tensor] = {}
        for path, members in self._members.items():
            group: Any = td
            for name in path:
                group = get(group, name)
            if self._lazy[path] or parts(group) is not None:
                for i, one in zip(members, columns(group, 1), strict=True):
                    each[i] = get(one, "action")
                continue
            action = get(group, "action")
            whole[tuple(members)] = action
            for i, one in zip(members, action.unbind(1), strict=True):
                each[i] = one
        return [self._read(control, places, each, whole) for control, places in self._sources]

    def _read(
        self, control: Control, places: list[int], each: Sequence[Tensor], whole: Mapping[tuple[int, ...], Tensor]
    ) -> Tensor:
        action = whole.get(tuple(places))
        if action is None:
            action = torch.stack([each[i] for i in places], 1)
        if self.one_hot:
            action = numbers(action, control)
        if self.device == CPU:
            control.check(action, [self.agent_names[i] for i in places])
        if action.ndim == 2:
            action = action.unsqueeze(-1)
        return action.permute(2, 1, 0).clone(memory_format=torch.contiguous_format).permute(2, 1, 0)


def _spec_of(form: Any) -> TensorSpec:
    """The spec of what one agent gets, by its form; numbers get one dimension."""
    if isinstance(form, Mapping):
        return Composite({name: _spec_of(one) for name, one in form.items()})
    return Unbounded(form.shape or (1,), dtype=form.dtype)


def _shaped(value: Any) -> Any:
    """Numbers ``[B]`` as ``[B, 1]``, in nested dicts too."""
    if isinstance(value, Mapping):
        return {name: _shaped(one) for name, one in value.items()}
    return value if value.ndim > 1 else value.unsqueeze(-1)


def _fitted(value: Any, spec: Any, batch: Any, device: Any) -> Any:
    """Infos in the shapes of their specs, with zeros for what is missing."""
    if isinstance(spec, Composite):
        value = value or {}
        return {name: _fitted(value.get(name), one, batch, device) for name, one in spec.items()}
    return fitted(value, spec, batch, device)
