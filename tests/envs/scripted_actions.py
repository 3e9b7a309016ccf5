"""Actions that depend on the call number only, so that two libraries are told the same."""

from __future__ import annotations

from typing import Any

import torch

from marlenv.testing.comparison import differences


class Script:
    """A policy that writes scripted actions for a full action spec of either library."""

    def __init__(self, env: Any, seed: int = 0) -> None:
        self.spec = env.full_action_spec
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, td: Any) -> Any:
        for key in self.spec.keys(True, True):
            leaf = self.spec[key]
            shape = (*td.batch_size[: td.ndim - self.spec.ndim], *leaf.shape)
            td.set(key, self.draw(leaf, shape))
        return td

    def draw(self, leaf: Any, shape: tuple[int, ...]) -> torch.Tensor:
        kind = type(leaf).__name__
        if kind == "Categorical":
            return torch.randint(0, leaf.space.n, shape, generator=self.generator).to(leaf.dtype)
        if kind == "OneHot":
            index = torch.randint(0, leaf.space.n, shape[:-1], generator=self.generator)
            return torch.nn.functional.one_hot(index, leaf.space.n).to(leaf.dtype)
        return torch.rand(shape, generator=self.generator) * 2 - 1


def equal(a: Any, b: Any) -> bool:
    """Whether two tensordicts have the same entries and values, unequal agents and texts too (NaN equals NaN)."""
    return not differences(a, b)
