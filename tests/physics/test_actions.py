"""Actions are decoded as VMAS decodes them."""

import itertools
import warnings

import pytest
import torch

from marlenv.errors import NotInSpec
from marlenv.physics import Agent, Scenario, Static, World
from marlenv.physics.env import ScenarioEnv
from marlenv.physics.task.actions import Control
from marlenv.registration import make
from marlenv.rng import RowRNG

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from vmas.simulator import core
    from vmas.simulator.environment import Environment
    from vmas.simulator.scenario import BaseScenario


class One(BaseScenario):
    """One agent with the given properties."""

    def make_world(self, batch_dim, device, agent, dim_c):
        world = core.World(batch_dim, device, dim_c=dim_c)
        world.add_agent(core.Agent("agent_0", **agent))
        return world

    def reset_world_at(self, env_index=None):
        pass

    def observation(self, agent):
        return agent.state.pos

    def reward(self, agent):
        return agent.state.pos[:, 0]


AGENTS = {
    "plain": {},
    "scaled": {"u_range": [0.5, 2.0], "u_multiplier": [3.0, 0.1]},
    "choices": {"discrete_action_nvec": [4, 5], "u_range": 0.7},
}


@pytest.mark.reference
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("channels", [0, 4])
@pytest.mark.parametrize("mode", ["continuous", "multidiscrete", "discrete"])
def test_actions_mean_what_they_mean_in_vmas(agent, channels, mode):
    theirs = AGENTS[agent] | ({"silent": False} if channels else {})
    ours = {("nvec" if k == "discrete_action_nvec" else k): v for k, v in theirs.items()}
    control = Control("agents", [Agent(**ours)], channels, mode)
    if mode == "continuous":
        low, high = control.bounds()
        action = low + torch.rand(64, 1, control.width, generator=torch.Generator().manual_seed(0)) * (high - low)
    elif mode == "multidiscrete":
        action = torch.tensor(list(itertools.product(*map(range, control.choices)))).unsqueeze(1)
    else:
        action = torch.arange(torch.Size(control.choices).numel()).reshape(-1, 1, 1)
    env = Environment(One(), action.shape[0], continuous_actions=mode == "continuous",
                      multidiscrete_actions=mode == "multidiscrete",
                      agent=theirs, dim_c=channels)  # fmt: skip
    env.step([action[:, 0].clone()])
    u, said = control.decode(action, RowRNG(rows=[len(action)]))
    assert torch.equal(u[:, 0].T, env.agents[0].action.u)
    assert said is None if not channels else torch.equal(said[:, 0].T, env.agents[0].action.c)


def test_noise_is_gaussian_and_its_own_in_every_row():
    control = Control("agents", [Agent(u_noise=[0.5, 0.0])], 0, "continuous")
    u, _ = control.decode(torch.zeros(20000, 1, 2), RowRNG(rows=[20000]))
    assert u[0].std().item() == pytest.approx(0.5, rel=0.03)
    assert u[0].mean().item() == pytest.approx(0.0, abs=0.02)
    assert not u[1].any()


def test_clamped_actions_stay_in_range():
    control = Control("agents", [Agent(u_range=0.5, silent=False)], 1, "continuous", clamp=True)
    u, said = control.decode(torch.tensor([[[3.0, -0.2, -1.0]]]), RowRNG(rows=[1]))
    assert u.flatten().tolist() == pytest.approx([0.5, -0.2])
    assert said.flatten().tolist() == [0.0]


