"""The randomness of a scenario file: what it draws comes from the env, and no global generator is read or moved.

A file of VMAS says ``torch.rand(...)`` and means VMAS's generator, one for all rows. Here every draw is taken over, in
one of two ways:

- ``"rows"``: a draw whose first dimension is the rows comes from the streams of the rows
  (:class:`~marlenv.rng.RowRNG`). While one row is reset (``env_index``) all draws come from the stream of that row: of
  ``world.batch_dim`` numbers, and of a tensor of all rows, only its own are used. So a row has the same life in a batch
  of any size, and resetting it moves nothing of the others. What a file draws once for all rows (``torch.randperm``,
  ``random.choice``, ``numpy.random``) comes from a stream of the env, and is shared.
- ``"vmas"``: one generator each of PyTorch, NumPy and ``random``, seeded as VMAS seeds its own: the same numbers as
  VMAS's for the same seed, and rows that depend on each other as VMAS's do.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from marlenv.errors import SpecError
from marlenv.physics.vmas_compat.states import Rows
from marlenv.rng import RowRNG

Way: TypeAlias = Literal["rows", "vmas"]
WAYS = ("rows", "vmas")
SHARED = 1 << 20
"""The stream of what belongs to no row."""


class _Here(threading.local):
    draws: Draws | None = None


_here = _Here()


def current_draws(rows: int, device: Any) -> Draws:
    """Those of the env whose scenario is at work, or new ones."""
    return _here.draws if _here.draws is not None else Draws("rows", rows, device, 0)


class Draws:
    """Where the random numbers of one env come from.

    Args:
        way: ``"rows"`` or ``"vmas"``.
        rows: how many rows, ``B``.
        device: where the numbers are wanted.
        seed: of all.

    """

    def __init__(self, way: Way, rows: int, device: Any, seed: int) -> None:
        if way not in WAYS:
            raise SpecError(f"load: randomness must be one of {list(WAYS)}, got {way!r}")
        self.way, self.rows, self.device = way, rows, torch.device(device)
        self.row: int | None = None
        """The row that is being reset now."""
        self.random, self.numpy = random.Random(), np.random.RandomState(0)
        self.mode = _Governed(self)
        self._wanted = 0  # how deep in contexts that govern
        self.seed(seed)

    @property
    def shared(self) -> bool:
        """Whether all rows draw from one generator, as VMAS's do."""
        return self.way == "vmas"

    def seed(self, seed: int) -> None:
        """Starts all generators anew."""
        small = seed % (1 << 32)
        self.random.seed(small)
        self.numpy.seed(small)
        self.generator = torch.Generator(self.device).manual_seed(small)
        self.rng = RowRNG(seed, self.rows, self.device)
        self.common = RowRNG(seed, (), self.device).fork(SHARED)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Within it these are the draws of worlds that are made."""
        before, _here.draws = _here.draws, self
        try:
            yield
        finally:
            _here.draws = before

    @contextmanager
    def govern(self, row: int | None = None) -> Iterator[None]:
        """Within it all draws of PyTorch are taken over; those of ``row`` where one row is reset."""
        before, self.row = self.row, row
        try:
            with nullcontext() if self._wanted else self.mode:
                self._wanted += 1
                yield
        finally:
            self._wanted -= 1
            self.row = before

    def to(self, device: Any) -> None:
        """Moves the generators."""
        self.device = torch.device(device)
        self.rng, self.common = self.rng.to(self.device), self.common.to(self.device)
        self.generator = torch.Generator(self.device).manual_seed(self.generator.initial_seed())

    # --- draws -----------------------------------------------------------------------------------

    def point(
        self, rows: int, x: Sequence[float], y: Sequence[float], device: Any, where: Tensor | None = None
    ) -> Tensor:
        """A point in a rectangle for every row, or for the one that is being reset; ``[rows, 1, 2]``.

        Args:
            rows: ``B`` or 1.
            x: lowest and highest.
            y: likewise.
            device: of the result.
            where: the rows that need one, bool ``[rows]``; others' streams stay as they are.

        """
        if self.shared:
            sides = [torch.empty(rows, 1, 1, device=device) for _ in range(2)]
            pair = [s.uniform_(*b, generator=self.generator) for s, b in zip(sides, (x, y), strict=True)]
            return torch.cat(pair, 2)
        before = self.rng.counter
        unit = self.uniform((rows, 2))
        if where is not None and self.row is None:
            self.rng.counter = torch.where(where, self.rng.counter, before)
        low, high = (torch.tensor([x[k], y[k]], dtype=torch.float32, device=device) for k in (0, 1))
        return (low + unit * (high - low)).unsqueeze(1)

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Numbers in [0, 1) by row, in the shape that a scenario asked for."""
        return self._by_row(shape, lambda rng, inner: rng.uniform(shape=inner))

    def normal(self, shape: Sequence[int] = (), *, rows_last: bool = False) -> Tensor:
        """Gaussian numbers for actions, ``[*shape, B]``; for :class:`marlenv.physics.task.actions.Control`."""
        if self.shared:
            n, agents = shape
            parts = [torch.randn(self.rows, n, generator=self.generator, device=self.device).t() for _ in range(agents)]
            return torch.stack(parts, 1)
        return self.rng.normal(shape=shape, rows_last=rows_last)

    def _by_row(self, shape: Sequence[int], draw: Callable[[RowRNG, tuple[int, ...]], Tensor]) -> Tensor:
        first = shape[0] if shape else None
        whole, inner = first == self.rows, tuple(shape[1:])
        if self.row is None:
            return draw(self.rng, inner) if whole else draw(self.common, tuple(shape))
        if whole and not isinstance(first, Rows):  # a number that happens to be as many, unless a tensor of all rows
            whole = isinstance(shape, torch.Size) and len(shape) > 1
        before, one = self.rng.counter.clone(), self.rng[self.row]
        if whole and self.rows > 1:
            out = draw(self.rng, inner)
            before[self.row] = self.rng.counter[self.row]
        else:
            out = draw(one, tuple(shape))
            before[self.row] = one.counter
        self.rng.counter = before
        return out


