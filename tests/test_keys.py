"""Nested keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensordict import unravel_key

from marlenv import keys

names = st.text("abc_", min_size=1, max_size=3)
paths = st.lists(names, min_size=1, max_size=4).map(tuple)


@given(parts=paths)
def test_a_key_and_its_path_say_the_same(parts):
    key = keys.nested(parts)
    assert keys.path(key) == parts
    assert unravel_key(parts) == key
    assert keys.last(key) == parts[-1]
    assert keys.level(key) == parts[:-1]
    assert keys.path(keys.beside(key, "x")) == (*parts[:-1], "x")


@given(prefix=paths, parts=paths)
def test_a_prefix_goes_in_front(prefix, parts):
    assert keys.path(keys.under(keys.nested(prefix), keys.nested(parts))) == prefix + parts
    assert keys.path((prefix, parts)) == prefix + parts


@given(st.lists(paths.map(keys.nested), unique=True, max_size=6))
def test_keys_come_from_the_root_down(some):
    ordered = keys.by_depth(some)
    assert sorted(ordered, key=str) == sorted(some, key=str)
    depths = [len(keys.path(k)) for k in ordered]
    assert depths == sorted(depths)


@given(st.sets(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=5))
def test_a_tree_of_keys_and_back(some):
    tree = keys.as_tree(some)
    assert set(keys.flatten(tree)) == some
    assert all(v is None for v in keys.flatten(tree).values())


def test_what_is_no_key_is_refused():
    with pytest.raises(TypeError, match=r"a nested key is a string or a tuple of strings, got 3"):
        keys.path(3)
    with pytest.raises(TypeError, match=r"got None"):
        keys.path(("a", None))
