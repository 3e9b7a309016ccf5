"""Agents that act, and agents that only watch, cannot be one group."""

from __future__ import annotations

import pytest

import marlenv
from marlenv import RegroupTransform, TransformedEnv
from marlenv.errors import GroupError


def test_a_group_of_agents_of_whom_some_have_no_action_is_refused() -> None:
    env = marlenv.make("tic_tac_toe", opponent="random", num_envs=2)
    with pytest.raises(GroupError, match=r"group .all.: agents \[.o.\] have none of .*.action.* that \[.x.\]"):
        TransformedEnv(env, RegroupTransform({"all": ["x", "o"]}))


@pytest.mark.parametrize(
    ("options", "groups"),
    [({"opponent": "random"}, {"me": ["x"], "them": ["o"]}), ({}, {"all": ["x", "o"]})],
    ids=["apart", "both act"],
)  # fmt: skip
def test_agents_that_are_alike_or_apart_are_regrouped(options, groups) -> None:
    env = TransformedEnv(marlenv.make("tic_tac_toe", num_envs=2, **options), RegroupTransform(groups))
    data = env.rollout(3)
    assert env.group_map == groups
    assert data.batch_size[:1] == (2,)
