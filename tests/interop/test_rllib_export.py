"""Our envs behind RLlib's interface of many agents: RLlib's checker, our numbers, and PPO on Ray."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch

import marlenv
from marlenv import to_rllib
from marlenv.errors import EnvClosed, GroupError, NeedsReset, SpecError, SpecTypeError, Unsupported
from marlenv.testing.mocks import GroupedEnv

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings
WHERE = "needs ray[rllib]: VENV=.venv tests/simulators.sh rllib"
for part in ("ray", "pyarrow", "lz4", "ormsgpack", "tensorboardX"):
    pytest.importorskip(part, reason=WHERE)


def scenario(name: str = "simple_tag", **options: Any) -> Any:
    return marlenv.make(name, compile="none", **{"max_steps": 20, "continuous_actions": False, **options})


@pytest.mark.parametrize("agents", ["agents", "groups"])
@pytest.mark.parametrize("name", ["simple_tag", "navigation", "tic_tac_toe"])
def test_rllibs_checker_passes(name: str, agents: str) -> None:
    from ray.rllib.utils.pre_checks.env import check_multiagent_environments

    env = marlenv.make(name) if name == "tic_tac_toe" else scenario(name)
    check_multiagent_environments(to_rllib(env, agents))


@pytest.mark.parametrize("agents", ["agents", "groups"])
def test_numbers_are_those_of_our_env(agents: str) -> None:
    theirs, env = to_rllib(scenario(), agents), scenario()
    env.set_seed(4)
    td, (seen, _) = env.reset(), theirs.reset(seed=4)
    for step in range(20):
        moves = {agent: (step + i) % 9 for i, agent in enumerate([*(f"adversary_{i}" for i in range(3)), "agent_0"])}
        td["adversary", "action"] = torch.tensor([[moves[f"adversary_{i}"] for i in range(3)]])
        td["agent", "action"] = torch.tensor([[moves["agent_0"]]])
        if agents == "groups":
            told = {group: td[group, "action"][0].numpy() for group in ("adversary", "agent")}
            told["agent"] = int(told["agent"][0])  # alone, without a dimension of agents
            assert all(theirs.action_spaces[group].contains(told[group]) for group in told)
        else:
            told = moves
        seen, rewards, terminated, truncated, _ = theirs.step(told)
        after = env.step(td)["next"]
        if agents == "groups":
            assert np.array_equal(seen["adversary"], after["adversary", "observation"][0].flatten().numpy())
            assert rewards["adversary"] == pytest.approx(float(after["adversary", "reward"].double().sum()))
            assert np.array_equal(seen["agent"], after["agent", "observation"][0, 0].numpy())
        else:
            for i in range(3):
                assert np.array_equal(seen[f"adversary_{i}"], after["adversary", "observation"][0, i].numpy())
                assert rewards[f"adversary_{i}"] == float(after["adversary", "reward"][0, i])
        assert all(theirs.observation_spaces[agent].contains(one) for agent, one in seen.items())
        assert not any(terminated.values())
        assert truncated["__all__"] is (step == 19)
        td = env.step_mdp(td)


def test_groups_within_groups_have_names_that_policies_may_have() -> None:
    """RLlib's own config takes them; a step's reward is that of the group."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module import validate_module_id

    inner = GroupedEnv({"red": {"scouts": ["a", "b"], "guards": ["c"]}, "blue": ["d"]})
    env = to_rllib(inner, "groups")
    assert env.possible_agents == ["red.scouts", "red.guards", "blue"]
    for name in env.possible_agents:
        validate_module_id(name, error=True)
    PPOConfig().multi_agent(policies=set(env.possible_agents), policy_mapping_fn=lambda agent, *_, **__: agent)
    env.reset(seed=0)
    rewards = env.step({name: env.action_spaces[name].sample() for name in env.possible_agents})[1]
    assert set(rewards) == set(env.possible_agents)
    twice = GroupedEnv({"red.scouts": ["a"], "red": {"scouts": ["b"]}})
    with pytest.raises(GroupError, match=r"several groups would be called \['red.scouts'\], of .*; rename groups"):
        to_rllib(twice, "groups")
    slash = to_rllib(GroupedEnv({"red/scouts": ["a"], "red": {"scouts": ["b"]}}), "groups")
    assert slash.possible_agents == ["red/scouts", "red.scouts"]


