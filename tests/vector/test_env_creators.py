"""Creators know their envs before they make them."""

from __future__ import annotations

import pytest
import torch

from marlenv import Composite, EnvCreator, ParallelEnv, SerialEnv, env_creator, get_env_metadata
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
