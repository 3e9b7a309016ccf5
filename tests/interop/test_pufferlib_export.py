"""Our envs as native envs of PufferLib, and by its emulation: our numbers, its pools of processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import marlenv
from marlenv import to_pufferlib
from marlenv.errors import EnvClosed, GroupError, NeedsReset, ShapeError, SpecError, SpecTypeError
from marlenv.testing.mocks import GroupedEnv

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
pufferlib = pytest.importorskip("pufferlib", reason="needs PufferLib: VENV=.venv tests/simulators.sh pufferlib")
from pufferlib import emulation, vector  # noqa: E402 -- where it is installed


def spread(num_envs: int | None = 4, **options: Any) -> Any:
    return marlenv.make("simple_spread", num_envs=num_envs, compile="none", **{"max_steps": 7, **options})


def made(buf: Any = None, seed: int = 0) -> Any:
    """What PufferLib's pools call, in each process."""
    return to_pufferlib(spread(2), buf)


def test_numbers_are_those_of_our_env() -> None:
    theirs, env = to_pufferlib(spread()), spread()
    assert isinstance(theirs, pufferlib.PufferEnv)
    env.set_seed(5)
    td, (observations, _) = env.reset(), theirs.reset(seed=5)
    paid = torch.zeros(12, dtype=torch.float64)
    for step in range(20):
        assert np.array_equal(observations, td["agents", "observation"].reshape(12, 14).numpy()), step
        action = torch.rand(12, 2, generator=torch.Generator().manual_seed(step)) * 2 - 1
        observations, rewards, terminals, truncations, infos = theirs.step(action.numpy())
        assert observations is theirs.observations
        data, td = env.step_and_maybe_reset(td.set(("agents", "action"), action.view(4, 3, 2)))
        assert np.array_equal(rewards, data["next", "agents", "reward"].reshape(12).numpy())
        over = (step + 1) % 7 == 0
        assert (truncations.all(), truncations.any(), terminals.any()) == (over, over, False)
        paid += data["next", "agents", "reward"].reshape(12)
        assert len(infos) == 12 * over
        if over:
            assert [info["episode_length"] for info in infos] == [7] * 12
            assert [info["episode_return"] for info in infos] == pytest.approx(paid.tolist(), abs=1e-4)
            paid.zero_()
    assert theirs.masks.all()


def test_an_agent_that_dies_is_done_once_and_masked() -> None:
    env = to_pufferlib(GroupedEnv({"sheep": ["s0", "s1"]}, terminate={"s0": 2}, truncate={"s1": 4}, rule="all"))
    env.reset()
    steps = []
    for _ in range(5):
        *_, terminals, truncations, infos = env.step(np.zeros((2, 2), np.float32))
        steps.append((terminals.tolist(), truncations.tolist(), env.masks.tolist(), len(infos)))
    assert steps == [
        ([False, False], [False, False], [True, True], 0),
        ([True, False], [False, False], [False, True], 0),
        ([False, False], [False, False], [False, True], 0),
        ([False, False], [False, True], [True, True], 2),
        ([False, False], [False, False], [True, True], 0),
    ]


def test_masks_and_observations_are_one_vector() -> None:
    """As PufferLib's emulation makes it of dicts, and reads it again; only legal moves are ever played."""
    theirs, env = (
        to_pufferlib(marlenv.make("connect_four", num_envs=3, opponent="random")),
        marlenv.make("connect_four", num_envs=3, opponent="random"),
    )
    env.set_seed(1)
    td, (observations, _) = env.reset(), theirs.reset(seed=1)
    group = env.action_key[0]
    dtype = emulation.dtype_from_space(theirs._face.observation_space)
    for _ in range(30):
        fields = observations.view(dtype).reshape(3)
        for name in ("observation", "action_mask"):
            assert np.array_equal(fields[name], td[group, name][:, 0].numpy())
        actions = fields["action_mask"].argmax(-1)
        observations = theirs.step(actions)[0]
        td = env.step_and_maybe_reset(td.set(env.action_key, torch.from_numpy(actions).unsqueeze(-1)))[1]


def test_its_pools_of_processes_play_our_envs() -> None:
    pool = vector.make(made, backend=vector.Multiprocessing, num_envs=2, num_workers=2, overwork=True)
    try:
        observations, _ = pool.reset(seed=3)
        assert observations.shape == (12, 14)
        ends = [bool(pool.step(np.zeros((12, 2), np.float32))[3].all()) for _ in range(8)]
        assert ends == [False] * 6 + [True, False]
    finally:
        pool.close()
    native = vector.make(made, backend=pufferlib.PufferEnv)
    assert native.reset(seed=3)[0].shape == (6, 14)


def test_its_emulation_takes_our_other_exports() -> None:
    """Of one group by PettingZoo's interface, of one agent by Gymnasium's, in series."""

    def zoo() -> Any:
        return emulation.PettingZooPufferEnv(marlenv.to_pettingzoo_parallel(spread(None)))

    pool = vector.make(zoo, backend=vector.Serial, num_envs=2)
    env = spread(None)
    env.set_seed(4)
    assert np.array_equal(pool.reset(seed=4)[0][:3], env.reset()["agents", "observation"][0].numpy())
    for _ in range(9):
        pool.step(np.zeros((6, 2), np.float32))

    def one() -> Any:
        inner = marlenv.make("navigation", n_agents=1, compile="none", max_steps=5)
        return emulation.GymnasiumPufferEnv(marlenv.to_gymnasium(inner))

    pool = vector.make(one, backend=vector.Serial, num_envs=2)
    assert pool.reset(seed=0)[0].shape == (2, 18)
    for _ in range(9):
        pool.step(np.zeros((2, 2), np.float32))


def closed() -> Any:
    env = spread()
    theirs = to_pufferlib(env)
    env.close()
    return theirs.reset()


def stepped(count: int) -> Any:
    env = to_pufferlib(spread())
    env.reset()
    return env.step(np.zeros((count, 2), np.float32))


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: to_pufferlib("simple_spread"), SpecTypeError, "to_pufferlib: expected an env of marlenv, got str"),
        (lambda: to_pufferlib(marlenv.make("simple_tag")), SpecTypeError, "one group, acts, got actions"),
        (lambda: to_pufferlib(marlenv.make("simple_speaker_listener", group_map="ALL_IN_ONE_GROUP")), GroupError,
         "agents of group 'agents' differ"),
        (lambda: to_pufferlib(marlenv.make("chess", opponent="random")), SpecError, "'white' must be bool .4672."),
        (lambda: to_pufferlib(spread()).step(np.zeros((12, 2))), NeedsReset, "reset"),
        (lambda: stepped(3), ShapeError, "expected 12 actions, one for each agent, got 3"),
        (closed, EnvClosed, "closed"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()