class Told(Scenario):
    """A speaker that cannot move, and a listener that observes what was said."""

    def build(self):
        world = World(channels=3)
        self.speaker = world.add("speaker", [Agent(dynamics=Static(), silent=False)])
        self.listener = world.add("listener", [Agent()])
        return world

    def spawn(self):
        self.speaker.pos, self.listener.pos = (0.5, 0.5), (0.0, 0.0)

    def observe(self):
        return {"speaker": self.speaker.pos, "listener": self.speaker.said}

    def rewards(self):
        return {"speaker": self.zeros(1), "listener": self.zeros(1)}


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["none", "auto"])
@pytest.mark.parametrize("several", [False, True])
def test_a_speaker_that_cannot_move_chooses_a_word(several, tier):
    env = ScenarioEnv(Told(), 3, seed=0, continuous_actions=False, multidiscrete_actions=several, compile=tier)
    spec = env.action_spec["speaker", "action"]
    assert torch.as_tensor(spec.nvec if several else spec.n).unique().tolist() == [3]
    td, words = env.rand_action(env.reset()), torch.tensor([2, 0, 1])
    td["speaker", "action"] = words.reshape(td["speaker", "action"].shape)
    heard = env.step(td)["next", "listener", "observation"][:, 0]
    assert torch.equal(heard, torch.eye(3)[words])


@pytest.mark.parametrize("mode", ["multidiscrete", "discrete"])
def test_who_neither_moves_nor_speaks_has_one_choice(mode):
    control = Control("agents", [Agent(dynamics=Static())], 0, mode)
    u, said = control.decode(torch.zeros(5, 1, control.width, dtype=torch.int64), RowRNG(rows=[5]))
    assert u.shape == (0, 1, 5)
    assert said is None


def one_hot_env(*, several):
    options = {"continuous_actions": False, "multidiscrete_actions": several, "compile": "none", "seed": 3}
    one = make("simple_spread", num_envs=7, categorical_actions=False, **options)
    return one, make("simple_spread", num_envs=7, categorical_actions=True, **options)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32, torch.float64], ids=str)
def test_one_hot_actions_are_played_as_their_numbers(several, dtype):
    one, other = one_hot_env(several=several)
    td, want = one.reset(), other.reset()
    for _ in range(5):
        hot = one.full_action_spec["agents", "action"].rand()
        numbers = one.full_action_spec["agents", "action"].to_categorical(hot)
        td = one.step(td.set(("agents", "action"), hot.to(dtype)))["next"]
        want = other.step(want.set(("agents", "action"), numbers))["next"]
        assert torch.equal(td["agents", "observation"], want["agents", "observation"])


def test_straight_through_samples_are_played_as_what_was_drawn():
    """Their one is off in its last bits: it was cut to 0, so that action 0 was played."""
    one, other = one_hot_env(several=False)
    torch.manual_seed(0)
    soft = [torch.randn(7, 3, 9).softmax(-1) for _ in range(60)]
    drawn = [torch.nn.functional.one_hot(x.argmax(-1), 9) + x - x.detach() for x in soft]
    assert any(bool((x.amax(-1) < 1).any()) for x in drawn)
    for hot in drawn:
        td = one.step(one.reset().set(("agents", "action"), hot))
        want = other.step(other.reset().set(("agents", "action"), hot.argmax(-1)))
        assert torch.equal(td["next", "agents", "observation"][..., :4], want["next", "agents", "observation"][..., :4])


@pytest.mark.parametrize(
    "bad", [[0.0, 0, 0, 0, 0], [1.0, 0, 1, 0, 0], [0.3, 0.7, 0, 0, 0], [0, torch.nan, 1, 0, 0], [0, 2.0, 0, 0, 0]]
)
def test_what_is_not_one_hot_is_refused_where_it_would_be_played(bad):
    env = make("navigation", num_envs=4, continuous_actions=False, categorical_actions=False, compile="none", seed=0)
    td = env.rand_action(env.reset())
    n = td["agents", "action"].shape[-1]
    action = td["agents", "action"].float()
    action[2, 1] = torch.tensor([*bad, *[0.0] * n][:n])
    td["agents", "action"] = action
    with pytest.raises(
        NotInSpec, match=r"actions of 'agents': row 2, agent 'agent_1': expected a one-hot vector, got \["
    ):
        env.step(td.clone())
    td["_step"] = torch.tensor([True, True, False, True])
    env.step(td)
