"""torchrl's modules and losses on our data, by nested keys: gradients reach every parameter, and the keys are ours."""

from __future__ import annotations

import warnings

import pytest
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchrl.collectors import Collector
    from torchrl.envs import InitTracker, TransformedEnv
    from torchrl.modules import (
        EGreedyModule,
        LSTMModule,
        MaskedCategorical,
        MultiAgentMLP,
        NormalParamExtractor,
        ProbabilisticActor,
        QMixer,
        QValueActor,
        QValueModule,
        SafeModule,
        TanhNormal,
        ValueOperator,
    )
    from torchrl.objectives import (
        ACTLoss,
        BCLoss,
        ClipPPOLoss,
        DDPGLoss,
        DQNLoss,
        ExponentialQuadraticCost,
        RNDLoss,
        SACLoss,
        ValueEstimators,
    )
    from torchrl.objectives.multiagent import QMixerLoss

import marlenv
from marlenv import group_keys, to_torchrl
from marlenv.errors import GroupError, KeyMissing
from marlenv.testing.mocks import CountingEnv, UnevenEnv

pytestmark = pytest.mark.filterwarnings("ignore:::torchrl", "ignore:::torch", "ignore:::tensordict")
OBSERVATION, ACTION = ("agents", "observation"), ("agents", "action")


def spread(**options):
    return to_torchrl(marlenv.make("simple_spread", num_envs=4, max_steps=10, seed=0, **options))


def mlp(env, group: str, out: int, *, central: bool = False, extra: int = 0) -> MultiAgentMLP:
    spec = env.full_observation_spec[group, "observation"]
    return MultiAgentMLP(spec.shape[-1] + extra, out, spec.shape[-2], centralized=central, share_params=True, depth=1)


def gaussian(env, group: str = "agents") -> ProbabilisticActor:
    spec = env.full_action_spec[group, "action"]
    net = nn.Sequential(mlp(env, group, 2 * spec.shape[-1]), NormalParamExtractor())
    module = TensorDictModule(net, [(group, "observation")], [(group, "loc"), (group, "scale")])
    return ProbabilisticActor(
        module,
        in_keys=[(group, "loc"), (group, "scale")],
        out_keys=[(group, "action")],
        spec=env.full_action_spec,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": spec.space.low[0], "high": spec.space.high[0]},
        return_log_prob=True,
        log_prob_key=(group, "action_log_prob"),
    )


@torch.no_grad()
def collected(env, steps: int, policy=None):
    return env.rollout(steps, policy, break_when_any_done=False)


def learns(loss, data) -> None:
    """Every part of the loss is finite, and its gradient reaches every parameter."""
    losses = loss(data)
    total = sum(value for key, value in losses.items() if key.startswith("loss"))
    assert total.isfinite()
    total.backward()
    grads = {name: p.grad for name, p in loss.named_parameters() if p.requires_grad and "target" not in name}
    assert grads
    assert all(g is not None and g.isfinite().all() for g in grads.values()), [n for n, g in grads.items() if g is None]
    assert any(g.abs().sum() > 0 for g in grads.values())


@pytest.mark.parametrize("central", [False, True], ids=["IPPO", "MAPPO"])
def test_clip_ppo(central: bool) -> None:
    env = spread()
    actor = gaussian(env)
    critic = ValueOperator(mlp(env, "agents", 1, central=central), [OBSERVATION], [("agents", "state_value")])
    loss = ClipPPOLoss(actor, critic)
    loss.set_keys(**group_keys(env, "agents", loss))
    loss.make_value_estimator(ValueEstimators.GAE, gamma=0.9, lmbda=0.9)
    data = collected(env, 20, actor)
    loss.value_estimator(data)
    assert data["agents", "advantage"].shape == (4, 20, 3, 1)
    learns(loss, data.reshape(-1))