class _Governed(TorchFunctionMode):
    """Takes over what PyTorch draws."""

    def __init__(self, draws: Draws) -> None:
        super().__init__()
        self.draws = draws

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        taken = OVER.get(func)
        if taken is None or kwargs.get("generator") is not None:
            return func(*args, **kwargs)
        if self.draws.shared and func not in LIKE:
            return func(*args, **kwargs, generator=self.draws.generator)
        return taken(self.draws, *args, **kwargs)


def _size(size: tuple[Any, ...], named: Any = None) -> tuple[int, ...]:
    """The shape in ``torch.rand(2, 3)``, ``torch.rand((2, 3))`` or ``torch.rand(size=(2, 3))``."""
    if named is not None:
        size = tuple(named)
    elif len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    return tuple(n if isinstance(n, Rows) else int(n) for n in size)


def _made(
    draws: Draws, x: Tensor, dtype: Any = None, device: Any = None, requires_grad: bool = False, **_: Any
) -> Tensor:
    x = x.to(device=draws.device if device is None else device, dtype=dtype or x.dtype)
    return x.requires_grad_() if requires_grad else x


def _rand(draws: Draws, *size: Any, **options: Any) -> Tensor:
    return _made(draws, draws.uniform(_size(size, options.pop("size", None))), **options)


def _normals(draws: Draws, shape: Sequence[int]) -> Tensor:
    return draws._by_row(shape, lambda rng, inner: rng.normal(shape=inner))


def _randn(draws: Draws, *size: Any, **options: Any) -> Tensor:
    return _made(draws, _normals(draws, _size(size, options.pop("size", None))), **options)


def _integers(draws: Draws, low: Any, high: Any, shape: Sequence[int]) -> Tensor:
    return draws._by_row(shape, lambda rng, inner: rng.randint(int(low), int(high), inner))


def _randint(draws: Draws, *args: Any, **options: Any) -> Tensor:
    low, high, size = (options.pop(name, None) for name in ("low", "high", "size"))
    rest = list(args)
    if size is None:
        size = rest.pop()
    if rest:
        low, high = (
            (rest[0], rest[1]) if len(rest) == 2 else (rest[0], high) if high is not None else (low or 0, rest[0])
        )
    return _made(draws, _integers(draws, low or 0, high, _size((size,))), **options)


