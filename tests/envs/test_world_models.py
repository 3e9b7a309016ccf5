"""Model-based envs: a small world model steps as it does in torchrl."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl_oracle import data, envs
from twin_envs import assert_same_data

import marlenv
from marlenv import (
    Bounded,
    Composite,
    DreamerDecoder,
    DreamerEnv,
    EnvBase,
    ModelBasedEnvBase,
    TransformedEnv,
    Unbounded,
)
from marlenv.errors import ShapeError, SpecError
from marlenv.testing.comparison import differences
from marlenv.testing.mocks import CountingEnv


def world_model():
    """From hidden state and action to the next hidden state, and from it the reward."""
    torch.manual_seed(0)
    return TensorDictSequential(
        TensorDictModule(Transition(), in_keys=["hidden", "action"], out_keys=["hidden"]),
        TensorDictModule(nn.Linear(4, 1), in_keys=["hidden"], out_keys=["reward"]),
    )


class Transition(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 4)

    def forward(self, hidden, action):
        return torch.tanh(self.layer(torch.cat([hidden, action], -1)))


def make_model_env(library, specs, batch_size=()):
    """The example of TorchRL's ``ModelBasedEnvBase``, in one of the two libraries."""

    class MyMBEnv(library.ModelBasedEnvBase):
        def __init__(self, world_model, device="cpu", dtype=None, batch_size=None):
            super().__init__(world_model, device=device, batch_size=batch_size)
            shape = self.batch_size
            self.observation_spec = specs.Composite(hidden=specs.Unbounded((*shape, 4)), shape=shape)
            self.state_spec = specs.Composite(hidden=specs.Unbounded((*shape, 4)), shape=shape)
            self.action_spec = specs.Unbounded((*shape, 1))
            self.reward_spec = specs.Unbounded((*shape, 1))

        def _reset(self, tensordict=None):
            batch = self.batch_size if tensordict is None else tensordict.batch_size
            return TensorDict({"hidden": torch.zeros(*batch, 4)}, batch_size=batch, device=self.device)

    return MyMBEnv(world_model(), batch_size=torch.Size(batch_size))


def play(td):
    return td.set("action", td["hidden"].sum(-1, keepdim=True) + 0.5)


@pytest.mark.reference
@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_world_model_steps_as_in_torchrl(batch):
    theirs = make_model_env(envs, data, batch)
    ours = make_model_env(marlenv, marlenv, batch)
    assert_same_data(*(env.rollout(5, play) for env in (theirs, ours)))
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    ours.check_env_specs()


@pytest.mark.reference
def test_any_batch_size_is_taken():
    starts = [make_model_env(lib, specs) for lib, specs in ((envs, data), (marlenv, marlenv))]
    out = [env.rollout(3, play, tensordict=env.reset(TensorDict({}, [7])), auto_reset=False) for env in starts]
    assert out[1].shape == (7, 3)
    assert_same_data(*out)


def test_what_a_model_gives_shares_no_memory():
    class Model(nn.Module):
        def forward(self, td):
            hidden = td["hidden"] + 1
            return td.set("hidden", hidden).set("reward", hidden[..., :1]).set("goal", td["hidden"].view(3, 4))

    class Env(ModelBasedEnvBase):
        def _reset(self, tensordict=None):
            return TensorDict({"hidden": torch.zeros(3, 4), "goal": torch.zeros(3, 4)}, [3])

    env = Env(Model(), batch_size=[3])
    env.observation_spec = Composite(hidden=Unbounded((3, 4)), goal=Unbounded((3, 4)), shape=(3,))
    env.action_spec = Unbounded((3, 1))
    env.reward_spec = Unbounded((3, 1))
    td = env.step(env.rand_action(env.reset()))
    td["next", "reward"].fill_(7)
    td["next", "goal"].fill_(8)
    assert bool((td["next", "hidden"] == 1).all())
    assert bool((td["hidden"] == 0).all())


