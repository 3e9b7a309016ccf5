"""The generators that belong to nobody: torch's, numpy's and Python's, put somewhere, watched, and put back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch


def states() -> dict[str, Any]:
    """The state of every global generator by name."""
    kind, keys, *rest = cast(tuple[Any, ...], np.random.get_state())
    found: dict[str, Any] = {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": (kind, keys.tobytes(), *rest),
        "random": random.getstate(),
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        for i, state in enumerate(torch.cuda.get_rng_state_all()):
            found[f"torch on cuda:{i}"] = state.numpy().tobytes()
    return found


def moved(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The generators that are elsewhere than before."""
    return [name for name, state in before.items() if after[name] != state]


def place(number: int) -> None:
    """Puts the global generators to a place that depends on ``number`` only, and that no seed leads to."""
    torch.default_generator.manual_seed(number)  # torch.manual_seed would ask for the GPUs too
    torch.rand(3)
    np.random.seed(number)
    np.random.rand(3)
    random.seed(number)
    random.random()


@contextmanager
def kept() -> Iterator[None]:
    """The global generators are afterwards where they were before."""
    ours, theirs, python = torch.get_rng_state(), np.random.get_state(), random.getstate()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        torch.set_rng_state(ours)
        np.random.set_state(theirs)
        random.setstate(python)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
