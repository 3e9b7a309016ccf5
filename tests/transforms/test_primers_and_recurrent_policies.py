"""A recurrent policy goes on from the hidden state that it wrote: alone, in pools, and in their children."""

from __future__ import annotations

import pytest
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential

from marlenv import (
    AsyncEnvPool,
    Compose,
    Composite,
    InitTracker,
    ParallelEnv,
    SerialEnv,
    TensorDictPrimer,
    TransformedEnv,
    Unbounded,
)
from marlenv.testing import CountingEnv, GroupedEnv

STEPS = 8


def env_of(length):
    return CountingEnv(max_steps=length)


def primed(env, **states):
    """An env that begins its episodes with hidden states of 0."""
    states = states or {"h": Unbounded((1,))}
    return TransformedEnv(env, Compose(InitTracker(), TensorDictPrimer(Composite(states), expand_specs=True)))


def inside(length):
    return primed(env_of(length))


LENGTHS = [2, 4]
OWN = {"create_env_kwargs": [{"length": n} for n in LENGTHS]}
HOWS = {
    "native batch": lambda: primed(CountingEnv(max_steps=2, batch_size=[2])),  # the second row lives a step longer
    "over a series": lambda: primed(SerialEnv(2, env_of, **OWN)),
    "over processes": lambda: primed(ParallelEnv(2, env_of, **OWN)),
    "over pipes": lambda: primed(ParallelEnv(2, env_of, num_processes=1, use_buffers=False, **OWN)),
    "over threads": lambda: primed(AsyncEnvPool([env_of] * 2, **OWN)),
    "in a series": lambda: SerialEnv(2, inside, **OWN),
    "in processes": lambda: ParallelEnv(2, inside, **OWN),
    "in one process": lambda: ParallelEnv(2, inside, num_processes=1, **OWN),
    "through pipes": lambda: ParallelEnv(2, inside, num_processes=1, use_buffers=False, **OWN),
    "in threads": lambda: AsyncEnvPool([inside] * 2, **OWN),
    "in asynchronous processes": lambda: AsyncEnvPool([inside] * 2, backend="multiprocessing", **OWN),
}


def lengths(how):
    return [2, 3] if how == "native batch" else LENGTHS


COUNTER = TensorDictModule(
    lambda seen, h: (torch.ones_like(seen), h + 1), in_keys=["observation", "h"], out_keys=["action", ("next", "h")]
)
"""Counts the steps of the episode in its hidden state."""


@pytest.mark.parametrize("how", HOWS)
def test_the_next_step_starts_from_what_the_policy_wrote(how):
    env = HOWS[how]()
    data = env.rollout(STEPS, COUNTER, break_when_any_done=False)
    by_hand = [[float(t % n) for t in range(STEPS)] for n in lengths(how)]
    assert data["h"].squeeze(-1).tolist() == by_hand
    assert data["next", "h"].squeeze(-1).tolist() == [[t + 1 for t in row] for row in by_hand]
    assert torch.equal(data["h"], data["observation"])  # which counts too
    td = env.reset()
    for t in range(STEPS):  # the same by hand
        step, td = env.step_and_maybe_reset(COUNTER(td))
        assert step["h"].flatten().tolist() == [row[t] for row in by_hand]
        assert step["next", "h"].flatten().tolist() == [row[t] + 1 for row in by_hand]
    td = env.step(COUNTER(env.reset()))
    assert env.step_mdp(td)["h"].flatten().tolist() == [1, 1]
    env.close()


def test_one_env_and_rows_that_wait():
    assert inside(3).rollout(5, COUNTER, break_when_any_done=False)["h"].flatten().tolist() == [0, 1, 2, 0, 1]
    env = primed(SerialEnv(2, CountingEnv))
    td = COUNTER(env.reset()).set("_step", torch.tensor([True, False]))
    assert env.step(td)["next", "h"].flatten().tolist() == [1, 0]


def test_what_a_policy_writes_at_the_root_stays():
    policy = TensorDictModule(lambda s, h: (s + 1, h + 1), in_keys=["observation", "h"], out_keys=["action", "h"])
    data = inside(3).rollout(5, policy, break_when_any_done=False)
    assert data["next", "h"].flatten().tolist() == [1, 2, 3, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("buffers", [None, False])
def test_hidden_states_of_agents_reach_children_in_processes(buffers):
    key = ("agents", "h")
    policy = TensorDictModule(
        lambda seen, h: (torch.zeros(*seen.shape[:-1], 2), h + torch.tensor([[1.0], [2.0], [3.0]])),
        in_keys=[("agents", "observation"), key],
        out_keys=[("agents", "action"), ("next", *key)],
    )

    def make():
        spec = Composite(agents=Composite(h=Unbounded((3, 1)), shape=[3]))
        return TransformedEnv(GroupedEnv(terminate={f"agent_{i}": 2 for i in range(3)}), TensorDictPrimer(spec))

    env = ParallelEnv(2, make, use_buffers=buffers)
    data = env.rollout(4, policy, break_when_any_done=False)
    assert data[key][0].squeeze(-1).tolist() == [[0, 0, 0], [1, 2, 3], [0, 0, 0], [1, 2, 3]]
    env.close()


def recurrent(kind):
    """TorchRL's module of a kind with a policy on top, its states, and the cell that it is made of."""
    modules = pytest.importorskip("torchrl.modules")
    torch.manual_seed(0)
    sizes, seen = {"input_size": 1, "hidden_size": 2}, ["observation"]
    if kind == "GRU":
        net = modules.GRUModule(**sizes, in_keys=[*seen, "h", "is_init"], out_keys=["feature", ("next", "h")])
        cell, states = net.gru, ["h"]
    else:
        outs = ["feature", ("next", "h"), ("next", "c")]
        net = modules.LSTMModule(**sizes, in_keys=[*seen, "h", "c", "is_init"], out_keys=outs)
        cell, states = net.lstm, ["h", "c"]
    head = TensorDictModule(lambda x: x.sum(-1, keepdim=True), in_keys=["feature"], out_keys=["action"])
    return TensorDictSequential(net, head), {name: Unbounded((1, 2)) for name in states}, cell


@pytest.mark.reference
@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
@pytest.mark.parametrize("how", ["over a series", "over processes", "in a series", "in processes", "in threads"])
def test_torchrls_modules_carry_their_state_through_an_episode(kind, how):
    policy, states, cell = recurrent(kind)

    def make(length=4):
        return primed(env_of(length), **states)

    pools = {
        "over a series": lambda: primed(SerialEnv(2, env_of, **OWN), **states),
        "over processes": lambda: primed(ParallelEnv(2, env_of, **OWN), **states),
        "in a series": lambda: SerialEnv(2, make, **OWN),
        "in processes": lambda: ParallelEnv(2, make, **OWN),
        "in threads": lambda: AsyncEnvPool([make] * 2, **OWN),
    }
    env = pools[how]()
    with torch.no_grad():
        data = env.rollout(STEPS, policy, break_when_any_done=False)
        for row, length in zip(data, LENGTHS, strict=True):
            for start in range(0, STEPS, length):  # an episode that the cell reads in one go
                seen = row["observation"][start : start + length]
                assert seen.flatten().tolist() == list(range(length))
                features = cell(seen[None])[0][0]
                assert row["h"][start].any().item() is False
                torch.testing.assert_close(row["next", "h"][start : start + length, 0], features)
                torch.testing.assert_close(row["h"][start + 1 : start + length, 0], features[:-1])
    env.close()
