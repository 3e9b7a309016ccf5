"""Children that cannot stand side by side are refused when they are made; the child and the entry are named."""

from __future__ import annotations

import pytest
import torch
from pools import assert_equal

import marlenv
from marlenv import AsyncEnvPool, Composite, ParallelEnv, SerialEnv, StepCounter, TransformedEnv, Unbounded
from marlenv.envs.seeding import next_seed
from marlenv.errors import SpecError, Unsupported
from marlenv.testing import CountingEnv, GroupedEnv, MaskedEnv


class Wide(CountingEnv):
    def __init__(self, *, dtype: torch.dtype = torch.float32, reward: int = 1) -> None:
        super().__init__()
        self.observation_spec = Composite(observation=Unbounded((1,), dtype=dtype))
        self.reward_spec = Unbounded((reward,))


def spread(**options: object):
    return lambda: marlenv.make("simple_spread", 2, **options)


@pytest.mark.parametrize(
    ("children", "says"),
    [
        ([Wide, lambda: Wide(dtype=torch.float64)], "the dtype torch.float64 in its observation entry 'observation'"),
        ([Wide, Wide, lambda: Wide(reward=2)], r"child 2 has the shape \[2\] in its reward entry 'reward'"),
        ([spread(), spread(n_agents=2)], r"the shape \[2, 2\] in its action entry 'agents', and child 0 has \[2, 3\]"),
        (
            [spread(), spread(continuous_actions=False)],
            r"has the shape \[2, 3\] in its action entry \('agents', 'action'\), and child 0 has \[2, 3, 2\]",
        ),
        (
            [lambda: marlenv.make("tic_tac_toe", 2), lambda: marlenv.make("connect_four", 2)],
            r"child 1 lacks the state entries \[\('state', 'code'\)\] of child 0, and adds \[\('state', 'board'\)\]",
        ),
        (
            [lambda: GroupedEnv({"a": ["x", "y"]}), lambda: GroupedEnv({"a": ["x", "z"]})],
            r"child 1 has the groups \{'a': \['x', 'z'\]\}, and child 0 has \{'a': \['x', 'y'\]\}",
        ),
    ],
)
def test_children_that_are_too_different_are_refused_where_equal_ones_are_asked_for(children: list, says: str) -> None:
    with pytest.raises(SpecError, match=f"SerialEnv: all children must have the same entries, but .*{says}"):
        SerialEnv(len(children), children, share_individual_td=False)


@pytest.mark.slow
def test_observations_may_differ_in_size() -> None:
    env = SerialEnv(2, [spread(seed=1), spread(obs_agents=False, seed=1)])
    parts = env.rollout(3)["next"].unbind(0)
    wide, narrow = (part["agents", "observation"] for part in parts)
    assert wide.shape[-1] > narrow.shape[-1]
    env.check_env_specs()


@pytest.mark.slow
@pytest.mark.parametrize("pool", [SerialEnv, ParallelEnv])
def test_groups_may_differ_in_size(pool: type) -> None:
    env = pool(2, [spread(seed=1, max_steps=3), spread(n_agents=2, seed=1, max_steps=4)])
    assert env.share_individual_td
    env.set_seed(3)
    rollout = env.rollout(5, break_when_any_done=False)
    for i, options in enumerate([{}, {"n_agents": 2}]):
        alone = spread(max_steps=3 + i, **options)()
        seed = 3
        for _ in range(i):
            seed = next_seed(seed)
        alone.set_seed(seed)
        actions = [rollout[i].select(*alone.action_keys)[..., t] for t in range(5)]
        assert_equal(alone.rollout(5, actions=actions, break_when_any_done=False), rollout[i])
    env.check_env_specs()
    assert env.group_map == [{"agents": ["agent_0", "agent_1", "agent_2"]}, {"agents": ["agent_0", "agent_1"]}]
    env.close()


def test_random_actions_of_rows_that_differ_are_legal() -> None:
    env = SerialEnv(2, [MaskedEnv, lambda: MaskedEnv(n=7)], share_individual_td=True)
    rollout = env.rollout(12, break_when_any_done=False)
    assert (rollout["next", "reward"] == 1).all()
    assert rollout[1]["action"].max() > 3


def test_transforms_around_groups_of_different_sizes_go_around_each_env():
    def spread(n):
        return marlenv.make("simple_spread", num_envs=1, n_agents=n, compile="none")

    sizes = [{"n": 2}, {"n": 3}]
    env = SerialEnv(2, spread, create_env_kwargs=sizes)
    with pytest.raises(Unsupported, match=r"groups of different sizes; give each its transforms"):
        TransformedEnv(env, StepCounter())
    inside = SerialEnv(2, lambda n: TransformedEnv(spread(n), StepCounter()), create_env_kwargs=sizes)
    assert inside.rollout(3)["next", "step_count"].flatten().tolist() == [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize("pool", [SerialEnv, lambda n, make, **how: AsyncEnvPool([make] * n, stack="lazy", **how)])
def test_states_and_time_limits_of_groups_of_different_sizes(pool):
    env = pool(
        2,
        lambda n: marlenv.make("simple_spread", num_envs=1, n_agents=n, compile="none"),
        create_env_kwargs=[{"n": 2}, {"n": 3}],
    )
    td = env.reset()
    state = env.get_state()
    first = env.rollout(3, set_truncated=True, auto_reset=False, tensordict=td)
    flags = [one["next", "agents", "truncated"][0, :, :, 0].tolist() for one in first.unbind(0)]
    assert flags == [[[False] * n, [False] * n, [True] * n] for n in (2, 3)]
    again = env.set_state(state)
    for one, two in zip(first.unbind(0), again.unbind(0), strict=True):
        assert torch.equal(one["agents", "observation"][:, 0], two["agents", "observation"])
    env.close()


@pytest.mark.parametrize("stack", ["dense", "lazy"])
def test_a_rollout_of_unequal_children_is_laid_out_as_that_of_a_series(stack):
    def make(n: int):
        return marlenv.make("simple_spread", 1, n_agents=n, max_steps=3)

    given = {"create_env_kwargs": [{"n": 2}, {"n": 3}]}
    series, pool = SerialEnv(2, make, **given), AsyncEnvPool([make] * 2, stack=stack, **given)
    series.set_seed(0), pool.set_seed(0)
    one, two = (env.rollout(5, break_when_any_done=False) for env in (series, pool))  # with a reset in between
    assert (one.stack_dim, one.batch_size, one.names) == (two.stack_dim, two.batch_size, two.names)
    found = two.get(("next", "agents", "reward"), as_list=True)
    assert [list(row.shape) for row in found] == [[1, 5, 2, 1], [1, 5, 3, 1]]
    for i in range(2):
        assert_equal(one[i], two[i].exclude("env_index"))
        assert torch.as_tensor(two[i]["env_index"]).unique().tolist() == [i]
    pool.close()
