"""Constructors take what torchrl 0.14.1's take, under the same names, in the same order, with the same defaults."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torchrl_oracle

import marlenv

pytestmark = pytest.mark.reference
theirs_of = torchrl_oracle.envs.transforms
SHARED = [name for name in marlenv.transforms.__all__ if hasattr(theirs_of, name)]
LACKING = {
    ("CatFrames", "future"): "windows that look ahead are for stored data; newer than the documents",
    ("CatFrames", "mask_key"): "the same",
    ("VecNorm", "new_api"): "ask for VecNormV2 by its name",
}
"""What ours lack, and why."""


def parameters(kind: Any) -> dict[str, inspect.Parameter]:
    found = inspect.signature(kind.__init__).parameters
    return {n: p for n, p in found.items() if n != "self" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


@pytest.mark.parametrize("name", SHARED)
def test_constructors_take_what_torchrls_take(name: str) -> None:
    theirs, ours = parameters(getattr(theirs_of, name)), parameters(getattr(marlenv, name))
    if name in ("VIPRewardTransform", "TransformedEnv"):  # which hand everything on
        return
    lacking = [n for n in theirs if n not in ours and (name, n) not in LACKING]
    assert lacking == []
    given = [n for n, p in theirs.items() if p.kind is p.POSITIONAL_OR_KEYWORD and n in ours]
    assert [n for n in ours if n in given][: len(given)] == given
    for n in given:
        required = theirs[n].default is inspect.Parameter.empty
        assert required or ours[n].default is not inspect.Parameter.empty, n
    plain = (bool, int, float, str)
    differ = {
        n: (theirs[n].default, ours[n].default) for n in theirs if n in ours and isinstance(theirs[n].default, plain)
    }
    assert {n: pair for n, pair in differ.items() if repr(pair[0]) != repr(pair[1])} == {}
