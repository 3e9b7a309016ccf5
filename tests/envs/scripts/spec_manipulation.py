"""Specs are built, changed, stacked, indexed and asked."""

import numpy as np
import torch
from torchrl.data import Binary, Bounded, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot, Unbounded


def run():
    whole = Composite(
        obs=Bounded(-1, 1, shape=(3, 2)),
        act=OneHot(4, shape=(3, 4)),
        inner=Composite(kind=Categorical(5, shape=(3,)), bits=Binary(3, shape=(3, 3)), shape=(3,)),
        shape=(3,),
    )
    whole["inner", "more"] = Unbounded(shape=(3, 1), dtype=torch.int64)
    wide = whole.expand(2, 3)
    stacked = torch.stack([Bounded(0, 1, shape=(2,)), Bounded(0, 1, shape=(2,))], 0)
    unequal = torch.stack([Composite(x=Unbounded((2,))), Composite(x=Unbounded((3,)))], 0)
    out = whole.zero()
    out["obs"] = torch.full((3, 2), 5.0)
    out["act"] = torch.eye(4, dtype=torch.bool)[:3]
    flat = MultiCategorical(nvec=[2, 3])
    return {
        "keys": sorted(map(str, whole.keys(True, True))),
        "shapes": {str(k): tuple(s.shape) for k, s in wide.items(True, True)},
        "row": tuple(wide[0]["inner", "bits"].shape),
        "zero": whole.zero(),
        "projected": whole.project(out),
        "outside": whole.is_in(out),
        "inside": whole.is_in(whole.zero()),
        "encoded": OneHot(4).encode(np.int64(2)),
        "decoded": OneHot(4).to_numpy(torch.tensor([0, 0, 1, 0])),
        "numbers": whole["act"].to_categorical(whole["act"].zero()),
        "one hot": flat.to_one_hot(torch.tensor([1, 2])),
        "back": MultiOneHot([2, 3]).to_categorical(torch.tensor([0, 1, 0, 0, 1], dtype=torch.bool)),
        "stacked": tuple(stacked.shape),
        "unequal": tuple(unequal["x"].shape),
        "equal": [whole == whole.clone(), whole == wide[0], whole == wide],
        "low": whole["obs"].space.low,
        "moved": whole.to("cpu").device == torch.device("cpu"),
        "unsqueezed": tuple(whole.unsqueeze(0).shape),
        "cardinality": int(Categorical(5).cardinality()),
    }
