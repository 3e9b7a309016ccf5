"""What every vectorised env is: children of one kind side by side along the first batch dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from marlenv.envs import EnvBase
from marlenv.envs.access import SIDE
from marlenv.errors import SpecError, whole

MakeEnv = Callable[..., EnvBase]


class BatchedEnv(EnvBase):
    """Several envs as one, with one more batch dimension in front. Abstract.

    Attributes that a batched env does not have are asked of the children: ``env.gravity`` is a list with one value per
    child, and ``env.some_method(1)`` calls the method of every child and returns the list of answers.

    Args:
        num_workers: how many children.
        create_env_fn: makes a child; or a list with one such function per child.
        create_env_kwargs: keyword arguments for it; or a list with one dict per child.
        device: where the data live; that of the children when left out.
    """

    handles_partial_steps = True

    def __init__(
        self,
        num_workers: int,
        create_env_fn: MakeEnv | Sequence[MakeEnv],
        *,
        create_env_kwargs: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
        device: torch.device | str | int | None = None,
    ) -> None:
        who = type(self).__name__
        whole(who, "num_workers", num_workers, 1)
        makers = list(create_env_fn) if isinstance(create_env_fn, Sequence) else [create_env_fn] * num_workers
        if odd := next((make for make in makers if isinstance(make, EnvBase) or not callable(make)), None):
            raise SpecError(f"{who}: create_env_fn must be a function that makes an env, got {type(odd).__name__}")
        given = create_env_kwargs or {}
        options = [dict(given)] * num_workers if isinstance(given, dict) else [dict(one) for one in given]
        for name, items in (("create_env_fn", makers), ("create_env_kwargs", options)):
            if len(items) != num_workers:
                raise SpecError(f"{who}: {num_workers} workers need {num_workers} entries in {name}, got {len(items)}")
        self._recipes = list(zip(makers, options, strict=True))
        self.num_workers = num_workers
        super().__init__(device=device)

    def _adopt(self, children: Sequence[EnvBase]) -> None:
        """Takes batch size, device and specs from the children."""
        who, first = type(self).__name__, children[0]
        if odd := next((child for child in children if not isinstance(child, EnvBase)), None):
            raise SpecError(f"{who}: create_env_fn must make an env, got {type(odd).__name__}")
        if other := next((child for child in children if child.batch_size != first.batch_size), None):
            raise SpecError(
                f"{who}: all children must have the batch size {list(first.batch_size)}, got {list(other.batch_size)}"
            )
        for kind in SIDE:
            mine = getattr(first, f"{kind}_keys")
            if stray := next((keys for c in children if (keys := getattr(c, f"{kind}_keys")) != mine), None):
                raise SpecError(f"{who}: the children must have the same {kind} entries, got {mine} and {stray}")
        if self.device is None and first.device is not None:
            self.device = first.device
        self.batch_size = (self.num_workers, *first.batch_size)
        for kind in SIDE:
            stacked = torch.stack([getattr(child, f"full_{kind}_spec") for child in children])
            setattr(self, f"full_{kind}_spec", stacked.clone())
        for name in ("group_map", "tree"):  # the same for all children, since their specs stack
            if (found := getattr(first, name, None)) is not None:
                setattr(self, name, found)
        self._allow_done_after_reset = any(child._allow_done_after_reset for child in children)

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seeds the children along the chain of seeds, each with the seed that the one before it returned.

        Returns:
            The seed that comes after the last child's.
        """
        super().set_seed(seed, static_seed)
        return self._last_seed

    _last_seed: int | None = None
