"""Creators know their envs before they make them."""

from __future__ import annotations

from itertools import count

import pytest
import torch

import marlenv
from marlenv import (
    ActionScaling,
    Composite,
    EnvCreator,
    ObservationNorm,
    ParallelEnv,
    SerialEnv,
    TransformedEnv,
    env_creator,
    get_env_metadata,
)
from marlenv.errors import SpecError
from marlenv.testing import CountingEnv, GroupedEnv

MADE = []


class Noted(CountingEnv):
    """Notes that it was made."""

    def __init__(self, **options):
        MADE.append(options)
        super().__init__(**options)


def test_one_env_is_made_to_see_what_all_are():
    MADE.clear()
    creator = EnvCreator(Noted, {"max_steps": 3}, batch_size=[2])
    assert MADE == [{"batch_size": [2], "max_steps": 3}]
    assert creator.env_type is Noted
    assert creator.meta_data.batch_size == (2,)
    assert isinstance(creator.meta_data.specs, Composite)
    assert creator.meta_data.tensordict["next", "observation"].shape == (2, 1)
    env = ParallelEnv(2, creator)
    assert len(MADE) == 1
    assert env.rollout(2)["next", "observation"][:, 0].flatten().tolist() == [1, 2, 1, 2]
    env.close()
    assert SerialEnv(2, creator).max_steps == [3, 3]
    assert creator(max_steps=9).max_steps == 3  # what the creator was given comes first
    assert creator.make_variant(max_steps=4)().max_steps == 4
    assert creator().max_steps == 3
    assert repr(creator) == "EnvCreator(Noted(batch_size=[2], max_steps=3))"


def test_envs_begin_with_the_buffers_of_the_first():
    class Buffered(CountingEnv):
        def __init__(self):
            super().__init__()
            self.register_buffer("origin", torch.rand(()))

    creator = EnvCreator(Buffered)
    assert creator().origin == creator().origin
    creator.load_state_dict({"origin": torch.tensor(7.0)})
    assert creator().origin == creator.state_dict()["origin"] == 7
    env = ParallelEnv(2, creator)
    assert [x.item() for x in env.origin] == [7, 7]
    env.close()


def test_metadata_of_envs_and_of_functions():
    assert get_env_metadata(GroupedEnv()).specs == get_env_metadata(GroupedEnv).specs
    creator = env_creator(lambda: CountingEnv(batch_size=[3]))
    assert get_env_metadata(creator).batch_size == (3,)
    seen = []
    get_env_metadata(creator, env_validator=lambda env: seen.append(env.batch_size))
    assert seen == [(3,)]
    with pytest.raises(
        SpecError, match=r"get_env_metadata: the creator has the keyword arguments \{\}, got \{'a': 1\}"
    ):
        get_env_metadata(creator, {"a": 1})
    with pytest.raises(
        SpecError, match=r"EnvCreator: create_env_fn must be a function that makes an env, got CountingEnv"
    ):
        EnvCreator(CountingEnv())
    with pytest.raises(
        SpecError, match=r"EnvCreator: \['max_steps'\] are given twice, in create_env_kwargs and beside"
    ):
        EnvCreator(CountingEnv, {"max_steps": 3}, max_steps=4)
    with pytest.raises(SpecError, match=r"EnvCreator: create_env_fn must make an env, got int"):
        EnvCreator(lambda: 3)


def test_pools_begin_with_the_buffers_of_the_first():
    """Each of its children had statistics of its own."""
    locs = count(1)

    def shifted():
        norm = ObservationNorm(loc=float(next(locs)), scale=1.0, standard_normal=False)
        return TransformedEnv(CountingEnv(), norm)

    creator = EnvCreator(lambda: SerialEnv(2, shifted))
    assert creator().reset()["observation"].flatten().tolist() == [1, 2]
    state = creator.state_dict()
    state["worker1"] = {name: value + 5 for name, value in state["worker1"].items() if name.endswith("loc")}
    creator.load_state_dict(state)
    assert creator().reset()["observation"].flatten().tolist() == [1, 7]


def test_what_is_known_of_envs_follows_what_they_begin_with():
    """A pool had the bounds of actions of the first env until it started."""
    action = ("agents", "action")

    def scaled(scale=1.0):
        return marlenv.make("simple_spread").append_transform(ActionScaling(loc=0.0, scale=scale, in_keys_inv=[action]))

    creator = EnvCreator(scaled)
    creator.load_state_dict(scaled(2.0).state_dict())
    env = ParallelEnv(2, creator)
    for spec in (env.full_action_spec, creator.meta_data.specs["input_spec", "full_action_spec"]):
        assert spec[action].space.high.max() == 0.5
