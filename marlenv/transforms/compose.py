"""Several transforms one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from tensordict import TensorDictBase
from torch import nn

from marlenv.errors import SpecError
from marlenv.specs import Composite
from marlenv.specs.base import concrete
from marlenv.transforms.base import Kind, Transform

if TYPE_CHECKING:
    from marlenv.envs import EnvBase


class Call(Transform):
    """A function of tensordicts as a transform: called with what a reset or a step answered, and returns it.

    Args:
        function: edits a tensordict and returns it. What it adds is read into the observation specs.
    """

    def __init__(self, function: Callable[[TensorDictBase], TensorDictBase]) -> None:
        super().__init__()
        self.function = function

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self.function(next_tensordict)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The specs of what the function returns for zeros."""
        from marlenv.envs import make_composite_from_td

        made = make_composite_from_td(self.function(observation_spec.zero()), unsqueeze_null_shapes=False)
        for key, leaf in made.items(True, True):
            old = observation_spec.get(key, None)
            if old is None or (concrete(old.shape), old.dtype) != (leaf.shape, leaf.dtype):
                observation_spec[key] = leaf
        for key in [k for k in observation_spec.keys(True, True) if k not in made]:
            del observation_spec[key]
        return observation_spec


def as_transform(transform: Any) -> Transform:
    """A transform from what users pass: a transform, or a function of tensordicts."""
    if isinstance(transform, Transform):
        return transform
    if callable(transform):
        return Call(transform)
    raise SpecError(f"expected a transform or a function of tensordicts, got {type(transform).__name__}")


class Compose(Transform):
    """A chain of transforms: first to last on what the env says, last to first on what it is told.

    Args:
        *transforms: transforms, or functions of tensordicts.

    >>> chain = Compose(RewardSum(), StepCounter(max_steps=5))
    >>> len(chain), chain[-1]
    (2, StepCounter(max_steps=5))
    """

    def __init__(self, *transforms: Any) -> None:
        super().__init__()
        self.transforms = nn.ModuleList(as_transform(t) for t in transforms)
        for transform in self:
            transform.set_container(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for transform in self:
            transform.set_container(self)

    def __iter__(self) -> Iterator[Transform]:
        return iter(self.transforms)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.transforms)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, slice):
            return Compose(*(t.clone() for t in list(self)[item]))
        return self.transforms[item]

    def append(self, transform: Any) -> None:
        """Adds a transform at the end."""
        self.insert(len(self), transform)

    def insert(self, index: int, transform: Any) -> None:
        """Adds a transform before the one at ``index``."""
        made = as_transform(transform)
        made.set_container(self)
        self.transforms.insert(index, made)

    def pop(self, index: int = -1) -> Transform:
        """Removes and returns a transform."""
        gone: Transform = self.transforms.pop(index)  # type: ignore[assignment]
        gone.reset_parent()
        return gone

    def leaves(self) -> list[Transform]:
        """The transforms of this chain and of the chains in it, in order."""
        return [leaf for t in self for leaf in (t.leaves() if isinstance(t, Compose) else [t])]

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        for transform in self:
            next_tensordict = transform._call(next_tensordict)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for transform in self:
            tensordict_reset = transform._reset(tensordict, tensordict_reset)
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for transform in self:
            next_tensordict = transform._step(tensordict, next_tensordict)
        return next_tensordict

    def _on_reset(self, tensordict: TensorDictBase) -> None:
        for transform in self:
            transform._on_reset(tensordict)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        for transform in reversed(list(self)):
            tensordict = transform._inv_call(tensordict)
        return tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Applies the transforms to data, in place, one after the other."""
        for transform in self:
            tensordict = transform(tensordict)
        return tensordict

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Edits the full specs of the env, transform by transform."""
        for transform in self:
            transform.respec(specs)

    def join(self, env: EnvBase) -> None:
        """Nothing to do: the transforms join one by one."""

    def clone(self) -> Self:
        """A chain of copies that belongs to no env."""
        return type(self)(*(t.clone() for t in self))

    def close(self) -> None:
        """Closes all transforms."""
        for transform in self:
            transform.close()

    def __repr__(self) -> str:
        return f"Compose({', '.join(map(repr, self))})"
