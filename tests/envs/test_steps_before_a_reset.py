"""A step before the first reset is NeedsReset in scenarios and games, as in the wrappers of simulators."""

from __future__ import annotations

import pytest

from marlenv import ChessEnv, SerialEnv, StepCounter, TransformedEnv, make
from marlenv.errors import KeyMissing, NeedsReset, PositionMissing

SAYS = {
    "simple_spread": r"^SimpleSpread\.step: the env was not reset; call reset\(\) first$",
    "tic_tac_toe": r"^GameEnv: no entry 'state'; the data has \['o', 'x'\]; call reset\(\) first, and step its data$",
    "chess": r"^GameEnv: no entry 'state'; .*; call reset\(\) first, and step its data$",
}


def env_of(name, **options):
    return make(name, num_envs=2, **({"compile": "none"} if name == "simple_spread" else {}), **options)


@pytest.mark.parametrize("name", SAYS)
@pytest.mark.parametrize("how", ["step", "step_and_maybe_reset"])
def test_a_step_before_a_reset_is_refused(name, how):
    env = env_of(name)
    with pytest.raises(NeedsReset, match=SAYS[name]):
        getattr(env, how)(env.full_action_spec.rand())
    with pytest.raises(NeedsReset):
        TransformedEnv(env, StepCounter()).step(env.full_action_spec.rand())
    vector = SerialEnv(2, lambda: env_of(name))
    with pytest.raises(NeedsReset):
        vector.step(vector.full_action_spec.rand())
    env.step(env.rand_action(env.reset()))


@pytest.mark.parametrize("tier", ["none", "aot"])
def test_a_rollout_that_does_not_reset_needs_a_reset_before(tier):
    env = make("simple_spread", num_envs=2, compile=tier)
    with pytest.raises(
        NeedsReset, match=r"^SimpleSpread\.(step|rollout): the env was not reset; call reset\(\) first$"
    ):
        env.rollout(3, auto_reset=False, tensordict=env.fake_tensordict().exclude("next"))
    with pytest.raises(NeedsReset, match=r"^SimpleSpread\.step: the env was not reset"):
        env.step(env.full_action_spec.rand())
    env.rollout(3, auto_reset=False, tensordict=env.reset())


def test_a_state_is_as_good_as_a_reset():
    env, other = (make("simple_spread", num_envs=2, compile="none", seed=0) for _ in range(2))
    env.reset()
    other.set_state(env.get_state())
    action = env.rand_action()
    assert (env.step(action.clone())["next"] == other.step(action.clone())["next"]).all()


def test_stateful_chess_says_it_too():
    env = ChessEnv(stateful=True)
    with pytest.raises(PositionMissing, match=r"ChessEnv: no game yet; call reset\(\) first"):
        env.step(env.full_action_spec.rand())
    with pytest.raises(NeedsReset, match=r"ChessEnv\.get_state: the env was not reset; call reset\(\) first"):
        env.get_state()
    assert issubclass(PositionMissing, KeyMissing)  # what readers of data catch
