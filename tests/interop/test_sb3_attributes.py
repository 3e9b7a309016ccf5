"""Attributes and methods of the children of pools, in Stable-Baselines3's vectorized envs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import marlenv
from marlenv import AsyncEnvPool, EnvBase, ParallelEnv, SerialEnv, TransformedEnv, to_sb3_vec_env
from marlenv.testing.mocks import GroupedEnv

pytestmark = [pytest.mark.slow, pytest.mark.reference]
pytest.importorskip("stable_baselines3", reason="needs Stable-Baselines3: VENV=.venv tests/simulators.sh sb3")


class Tuned(GroupedEnv):
    """An env of two agents with a number that can be set."""

    def __init__(self, mu: float = 0.1) -> None:
        super().__init__({"sheep": ["s0", "s1"]})
        self.mu = mu

    def set_mu(self, mu: float) -> float:
        self.mu, before = mu, self.mu
        return before


def stepped(mu: float) -> EnvBase:
    return TransformedEnv(Tuned(mu), marlenv.StepCounter())


POOLS: dict[str, Any] = {
    "serial": lambda makers: SerialEnv(2, makers),
    "serial, around": lambda makers: TransformedEnv(SerialEnv(2, makers), marlenv.RewardSum()),
    "pools": lambda makers: SerialEnv(1, lambda: SerialEnv(2, makers)),
    "parallel": lambda makers: ParallelEnv(2, makers, num_processes=1),
    "threads": AsyncEnvPool,
}


@pytest.mark.parametrize("maker", [Tuned, stepped])
@pytest.mark.parametrize("kind", POOLS)
def test_the_children_of_a_pool_have_attributes_of_their_own(kind: str, maker: Any) -> None:
    """As each env of Stable-Baselines3's own has; two agents of ours are two of its envs."""
    inner = POOLS[kind]([partial(maker, 0.3), partial(maker, 0.4)])
    made = to_sb3_vec_env(inner)
    assert made.get_attr("mu") == [0.3, 0.3, 0.4, 0.4]
    assert (
        made.get_attr("mu", indices=[2, 1]) == made.env_method("get_wrapper_attr", "mu", indices=[2, 1]) == [0.4, 0.3]
    )
    assert made.env_method("set_mu", 0.5) == [0.3, 0.3, 0.4, 0.4]
    assert made.get_attr("mu") == [0.5] * 4
    made.set_attr("mu", 0.7)
    assert made.get_attr("mu") == [0.7] * 4
    assert np.array(inner.mu).flatten().tolist() == [0.7, 0.7]  # what the pool itself is told of its children
    assert made.get_attr("group_map") == [inner.group_map] * 4
    with pytest.raises(AttributeError):
        made.get_attr("no_such_attribute")
    if isinstance(inner, SerialEnv) and kind == "serial":
        assert [getattr(child, "base_env", child).__dict__["mu"] for child in inner.children_envs] == [0.7, 0.7]
    made.close()


def test_an_attribute_is_set_where_it_is() -> None:
    inner = TransformedEnv(Tuned(), marlenv.RewardSum())
    made = to_sb3_vec_env(inner)
    made.set_attr("mu", 0.7)
    assert made.get_attr("mu") == [0.7] * 2
    assert inner.base_env.mu == 0.7