def test_gae_cuts_at_our_flags_and_bootstraps_at_our_time_limits() -> None:
    """By hand: at a truncation the value of the final observation counts, and nothing of the next episode."""
    env = spread()
    actor = gaussian(env)
    critic = ValueOperator(mlp(env, "agents", 1), [OBSERVATION], [("agents", "state_value")])
    loss = ClipPPOLoss(actor, critic)
    loss.set_keys(**group_keys(env, "agents", loss))
    loss.make_value_estimator(ValueEstimators.GAE, gamma=0.9, lmbda=0.8, average_gae=False)
    with torch.no_grad():
        data = collected(env, 20, actor)
        loss.value_estimator(data)
        value, after = (critic.module(x[OBSERVATION]) for x in (data, data["next"]))
    error = data["next", "agents", "reward"] + 0.9 * after - value  # nothing terminates
    advantage, trace = torch.zeros_like(error), torch.zeros_like(error[:, 0])
    for t in reversed(range(20)):
        trace = error[:, t] + 0.72 * trace * (t % 10 != 9)
        advantage[:, t] = trace
    torch.testing.assert_close(data["agents", "advantage"], advantage, rtol=1e-4, atol=1e-4)


def test_sac() -> None:
    env = spread()
    actor = gaussian(env)
    net = mlp(env, "agents", 1, extra=2)
    joined = TensorDictModule(lambda o, a: torch.cat([o, a], -1), [OBSERVATION, ACTION], [("agents", "both")])
    value = TensorDictSequential(
        joined, TensorDictModule(net, [("agents", "both")], [("agents", "state_action_value")])
    )
    spec = env.full_action_spec_unbatched
    loss = SACLoss(actor, value, action_spec=spec[ACTION], target_entropy=-2.0)
    loss.set_keys(**group_keys(env, "agents", loss))
    loss.make_value_estimator(ValueEstimators.TD0, gamma=0.9)
    learns(loss, collected(env, 8, actor).reshape(-1))


def test_sac_knows_how_many_numbers_an_action_has() -> None:
    """Two for each agent, from specs that went to TorchRL with the env or by themselves."""
    env = marlenv.make("simple_spread", num_envs=4)
    specs = [to_torchrl(env).full_action_spec_unbatched, to_torchrl(env.full_action_spec_unbatched)]
    for spec in specs:
        actor = gaussian(to_torchrl(env))
        value = ValueOperator(mlp(to_torchrl(env), "agents", 1), [OBSERVATION], [("agents", "state_action_value")])
        loss = SACLoss(actor, value, action_spec=spec)
        loss.set_keys(**group_keys(env, "agents", loss))
        assert float(loss.target_entropy) == -2


def test_maddpg_has_a_loss_for_each_of_two_groups() -> None:
    env = to_torchrl(marlenv.make("simple_tag", num_envs=4, max_steps=10, seed=0))
    data = env.rollout(8, break_when_any_done=False).reshape(-1)
    for group in ("adversary", "agent"):
        seen, acted = (group, "observation"), (group, "action")
        actor = TensorDictModule(nn.Sequential(mlp(env, group, 2), nn.Tanh()), [seen], [acted])
        joined = TensorDictModule(lambda o, a: torch.cat([o, a], -1), [seen, acted], [(group, "both")])
        net = mlp(env, group, 1, central=True, extra=2)
        critic = TensorDictModule(net, [(group, "both")], [(group, "state_action_value")])
        loss = DDPGLoss(actor, TensorDictSequential(joined, critic), delay_value=True)
        loss.set_keys(**group_keys(env, group, loss))
        loss.make_value_estimator(ValueEstimators.TD0, gamma=0.9)
        learns(loss, data)


def discrete():
    return to_torchrl(marlenv.make("simple_spread", num_envs=4, max_steps=10, seed=0, continuous_actions=False))


def q_values(env) -> TensorDictSequential:
    spec = env.full_action_spec[ACTION][0, 0]  # of one agent in one row
    net = TensorDictModule(mlp(env, "agents", spec.space.n), [OBSERVATION], [("agents", "action_value")])
    value = QValueModule(
        action_value_key=("agents", "action_value"),
        out_keys=[ACTION, ("agents", "action_value"), ("agents", "chosen_action_value")],
        spec=spec,
        action_space="categorical",
    )
    return TensorDictSequential(net, value)