@pytest.mark.parametrize("agents", ["agents", "groups"])
def test_what_is_paid_before_an_agents_first_observation_is_undecided(agents: str) -> None:
    """As the docs say: RLlib's own episode lacks what ``compact_turns`` calls so, and no more."""
    from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

    game, ours = to_rllib(marlenv.make("hanabi", illegal="lose"), agents), marlenv.make("hanabi", illegal="lose")
    ours.set_seed(9)
    td, steps, over = ours.reset(), [], False
    seen, _ = game.reset(seed=9)
    episode = MultiAgentEpisode(
        observation_space=game.observation_spaces,
        action_space=game.action_spaces,
        agent_to_module_mapping_fn=lambda agent, *_, **__: agent,
    )
    episode.add_env_reset(observations=seen, infos={})
    while not over:
        (agent,) = seen
        move = int(np.flatnonzero(seen[agent]["action_mask"])[0])  # plays the first card, which fits in the first step
        for one in ours.group_map:
            td[one, "action"] = torch.full_like(td[one, "action_mask"][..., 0], move, dtype=torch.long)
        steps.append(ours.step(td))
        td = ours.step_mdp(steps[-1])
        told = {agent: np.array([move]) if game.action_spaces[agent].shape else move}
        seen, rewards, terminated, truncated, infos = game.step(told)
        episode.add_env_step(seen, told, rewards, infos, terminateds=terminated, truncateds=truncated)
        over = terminated["__all__"] or truncated["__all__"]
    turns = marlenv.compact_turns(torch.stack(steps, -1))
    returns = {agent: one.get_return() for agent, one in episode.agent_episodes.items()}
    for path in ours.group_map:
        paid = turns[path, "next", "reward"].sum()
        assert returns[path] == pytest.approx(float(paid))
    assert sum(float(turns["undecided", path].sum()) for path in ours.group_map) != 0


def test_players_in_turn() -> None:
    game = to_rllib(marlenv.make("tic_tac_toe"))
    seen, _ = game.reset(seed=0)
    for mover, move in zip("xoxox", (0, 3, 1, 4, 2), strict=True):
        assert list(seen) == [mover]
        assert seen[mover]["action_mask"][move] == 1
        seen, rewards, terminated, truncated, _ = game.step({mover: move})
    assert set(seen) == {"x", "o"}
    assert rewards == {"x": 1.0, "o": -1.0}
    assert terminated == {"x": True, "o": True, "__all__": True}
    assert not any(truncated.values())


def test_agents_that_die_hear_of_it_once() -> None:
    inner = GroupedEnv(
        {"wolves": ["w0", "w1"], "sheep": ["s0"]}, terminate={"s0": 2, "w0": 4}, truncate={"w1": 6}, rule="all"
    )
    env = to_rllib(inner)
    env.reset(seed=0)
    heard: dict[str, list[int]] = {}
    for step in range(1, 7):
        seen, _, terminated, truncated, _ = env.step({one: env.action_spaces[one].sample() for one in env.agents})
        for one in seen:
            heard.setdefault(one, []).append(step)
        ended = [one for one in terminated if one != "__all__" and terminated[one]]
        assert ended == {2: ["s0"], 4: ["w0"]}.get(step, [])
        assert not any(truncated.values()) or (step, truncated) == (6, {"__all__": True})
    assert {one: steps[-1] for one, steps in heard.items()} == {"s0": 2, "w0": 4, "w1": 6}
    assert truncated["__all__"]


WOLVES = {"wolves": ["w0", "w1"], "sheep": ["s0"]}
ENDS = [
    # env, agents, then who terminates and who is cut off in RLlib's episode
    ("limit", lambda: scenario(max_steps=4), "agents", [], ["adversary_0", "adversary_1", "adversary_2", "agent_0"]),
    ("limit of groups", lambda: scenario(max_steps=4), "groups", [], ["adversary", "agent"]),
    ("all die", lambda: GroupedEnv(WOLVES, terminate={"w0": 1, "w1": 3, "s0": 2}, rule="all"), "agents",
     ["w0", "w1", "s0"], []),
    ("the last is cut off", lambda: GroupedEnv(WOLVES, terminate={"s0": 2, "w0": 4}, truncate={"w1": 6}, rule="all"),
     "agents", ["s0", "w0"], ["w1"]),
    ("one is cut off before", lambda: GroupedEnv(WOLVES, terminate={"s0": 2}, truncate={"w0": 3, "w1": 5}, rule="all"),
     "agents", ["s0"], ["w0", "w1"]),
    ("the first ends it", lambda: GroupedEnv(WOLVES, truncate={"s0": 2}, rule="any"), "agents", [], ["w0", "w1", "s0"]),
]  # fmt: skip


