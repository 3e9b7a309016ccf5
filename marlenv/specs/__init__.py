"""What a value may be: shapes, dtypes, devices and domains of tensors, nested like the tensordicts they describe."""

from typing import Any

from marlenv.specs.base import TensorSpec
from marlenv.specs.bounded import Bounded
from marlenv.specs.boxes import BoxList, CategoricalBox, ContinuousBox
from marlenv.specs.categorical import Binary, Categorical
from marlenv.specs.choice import Choice
from marlenv.specs.composite import Composite
from marlenv.specs.multi import MultiCategorical, MultiOneHot
from marlenv.specs.nontensor import NonTensor
from marlenv.specs.onehot import OneHot
from marlenv.specs.stacked import Stacked
from marlenv.specs.stacked_composite import StackedComposite
from marlenv.specs.unbounded import Unbounded

__all__ = [
    "Binary",
    "Bounded",
    "BoxList",
    "Categorical",
    "CategoricalBox",
    "Choice",
    "Composite",
    "ContinuousBox",
    "MultiCategorical",
    "MultiOneHot",
    "NonTensor",
    "OneHot",
    "Stacked",
    "StackedComposite",
    "TensorSpec",
    "Unbounded",
]


def __getattr__(name: str) -> Any:
    """The names that TorchRL had, with a warning."""
    from marlenv.specs.legacy import TABLE, resolve

    if name in TABLE:
        return resolve(name, stacklevel=3)
    raise AttributeError(f"marlenv.specs has no {name!r}; it has {__all__}")
