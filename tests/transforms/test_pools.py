"""Transforms around pools of envs in processes: the same entries as around a series in this process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tensordict import TensorDict

from marlenv import EnvBase, ParallelEnv, SerialEnv, TransformedEnv
from marlenv.specs import Composite
from marlenv.testing.catalogue import transforms
from marlenv.testing.comparison import differences
from marlenv.testing.mocks import CountingEnv

PLAIN = [one for one in transforms.TRANSFORMS if one.suits(CountingEnv(2, batch_size=[3]))]


MAKERS = [partial(CountingEnv, n) for n in (2, 3, 2)]  # which do not all end at once


@pytest.fixture(scope="module")
def pool() -> Iterator[EnvBase]:
    env = ParallelEnv(3, MAKERS)
    yield env
    env.close()


def played(env: EnvBase) -> TensorDict:
    env.set_seed(3)

    def half(td: TensorDict) -> TensorDict:
        spec: Composite = env.full_action_spec
        return td.update({key: leaf.project(leaf.zero() + 0.5) for key, leaf in spec.items(True, True)})

    data = env.rollout(7, half, break_when_any_done=False)
    return data.exclude(*[key for key in data.keys(True, True) if "time_" in str(key)])


@pytest.mark.parametrize("one", PLAIN, ids=lambda one: one.name)
def test_around_a_pool_is_around_a_series(one: Any, pool: EnvBase) -> None:
    around_both = (TransformedEnv(env, one.make()) for env in (pool, SerialEnv(3, MAKERS)))
    assert not differences(*map(played, around_both))
