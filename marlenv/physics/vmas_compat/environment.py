"""A scenario file at work: worlds, actions, steps and resets, agent by agent, in VMAS's order."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from marlenv.copied_functions import own_functions
from marlenv.errors import ShapeError, SpecError
from marlenv.physics.laws import entities as laws
from marlenv.physics.task.actions import Control, Mode
from marlenv.physics.vmas_compat import answers
from marlenv.physics.vmas_compat.draws import Draws
from marlenv.physics.vmas_compat.entities import Agent
from marlenv.physics.vmas_compat.pure import SOON
from marlenv.physics.vmas_compat.results import CompiledResults, compiled_results
from marlenv.physics.vmas_compat.scenario import BaseScenario
from marlenv.physics.vmas_compat.world import World

TRIES = 3
"""How often what a file says is compiled, where it has changed something since."""


class Results(NamedTuple):
    """What a scenario says of all agents, in order: each entry has one value per agent."""

    observations: list[Any]
    infos: list[dict[str, Tensor]]
    rewards: list[Tensor]
    over: Tensor
    """Whether rows are over, bool ``[B]``."""


class Environment:
    """Many rows of a scenario in VMAS's form.

    Args:
        scenario: an instance of the file's ``Scenario``.
        rows: how many, ``B``.
        device: where they live.
        draws: where random numbers come from.
        mode: what actions are.
        clamp: whether continuous actions outside their range are cut to it.
        grad: whether gradients flow.
        quiet: whether steps are known to draw nothing, so that nobody needs to watch.
        closed: whether what the file says of agents is known to depend on nothing outside, and to do nothing there.
        options: of the scenario's ``make_world``.

    """

    def __init__(
        self,
        scenario: BaseScenario,
        rows: int,
        device: torch.device,
        draws: Draws,
        mode: Mode,
        *,
        clamp: bool = False,
        grad: bool = False,
        quiet: bool = False,
        closed: bool = False,
        options: Mapping[str, Any],
    ) -> None:
        self.scenario, self.rows, self.device, self.draws, self.mode = scenario, rows, device, draws, mode
        self.grad, self.quiet, self.closed = grad, quiet, closed
        self._compiled_results: CompiledResults | None = None
        self._calls = self._tries = 0
        self._forms: dict[tuple[str, str], Any] = {}  # of what is said of each agent, by method and name
        with self._open():
            self.world: Any = scenario.env_make_world(rows, device, **options)
        who = type(scenario).__name__
        if not isinstance(self.world, World):
            raise TypeError(f"{who}.make_world: expected the World that it made, got {type(self.world).__name__}")
        self.agents: list[Agent] = self.world.policy_agents
        """The agents that a policy moves, in order."""
        if not self.agents:
            raise SpecError(f"{who}: there is no agent that a policy moves")
        names = [agent.name for agent in self.agents]
        if len(set(names)) < len(names):
            raise SpecError(f"{who}: agents need names of their own, got {names}")
        self.controls = _controls(self.agents, self.world.dim_c, mode, clamp)
        """The actions of agents that are alike, and which agents these are."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = copy.copy(self)
        memo[id(self)] = new
        compiled, self._compiled_results = self._compiled_results, None  # for the objects of this one
        try:
            vars(new).update(copy.deepcopy(vars(self), memo))
        finally:
            self._compiled_results = compiled
        new._tries -= compiled is not None
        own_functions([type(self.scenario).__module__], memo)
        new.world.take_engine(self.world)
        return new

    @contextmanager
    def _open(self, *, quiet: bool = False) -> Iterator[None]:
        """Runs the scenario's code: without gradients unless they were asked for, and with its draws taken over."""
        watch = nullcontext() if quiet else self.draws.govern()
        with self.draws.current(), torch.set_grad_enabled(self.grad and torch.is_grad_enabled()), watch:
            yield

    # --- an episode ------------------------------------------------------------------------------

    def reset(self, where: Tensor | None = None) -> Results:
        """New episodes in the rows ``where`` (bool ``[B]``) or in all; what is said of the others is of no use."""
        before, rng = self.draws.rng.counter, self.draws.rng
        if where is None or bool(where.all()):
            with self._open():
                self.scenario.env_reset_world_at(None)
                return self.results(rewards=False)
        with self._open(), self.draws.row_by_row() as turn_to:
            for row in where.nonzero().flatten().tolist():
                turn_to(row)
                self.scenario.env_reset_world_at(row)
        with self._open():
            results = self.results(rewards=False)
        rng.counter = torch.where(where, rng.counter, before)
        return results

    def step(self, actions: Sequence[Tensor]) -> Results:
        """One step of all rows.

        Args:
            actions: those of each of :attr:`controls`, ``[B, A, width]``.

        """
        scenario = self.scenario
        with self._open(quiet=self.quiet):
            for (control, agents), action in zip(self.controls, actions, strict=True):
                self._act(control, agents, action)
            for agent in self.world.agents:
                scenario.env_process_action(agent)
            scenario.pre_step()
            self.world.step()
            scenario.post_step()
            return self._results_compiled() or self.results()

    def _results_compiled(self) -> Results | None:
        """The same as :meth:`results` by machine code; None where it cannot be had."""
        if not self.closed or self.world._fast.tier == "none" or torch.is_grad_enabled() or self.device.type != "cpu":
            return None
        if self._compiled_results is None:
            self._calls += 1
            if self._calls < SOON or self._tries >= TRIES:
                return None
            self._tries, self._compiled_results = self._tries + 1, compiled_results(self)
        engine = next(iter(self.world._engines.values()), None)
        if self._compiled_results is None or engine is None or not engine.movers:
            return None
        motion = engine.motion()
        if not self._compiled_results.holds(motion):
            self._compiled_results, self._calls = None, 0
            return None
        return Results(*self._compiled_results(motion))

    def _act(self, control: Control, agents: Sequence[Agent], action: Tensor) -> None:
        u, said = control.decode(action, self.draws)  # type: ignore[arg-type]
        for i, agent in enumerate(agents):
            agent.action._u = u[:, i].t()
            if said is not None:
                agent.action._c = said[:, i].t()

    def results(self, *, rewards: bool = True) -> Results:
        """What the scenario says now: rewards first, then observations and infos, and whether rows are over."""
        scenario, agents = self.scenario, self.agents
        gained = [self._reward(agent) for agent in agents] if rewards else []
        seen = [self._own("observation", agent, scenario.observation(agent)) for agent in agents]
        infos = [self._own("info", agent, scenario.info(agent)) for agent in agents]
        over = self._over() if rewards else torch.zeros(self.rows, dtype=torch.bool, device=self.device)
        return Results(seen, infos, gained, over)

    def _own(self, method: str, agent: Agent, value: Any) -> Any:
        who = f"{type(self.scenario).__name__}.{method}({agent.name!r})"
        if method == "info" and not isinstance(value, Mapping):
            raise ShapeError(f"{who}: expected a dict of tensors [B, ...], got {type(value).__name__}")
        form = self._forms.get((method, agent.name))
        return answers.own(value, form, self.rows, who, all_names=method == "observation")

    def learn(self) -> tuple[list[Any], list[dict[str, Any]]]:
        """The forms of what is said of each agent: by a reset, and infos by a step of a copy, too.

        Later answers must be like them.
        """
        first = self.reset()
        later = self._tried() if type(self.scenario).info is not BaseScenario.info else None
        seen = [answers.form_of(value) for value in first.observations]
        infos = [answers.form_of(*pair) for pair in zip(first.infos, later or first.infos, strict=True)]
        for agent, observation, info in zip(self.agents, seen, infos, strict=True):
            self._forms |= {("observation", agent.name): observation, ("info", agent.name): info}
        return seen, infos

    def _tried(self) -> list[dict[str, Tensor]] | None:
        """The infos after a first step; None where nobody can tell, and real steps show what is wrong."""
        try:
            other = copy.deepcopy(self)
            return other.step(
                [_some_action(control).to(self.device).expand(self.rows, -1, -1) for control, _ in self.controls]
            ).infos
        except Exception:  # what a file holds may not be copied, or may fail: that is for a step to say
            return None

    def _reward(self, agent: Agent) -> Tensor:
        reward = self.scenario.reward(agent)
        if not isinstance(reward, Tensor) or reward.numel() != self.rows or reward.shape[:1] != (self.rows,):
            got = list(reward.shape) if isinstance(reward, Tensor) else type(reward).__name__
            raise ShapeError(
                f"{type(self.scenario).__name__}.reward({agent.name!r}): expected [B] with B = {self.rows}, got {got}"
            )
        return reward.clone().reshape(self.rows)

    def _over(self) -> Tensor:
        over = self.scenario.done()
        if not isinstance(over, Tensor) or over.shape != (self.rows,):
            got = list(over.shape) if isinstance(over, Tensor) else type(over).__name__
            raise ShapeError(f"{type(self.scenario).__name__}.done: expected bool [B] with B = {self.rows}, got {got}")
        return over.bool() if over.dtype != torch.bool else over.clone()

    def to(self, device: torch.device) -> None:
        """Moves the world."""
        self.device = device
        self.draws.to(device)
        self.scenario.to(device)


def _some_action(control: Control) -> Tensor:
    """An action that moves something, ``[A, width]``."""
    if control.mode == "continuous":
        return control.bounds()[1] / 2
    return torch.tensor([min(1, n - 1) for n in control.sizes]).expand(control.agents, -1)


def _controls(agents: Sequence[Agent], channels: int, mode: Mode, clamp: bool) -> list[tuple[Control, list[Agent]]]:
    """The actions of agents, those of equal size and kind together."""
    alike: dict[Any, list[Agent]] = {}
    for agent in agents:
        alike.setdefault((agent.action_size, tuple(agent.discrete_action_nvec), agent.silent), []).append(agent)
    return [
        (Control("agents", [_kind(agent) for agent in some], channels, mode, clamp=clamp), some)
        for some in alike.values()
    ]


def _kind(agent: Agent) -> laws.Agent:
    """What the engine needs to know of an agent to read its actions."""
    each = {name: agent.action.numbers(name) for name in ("u_range", "u_multiplier", "u_noise")}
    return laws.Agent(
        action_size=agent.action_size,
        nvec=agent.discrete_action_nvec,
        silent=agent.silent,
        c_noise=agent.c_noise,
        **each,  # type: ignore[arg-type]
    )