def _randperm(draws: Draws, n: int, **options: Any) -> Tensor:
    rng = draws.common if draws.row is None else draws.rng[draws.row]
    out = rng.permutation(n)
    if draws.row is not None:
        counter = draws.rng.counter.clone()
        counter[draws.row] = rng.counter
        draws.rng.counter = counter
    return _made(draws, out, **options)


def _uniform_(draws: Draws, x: Tensor, a: float = 0.0, b: float = 1.0, **options: Any) -> Tensor:
    a, b = options.get("from", a), options.get("to", b)
    return x.copy_(a + draws.uniform(x.shape) * (b - a))


def _normal_(draws: Draws, x: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    return x.copy_(mean + std * _normals(draws, x.shape))


def _normal(draws: Draws, mean: Any, std: Any = 1.0, size: Any = None, **options: Any) -> Tensor:
    numbers = [x.shape for x in (mean, std) if isinstance(x, Tensor)]
    shape = torch.broadcast_shapes(*numbers) if size is None else _size((), size)
    return _made(draws, mean + std * _normals(draws, shape), **options)


def _bernoulli(draws: Draws, x: Tensor, p: Any = None) -> Tensor:
    chance = x if p is None else p
    return (draws.uniform(x.shape) < chance).to(x.dtype)


def _bernoulli_(draws: Draws, x: Tensor, p: Any = 0.5) -> Tensor:
    return x.copy_(draws.uniform(x.shape) < p)


def _exponential_(draws: Draws, x: Tensor, lambd: float = 1.0) -> Tensor:
    return x.copy_(-torch.log1p(-draws.uniform(x.shape)) / lambd)


def _random_(draws: Draws, x: Tensor, low: int = 0, high: int | None = None) -> Tensor:
    low, high = (0, low) if high is None else (low, high)
    return x.copy_(_integers(draws, low, high, x.shape))


def _multinomial(draws: Draws, weights: Tensor, num_samples: int, replacement: bool = False) -> Tensor:
    u = draws.uniform(torch.Size((*weights.shape, *([num_samples] if replacement else []))))
    if replacement:  # the race of exponential clocks, one for every sample
        return (-torch.log1p(-u).clamp(max=-1e-30) / weights.unsqueeze(-1)).argmin(-2)
    return (-torch.log1p(-u).clamp(max=-1e-30) / weights).topk(num_samples, largest=False, sorted=True).indices


def _like(make: str) -> Callable[..., Tensor]:
    """``rand_like`` and so on, by the draw in place that has the same numbers."""

    def draw(draws: Draws, x: Tensor, *args: Any, **options: Any) -> Tensor:
        out = torch.empty_like(x, **options)
        generator: dict[str, Any] = {"generator": draws.generator} if draws.shared else {}
        if make == "randint_like":
            low, high = (0, args[0]) if len(args) == 1 else args
            return out.random_(low, high, **generator) if generator else _random_(draws, out, low, high)
        if generator:
            return out.uniform_(**generator) if make == "rand_like" else out.normal_(**generator)
        return _uniform_(draws, out) if make == "rand_like" else _normal_(draws, out)

    return draw


LIKE = {getattr(torch, name): _like(name) for name in ("rand_like", "randn_like", "randint_like")}
OVER: dict[Any, Callable[..., Tensor]] = {
    torch.rand: _rand,
    torch.randn: _randn,
    torch.randint: _randint,
    torch.randperm: _randperm,
    torch.normal: _normal,
    torch.bernoulli: _bernoulli,
    torch.multinomial: _multinomial,
    Tensor.uniform_: _uniform_,
    Tensor.normal_: _normal_,
    Tensor.bernoulli: _bernoulli,
    Tensor.bernoulli_: _bernoulli_,
    Tensor.exponential_: _exponential_,
    Tensor.random_: _random_,
    Tensor.multinomial: _multinomial,
    **LIKE,
}
"""What is taken over, and how by row."""