@pytest.mark.slow
def test_qmix() -> None:
    env = discrete()
    policy = q_values(env)
    mixer = TensorDictModule(
        QMixer(
            state_shape=env.full_observation_spec[OBSERVATION].shape[1:], mixing_embed_dim=8, n_agents=3, device="cpu"
        ),
        [("agents", "chosen_action_value"), OBSERVATION],
        ["chosen_action_value"],
    )
    loss = QMixerLoss(policy, mixer, action_space="categorical", delay_value=True)
    loss.set_keys(
        action=ACTION,
        action_value=("agents", "action_value"),
        local_value=("agents", "chosen_action_value"),
        global_value="chosen_action_value",
        reward="reward",
    )
    loss.make_value_estimator(ValueEstimators.TD0, gamma=0.9)
    data = collected(env, 8, policy)
    data["next", "reward"] = data["next", "agents", "reward"].mean(-2)  # one number for the team
    learns(loss, data.reshape(-1))


def test_dqn_with_a_multi_agent_network() -> None:
    env = discrete()
    policy = q_values(env)
    loss = DQNLoss(policy, action_space="categorical", delay_value=True)
    loss.set_keys(**group_keys(env, "agents", loss))
    loss.make_value_estimator(ValueEstimators.TD0, gamma=0.9)
    explore = EGreedyModule(env.full_action_spec[ACTION], eps_init=1.0, eps_end=1.0, action_key=ACTION)
    data = collected(env, 8, TensorDictSequential(policy, explore))
    assert data[ACTION].unique().tolist() == list(range(env.full_action_spec[ACTION].space.n))
    learns(loss, data.reshape(-1))


def test_q_value_actors_and_e_greedy_keep_to_legal_moves() -> None:
    env = to_torchrl(marlenv.make("tic_tac_toe", num_envs=8, seed=0))
    seats = []
    for seat in ("x", "o"):
        keys = [(seat, "action"), (seat, "action_value"), (seat, "chosen_action_value")]
        net = TensorDictModule(nn.Sequential(nn.Flatten(-3), nn.Linear(27, 9)), [(seat, "observation")], [keys[1]])
        value = QValueModule(
            action_value_key=keys[1], out_keys=keys, action_mask_key=(seat, "action_mask"), action_space="categorical"
        )
        spec = env.full_action_spec[seat, "action"]
        explore = EGreedyModule(spec, 0.5, 0.5, action_key=keys[0], action_mask_key=(seat, "action_mask"))
        seats += [net, value, explore]
    env.rollout(60, TensorDictSequential(*seats), break_when_any_done=False)  # an illegal move would be an error


def test_q_value_actor_takes_our_spec() -> None:
    env = to_torchrl(marlenv.make("tic_tac_toe", seed=0))
    net = nn.Sequential(nn.Flatten(-3), nn.Linear(27, 9))
    actor = QValueActor(
        net,
        in_keys=[("x", "observation")],
        spec=env.full_action_spec["x", "action"][0],
        action_space="categorical",
        action_value_key=("x", "action_value"),
    )
    td = actor(env.reset())
    assert torch.equal(td["action"], td["x", "action_value"].argmax(-1))


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
def test_a_masked_policy_plays_games(name: str) -> None:
    env = to_torchrl(marlenv.make(name, num_envs=4, seed=0))
    parts = []
    for seat in env.group_map:
        shape = env.full_observation_spec[seat, "observation"].shape[2:]
        net = nn.Sequential(nn.Flatten(-len(shape)), nn.LazyLinear(env.full_action_spec[seat, "action"].space.n))
        module = TensorDictModule(net, [(seat, "observation")], [(seat, "logits")])
        parts.append(
            ProbabilisticActor(
                module,
                in_keys={"logits": (seat, "logits"), "mask": (seat, "action_mask")},
                out_keys=[(seat, "action")],
                distribution_class=MaskedCategorical,
                spec=env.full_action_spec[seat, "action"],
            )
        )
    assert env.rollout(50, TensorDictSequential(*parts), break_when_any_done=False)["next", "done"].any()


