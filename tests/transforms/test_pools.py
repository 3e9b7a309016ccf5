"""Transforms around pools of envs in processes and threads: the same entries as around a series in this process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import sizes
from tensordict import TensorDict

from marlenv import AsyncEnvPool, EnvBase, ParallelEnv, SerialEnv, TransformedEnv
from marlenv.specs import Composite
from marlenv.testing.catalogue import envs, transforms
from marlenv.testing.comparison import differences
from marlenv.testing.mocks import CountingEnv

PICTURES = next(one.make for one in envs.ENVS if one.name == "pictures")
MAKERS = {
    "numbers": [partial(CountingEnv, n) for n in (2, 3, 2)],  # which do not all end at once
    "pictures": [PICTURES, PICTURES],
}
SUITS = {"numbers": CountingEnv(2, batch_size=[3]), "pictures": PICTURES()}
CASES = [(kind, one) for kind, env in SUITS.items() for one in transforms.TRANSFORMS if one.suits(env)]
POOLS = {
    "processes": lambda kind: ParallelEnv(len(MAKERS[kind]), MAKERS[kind]),
    "threads": lambda kind: AsyncEnvPool(MAKERS[kind]),
    "processes, each in its own time": lambda kind: AsyncEnvPool(MAKERS[kind], backend="multiprocessing"),
}


@pytest.fixture(scope="module", params=POOLS)
def pools(request: pytest.FixtureRequest) -> Iterator[dict[str, EnvBase]]:
    envs = {kind: POOLS[request.param](kind) for kind in MAKERS}
    yield envs
    for env in envs.values():
        env.close()


def first(number: Any) -> int:
    """Of however many steps and rows."""
    while isinstance(number, list):
        number = number[0]
    return int(number)


def played(env: EnvBase) -> TensorDict:
    env.set_seed(3)

    def half(td: TensorDict) -> TensorDict:
        spec: Composite = env.full_action_spec
        return td.update({key: leaf.project(leaf.zero() + 0.5) for key, leaf in spec.items(True, True)})

    data = env.rollout(7, half, break_when_any_done=False)
    for place in (data, data["next"]):
        if "env_index" in place.keys():
            assert [first(one) for one in place["env_index"]] == list(range(len(data)))
    where = [key for key in data.keys(True, True) if "time_" in str(key)]
    return data.exclude("env_index", ("next", "env_index"), *where)


@pytest.mark.parametrize(("kind", "one"), sizes.first(CASES, 3), ids=lambda value: getattr(value, "name", value))
def test_around_a_pool_is_around_a_series(kind: str, one: Any, pools: dict[str, EnvBase]) -> None:
    series = SerialEnv(len(MAKERS[kind]), MAKERS[kind])
    around_both = [TransformedEnv(env, one.make()) for env in (pools[kind], series)]
    assert not differences(*map(played, around_both))
    assert around_both[0].observation_spec == around_both[1].observation_spec
