"""Names that TorchRL had, or still has, for specs: one table, and nothing else knows them."""

from __future__ import annotations

SUCCESSORS = {
    "CompositeSpec": "Composite",
    "BoundedTensorSpec": "Bounded",
    "BoundedContinuous": "Bounded",
    "BoundedDiscrete": "Bounded",
    "UnboundedContinuousTensorSpec": "Unbounded",
    "UnboundedDiscreteTensorSpec": "Unbounded",
    "UnboundedContinuous": "Unbounded",
    "UnboundedDiscrete": "Unbounded",
    "DiscreteTensorSpec": "Categorical",
    "OneHotDiscreteTensorSpec": "OneHot",
    "MultiDiscreteTensorSpec": "MultiCategorical",
    "MultiOneHotDiscreteTensorSpec": "MultiOneHot",
    "BinaryDiscreteTensorSpec": "Binary",
    "NonTensorSpec": "NonTensor",
    "LazyStackedTensorSpec": "Stacked",
    "LazyStackedCompositeSpec": "StackedComposite",
    "DiscreteBox": "CategoricalBox",
    "BinaryBox": "CategoricalBox",
}
