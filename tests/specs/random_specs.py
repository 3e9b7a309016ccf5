"""Random specs as recipes that both libraries build from, and random arguments for what is then called on them.

Everything comes from a ``random.Random``, so a case is its number: ``python tests/specs/differential.py --only 1234``.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase
from torch import Tensor

import marlenv as ours

Recipe = tuple[str, dict[str, Any]]
NAMES = "abc"
FLOATS, INTS = (torch.float32, torch.float64), (torch.int64, torch.int32, torch.uint8, torch.int8)


# --- recipes -------------------------------------------------------------------------------------


def sizes(r: Random, most: int = 2) -> list[int]:
    """A few small sizes; now and then an empty or a dynamic one."""
    return [r.choices((1, 2, 3, 0, -1), (4, 6, 4, 0.4, 0.8))[0] for _ in range(r.randint(0, most))]


def solid(shape: list[int]) -> list[int]:
    return [1 if n < 0 else n for n in shape]


def flags(r: Random, shape: list[int]) -> Any:
    """A nested list of flags with a True in each row of the last dimension, as a rule."""
    if len(shape) > 1:
        return [flags(r, shape[1:]) for _ in range(shape[0])]
    row = [r.random() < 0.6 for _ in range(shape[0])]
    if row and not any(row) and r.random() < 0.95:
        row[r.randrange(len(row))] = True
    return row


def leaf(r: Random, batch: list[int], kind: str | None = None) -> Recipe:
    """A leaf whose shape begins with ``batch``."""
    kind = kind or r.choice(
        [
            "Bounded",
            "Bounded",
            "Unbounded",
            "Categorical",
            "Categorical",
            "OneHot",
            "MultiCategorical",
            "MultiOneHot",
            "Binary",
            "NonTensor",
            "Choice",
        ]
    )
    return LEAVES[kind](r, batch)


def bounded(r: Random, batch: list[int]) -> Recipe:
    shape = batch + sizes(r, 1)
    dtype = r.choice((*FLOATS, *FLOATS, *INTS))
    low = (
        r.randint(-3, 3)
        if dtype.is_floating_point or dtype in (torch.int64, torch.int32, torch.int8)
        else r.randint(0, 3)
    )
    high = low + r.randint(0, 4)
    if dtype.is_floating_point and r.random() < 0.05:
        high = math.inf
    told: dict[str, Any] = {"low": low, "high": high, "shape": shape, "dtype": dtype}
    if r.random() < 0.3 and -1 not in shape:
        told["low"] = torch.full(solid(shape), low, dtype=dtype)
        told["high"] = torch.full(solid(shape), high, dtype=dtype) + torch.arange(math.prod(shape)).reshape(shape).to(
            dtype
        )
    if r.random() < 0.1:
        told["domain"] = r.choice(("continuous", "discrete"))
    return "Bounded", told


def unbounded(r: Random, batch: list[int]) -> Recipe:
    told: dict[str, Any] = {"shape": batch + sizes(r, 1), "dtype": r.choice((*FLOATS, *INTS, torch.bool))}
    if r.random() < 0.1:
        told["domain"] = r.choice(("continuous", "discrete"))
    return "Unbounded", told


def categorical(r: Random, batch: list[int]) -> Recipe:
    n = r.choice((1, 2, 3, 5, 5, -1))
    shape = batch + sizes(r, 1)
    told: dict[str, Any] = {
        "n": n,
        "shape": shape,
        "dtype": r.choice((*INTS, torch.float32) if n != 2 else (torch.int64, torch.bool)),
    }
    if n > 0 and r.random() < 0.35:
        told["mask"] = torch.tensor(flags(r, [*solid(shape), n] if r.random() < 0.6 else [n]), dtype=torch.bool)
    return "Categorical", told


def one_hot(r: Random, batch: list[int]) -> Recipe:
    n = r.randint(1, 4)
    shape = [*batch, *sizes(r, 1), n]
    told: dict[str, Any] = {
        "n": n,
        "shape": shape,
        "dtype": r.choice((torch.bool, torch.bool, torch.int64, torch.float32)),
    }
    if r.random() < 0.3:
        told["mask"] = torch.tensor(flags(r, solid(shape) if r.random() < 0.6 else [n]), dtype=torch.bool)
    return "OneHot", told


def multi_categorical(r: Random, batch: list[int]) -> Recipe:
    nvec: Any = [r.randint(1, 4) for _ in range(r.randint(1, 3))]
    shape = [*batch, *sizes(r, 1), len(nvec)]
    told: dict[str, Any] = {"nvec": nvec, "shape": shape, "dtype": r.choice(INTS)}
    if shape == [1] and r.random() < 0.5:
        told = {"nvec": nvec[0], "remove_singleton": r.random() < 0.7}
    elif r.random() < 0.15 and len(shape) == 2 and shape[0] > 0:
        told["nvec"] = [[r.randint(1, 4) for _ in nvec] for _ in range(shape[0])]
    elif r.random() < 0.25:
        told["mask"] = torch.cat([torch.tensor(flags(r, [n]), dtype=torch.bool) for n in nvec])
    return "MultiCategorical", told


def multi_one_hot(r: Random, batch: list[int]) -> Recipe:
    nvec = [r.randint(1, 3) for _ in range(r.randint(1, 3))]
    told: dict[str, Any] = {
        "nvec": nvec,
        "shape": [*batch, *sizes(r, 1), sum(nvec)],
        "dtype": r.choice((torch.bool, torch.int64)),
    }
    if r.random() < 0.25:
        told["mask"] = torch.cat([torch.tensor(flags(r, [n]), dtype=torch.bool) for n in nvec])
    return "MultiOneHot", told


def binary(r: Random, batch: list[int]) -> Recipe:
    return "Binary", {
        "shape": batch + (sizes(r, 1) or [r.randint(1, 3)]),
        "dtype": r.choice((torch.int8, torch.bool, torch.int64)),
    }


def non_tensor(r: Random, batch: list[int]) -> Recipe:
    shape = batch + sizes(r, 1)
    told: dict[str, Any] = {"shape": shape, "example_data": r.choice(("x", 7, ("y", 1)))}
    if r.random() < 0.2:
        told["batched"] = r.random() < 0.5
    elif r.random() < 0.3:
        told["feature_dims"] = r.randint(0, len(shape))
    return "NonTensor", told


def choice(r: Random, batch: list[int]) -> Recipe:
    if r.random() < 0.3 and not batch:
        data = [NonTensorData(x) for x in "ab"] if r.random() < 0.6 else [NonTensorStack(*x) for x in ("ab", "cd")]
        return "Choice", {"choices": data}
    first = leaf(r, batch, r.choice(("Bounded", "Unbounded", "Categorical", "Binary")))
    return "Choice", {"choices": [varied(r, first) for _ in range(r.randint(1, 3))]}


LEAVES = {
    "Bounded": bounded,
    "Unbounded": unbounded,
    "Categorical": categorical,
    "OneHot": one_hot,
    "MultiCategorical": multi_categorical,
    "MultiOneHot": multi_one_hot,
    "Binary": binary,
    "NonTensor": non_tensor,
    "Choice": choice,
}


def varied(r: Random, recipe: Recipe) -> Recipe:
    """The recipe again, or one of the same class that differs a little."""
    kind, told = recipe[0], dict(recipe[1])
    if r.random() < 0.5:
        return kind, told
    if kind == "Bounded" and not isinstance(told["low"], Tensor):
        told["high"] = told["high"] + 1
    if kind == "Categorical":
        told["n"] = 4
        told["dtype"] = torch.int64 if told["dtype"] == torch.bool else told["dtype"]
        told.pop("mask", None)
    if kind == "NonTensor":
        told["example_data"] = "z"
    if (
        kind in ("Bounded", "Unbounded", "Binary", "Categorical")
        and told["shape"]
        and r.random() < 0.3
        and "mask" not in told
    ) and not isinstance(told.get("low"), Tensor):
        told["shape"] = [*told["shape"][:-1], r.randint(1, 4)]
    if kind == "Composite":
        told["entries"] = {name: one and varied(r, one) for name, one in told["entries"].items()}
        if r.random() < 0.3:
            told["entries"]["own"] = leaf(r, told["shape"], "Unbounded")
    return kind, told


def composite(r: Random, batch: list[int], depth: int = 0) -> Recipe:
    """A composite of ``batch``, with entries that may nest and stack."""
    entries: dict[str, Any] = {}
    for name in NAMES[: r.randint(0, 3)]:
        draw = r.random()
        if draw < 0.05:
            entries[name] = None
        elif draw < 0.3 and depth < 2:
            entries[name] = composite(r, batch + (sizes(r, 1) if r.random() < 0.4 else []), depth + 1)
        elif draw < 0.38 and depth < 2 and -1 not in batch:
            entries[name] = stack(r, batch)
        else:
            entries[name] = leaf(r, batch)
    told: dict[str, Any] = {"entries": entries, "shape": batch}
    if r.random() < 0.15:
        told["device"] = "cpu"
    if batch and r.random() < 0.15:
        told["names"] = [f"d{i}" if r.random() < 0.7 else None for i in range(len(batch))]
    return "Composite", told


def stack(r: Random, batch: list[int], of: str | None = None) -> Recipe:
    """Specs side by side, equal or not; the new dimension comes right behind ``batch`` or anywhere in front."""
    if of == "Composite":
        first = composite(r, batch, 1)
        dim = r.randint(0, len(batch))
    else:
        first = leaf(r, batch)
        dim = len(batch)
    parts = [first, *[varied(r, first) for _ in range(r.randint(1, 2))]]
    if of == "Composite" and r.random() < 0.2 and -1 not in batch:
        parts = [("stack", {"parts": parts, "dim": dim})] * 2
    return "stack", {
        "parts": parts,
        "dim": dim if r.random() < 0.8 else dim - len(batch) - (len(parts[0][1].get("shape", batch)) - len(batch)) - 1,
    }


def spec(r: Random) -> Recipe:
    """Any spec."""
    draw, batch = r.random(), sizes(r)
    if draw < 0.5:
        return leaf(r, batch)
    if draw < 0.78:
        return composite(r, batch)
    return stack(r, batch, "Composite" if draw < 0.9 else None)


def build(k: Any, recipe: Recipe) -> Any:
    """The spec of a recipe, in one of the libraries."""
    kind, told = recipe
    if kind == "stack":
        return torch.stack([build(k, part) for part in told["parts"]], told["dim"])
    told = {name: value.clone() if isinstance(value, Tensor) else value for name, value in told.items()}
    if kind == "Composite":
        entries = {name: None if one is None else build(k, one) for name, one in told.pop("entries").items()}
        return k.Composite(entries, **told)
    if kind == "Choice":
        return k.Choice([build(k, one) if isinstance(one, tuple) else one.clone() for one in told["choices"]])
    return getattr(k, kind)(**told)


# --- arguments -----------------------------------------------------------------------------------


def index(r: Random, shape: list[int], nested: bool = True) -> Any:
    """What may stand in the brackets, and what may not."""
    n = shape[0] if shape else 2
    one = r.randint(-abs(n) - 1, abs(n))
    draw = r.randrange(14 if nested else 8)
    if draw < 3:
        return one
    if draw == 3:
        return slice(r.choice((None, 0, 1, -1)), r.choice((None, 1, 2, -1)), r.choice((None, 1, 2, 0, -1)))
    if draw == 4:
        return None
    if draw == 5:
        return slice(None)
    if draw == 6:
        return r.choice(([0], [0, one], torch.tensor([0, one]), np.array([0, one]), range(2)))
    if draw == 7:
        return r.choice(
            (..., 1.5, "a", [1.5], torch.tensor([True] * max(abs(n), 1)), [r.random() < 0.5 for _ in range(max(n, 1))])
        )
    return tuple(index(r, shape[i:], False) for i in range(r.randint(1, len(shape) + 1)))


def shape_like(r: Random, shape: list[int]) -> list[int]:
    """A shape near another: the same, more in front, another size, fewer."""
    draw = r.random()
    if draw < 0.35:
        return [*sizes(r), *shape]
    if draw < 0.5:
        return [r.choice((2, 3)) if n == 1 else n for n in shape]
    if draw < 0.6:
        return [-1 if r.random() < 0.5 else n for n in shape]
    if draw < 0.75:
        return list(shape)
    if draw < 0.85 and shape:
        return [*shape[:-1], shape[-1] + 1]
    return shape[1:] if draw < 0.92 else sizes(r, 3)


def lead(r: Random) -> Any:
    """The extra dimensions of a draw."""
    return r.choice((None, None, [], (2,), torch.Size([3]), [2, 1], 2, torch.Size([])))


def value(r: Random, spec: Any) -> Any:
    """A value of our spec, or something near one."""
    good = spec.rand(r.choice(((), (), (), (2,))) if not isinstance(spec, ours.Stacked) else ())
    return good if r.random() < 0.45 else spoiled(r, good)


def spoiled(r: Random, good: Any) -> Any:
    """A value with something wrong, or only odd."""
    if isinstance(good, TensorDictBase) and not isinstance(good, (NonTensorData, NonTensorStack)):
        return _spoiled_dict(r, good)
    if not isinstance(good, Tensor) or good.is_nested:
        return r.choice((good, torch.zeros(2), "text"))
    draw = r.randrange(7)
    if draw == 0:
        return good + 100 if good.dtype != torch.bool else ~good
    if draw == 1:
        return good - 100 if good.dtype.is_signed else good
    if draw == 2:
        return good.to(r.choice((torch.float64, torch.int16, torch.float32)))
    if draw == 3:
        return good[0] if good.ndim and len(good) else good.unsqueeze(0)
    if draw == 4:
        return torch.cat([good, good], -1) if good.ndim else good
    if draw == 5:
        return good.unsqueeze(0)
    return torch.full_like(good, math.nan) if good.dtype.is_floating_point else good


def _spoiled_dict(r: Random, good: Any) -> Any:
    names = sorted(good.keys())
    draw = r.randrange(5)
    if draw == 0 and names:
        return good.exclude(r.choice(names))
    if draw == 1:
        return good.clone().update({"more": torch.zeros(good.batch_size)})
    if draw == 2 and names:
        name = r.choice(names)
        changed = spoiled(r, good.get(name))
        try:
            return good.clone(False).set(name, changed) if isinstance(changed, (Tensor, TensorDictBase)) else good
        except RuntimeError:
            return good
    if draw == 3:
        return TensorDict({}, good.batch_size)
    return good.unsqueeze(0)


def unencoded(r: Random, spec: Any) -> Any:
    """What a simulator might give for our spec."""
    if isinstance(spec, ours.StackedComposite):
        return [unencoded(r, part) for part in spec.unbind(spec.dim)]
    if isinstance(spec, ours.Composite):
        given = {name: unencoded(r, one) for name, one in spec.items() if one is not None}
        if r.random() < 0.08:
            given["unknown"] = 1
        if r.random() < 0.05 and given:
            given[r.choice(list(given))] = None
        return given
    if isinstance(spec, (ours.NonTensor, ours.Choice)):
        return r.choice(("text", 3, spec.rand()))
    if isinstance(spec, ours.Stacked):
        return [unencoded(r, part) for part in spec.unbind(spec.dim)]
    good = spec.rand()
    draw = r.randrange(9)
    if draw < 4:
        array = np.asarray(spec.to_numpy(good))
        return r.choice((array, array.tolist(), array.astype(np.float64), array[..., ::-1] if array.ndim else array))
    if draw == 4:
        return r.choice((1, 0, 2.0, True, np.int64(1), "text", None, [1], [0, 1]))
    if draw == 5:
        return good
    if draw == 6:
        return np.asarray(spec.to_numpy(good)).reshape(-1)
    if draw == 7:
        return [np.asarray(spec.to_numpy(good))]
    return np.zeros(solid(shape_like(r, list(spec.shape))))
