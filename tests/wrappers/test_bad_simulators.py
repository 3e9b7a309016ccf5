"""What a simulator gives that makes no sense is an error that names the wrapper, the agent and the step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stand_in_smacv2 import StarCraft2Env
from zoo_parallel_game import ParallelGame
from zoo_turn_game import TurnGame

from marlenv import Categorical, Composite, PettingZooWrapper, Unbounded, VmasEnv
from marlenv.errors import GroupError, KeyMissing, ShapeError, SpecError
from marlenv.wrappers import AgentSpecs, AgentStep, TurnSimEnv
from marlenv.wrappers.smacv2 import SMACv2Wrapper

pytestmark = pytest.mark.sim

Change = Callable[[Any], None]


class Broken(ParallelGame):
    """A parallel game whose second step is changed."""

    def __init__(self, change: Change, **options: Any) -> None:
        self.change = change
        super().__init__(truncate=dict.fromkeys(("wolf_0", "wolf_1", "sheep_0"), 9), **options)

    def step(self, actions: Any) -> Any:
        out = super().step(actions)
        if self.t == 2:
            self.change(out)
        return out


class BrokenTurns(TurnGame):
    """A turn-based game whose second step is changed."""

    def __init__(self, change: Change) -> None:
        self.change = change
        super().__init__(terminate=dict.fromkeys(("wolf_0", "wolf_1", "sheep_0"), 9))

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.count = 0
        super().reset(seed, options)

    def step(self, action: Any) -> None:
        super().step(action)
        self.count += 1
        if self.count == 2:
            self.change(self)


def _name_a_cow(place: int, answer: Any) -> None:
    answer[place]["cow_0"] = 1.0


WHERE = r"^PettingZooWrapper\.step \(number 2 of the episode\): "


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda out: out[1].update(wolf_1=float("nan")), SpecError, "the reward of agent 'wolf_1' is not a number"),
        (
            lambda out: out[1].update(wolf_1=np.float32("nan")),
            SpecError,
            "the reward of agent 'wolf_1' is not a number",
        ),
        (lambda out: out[0].pop("wolf_1"), KeyMissing, "agent 'wolf_1' is there and has no 'observation'"),
        (lambda out: out[0].update(wolf_1=None), KeyMissing, "agent 'wolf_1' is there and has no 'observation'"),
        (
            lambda out: out[0].update(wolf_2=np.zeros(4, np.float32)),
            GroupError,
            "the simulator gave data of an unknown agent 'wolf_2'; did you mean 'wolf_",
        ),
        *(
            (partial(_name_a_cow, place), GroupError, "the simulator gave data of an unknown agent 'cow_0'; known")
            for place in (1, 2, 3)  # rewards, terminations, truncations
        ),
    ],
)
def test_a_step_that_makes_no_sense_names_agent_and_step(change: Change, error: Any, says: str) -> None:
    env = PettingZooWrapper(Broken(change))
    with pytest.raises(error, match=WHERE + says):
        env.rollout(5)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (
            lambda sim: sim.rewards.update(wolf_1=float("nan")),
            SpecError,
            "the reward of agent 'wolf_1' is not a number",
        ),
        (
            lambda sim: sim.agents.append("cow_0"),
            GroupError,
            "the simulator gave data of an unknown agent 'cow_0'; known",
        ),
        *(
            (
                lambda sim, table=table: getattr(sim, table).update(cow_0=1.0),
                GroupError,
                "the simulator gave data of an unknown agent 'cow_0'; known",
            )
            for table in ("rewards", "terminations", "truncations")
        ),
    ],
)
def test_a_turn_that_makes_no_sense_names_agent_and_step(change: Change, error: Any, says: str) -> None:
    env = PettingZooWrapper(BrokenTurns(change))
    with pytest.raises(error, match=WHERE + says):
        env.rollout(5)


def test_a_value_of_another_shape_names_the_step_too() -> None:
    env = PettingZooWrapper(Broken(lambda out: out[0].update(wolf_1=np.zeros(7, np.float32))))
    with pytest.raises(ShapeError, match=WHERE + "entry 'observation' of agent 'wolf_1' must have shape"):
        env.rollout(5)


def test_a_missing_part_of_an_observation_names_it() -> None:
    class Parts(Broken):
        def observation_space(self, agent: str) -> Any:
            return spaces.Dict(sight=super().observation_space(agent), at=spaces.Discrete(9))

        def _look(self, agents: Any) -> Any:
            return {a: {"sight": o, "at": 3} for a, o in super()._look(agents).items()}

    env = PettingZooWrapper(Parts(lambda out: out[0]["sheep_0"].pop("at")))
    with pytest.raises(KeyMissing, match=rf"{WHERE}agent 'sheep_0' is there and has no \('observation', 'at'\)"):
        env.rollout(5)


def test_an_agent_that_nobody_knows_at_the_reset_is_named() -> None:
    class Grown(ParallelGame):
        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            seen, infos = super().reset(seed, options)
            return {**seen, "cow_0": seen["wolf_0"]}, infos

    with pytest.raises(
        GroupError, match=r"^PettingZooWrapper\.reset: the simulator gave data of an unknown agent 'cow_0'"
    ):
        PettingZooWrapper(Grown()).reset()


def test_a_team_reward_that_is_nan_is_an_error() -> None:
    sim = StarCraft2Env(harmless=True)
    env = SMACv2Wrapper(sim)
    td = env.rand_action(env.reset())
    step = sim.step
    sim.step = lambda actions: (float("nan"), *step(actions)[1:])
    with pytest.raises(SpecError, match=r"^SMACv2Wrapper\.step \(number 1 of the episode\): the reward of agent '0'"):
        env.step(td)


@pytest.mark.parametrize("group_map", [None, "one_group_per_agent"])
def test_a_nan_in_a_batch_names_agent_and_row(group_map: Any) -> None:
    env = VmasEnv("balance", 3, n_agents=3, group_map=group_map)
    td = env.rand_action(env.reset())
    step = env._env.step

    def broken(actions: Any) -> Any:
        seen, rewards, *rest = step(actions)
        rewards[1] = torch.tensor([0.0, 0.0, float("nan")])
        return seen, rewards, *rest

    env._env.step = broken
    with pytest.raises(SpecError, match=r"^VmasEnv\.step: the reward of agent 'agent_1' in row 2 is not a number"):
        env.step(td)


def test_a_reward_of_an_agent_that_a_wrapper_of_ones_own_never_named_is_an_error() -> None:
    class Mine(PettingZooWrapper):
        def sim_play(self, actions: Any) -> Any:
            return {**super().sim_play(actions), "cow_0": (1.0, False, False)}

    with pytest.raises(GroupError, match=r"^Mine\.step \(number 1 of the episode\): .* an unknown agent 'cow_0'"):
        Mine(TurnGame()).rollout(3)


class Counting(TurnSimEnv):
    """Three agents count in turn to nine; the second is out from the second move on, and others may be asked next."""

    def __init__(self, asks: Callable[[int], set[str]], **options: Any) -> None:
        self.asks, self.count = asks, 0
        super().__init__(**options)

    def _build_env(self) -> Any:
        return spaces.Discrete(3)  # anything will do as the simulator

    def agent_specs(self) -> dict[str, AgentSpecs]:
        return {f"p_{i}": AgentSpecs(Composite(observation=Unbounded((1,))), Categorical(2)) for i in range(3)}

    def sim_reset(self, seed: int | None) -> None:
        self.count = 0

    def sim_acting(self) -> set[str]:
        return self.asks(self.count) if self.count < 9 else set()

    def sim_look(self, agent: str) -> AgentStep:
        return AgentStep({"observation": [float(self.count)]})

    def sim_play(self, actions: dict[str, Any]) -> dict[str, Any]:
        self.count += 1
        out = [self.count >= 9 or (i == 1 and self.count >= 2) for i in range(3)]
        return {f"p_{i}": (1.0, out[i], False) for i in range(3)}


def test_a_simulator_that_waits_for_an_agent_that_has_ended_is_an_error() -> None:
    env = Counting(lambda count: {f"p_{count % 3}"})
    td = env.reset()
    for _ in range(4):
        td = env.step_mdp(env.step(env.rand_action(td)))
    says = r"^Counting\.step \(number 5 of the episode\): Discrete waits for an action of agent 'p_1', which is done"
    for _ in range(2):  # a refused step changes nothing
        with pytest.raises(GroupError, match=rf"{says} .*; sim_acting must name agents that go on"):
            env.step(env.rand_action(td))
    with pytest.raises(GroupError, match=r"\(number 1 of the episode\): Discrete waits for an action of agent 'cow'"):
        Counting(lambda count: {"cow"}).rollout(3)


@pytest.mark.parametrize(("options", "steps"), [({"done_on_any": True}, 2), ({"max_steps": 2}, 2)])
def test_a_step_after_the_end_is_no_error_whoever_is_named(options: dict[str, Any], steps: int) -> None:
    env = Counting(lambda count: {"p_1"} if count > 1 else {"p_0"}, **options)
    data = env.rollout(20)
    assert len(data) == steps
    assert bool(env.step(env.rand_action(env.step_mdp(data[-1])))["next", "done"])


@pytest.mark.parametrize("named", [False, True])
def test_rewards_of_more_agents_than_a_vmas_scenario_has_are_an_error(named: bool) -> None:
    env = VmasEnv("balance", 2, n_agents=2)
    td = env.rand_action(env.reset())
    step = env._env.step

    def broken(actions: Any) -> Any:
        seen, rewards, *rest = step(actions)
        more = [*rewards, rewards[0]]
        return seen, dict(zip(("agent_0", "agent_1", "cow"), more, strict=True)) if named else more, *rest

    env._env.step = broken
    says = "an unknown agent 'cow'; known" if named else "the scenario gave values of 3 agents, and has 2"
    with pytest.raises(GroupError, match=f"^VmasWrapper: .*{says}"):
        env.step(td)


def test_data_of_an_unknown_agent_in_a_batched_wrapper_are_an_error() -> None:
    env = VmasEnv("balance", 2, n_agents=2)
    with pytest.raises(GroupError, match=r"^VmasEnv: the simulator gave data of an unknown agent 'cow'; known"):
        env.gather({"agent_0": {}, "agent_1": {}, "cow": {}}, {})
