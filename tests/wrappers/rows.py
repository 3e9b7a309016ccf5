"""The law of wrappers of batched simulators: every row of every entry is what the raw simulator says."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def entry_of(env: Any, td: Any, agent: str, entry: Any) -> Any:
    """An agent's column of an entry, ``[B, ...]``."""
    path, i = env.tree.place[agent]
    group = td.get(path if len(path) > 1 else path[0])
    return group[:, i].get(entry)


def equal(got: torch.Tensor, want: Any, where: Any) -> None:
    want = np.asarray(want)
    got_array = got.numpy()
    assert np.array_equal(
        got_array, want.reshape(got_array.shape).astype(got_array.dtype), equal_nan=got_array.dtype.kind == "f"
    ), (where, got, want)
