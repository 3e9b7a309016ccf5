"""Specs of ours as TorchRL's, and back: leaf by leaf, in one table each way.

Source: torchrl 0.14.1, ``torchrl.data.tensor_specs``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from marlenv.errors import SpecError
from marlenv.keys import nested
from marlenv.optional import need
from marlenv.specs import (
    Binary,
    Bounded,
    Categorical,
    Choice,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    Stacked,
    StackedComposite,
    TensorSpec,
    Unbounded,
)

Convert = Callable[[Any], Any]


def spec_to_torchrl(spec: TensorSpec) -> Any:
    """TorchRL's spec of the same values; masks and bounds included.

    Raises:
        SpecError: TorchRL has no such spec; the key of the entry and the reason are in the text.
    """
    return _convert(spec, _OUT, "to_torchrl", "TorchRL", ())


def spec_from_torchrl(spec: Any) -> Any:
    """Our spec of the same values as one of TorchRL's; masks and bounds included.

    Raises:
        SpecError: we have no such spec; the key of the entry and the reason are in the text.
    """
    return _convert(spec, _IN, "from_torchrl", "marlenv", ())


def _convert(spec: Any, table: dict[str, Any], who: str, whose: str, where: tuple[str, ...]) -> Any:
    """One spec, and all below it, by the name of its class."""
    kind = next((base.__name__ for base in type(spec).__mro__ if base.__name__ in table), None)

    def below(child: Any, *name: str) -> Any:
        return None if child is None else _convert(child, table, who, whose, (*where, *name))

    at = f" under {nested(where)!r}" if where else ""
    if kind is None:
        raise SpecError(f"{who}: {whose} has no spec like {type(spec).__name__}{at}; leave the entry out or rewrite it")
    try:
        return table[kind](spec, below)
    except SpecError:
        raise
    except Exception as error:
        raise SpecError(f"{who}: {whose} cannot express {spec!r}{at}: {error}") from error


def _data() -> Any:
    return need("torchrl.data", "marlenv.interop")


def _common(spec: Any) -> dict[str, Any]:
    return {"shape": spec.shape, "device": spec.device, "dtype": spec.dtype}


def _register(spec: Any) -> None:
    if spec.use_register:
        raise ValueError("values that were numbered as they came (use_register=True) stay with their spec")


# --- ours -> TorchRL's -------------------------------------------------------------------------------


def _bounded_out(spec: Any, _: Convert) -> Any:
    low, high = (end.expand(end.shape) for end in (spec.low, spec.high))
    made = _data().Bounded(low=low, high=high, shape=spec.shape, device=spec.device, dtype=spec.dtype)
    made.domain = spec.domain
    return made


def _unbounded_out(spec: Any, _: Convert) -> Any:
    made = _data().Unbounded(**_common(spec))
    made.domain = spec.domain
    return made


@cache
def _flags() -> Any:
    """TorchRL's Binary with an index for all dimensions; its own has none for the last, which may be rows or agents."""
    specs: Any = need("torchrl.data.tensor_specs", "marlenv.interop")

    def index(self: Any, place: Any) -> Any:
        shape = torch.Size(specs._shape_indexing(self.shape, place))
        return type(self)(shape=shape, device=self.device, dtype=self.dtype)

    def same(self: Any, other: Any) -> bool:
        flags = isinstance(other, specs.Categorical) and other.n == 2 and other.mask is None
        return flags and (other.shape, other.dtype, other.device) == (self.shape, self.dtype, self.device)

    own = {"__getitem__": index, "__eq__": same, "__hash__": None, "__module__": __name__}
    return type("Flags", (specs.Binary,), own)


def __getattr__(name: str) -> Any:
    if name == "Flags":  # where pickles look for the class, which is made when it is first needed
        return _flags()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _categorical_out(spec: Any, _: Convert) -> Any:
    made = _data().Categorical(spec.space.n, **_common(spec), mask=spec.mask)
    if spec.space.n < 0 and spec._provisional is not None:
        made.set_provisional_n(spec._provisional)
    return made


def _one_hot_out(spec: Any, _: Convert) -> Any:
    _register(spec)
    return _data().OneHot(spec.n, **_common(spec), mask=spec.mask)


def _multi_one_hot_out(spec: Any, _: Convert) -> Any:
    _register(spec)
    return _data().MultiOneHot(list(spec.nvec), **_common(spec), mask=spec.mask)


