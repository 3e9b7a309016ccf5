"""The pendulum: TorchRL's and Gymnasium's numbers, rows of their own, gradients, and the contract."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from marlenv.errors import KeyMissing, SpecError
from marlenv.samples import PendulumEnv
from marlenv.testing import run_contract


def theirs() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchrl.envs import PendulumEnv as Peer

        return Peer(seed=0)


@pytest.mark.reference
def test_torchrl_plays_the_same_steps_with_parameters_of_their_own_in_each_row() -> None:
    peer, env = theirs(), PendulumEnv(seed=0)
    params = env.gen_params(g=9.81, batch_size=[64])
    params["params", "l"] = torch.linspace(0.5, 2, 64)
    params["params", "m"] = torch.linspace(2, 0.5, 64)
    ours = env.reset(params)
    other = peer.reset(ours.select("th", "thdot", "params"), set_state=True)
    for t in range(100):
        action = 3 * torch.sin(torch.arange(64.0) + t).unsqueeze(-1)  # beyond the torque limit at times
        ours, other = env.step(ours.set("action", action)), peer.step(other.set("action", action))
        for key in ("th", "thdot", "reward", "done", "terminated"):
            assert torch.equal(ours["next", key], other["next", key]), (t, key)
        ours, other = env.step_mdp(ours), peer.step_mdp(other)
    assert set(ours.keys(True, True)) - set(other.keys(True, True)) == {"rng"}


@pytest.mark.reference
def test_a_state_in_the_data_counts_where_it_is_asked_for() -> None:
    """TorchRL also goes on from it where nothing is said, and warns that it will not in its next version."""
    start = PendulumEnv.gen_params(batch_size=[2])
    start["th"], start["thdot"] = torch.tensor([0.5, -1.0]), torch.tensor([0.25, 2.0])
    for make in (theirs, lambda: PendulumEnv(seed=0)):
        assert torch.equal(make().reset(start.clone(), set_state=True)["th"], start["th"])
        assert not torch.equal(make().reset(start.clone(), set_state=False)["th"], start["th"])
    assert not torch.equal(PendulumEnv(seed=0).reset(start.clone())["th"], start["th"])
    with pytest.warns(FutureWarning, match="from v0.15 it will be ignored"):
        assert torch.equal(theirs().reset(start.clone())["th"], start["th"])


@pytest.mark.reference
def test_the_specs_are_torchrls_and_the_stream() -> None:
    peer, env = theirs(), PendulumEnv()
    for family in ("observation", "reward", "done", "action", "state"):
        want = {k: (s.shape, s.dtype) for k, s in getattr(peer, f"full_{family}_spec").items(True, True)}
        have = {k: (s.shape, s.dtype) for k, s in getattr(env, f"full_{family}_spec").items(True, True)}
        assert {k: v for k, v in have.items() if k != "rng"} == want
    for name in ("th", "thdot"):
        assert torch.equal(env.observation_spec[name].space.high, peer.observation_spec[name].space.high)


@pytest.mark.reference
def test_gymnasium_moves_it_in_the_same_way() -> None:
    import gymnasium

    peer = gymnasium.make("Pendulum-v1").unwrapped
    env = PendulumEnv(seed=3)
    td = env.reset()
    peer.reset(seed=0)
    peer.state = np.array([float(td["th"]), float(td["thdot"])])
    for t in range(100):
        action = 2 * np.sin(np.array([t / 7.0]))
        seen, reward, *_ = peer.step(action)
        td = env.step(td.set("action", torch.tensor(action, dtype=torch.float32)))
        assert float(td["next", "reward"]) == pytest.approx(reward, abs=1e-3)
        td = env.step_mdp(td)
        assert [float(td["th"].cos()), float(td["th"].sin()), float(td["thdot"])] == pytest.approx(
            seen.tolist(), abs=1e-3
        )


def test_fresh_states_fill_their_range_and_do_not_depend_on_other_rows() -> None:
    many = PendulumEnv(seed=5).reset(TensorDict(batch_size=[4096]))
    assert float(many["th"].abs().max()) == pytest.approx(torch.pi, abs=0.01)
    assert float(many["th"].var()) == pytest.approx(torch.pi**2 / 3, rel=0.05)
    assert float(many["thdot"].var()) == pytest.approx(1 / 3, rel=0.05)
    few = PendulumEnv(seed=5).reset(TensorDict(batch_size=[3]))
    assert torch.equal(few["th"], many["th"][:3])


def test_a_partial_reset_depends_on_its_rows_alone() -> None:
    env = PendulumEnv(seed=5)
    td = env.rand_step(env.reset(TensorDict(batch_size=[3])))["next"].exclude("reward")
    again = env.reset(td.clone().set("_reset", torch.tensor([[True], [False], [False]])))
    env.reset()  # moves the env's own stream, which nobody reads here
    both = env.reset(td.clone().set("_reset", torch.tensor([[True], [True], [False]])))
    assert torch.equal(again["th"][0], both["th"][0])
    assert torch.equal(again["th"][1:], td["th"][1:])
    assert not torch.equal(both["th"][1], td["th"][1])


def test_gradients_pass_through_a_rollout() -> None:
    env = PendulumEnv(seed=0)
    torque = torch.zeros(20, 1, requires_grad=True)
    env.rollout(20, actions=torque)["next", "reward"].sum().backward()
    assert bool((torque.grad[:-2] != 0).all())


def test_the_contract_holds() -> None:
    assert not [r for r in run_contract(lambda: PendulumEnv(seed=1)) if r.verdict == "broken"]


def test_batched_parameters_belong_into_reset() -> None:
    with pytest.raises(SpecError, match=r"td_params must have no batch dimensions, got batch size \[2\].*env.reset"):
        PendulumEnv(PendulumEnv.gen_params(batch_size=[2]))
    with pytest.raises(KeyMissing, match=r"\['thdot'\] missing"):
        PendulumEnv().reset(TensorDict(th=torch.zeros(())), set_state=True)
    env = PendulumEnv(PendulumEnv.gen_params(g=5.0))
    assert float(env.reset()["params", "g"]) == 5.0
