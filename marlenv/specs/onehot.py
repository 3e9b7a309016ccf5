"""One of ``n`` values, as a vector with a single one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Size, Tensor

from marlenv.errors import NotInSpec, SpecError
from marlenv.specs.base import TensorSpec
from marlenv.specs.boxes import CategoricalBox
from marlenv.specs.categorical import Categorical
from marlenv.specs.discrete import Discrete, count_of, one_hot, pick
from marlenv.specs.dtypes import as_dtype
from marlenv.specs.register import Register
from marlenv.specs.shapes import ShapeLike, concrete, size

NEAR = 1e-3  # how far numbers of a float one-hot vector may be off: straight-through samples are in the last bits


def are_one_hot(value: Tensor, sizes: Sequence[int]) -> Tensor:
    """Which parts of vectors are one-hot: one number is 1, the others are 0, floats nearly so.

    Args:
        value: ``[..., n]`` of any dtype.
        sizes: of the parts, whose sum is ``n``.

    Returns:
        bool ``[..., k]``, for each of the ``k`` parts.

    >>> are_one_hot(torch.tensor([[1.0, 0.0, 0.9999999], [0.5, 0.5, 0.0]]), [2, 1])
    tensor([[ True,  True],
            [False, False]])
    """
    if value.is_floating_point():
        on, off = (value - 1).abs() < NEAR, value.abs() < NEAR
    else:
        on = value if value.dtype == torch.bool else value == 1
        off = value == 0
    parts = zip(on.split(list(sizes), -1), (on | off).split(list(sizes), -1), strict=True)
    return torch.stack([(one.sum(-1) == 1) & plain.all(-1) for one, plain in parts], -1)


class OneHot(Discrete):
    """One-hot vectors of length ``n``, the last dimension; ``mask`` says which entries may be the one.

    Args:
        n: length of the vectors.
        shape: ``(n,)`` when left out; must end in ``n``.
        device: where values live.
        dtype: bool, an integer or a float type.
        use_register: :meth:`encode` numbers values of any kind as they come, and :meth:`to_numpy` gives them back.
        mask: bool, broadcastable to ``shape``.

    Raises:
        SpecError: the shape does not end in ``n``, or the mask does not fit the shape.

    >>> OneHot(3).encode(2)
    tensor([False, False,  True])
    >>> OneHot(3, use_register=True).encode("up")
    tensor([ True, False, False])
    """

    fields: ClassVar[tuple[str, ...]] = ("n", "register")
    event_ndim = 1

    n: int
    register: Register | None
    """The values that were encoded, where the spec numbers them itself."""

    def __init__(
        self,
        n: int,
        shape: ShapeLike = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = torch.bool,
        use_register: bool = False,
        mask: Any = None,
    ) -> None:
        self.n = count_of("OneHot", "n", n, 1)
        self.register = Register() if use_register else None
        super().__init__((self.n,) if shape is None else size(shape), as_dtype(dtype, torch.bool), device)
        if not self.shape or self.shape[-1] != self.n:
            raise SpecError(f"OneHot: the last dimension must be n={n}, got shape {list(self.shape)}")
        self.update_mask(mask)

    @property
    def space(self) -> CategoricalBox:
        """The number of values."""
        return CategoricalBox(self.n, self.register)

    @property
    def use_register(self) -> bool:
        """Whether the spec numbers the values itself."""
        return self.register is not None

    @property
    def space_sizes(self) -> tuple[int, ...]:
        """``(n,)``."""
        return (self.n,)

    @property
    def _mask_shape(self) -> tuple[int, ...]:
        return concrete(self.shape)

    @property
    def unit_shape(self) -> Size:
        """One number per vector."""
        return concrete(self.shape[:-1])

    def _draw(self, lead: Size, generator: torch.Generator | None) -> Tensor:
        if self.mask is not None:
            return super()._draw(lead, generator)
        want = (*lead, *self.unit_shape)
        index = torch.randint(self.n, want, generator=generator, device=self._device)
        return one_hot(index, self.n, self.dtype)

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        mask = self.mask if mask is None else mask
        index = (unit * self.n).floor() if mask is None else pick(unit, mask.expand(*unit.shape, self.n))
        return one_hot(index, self.n, self.dtype)

    def _holds(self, value: Tensor) -> bool:
        on = value if value.dtype == torch.bool else value != 0
        if not bool((on.sum(-1) == 1).all()) or (value.dtype != torch.bool and bool((value[on] != 1).any())):
            return False
        return self.mask is None or not bool((on & ~self.mask).any())

    def _project(self, value: Tensor) -> Tensor:
        scores = value.to(torch.float64).nan_to_num(0.0)  # finite, so that a masked entry never wins
        if self.mask is not None:
            scores = torch.where(self.mask, scores, -torch.inf)
        return one_hot(scores.argmax(-1), self.n, self.dtype)

    def encode(self, val: Any, *, ignore_device: bool = False) -> Tensor:
        """The one-hot vector of a number, or of each number of a list or an array.

        A tensor that is in the spec already stays as it is.

        Raises:
            NotInSpec: a number is not in ``0 .. n - 1``.
        """
        if isinstance(val, Tensor) and TensorSpec.is_in(self, val):
            return val if ignore_device else val.to(self._device)
        if self.register is not None:
            val = self.register.numbers(val, self.n, repr(self))
        index = self._numbers.encode(val, ignore_device=ignore_device)
        if bool(((index < 0) | (index >= self.n)).any()):
            raise NotInSpec(f"{self!r}.encode: expected numbers in 0..{self.n - 1}, got {val}")
        return one_hot(index, self.n, self.dtype)

    def cardinality(self) -> int:
        """``n``."""
        return self.n

    def enumerate(self, use_mask: bool = False) -> Tensor:
        """Every vector once; ``[n, *shape]``."""
        return one_hot(self._numbers.enumerate(use_mask), self.n, self.dtype)

    def index(self, index: Any, tensor_to_index: Tensor) -> Tensor:
        """The entries of ``tensor_to_index`` (``[..., n]``) that the vectors point at."""
        return self._numbers.index(self._number(torch.as_tensor(index)), tensor_to_index)

    @cached_property
    def _numbers(self) -> Categorical:
        """The spec of the same values as numbers, mask included."""
        return Categorical(self.n, self.shape[:-1], device=self._device, mask=self.mask)

    def to_numpy(self, val: Tensor, safe: bool | None = None) -> Any:
        """The number that the vector stands for, or the value that was registered; ``safe`` checks it first."""
        numbers = super().to_numpy(val, safe)
        return numbers if self.register is None else self.register.values(numbers, repr(self))

    def _number(self, val: Tensor) -> Tensor:
        return val.to(torch.uint8 if val.dtype == torch.bool else val.dtype).argmax(-1)

    def _one_hot(self, val: Tensor) -> Tensor:
        return val

    def to_one_hot_spec(self) -> OneHot:
        """This spec."""
        return self

    def to_categorical_spec(self) -> Categorical:
        """The spec of the same values as numbers, mask included."""
        return self._numbers.clone()