def test_a_safe_module_brings_actions_into_our_bounds_and_masks() -> None:
    env = spread()
    wild = SafeModule(nn.Linear(0, 0), in_keys=[OBSERVATION], out_keys=[ACTION], spec=env.full_action_spec, safe=True)
    wild.module.forward = lambda seen: 100 * torch.ones(*seen.shape[:-1], 2)
    td = wild(env.reset())
    assert torch.equal(td[ACTION], env.full_action_spec[ACTION].space.high.expand_as(td[ACTION]))
    game = to_torchrl(marlenv.make("tic_tac_toe", num_envs=2, seed=0))
    td = game.reset()
    first = SafeModule(
        nn.Identity(),
        in_keys=[("o", "action")],
        out_keys=[("o", "action")],
        spec=game.full_action_spec["o", "action"],
        safe=True,
    )
    td["x", "action"], td["o", "action"] = torch.zeros(2, 1, dtype=torch.long), torch.zeros(2, 1, dtype=torch.long)
    _, td = game.step_and_maybe_reset(td)
    assert torch.equal(td["o", "action"], torch.zeros(2, 1, dtype=torch.long))
    assert (first(td)["o", "action"] != 0).all()  # x stands there


def test_an_lstm_finds_its_primer() -> None:
    env = marlenv.make("simple_spread", num_envs=4, max_steps=5, seed=0)
    wide = env.full_observation_spec[OBSERVATION].shape[-1]
    lstm = LSTMModule(
        input_size=3 * wide,
        hidden_size=8,
        in_keys=["seen", "h", "c"],
        out_keys=["memory", ("next", "h"), ("next", "c")],
    )
    theirs = TransformedEnv(to_torchrl(env), InitTracker())
    primer = lstm.make_tensordict_primer()
    primer.reset_key = "_reset"  # groups have flags too, and TorchRL asks which are meant
    theirs.append_transform(primer)
    assert theirs.full_observation_spec["h"].shape == (4, 1, 8)
    join = TensorDictModule(lambda x: x.flatten(-2), [OBSERVATION], ["seen"])
    act = TensorDictModule(nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Unflatten(-1, (3, 2))), ["memory"], [ACTION])
    with torch.no_grad():
        td = theirs.rollout(12, TensorDictSequential(join, lstm, act), break_when_any_done=False)
    first = td["is_init"].squeeze(-1)
    assert first[0].nonzero().flatten().tolist() == [0, 5, 10]
    assert not td["h"][first].any()
    assert td["h"][~first].any(-1).all()


def test_the_keys_of_a_group() -> None:
    env = marlenv.make("simple_tag")
    flags = {name: ("adversary", name) for name in ("action", "reward", "done", "terminated")}
    assert group_keys(env, "adversary") == flags == group_keys(to_torchrl(env), "adversary")
    ppo = group_keys(env, "adversary", ClipPPOLoss)
    assert ppo["advantage"] == ("adversary", "advantage")
    assert ppo["value"] == ("adversary", "state_value")
    assert set(ppo) == {f.name for f in ClipPPOLoss._AcceptedKeys.__dataclass_fields__.values()}


def tagged():
    """An env with groups, played for a while; its data in one row."""
    env = to_torchrl(marlenv.make("simple_tag", num_envs=2, max_steps=5, seed=0))
    return env, env.rollout(12, break_when_any_done=False).reshape(-1)


