"""All public names of groups, envs, transforms and vector stand in the catalogue, and what stands there works."""

from __future__ import annotations

import enum
import inspect
from functools import cache

import marlenv.groups
import pytest
from scripted_actions import equal
from sizes import first

import marlenv.envs
import marlenv.transforms
import marlenv.vector
from marlenv import EnvBase, TransformedEnv
from marlenv.testing.catalogue import envs, groups, transforms


def public_classes(room):
    found = {name: getattr(room, name) for name in room.__all__}  # a path of TorchRL's lists what it has there, too
    return {name: it for name, it in found.items() if inspect.isclass(it) and it.__module__.startswith(room.__name__)}


def leaves(transform):
    return transform.leaves() if isinstance(transform, marlenv.Compose) else [transform]


@cache
def listed():
    made = {type(example.make()) for example in envs.ENVS} | {type(example.make()) for example in transforms.TRANSFORMS}
    made |= {type(leaf) for one in transforms.TRANSFORMS for leaf in leaves(one.make())}
    made |= {type(make()) for make in transforms.STORED} | set(transforms.ABSTRACT)
    return made | set(groups.EXAMPLES) | set(envs.HELPERS) | set(envs.ABSTRACT) | set(transforms.ENVS)


@pytest.mark.parametrize("room", [marlenv.groups, marlenv.envs, marlenv.transforms, marlenv.vector])
def test_every_public_class_is_in_a_list(room):
    missing = [name for name, it in public_classes(room).items() if it not in listed()]
    assert missing == [], f"add examples of {missing} to marlenv/testing/catalogue"


def test_a_class_in_no_list_is_found():
    """The gate works: a planted class is missed."""

    class Planted(EnvBase):
        pass

    assert Planted not in listed()
    assert public_classes(marlenv.vector)["SerialEnv"] is marlenv.SerialEnv


def test_abstract_classes_are_abstract():
    for it in envs.ABSTRACT:
        assert inspect.isabstract(it), it


@pytest.mark.parametrize(("kind", "make"), [*groups.EXAMPLES.items(), *envs.HELPERS.items()])
def test_examples_are_of_their_class(kind, make):
    assert isinstance(make(), kind)
    assert not issubclass(kind, enum.Enum) or make() in list(kind)


NAMES = [e.name for e in envs.ENVS]
ENVS = pytest.mark.parametrize("example", envs.ENVS, ids=NAMES)
SOME = pytest.mark.parametrize("example", first(envs.ENVS, 3), ids=NAMES)


@ENVS
def test_every_env_gives_what_its_specs_say(example):
    env = example.make()
    env.set_seed(0)
    env.check_env_specs(break_when_any_done="both")
    assert set(env.fake_tensordict().keys(True)) >= set(env.reset().keys(True))
    assert len(str(env.specs).splitlines()) < 80


@ENVS
def test_equal_seeds_give_equal_rollouts(example):
    made = []
    for _ in range(2):
        env = example.make()
        env.set_seed(7)
        made.append(env.rollout(5, break_when_any_done=False))
    assert equal(*made)


@SOME
def test_every_transform_fits_every_env_that_it_is_for(example):
    tried = 0
    for one in transforms.TRANSFORMS:
        if not one.suits(example.make()):
            continue
        base = example.make()
        env = TransformedEnv(base, one.make())
        env.set_seed(0)
        env.check_env_specs(break_when_any_done="both")
        rollout = env.rollout(4, break_when_any_done=False)
        assert rollout.batch_size[-1] == 4
        tried += 1
    assert tried >= 3


def test_every_transform_is_for_some_env_of_the_catalogue():
    made = [e.make() for e in envs.ENVS]
    assert [t.name for t in transforms.TRANSFORMS if not any(map(t.suits, made))] == []
