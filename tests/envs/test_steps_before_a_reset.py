"""A step before the first reset is NeedsReset in scenarios and games, as in the wrappers of simulators."""

from __future__ import annotations

import pytest

from marlenv import ChessEnv, SerialEnv, StepCounter, TransformedEnv, make
from marlenv.errors import KeyMissing, NeedsReset, PositionMissing
from marlenv.testing import CountingEnv

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


@pytest.mark.parametrize("name", ["simple_spread", "tic_tac_toe"])
@pytest.mark.parametrize("around", [lambda make: make(), lambda make: SerialEnv(2, make)], ids=["env", "pool"])
def test_a_random_step_of_a_fresh_env_begins_with_a_reset(name, around):
    """As in TorchRL's example of ``VmasEnv``; it is the step that the same actions make after a reset."""
    env, other = (around(lambda: env_of(name, seed=3) if name == "simple_spread" else env_of(name)) for _ in range(2))
    data = env.rand_step()
    begun = other.reset()
    assert (data.select(*begun.keys(True, True)) == begun).all()
    following = other.step(begun.update(data.select(*env.action_keys)))["next"]
    assert (data["next"] == following).all()


def test_only_an_env_that_was_never_reset_is_reset_by_a_random_step():
    env = make("tic_tac_toe", num_envs=2)
    env.reset()
    with pytest.raises(PositionMissing):  # the position is in the data, which are wanting
        env.rand_step()
    steps = make("simple_spread", num_envs=2, compile="none")
    assert [steps.rand_step() is not None and steps.current_state["steps"].tolist() for _ in range(3)] == [
        [1, 1], [2, 2], [3, 3],
    ]  # fmt: skip


def test_a_random_step_resets_nothing_that_can_be_stepped():
    class Counting(CountingEnv):
        resets = 0

        def _reset(self, tensordict):
            self.resets += 1
            return super()._reset(tensordict)

    env = Counting()
    env.rand_step(), env.rand_step()
    assert env.resets == 0