def test_a_loss_that_reads_what_follows_a_step_reads_it_of_the_group() -> None:
    env, data = tagged()
    seen: list[torch.Tensor] = []
    nets = [nn.Linear(data["adversary", "observation"].shape[-1], 4) for _ in range(2)]
    loss = RNDLoss(*nets, update_fraction=1.0)
    handle = nets[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    for _ in range(2):  # the second time the loss has keys of a group already
        loss.set_keys(**group_keys(env, "adversary", loss))
    found = loss(data)
    handle.remove()
    following = data["next", "adversary", "observation"]
    by_hand = ((nets[0](following) - nets[1](following)) ** 2).mean()
    torch.testing.assert_close(next(iter(found.values())), by_hand)
    assert torch.equal(seen[0], following)
    assert group_keys(env, "agent", loss)["observation"] == ("next", "agent", "observation")


def test_a_loss_of_no_nested_keys_takes_the_group_alone() -> None:
    """As the page says: the loss is of log-probabilities then, and not of actions."""
    env, data = tagged()
    one = data["adversary"].copy()
    one["next"] = data["next", "adversary"]
    net = nn.Sequential(nn.Linear(one["observation"].shape[-1], 4), NormalParamExtractor())
    module = TensorDictModule(net, ["observation"], ["loc", "scale"])
    actor = ProbabilisticActor(module, in_keys=["loc", "scale"], distribution_class=TanhNormal)
    torch.testing.assert_close(BCLoss(actor)(one)["loss_bc"], -actor.get_dist(one).log_prob(one["action"]).mean())


def test_a_loss_does_without_what_it_leaves_out() -> None:
    env, data = tagged()
    net = nn.Linear(data["adversary", "observation"].shape[-1], 2)
    loss = BCLoss(TensorDictModule(net, [("adversary", "observation")], [("adversary", "action")]), loss_function="l2")
    loss.set_keys(**group_keys(env, "adversary", loss))
    wanted = ((net(data["adversary", "observation"]) - data["adversary", "action"]) ** 2).mean()
    torch.testing.assert_close(loss(data)["loss_bc"], wanted)
    assert "pad_mask" not in group_keys(env, "adversary", BCLoss)


def test_a_key_within_entries_keeps_them_below_the_group() -> None:
    env = marlenv.make("simple_tag")
    assert group_keys(env, "agent", ACTLoss)["action_chunk"] == ("agent", "vla_action", "chunk")
    assert group_keys(env, "agent", ExponentialQuadraticCost)["loc"] == ("agent", "observation", "mean")
    assert group_keys(env, "agent", QMixerLoss)["local_value"] == ("agent", "chosen_action_value")


def test_a_collector_goes_on_with_the_state_of_our_transforms() -> None:
    def collector(loc: float) -> Collector:
        env = marlenv.make("simple_spread", num_envs=2, seed=0)
        normed = env.append_transform(marlenv.ObservationNorm(loc=loc, scale=1.0, in_keys=[OBSERVATION]))
        act = TensorDictModule(nn.Linear(14, 2), [OBSERVATION], [ACTION])
        return Collector(to_torchrl(normed), act, frames_per_batch=4, total_frames=8)

    before, after = collector(3.0), collector(0.0)
    with pytest.raises(KeyMissing, match=r"expected the state of the env's transforms, got none.*load with strict"):
        after.load_state_dict(before.state_dict())
    after.load_state_dict(before.state_dict(), strict=False)
    assert after.env.inner.transform.loc == 0
    after.load_state_dict(before.state_dict() | {"env_state_dict": before.env.state_dict()})
    assert after.env.inner.transform.loc == 3
    for one in (before, after):
        one.shutdown()


def test_groups_that_no_loss_can_take_are_named() -> None:
    with pytest.raises(GroupError, match="no group 'advesary' with actions; did you mean 'adversary'"):
        group_keys(marlenv.make("simple_tag"), "advesary")
    with pytest.raises(GroupError, match=r"no group 'agents': the env has no groups, its actions are \['action'\]"):
        group_keys(CountingEnv(), "agents")
    with pytest.raises(TypeError, match=r"group_keys: expected an env, got str; pass marlenv.make\(...\)"):
        group_keys("simple_tag", "agent")
    uneven = UnevenEnv()
    with pytest.raises(GroupError, match="agents of group .* differ .* pad them"):
        group_keys(uneven, next(iter(uneven.tree)))
    with pytest.raises(KeyMissing, match="Linear has no keys that can be set; pass a loss module"):
        group_keys(marlenv.make("simple_tag"), "agent", nn.Linear(1, 1))


def test_the_done_key_of_an_env_with_groups_says_which_to_take() -> None:
    with pytest.raises(KeyMissing, match=r"a loss of one group takes its own, such as \('agents', 'done'\)"):
        _ = marlenv.make("simple_spread").done_key
    assert marlenv.testing.CountingEnv().done_key == "done"
