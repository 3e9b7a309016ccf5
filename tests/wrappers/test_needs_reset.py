"""What every wrapper refuses: a step before a reset, frames that cannot be skipped, no envs at all."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from stand_in_smacv2 import StarCraft2Env
from tensordict import TensorDict
from zoo_parallel_game import ParallelGame
from zoo_turn_game import TurnGame

import marlenv
from marlenv import OpenSpielEnv, PettingZooEnv, PettingZooWrapper, VmasEnv
from marlenv.errors import NeedsReset, SpecError
from marlenv.specs import Bounded, Composite, Unbounded
from marlenv.wrappers import GymLikeEnv
from marlenv.wrappers.smacv2 import SMACv2Wrapper

pytestmark = pytest.mark.sim


class Pendulum:
    """Gym's interface, and nothing behind it."""

    def reset(self) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.ones(2, np.float32), float(np.sum(action)), False, False, {}


class PendulumEnv(GymLikeEnv):
    def _build_env(self) -> Pendulum:
        return Pendulum()

    def _make_specs(self, env: Any) -> None:
        self.observation_spec = Composite(observation=Unbounded((2,)))
        self.action_spec = Bounded(-1, 1, (1,))
        self.reward_spec = Unbounded((1,))

    def _output_transform(self, out: Any) -> Any:
        observation, reward, terminated, truncated, info = out
        return observation, reward, terminated, truncated, terminated or truncated, info

    def _reset_output_transform(self, out: Any) -> Any:
        return out

    def _set_seed(self, seed: int | None) -> None:
        pass


WRAPPERS: dict[str, Callable[[], Any]] = {
    "PettingZooWrapper, parallel": lambda: PettingZooWrapper(ParallelGame(truncate={"wolf_0": 9})),
    "PettingZooWrapper, turns": lambda: PettingZooWrapper(TurnGame(terminate={"wolf_0": 9})),
    "PettingZooEnv": lambda: PettingZooEnv("tictactoe_v3"),
    "OpenSpielEnv": lambda: OpenSpielEnv("tic_tac_toe"),
    "VmasEnv": lambda: VmasEnv("balance", 2),
    "SMACv2Wrapper": lambda: SMACv2Wrapper(StarCraft2Env()),
    "PendulumEnv": PendulumEnv,
}


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("how", ["step", "step_and_maybe_reset"])
def test_a_step_before_a_reset_is_refused_by_the_public_name(name: str, how: str) -> None:
    env = WRAPPERS[name]()
    who = name.split(",", maxsplit=1)[0]
    with pytest.raises(NeedsReset, match=rf"^{who}\.step: the env was not reset; call reset\(\) first"):
        getattr(env, how)(env.rand_action())
    env.step(env.rand_action(env.reset()))


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize(
    "make", [lambda: PettingZooEnv("tictactoe_v3"), lambda: PettingZooEnv("simple_spread_v3", max_cycles=9)]
)
def test_a_copy_whose_simulator_was_made_anew_needs_a_reset(make: Any, how: str) -> None:
    """``EzPickle`` copies the arguments of a simulator, and not where it stands."""
    env = make()
    td = env.step_mdp(env.rand_step(env.reset()))
    twin = COPIES[how](env)
    with pytest.raises(NeedsReset, match=r"^PettingZooEnv\.step: the env was not reset"):
        twin.step(env.rand_action(td.clone()))
    env.step(env.rand_action(td))
    rollouts = []
    for one in (twin, make()):
        one.set_seed(3)
        torch.manual_seed(0)
        rollouts.append(one.rollout(4))
    assert bool((rollouts[0] == rollouts[1]).all())


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", ["CartPole-v1", "Blackjack-v1"])
def test_a_copy_of_a_simulator_that_is_copied_whole_goes_on(name: str, how: str) -> None:
    env = marlenv.GymEnv(name)
    env.set_seed(2)
    td = env.rand_action(env.reset())
    twin = COPIES[how](env)
    assert bool((env.step(td.clone()) == twin.step(td.clone())).all())


@pytest.mark.slow
def test_jaxmarl_refuses_it_too() -> None:
    pytest.importorskip("jaxmarl", reason="needs JaxMARL: VENV=.venv tests/simulators.sh jaxmarl")
    env = marlenv.JaxMARLEnv("MPE_simple_spread_v3")
    with pytest.raises(NeedsReset, match=r"^JaxMARLEnv\.step: the env was not reset"):
        env.step(env.rand_action())
    with pytest.raises(NeedsReset, match=r"^JaxMARLEnv\.get_state: the env was not reset"):
        env.get_state()
    with pytest.raises(SpecError, match="JaxMARLEnv: num_envs must be an integer from 1 on, got 0"):
        marlenv.JaxMARLEnv("MPE_simple_spread_v3", num_envs=0)


def test_a_state_of_a_game_that_has_not_begun_is_refused() -> None:
    with pytest.raises(NeedsReset, match=r"OpenSpielEnv\.get_state: the env was not reset"):
        OpenSpielEnv("tic_tac_toe").get_state()


@pytest.mark.parametrize(
    "make",
    [
        lambda: PettingZooEnv("tictactoe_v3", frame_skip=2),
        lambda: OpenSpielEnv("tic_tac_toe", frame_skip=2),
        lambda: VmasEnv("balance", 2, frame_skip=2),
    ],
)
def test_frames_that_cannot_be_skipped_are_refused(make: Any) -> None:
    with pytest.raises(SpecError, match="frame_skip must be 1, got 2; in this simulator an action cannot be repeated"):
        make()


def test_frames_are_skipped_where_all_act_at_once() -> None:
    options = {"truncate": {"wolf_0": 5, "wolf_1": 5, "sheep_0": 5}}
    slow, quick = PettingZooWrapper(ParallelGame(**options)), PettingZooWrapper(ParallelGame(**options), frame_skip=2)
    td = quick.rand_action(quick.reset())
    by_hand = slow.reset().update(td.select(*quick.action_keys))
    total: Any = 0
    for _ in range(2):
        by_hand = slow.step(by_hand)
        total = total + by_hand["next", "wolf", "reward"]
        last, by_hand = by_hand["next"], slow.step_mdp(by_hand).update(td.select(*quick.action_keys))
    after = quick.step(td)["next"]
    assert torch.equal(after["wolf", "reward"], total)
    assert torch.equal(after["wolf", "observation"], last["wolf", "observation"])
    assert len(quick.rollout(9)) == 3  # two, two, and the last one alone


def test_gym_like_envs_skip_frames() -> None:
    env = PendulumEnv(frame_skip=3)
    td = env.reset().update(TensorDict({"action": torch.tensor([0.5])}))
    assert env.step(td)["next", "reward"].item() == 1.5


@pytest.mark.parametrize(
    "make",
    [
        lambda n: VmasEnv("balance", n),
        lambda n: VmasEnv("balance", num_envs=n),
        lambda n: marlenv.make("vmas/balance", num_envs=n),
        lambda n: marlenv.make("open_spiel/tic_tac_toe", num_envs=n),
    ],
)
@pytest.mark.parametrize("number", [0, -1, 2.5, True])
def test_no_envs_at_all_are_refused(make: Any, number: Any) -> None:
    with pytest.raises(SpecError, match=f"num_envs must be an integer from 1 on, got {number}"):
        make(number)