def test_what_follows_on_a_step_of_groups_has_no_actions():
    see, act, pay = [("agents", name) for name in ("observation", "action", "reward")]
    model = TensorDictModule(lambda x, a: (x + a, (x * a).sum(-1, keepdim=True)), [see, act], [see, pay])

    class Env(ModelBasedEnvBase):
        def _reset(self, tensordict=None):
            batch = self.batch_size if tensordict is None else tensordict.batch_size
            return TensorDict({"agents": TensorDict({"observation": torch.ones(*batch, 2, 3)}, [*batch, 2])}, batch)

    env = Env(model)
    env.observation_spec = Composite(agents=Composite(observation=Unbounded((2, 3)), shape=(2,)))
    env.action_spec = Composite(agents=Composite(action=Bounded(-1, 1, (2, 3)), shape=(2,)))
    env.reward_spec = Composite(agents=Composite(reward=Unbounded((2, 1)), shape=(2,)))
    env.check_env_specs()
    td = env.step(env.rand_action(env.reset(TensorDict({}, [4]))))
    assert set(td["next"].keys(True, True)) == {see, pay, "done", "terminated"}
    torch.testing.assert_close(td["next", "agents", "observation"], 1 + td[act])


def test_gradients_flow_through_the_model():
    env = make_model_env(marlenv, marlenv)
    env.rollout(4, play)["next", "reward"].sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in env.world_model.parameters())


def test_parameters_may_be_handed_in():
    seen = []

    class Model(nn.Module):
        def forward(self, td, params=None, buffers=None):
            seen.append((params, buffers))
            return td.set("hidden", td["hidden"] + 1).set("reward", torch.zeros(1))

    class Env(ModelBasedEnvBase):
        def _reset(self, tensordict=None):
            return TensorDict({"hidden": torch.zeros(1)}, [])

    env = Env(Model(), params="p", buffers="b")
    env.observation_spec, env.action_spec = Composite(hidden=Unbounded((1,))), Unbounded((1,))
    assert env.rollout(2)["next", "hidden"].flatten().tolist() == [1, 2]
    assert seen == [("p", "b")] * 2


# --- dreamer -------------------------------------------------------------------------------------