@pytest.mark.parametrize(("make", "agents", "dead", "cut"), [one[1:] for one in ENDS], ids=[one[0] for one in ENDS])
def test_rllibs_episodes_end_as_ours(make: Any, agents: str, dead: list[str], cut: list[str]) -> None:
    """RLlib's own runner plays them; its losses bootstrap where its episodes are not terminated."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.connectors.learner import AddOneTsToEpisodesAndTruncate
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
    from ray.tune.registry import register_env

    register_env("ends", lambda _: to_rllib(make(), agents))
    names = set(to_rllib(make(), agents).possible_agents)
    config = PPOConfig().environment("ends").env_runners(num_env_runners=0)
    config = config.multi_agent(policies=names, policy_mapping_fn=lambda agent, *_, **__: agent)
    runner = MultiAgentEnvRunner(config=config, worker_index=0)
    episode = runner.sample(num_episodes=1, random_actions=True)[0]
    assert (episode.is_terminated, episode.is_truncated) == (not cut, bool(cut))
    assert sorted(one for one, own in episode.agent_episodes.items() if own.is_terminated) == sorted(dead)
    assert sorted(one for one, own in episode.agent_episodes.items() if own.is_done) == sorted([*dead, *cut])
    batch: dict[str, Any] = {}
    AddOneTsToEpisodesAndTruncate()(rl_module=None, episodes=[episode], batch=batch, shared_data={})
    learned = {key[1]: any(flags) for key, flags in batch["terminateds"].items()}
    assert learned == {one: one in dead for one in names}


@pytest.fixture(scope="module")
def machine() -> Any:
    """Ray on this machine."""
    import ray

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    here = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    runtime = {"env_vars": {"PYTHONPATH": here}}
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=runtime)
    yield
    ray.shutdown()


def made(config: dict[str, Any]) -> Any:
    agents, name = config["agents"], config["name"]
    options = {"illegal": "lose"} if name == "tic_tac_toe" else {"compile": "none", "max_steps": 25}
    return to_rllib(marlenv.make(name, **options), agents)


@pytest.mark.parametrize(
    ("name", "agents"),
    [
        ("simple_tag", "agents"),
        pytest.param("simple_tag", "groups", marks=pytest.mark.full),
        pytest.param("tic_tac_toe", "agents", marks=pytest.mark.full),
    ],
)
def test_two_iterations_of_ppo_on_ray(name: str, agents: str, machine: Any) -> None:
    """A real algorithm, with an env runner in a process of its own."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.connectors.env_to_module import FlattenObservations
    from ray.tune.registry import register_env

    register_env("ours", made)
    of = {"x", "o"} if name == "tic_tac_toe" else {"adversary", "agent"}
    config = (
        PPOConfig()
        .environment("ours", env_config={"name": name, "agents": agents})
        .env_runners(
            num_env_runners=1,
            env_to_module_connector=lambda env=None, spaces=None, device=None: FlattenObservations(multi_agent=True),
        )
        .multi_agent(policies=of, policy_mapping_fn=lambda agent, *_, **__: agent.partition("_")[0])
        .training(train_batch_size_per_learner=250, minibatch_size=50, num_epochs=2)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    try:
        results = [algorithm.train() for _ in range(2)]
        for result in results:
            assert set(result["learners"]) >= of
            for one in of:
                assert np.isfinite(result["learners"][one]["total_loss"])
        last = results[-1]["env_runners"]
        assert last["episode_len_mean"] == 25 if name == "simple_tag" else last["episode_len_mean"] <= 9
        assert results[-1]["num_env_steps_sampled_lifetime"] >= 500
    finally:
        algorithm.stop()


def closed() -> Any:
    env = to_rllib(scenario())
    env.close()
    return env.reset()


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: to_rllib("simple_tag"), SpecTypeError, "with groups of agents, got str"),
        (lambda: to_rllib("simple_tag", "groups"), SpecTypeError, "with groups of agents, got str"),
        (lambda: to_rllib(scenario(num_envs=2), "groups"), Unsupported, r"one row, got batch size \[2\]"),
        (lambda: to_rllib(scenario(), "group"), Unsupported, "did you mean 'groups'"),
        (lambda: to_rllib(marlenv.make("chess")), SpecError, "'white' must be bool .4672."),
        (lambda: to_rllib(scenario()).step({}), NeedsReset, "reset"),
        (closed, EnvClosed, "closed"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()
