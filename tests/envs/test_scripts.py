"""Scripts of TorchRL's kinds, run by both libraries from one text: only ``torchrl`` becomes ``marlenv``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import is_tensor_collection
from twin_envs import assert_same_data

pytestmark = pytest.mark.reference
SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))


def ran(script: Path, library: str) -> Any:
    """What a script's ``run`` returns, in one of the two libraries."""
    text = script.read_text().replace("torchrl", library)
    scope: dict[str, Any] = {"__name__": f"{script.stem}_{library}"}
    with warnings.catch_warnings():
        if library == "torchrl":
            warnings.simplefilter("ignore")
        for simulator in ("pettingzoo", "pygame", "gymnasium", "vmas"):
            warnings.filterwarnings("ignore", module=simulator)
        exec(compile(text, f"{script.name} ({library})", "exec"), scope)
        return scope["run"]()


def assert_same(theirs: Any, ours: Any, where: tuple[Any, ...] = ()) -> None:
    if is_tensor_collection(theirs) or isinstance(theirs, torch.Tensor):
        assert_same_data(theirs, ours, where)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs), where
        for key in theirs:
            assert_same(theirs[key], ours[key], (*where, key))
    elif isinstance(theirs, list | tuple) and type(theirs) is type(ours):
        assert len(ours) == len(theirs), (where, ours, theirs)
        for i, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            assert_same(one, other, (*where, i))
    else:
        assert ours == theirs, (where, ours, theirs)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_both_libraries_give_the_same(script: Path) -> None:
    assert_same(ran(script, "torchrl"), ran(script, "marlenv"))


def test_there_are_twenty() -> None:
    assert len(SCRIPTS) >= 20
    for script in SCRIPTS:
        assert 20 <= len(script.read_text().splitlines()) <= 75, script.name
        assert "marlenv" not in script.read_text(), script.name


def test_a_planted_difference_is_found() -> None:
    script = next(path for path in SCRIPTS if path.stem == "seed_chains")
    theirs, ours = ran(script, "torchrl"), ran(script, "marlenv")
    ours["chain"][2] += 1
    with pytest.raises(AssertionError, match="chain"):
        assert_same(theirs, ours)
