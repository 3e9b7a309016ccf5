"""Whether the data of an env have the shapes and dtypes that its specs say; looked at in workers, env by env."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.envs import EnvBase
from marlenv.errors import SpecError
from marlenv.keys import Path, nested, path
from marlenv.specs import NonTensor, Stacked
from marlenv.tensordicts import fetch

Leaf = tuple[Path, Size, torch.dtype]


class Fit:
    """What the data of an env must be like.

    Args:
        env: the env, with the specs that it has now.

    >>> env = marlenv.testing.CountingEnv()
    >>> Fit(env).check(env.reset().set("observation", torch.zeros(3)))
    Traceback (most recent call last):
    marlenv.errors.SpecError: CountingEnv: entry 'observation' must be torch.float32 [1] as its spec says, got ...
    """

    def __init__(self, env: EnvBase) -> None:
        self.who, self.plan = type(env).__name__, env.plan
        self.leaves: list[Leaf] = []
        for spec in (env.full_observation_spec, env.full_reward_spec, env.full_done_spec):
            for key, leaf in spec.items(True, True):
                odd = isinstance(leaf, (NonTensor, Stacked)) or leaf.dtype is None or -1 in leaf.shape
                if not odd:
                    self.leaves.append((path(key), leaf.shape, leaf.dtype))

    def check(self, td: TensorDictBase) -> TensorDictBase:
        """The data themselves.

        Raises:
            SpecError: an entry has another shape or dtype than its spec says.
        """
        for where, shape, dtype in self.leaves:
            value: Any = fetch(td, where)
            if isinstance(value, Tensor) and (value.shape != shape or value.dtype != dtype) and not value.is_nested:
                raise SpecError(
                    f"{self.who}: entry {nested(where)!r} must be {dtype} {list(shape)} as its spec says, got "
                    f"{value.dtype} {list(value.shape)}"
                )
        return td
