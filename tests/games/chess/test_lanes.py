"""Lanes of words inside what numba compiles, against Python's integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="lanes are what numba compiles")

import numba

from marlenv.games.chess.fast.lanes import eight, four, joined, lane, put, rotated, total, twice, where

ALL = 2**64 - 1
U = np.uint64
words = st.lists(st.sampled_from([0, 1, ALL, 1 << 63]) | st.integers(0, ALL), min_size=8, max_size=8)


@numba.njit
def _of_both(a, b, by, word, out):
    x, y, turns = eight(a, 0), eight(b, 0), eight(by, 0)
    results = (
        x & y,
        x | y,
        x ^ y,
        x + y,
        x - y,
        x * y,
        x >> turns,
        ~x,
        rotated(x, turns),
        rotated(word, turns),
        where(x & y, y),
        x & word,
        word - x,
        twice(four(a, 3)),
    )
    for i, result in enumerate(results):
        put(result, out, 8 * i, 8 * i + 4)
    changed = x
    changed |= y
    changed &= word
    changed ^= x
    changed += y
    put(changed, out, 8 * 14 + 4, 8 * 14)  # the halves the other way around
    return joined(x), total(x), lane(x, 5)


def _turn(word, by):
    return (word >> by | word << 64 - by) & ALL


@settings(max_examples=100, deadline=None)
@given(words, words, st.lists(st.integers(0, 63), min_size=8, max_size=8), st.integers(0, ALL))
def test_lanes_count_as_integers_do(a, b, by, word):
    out = np.zeros(8 * 15, dtype=U)
    bits, added, sixth = _of_both(*(np.array(part, dtype=U) for part in (a, b, by)), U(word), out)
    three = list(zip(a, b, by, strict=True))
    changed = [(((x | y) & word ^ x) + y) & ALL for x, y, _ in three]
    want = [
        [x & y for x, y, _ in three],
        [x | y for x, y, _ in three],
        [x ^ y for x, y, _ in three],
        [(x + y) & ALL for x, y, _ in three],
        [(x - y) & ALL for x, y, _ in three],
        [x * y & ALL for x, y, _ in three],
        [x >> turn for x, _, turn in three],
        [~x & ALL for x in a],
        [_turn(x, turn) for x, _, turn in three],
        [_turn(word, turn) for turn in by],
        [y if x & y else 0 for x, y, _ in three],
        [x & word for x in a],
        [(word - x) & ALL for x in a],
        a[3:7] * 2,
        changed[4:] + changed[:4],
    ]
    assert out.reshape(-1, 8).tolist() == want
    together = 0
    for x in a:
        together |= x
    assert (bits, added, sixth) == (together, sum(a) & ALL, a[5])