class Latent(EnvBase):
    """What a dreamer is trained on: it observes latents and pixels."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(state=Unbounded((3,)), belief=Unbounded((2,)), pixels=Unbounded((4,)))
        self.action_spec = Bounded(-1, 1, (1,))
        self.reward_spec = Unbounded((1,))

    def _reset(self, tensordict):
        return self.full_observation_spec.zero()

    def _step(self, tensordict):
        raise NotImplementedError

    def _set_seed(self, seed):
        pass


class Imagine(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(3 + 2 + 1, 3 + 2 + 1)

    def forward(self, state, belief, action):
        return torch.tanh(self.layer(torch.cat([state, belief, action], -1))).split([3, 2, 1], -1)


def dreamer(library, specs_from=None):
    model = TensorDictModule(Imagine(), in_keys=["state", "belief", "action"], out_keys=["state", "belief", "reward"])
    torch.manual_seed(2)
    decoder = TensorDictModule(nn.Linear(3, 4), in_keys=["state"], out_keys=["reco_pixels"])
    cls = library.DreamerEnv if library is marlenv else library.model_based.dreamer.DreamerEnv
    env = cls(model, prior_shape=(3,), belief_shape=(2,), obs_decoder=decoder)
    return env if specs_from is None else env.set_specs_from_env(specs_from) or env


def test_imagination_never_ends_and_starts_from_given_latents():
    env = dreamer(marlenv, Latent())
    assert set(env.state_keys) == {"state", "belief"}
    start = TensorDict({"state": torch.ones(2, 3), "belief": torch.ones(2, 2), "pixels": torch.zeros(2, 4)}, [2])
    policy = lambda td: td.set("action", td["state"][..., :1])  # noqa: E731
    rollout = env.rollout(6, policy, tensordict=env.reset(start.clone()), auto_reset=False)
    assert rollout.shape == (2, 6)
    model = Imagine()
    state, belief = start["state"], start["belief"]
    for t in range(6):
        state, belief, reward = model(state, belief, state[..., :1])
        assert torch.allclose(rollout["next", "state"][:, t], state)
        assert torch.allclose(rollout["next", "reward"][:, t], reward)
    assert not env.any_done(rollout["next"])
    assert env.maybe_reset(rollout) is rollout


def test_latents_need_no_done_flags_to_go_on_from():
    """What has no flags is not done; the data that were given stay as they are."""
    env = dreamer(marlenv, Latent())
    start = TensorDict({"state": torch.ones(2, 3), "belief": torch.ones(2, 2), "pixels": torch.zeros(2, 4)}, [2])
    policy = lambda td: td.set("action", td["state"][..., :1])  # noqa: E731
    bare, whole = (env.rollout(3, policy, tensordict=td, auto_reset=False) for td in (start, env.reset(start.clone())))
    assert set(start.keys()) == {"state", "belief", "pixels"}
    assert not differences(bare, whole)
    assert not bare["done"].any()


@pytest.mark.reference
def test_a_step_of_imagination_is_torchrls():
    class TorchrlLatent(envs.EnvBase):
        def __init__(self):
            super().__init__()
            seen = {"state": (3,), "belief": (2,), "pixels": (4,)}
            self.observation_spec = data.Composite({k: data.Unbounded(s) for k, s in seen.items()})
            self.action_spec = data.Bounded(-1, 1, (1,))
            self.reward_spec = data.Unbounded((1,))

        _reset = _step = _set_seed = lambda self, *_: None

    theirs = dreamer(envs)
    theirs.set_specs_from_env(TorchrlLatent())
    ours = dreamer(marlenv, Latent())
    start = TensorDict({"state": torch.ones(3), "belief": torch.ones(2), "action": torch.ones(1)}, [])
    mine, other = ours.step(start.clone())["next"], theirs.step(start.clone())["next"]
    assert_same_data(other.select("state", "belief", "reward"), mine.select("state", "belief", "reward"))


def test_random_latents_come_from_the_envs_own_stream():
    before = torch.get_rng_state()
    env = dreamer(marlenv, Latent())
    torch.set_rng_state(before)
    env.set_seed(3)
    first = env.reset()
    env.set_seed(3)
    assert torch.equal(env.reset()["state"], first["state"])
    assert torch.equal(torch.get_rng_state(), before)
    assert {"state", "belief", "action", "pixels"} <= set(first.keys())


def test_decoded_observations_are_for_looking_at():
    env = dreamer(marlenv, Latent())
    decoded = env.decode_obs(TensorDict({"state": torch.ones(3)}, []))
    assert decoded["reco_pixels"].shape == (4,)
    latents = TensorDict({"state": torch.ones(3), "belief": torch.ones(2), "action": torch.ones(1)}, [])
    assert "reward" in env.decode_obs(latents, compute_latents=True)
    seen = TransformedEnv(env, DreamerDecoder())
    assert seen.rollout(2)["next", "reco_pixels"].shape == (2, 4)


def test_faults_of_dreamers():
    with pytest.raises(
        SpecError, match=r"must observe 'state' and 'belief', missing \['state', 'belief'\]; it observes \['obs"
    ):
        dreamer(marlenv, CountingEnv())
    env = DreamerEnv(nn.Identity(), (3,), (2,))
    with pytest.raises(SpecError, match=r"decode_obs: the env was made without an obs_decoder"):
        env.decode_obs(TensorDict({}, []))
    with pytest.raises(
        SpecError, match=r"DreamerDecoder: needs a DreamerEnv made with an obs_decoder, got CountingEnv"
    ):
        TransformedEnv(CountingEnv(), DreamerDecoder())
    with pytest.raises(ShapeError, match=r"expected a tensordict of batch size \[3\], got \[2\]"):
        make_model_env(marlenv, marlenv, (3,)).rollout(
            2, play, tensordict=TensorDict({"hidden": torch.zeros(2, 4)}, [2])
        )
