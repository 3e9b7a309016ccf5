"""The catalogue of specs is complete, and the strategies draw what they say."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import find
from hypothesis import strategies as st
from laws import given

import marlenv.specs
from marlenv import Composite, NonTensor, TensorSpec
from marlenv.errors import MissingExtra
from marlenv.specs.bounded import Range
from marlenv.specs.composite_values import CompositeValues
from marlenv.specs.discrete import Discrete
from marlenv.specs.lazy_stack import LazyStack
from marlenv.testing.catalogue.specs import SPECS, inside
from marlenv.testing.strategies import anything, group_maps, leaves, masks_of, shapes, specs, values

ABSTRACT = {TensorSpec, CompositeValues, Discrete, LazyStack, Range}


def subclasses(kind: type) -> set[type]:
    return {kind}.union(*(subclasses(sub) for sub in kind.__subclasses__()))


def test_every_spec_class_is_in_the_catalogue():
    known = {kind for example in SPECS for kind in example.classes()}
    ours = {kind for kind in subclasses(TensorSpec) if kind.__module__.startswith("marlenv.")}
    assert ours - ABSTRACT == known


def test_every_public_spec_class_is_in_the_catalogue():
    public = {getattr(marlenv.specs, name) for name in marlenv.specs.__all__}
    known = {kind for example in SPECS for kind in example.classes()}
    assert {kind for kind in public if issubclass(kind, TensorSpec)} - {TensorSpec} <= known


def test_every_public_name_shows_an_example():
    assert all(">>> " in (getattr(marlenv.specs, name).__doc__ or "") for name in marlenv.specs.__all__)


def test_names_are_unique():
    names = [example.name for example in SPECS]
    assert len(names) == len(set(names))


def test_examples_are_made_anew():
    assert all(example.make() is not example.make() for example in SPECS)


FORMS = {
    "a mask": lambda s: bool(masks_of(s)),
    "a dynamic dimension": lambda s: -1 in s.shape,
    "infinite bounds": lambda s: hasattr(s, "low") and bool(s.low.isinf().any()),
    "batch dimensions": lambda s: s.batch_ndim > 0,
    "no dimensions": lambda s: s.shape == (),
    "an empty shape": lambda s: 0 in s.shape,
    "nesting": lambda s: isinstance(s, Composite) and any(isinstance(v, Composite) for v in s.values()),
    "names": lambda s: isinstance(s, Composite) and s.names != [None] * s.ndim,
    **{
        str(d)[6:]: lambda s, d=d: s.dtype == d
        for d in (torch.bool, torch.uint8, torch.int64, torch.float64, torch.float16, torch.bfloat16)
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_in_the_catalogue(form):
    assert any(FORMS[form](spec) for example in SPECS for spec in inside(example.make()))


@given(st.data())
def test_strategies_draw_what_they_say(data):
    shape = data.draw(shapes(2, 3))
    spec = data.draw(specs(shape))
    assert spec.shape[: len(shape)] == shape
    assert spec.is_in(data.draw(values(spec)))
    leaf = data.draw(leaves(shape, tensors_only=True))
    assert not isinstance(leaf, (Composite, NonTensor))
    assert data.draw(anything(leaf)).shape == leaf.shape


@given(group_maps())
def test_group_maps_hold_every_agent_once(drawn):
    agents, groups = drawn

    def members(node) -> list[str]:
        return node if isinstance(node, list) else [a for below in node.values() for a in members(below)]

    assert sorted(members(groups)) == sorted(agents)
    assert len(agents) == len(set(agents))


def test_group_maps_reach_depth_three():
    deep = find(
        group_maps(),
        lambda drawn: any(
            isinstance(v, dict) and any(isinstance(w, dict) for w in v.values()) for v in drawn[1].values()
        ),
    )
    assert deep


@pytest.mark.slow
def test_strategies_say_how_to_install_hypothesis():
    code = "import sys; sys.modules['hypothesis'] = None\nimport marlenv.testing.strategies"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert MissingExtra.__name__ in done.stderr
    assert 'pip install "marlenv-torch[test]"' in done.stderr