def _multi_categorical_out(spec: Any, _: Convert) -> Any:
    rows = spec.nvec.reshape(-1, spec.nvec.shape[-1])
    same = torch.tensor(spec._widths) if not len(rows) else rows[0]
    nvec = same if bool((rows == same).all()) else spec.nvec
    bare = spec._bare if spec.shape == (1,) else spec.remove_singleton  # whether values may lack the dimension
    nvec = nvec.squeeze(-1) if spec._bare else nvec
    return _data().MultiCategorical(nvec, **_common(spec), mask=spec.mask, remove_singleton=bare)


def _choice_out(spec: Any, below: Convert) -> Any:
    if spec.event_ndim < len(spec.shape):
        raise ValueError("its Choice chooses once for all rows, and this one once per row")
    return _data().Choice([below(one) for one in spec.choices])


def _non_tensor(kind: Any) -> Any:
    def convert(spec: Any, _: Convert) -> Any:
        made = kind()(spec.shape, spec.device, spec.dtype, spec.example_data, feature_dims=spec.feature_dims)
        made.batched = spec.batched
        return made

    return convert


def _composite(kind: Any) -> Any:
    def convert(spec: Any, below: Any) -> Any:
        made = kind()(
            shape=spec.shape, device=spec.device, data_cls=spec.data_cls, step_mdp_static=spec.step_mdp_static
        )
        if any(spec.names):
            made.names = spec.names
        for name, child in spec.items():
            made[name] = below(child, name)
        return made

    return convert


_OUT: dict[str, Any] = {
    "Bounded": _bounded_out,
    "Unbounded": _unbounded_out,
    "Binary": lambda spec, _: _flags()(**_common(spec)),
    "Categorical": _categorical_out,
    "OneHot": _one_hot_out,
    "MultiOneHot": _multi_one_hot_out,
    "MultiCategorical": _multi_categorical_out,
    "NonTensor": _non_tensor(lambda: _data().NonTensor),
    "Choice": _choice_out,
    "Stacked": lambda spec, below: _data().Stacked(*[below(one) for one in spec.parts], dim=spec.dim),
    "StackedComposite": lambda spec, below: _data().StackedComposite(*[below(one) for one in spec.parts], dim=spec.dim),
    "Composite": _composite(lambda: _data().Composite),
}

# --- TorchRL's -> ours -------------------------------------------------------------------------------


def _bounded_in(spec: Any, _: Convert) -> Bounded:
    return Bounded(spec.space.low, spec.space.high, **_common(spec), domain=spec.domain)


def _categorical_in(spec: Any, _: Convert) -> Categorical:
    made = Categorical(spec.space.n, **_common(spec), mask=spec.mask)
    if spec.space.n < 0 and spec._provisional_n is not None:
        made.set_provisional_n(spec._provisional_n)
    return made


def _one_hot_in(spec: Any, _: Convert) -> OneHot:
    _register(spec)
    return OneHot(int(spec.space.n), **_common(spec), mask=spec.mask)


def _multi_one_hot_in(spec: Any, _: Convert) -> MultiOneHot:
    _register(spec)
    return MultiOneHot([int(n) for n in spec.nvec], **_common(spec), mask=spec.mask)


def _multi_categorical_in(spec: Any, _: Convert) -> MultiCategorical:
    nvec = torch.as_tensor(spec.nvec)
    if not nvec.numel() and nvec.untyped_storage().nbytes():  # of no rows at all, over the numbers themselves
        nvec = nvec.as_strided(nvec.shape[-1:], nvec.stride()[-1:])
    nvec = nvec.reshape(()) if nvec.numel() == 1 and spec.shape == (1,) and spec.remove_singleton else nvec
    return MultiCategorical(nvec, **_common(spec), mask=spec.mask, remove_singleton=spec.remove_singleton)


def _choice_in(spec: Any, below: Convert) -> Choice:
    tensors = hasattr(spec._choices[0], "is_in")
    return Choice([below(one) for one in spec._choices] if tensors else list(spec._choices))


_IN: dict[str, Any] = {
    "Bounded": _bounded_in,
    "Unbounded": lambda spec, _: Unbounded(**_common(spec), domain=spec.domain),
    "Binary": lambda spec, _: Binary(**_common(spec)),
    "MultiCategorical": _multi_categorical_in,
    "Categorical": _categorical_in,
    "MultiOneHot": _multi_one_hot_in,
    "OneHot": _one_hot_in,
    "NonTensor": _non_tensor(lambda: NonTensor),
    "Choice": _choice_in,
    "Stacked": lambda spec, below: Stacked(*[below(one) for one in spec._specs], dim=spec.dim),
    "StackedComposite": lambda spec, below: StackedComposite(*[below(one) for one in spec._specs], dim=spec.dim),
    "Composite": _composite(lambda: Composite),
}
