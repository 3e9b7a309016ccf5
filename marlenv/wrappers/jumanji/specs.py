"""Between Jumanji's specs and ours. Its kinds are known by their class's name, so nothing is imported."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from marlenv.errors import SpecError
from marlenv.optional import need
from marlenv.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)
from marlenv.wrappers._spaces import torch_dtype


def spec_of(spec: Any, *, categorical: bool | None = None) -> TensorSpec:
    """The spec of a spec of Jumanji's, without batch dimensions.

    Args:
        spec: of an observation or an action.
        categorical: of actions: choices as numbers; else one-hot.

    Raises:
        SpecError: a kind that is not known.
    """
    kinds = [cls.__name__ for cls in type(spec).__mro__]
    if "DiscreteArray" in kinds:
        n, dtype = int(spec.num_values), torch_dtype(spec.dtype)
        if categorical is None:
            # Jumanji's own spec leaves out -1, "none yet" (TSP's position), and n, a count at the time limit (Snake's)
            return Bounded(-1, n, (), dtype=dtype)
        return Categorical(n, dtype=dtype) if categorical else OneHot(n, dtype=dtype)
    if "MultiDiscreteArray" in kinds:
        nvec, dtype = torch.as_tensor(np.array(spec.num_values), dtype=torch.int64), torch_dtype(spec.dtype)
        if categorical is not False:
            return MultiCategorical(nvec, dtype=dtype, remove_singleton=False)
        return MultiOneHot(nvec.tolist(), dtype=dtype)
    if "Array" in kinds:
        return _array(spec, torch_dtype(spec.dtype), bounded="BoundedArray" in kinds)
    if hasattr(spec, "_specs"):
        return Composite({name: spec_of(part) for name, part in spec._specs.items()})
    raise SpecError(f"spec_of: no conversion for Jumanji's {type(spec).__name__}")


def fitted(spec: Any, value: Any) -> Any:
    """A value of a spec of Jumanji's in its dtypes, nested ones as dicts; with ``jax_enable_x64`` some envs have wider
    ones.
    """
    if parts := getattr(spec, "_specs", None):
        return {name: fitted(part, getattr(value, name)) for name, part in parts.items()}
    return need("jax.numpy", "JumanjiWrapper").asarray(value, dtype=spec.dtype)


def of_agents(spec: Any, *, categorical: bool) -> TensorSpec:
    """The spec of the actions of several agents, who have the same choices, side by side ``[n, ...]``."""
    if not hasattr(spec, "num_values"):
        return spec_of(spec)
    n, dtype = int(np.asarray(spec.num_values).max()), torch_dtype(spec.dtype)
    one: TensorSpec = Categorical(n, dtype=dtype) if categorical else OneHot(n, dtype=dtype)
    return one.expand(*spec.shape, *one.shape)


def _array(spec: Any, dtype: torch.dtype, *, bounded: bool) -> TensorSpec:
    shape = tuple(spec.shape)
    if dtype == torch.bool:
        return Binary(shape=shape, dtype=torch.bool)
    if not bounded:
        return Unbounded(shape, dtype=dtype)
    low, high = (
        torch.as_tensor(np.array(np.broadcast_to(np.asarray(end), shape)), dtype=dtype)
        for end in (spec.minimum, spec.maximum)
    )
    return Bounded(low, high, shape, dtype=dtype)
