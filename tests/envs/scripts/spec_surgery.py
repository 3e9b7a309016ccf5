"""Specs taken apart and put together: cloned, expanded, indexed, projected, encoded, compared, listed, written."""

import torch
from torchrl.data import Binary, Bounded, Categorical, Composite, MultiCategorical, OneHot, Unbounded


def run():
    spec = Composite(
        state=Bounded(-1.0, 2.0, (3,)),
        agents=Composite(act=Categorical(4, (2,)), hot=OneHot(3, (2, 3)), shape=(2,)),
        flag=Binary(1, (1,), dtype=torch.bool),
    )
    wide = spec.expand(5, *spec.shape)
    few = wide[1:3]
    other = spec.clone()
    other["extra", "deep"] = Unbounded((2, 2))
    del other["flag"]
    raw = {"state": torch.tensor([-3.0, 0.0, 9.0]), "flag": torch.tensor([True])}
    masked = Categorical(4, (2,), mask=torch.tensor([[True, False, True, False], [False, False, False, True]]))
    many = MultiCategorical([2, 3, 4])
    hot = OneHot(5)
    space = spec["state"].space
    return {
        "wide": [tuple(wide.shape), tuple(wide["agents"].shape), tuple(wide["agents", "act"].shape)],
        "few": tuple(few["agents", "hot"].shape),
        "zero": wide.zero(),
        "keys": sorted(map(str, other.keys(True, True))),
        "kinds": [isinstance(leaf, Bounded) for leaf in spec.values(True, True)],
        "projected": spec["state"].project(raw["state"]),
        "encoded": [hot.encode(3), spec["agents", "act"].encode([1, 2])],
        "numpy": spec["state"].to_numpy(torch.zeros(3)).tolist(),
        "bounds": [space.low, space.high],
        "in": [bool(spec["state"].is_in(raw["state"])), bool(many.is_in(torch.tensor([1, 2, 3])))],
        "masked": [bool(masked.is_in(torch.tensor([0, 3]))), bool(masked.is_in(torch.tensor([1, 3])))],
        "drawn": all(bool(masked.is_in(masked.rand())) for _ in range(5)),
        "counts": [int(one.cardinality()) for one in (Categorical(4), many, hot)],
        "listed": [Categorical(3).enumerate(), OneHot(3).enumerate()],
        "equal": [spec == spec.clone(), spec == other, wide[0] == spec],
        "converted": [tuple(hot.to_categorical_spec().shape), tuple(Categorical(5).to_one_hot_spec().shape)],
        "stacked": tuple(torch.stack([spec["state"], spec["state"]], 0).shape),
        "flat": tuple(Bounded(-1, 1, (2, 6)).flatten(0, 1).shape),
        "unflat": tuple(Unbounded((6, 2)).unflatten(0, (2, 3)).shape),
        "device": [str(spec.to("cpu").device), str(spec["state"].to(torch.float64).dtype)],
        "locked": [spec.lock_().is_locked, spec.unlock_().is_locked],
    }
