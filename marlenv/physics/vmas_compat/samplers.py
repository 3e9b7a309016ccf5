"""What PyTorch draws, taken over row by row: each sampler here has the signature of PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional, init
from torch.overrides import TorchFunctionMode

from marlenv.physics.vmas_compat import distributions
from marlenv.physics.vmas_compat.states import Rows

if TYPE_CHECKING:
    from marlenv.physics.vmas_compat.draws import Draws

OF_NO_ROW = "_marlenv_of_no_row"
"""An attribute of tensors that are as many as the rows by chance."""
LARGEST_INTEGER = {torch.float32: 1 << 24, torch.float64: 1 << 31, torch.float16: 1 << 11, torch.bfloat16: 1 << 8,
                   torch.uint8: 1 << 8, torch.int8: 1 << 7, torch.int16: 1 << 15, torch.bool: 2}  # fmt: skip
"""What ``random_()`` stays below; for others 2**31."""


class Governed(TorchFunctionMode):
    """Takes over what PyTorch draws, and knows which sizes and which tensors are those of the rows."""

    def __init__(self, draws: Draws) -> None:
        super().__init__()
        self.draws = draws

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        taken = OVER.get(func)
        if taken is None:
            out = func(*args, **kwargs)
            if func in SIZES:
                return _known_size(self.draws, out, args, kwargs)
            if func in MADE:
                self._mark(out, args, kwargs)
            return out
        if kwargs.get("generator") is not None:
            return func(*args, **kwargs)
        options = {name: value for name, value in kwargs.items() if name != "generator"}
        place = options.pop("out", None)
        out = taken(self.draws, *args, **options)
        if place is not None:
            place.resize_(out.shape).copy_(out)
            out = place
        self._mark(out, args, kwargs)
        return out

    def _mark(self, out: Tensor, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Marks what was made of other numbers than those of the rows, but is as many."""
        if not out.ndim or out.shape[0] != self.draws.rows:
            return
        given = [*args, *kwargs.values()]
        tensors = [x for x in given if isinstance(x, Tensor)]
        if tensors:
            chance = all(_is_marked(x) for x in tensors)
        else:
            flat = [y for x in given for y in (x if isinstance(x, (tuple, list)) else (x,))]
            chance = not any(isinstance(x, Rows) for x in flat)
        if chance:
            setattr(out, OF_NO_ROW, True)


def _is_marked(x: Tensor) -> bool:
    return isinstance(x, torch.nn.Parameter) or hasattr(x, OF_NO_ROW)


def shape_of(draws: Draws, *tensors: Tensor) -> tuple[int, ...]:
    """The shape of tensors together, whose first size is :class:`Rows` if it is that of the rows."""
    shape = tuple(tensors[0].shape) if len(tensors) == 1 else tuple(torch.broadcast_shapes(*[x.shape for x in tensors]))
    if not shape or shape[0] != draws.rows:
        return shape
    if any(x.ndim == len(shape) and x.shape[0] == draws.rows and not _is_marked(x) for x in tensors):
        return Rows(shape[0]), *shape[1:]
    return shape


def _known_size(draws: Draws, size: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """``x.shape``, ``x.size()`` or ``x.size(0)``, with :class:`Rows` for what is the rows'."""
    x = args[0]
    if not x.ndim or x.shape[0] != draws.rows or _is_marked(x):
        return size
    if isinstance(size, tuple):
        return torch.Size((Rows(size[0]), *size[1:]))
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return Rows(size) if isinstance(dim, int) and dim in (0, -x.ndim) else size


def _size(size: tuple[Any, ...], named: Any = None) -> tuple[int, ...]:
    """The shape in ``torch.rand(2, 3)``, ``torch.rand((2, 3))`` or ``torch.rand(size=(2, 3))``."""
    if named is not None:
        size = tuple(named) if isinstance(named, (tuple, list)) else (named,)
    elif len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    return tuple(n if isinstance(n, Rows) else int(n) for n in size)


def _made(
    draws: Draws, x: Tensor, dtype: Any = None, device: Any = None, requires_grad: bool = False, **_: Any
) -> Tensor:
    x = x.to(device=draws.device if device is None else device, dtype=dtype or x.dtype)
    return x.requires_grad_() if requires_grad else x


# --- new tensors -----------------------------------------------------------------------------------


def _rand(draws: Draws, *size: Any, **options: Any) -> Tensor:
    return _made(draws, draws.uniform(_size(size, options.pop("size", None))), **options)


def _normals(draws: Draws, shape: Sequence[int]) -> Tensor:
    return draws.by_row(shape, lambda rng, inner: rng.normal(shape=inner))


def _randn(draws: Draws, *size: Any, **options: Any) -> Tensor:
    return _made(draws, _normals(draws, _size(size, options.pop("size", None))), **options)


def _integers(draws: Draws, low: Any, high: Any, shape: Sequence[int]) -> Tensor:
    return draws.by_row(shape, lambda rng, inner: rng.randint(int(low), int(high), inner))


def _randint(draws: Draws, *args: Any, **options: Any) -> Tensor:
    low, high, size = (options.pop(name, None) for name in ("low", "high", "size"))
    rest = list(args)
    if size is None:
        size = rest.pop()
    low, high = _ends(rest, low, high)
    return _made(draws, _integers(draws, low, high, _size((size,))), **options)


def _ends(given: Sequence[Any], low: Any, high: Any) -> tuple[Any, Any]:
    """The least integer and the one above the largest: ``(high)``, ``(low, high)``, or by name."""
    if len(given) == 2:
        return given[0], given[1]
    if given:
        return (given[0], high) if high is not None else (low or 0, given[0])
    return low or 0, high


def _randperm(draws: Draws, n: int, **options: Any) -> Tensor:
    return _made(draws, draws.by_row((int(n),), lambda rng, inner: rng.permutation(inner[0])), **options)


def _normal(draws: Draws, mean: Any, std: Any = 1.0, size: Any = None, **options: Any) -> Tensor:
    tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
    shape = _size((), size) if size is not None else shape_of(draws, *tensors)
    return _made(draws, mean + std * _normals(draws, shape), **options)


def _bernoulli(draws: Draws, input: Tensor, p: Any = None) -> Tensor:
    return (draws.uniform(shape_of(draws, input)) < (input if p is None else p)).to(input.dtype)


def _multinomial(draws: Draws, input: Tensor, num_samples: int, replacement: bool = False) -> Tensor:
    u = draws.uniform((*shape_of(draws, input), *([num_samples] if replacement else [])))
    clocks = -torch.log1p(-u).clamp(max=-1e-30)  # the first of these to ring is the sample
    if replacement:
        return (clocks / input.unsqueeze(-1)).argmin(-2)
    return (clocks / input).topk(num_samples, largest=False, sorted=True).indices


def _like(fill: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``rand_like`` and so on, by the draw in place that has the same numbers."""

    def draw(draws: Draws, input: Tensor, *args: Any, **options: Any) -> Tensor:
        ends = {name: options.pop(name) for name in ("low", "high") if name in options}
        out = torch.empty_like(input, **options)
        if _is_marked(input):
            setattr(out, OF_NO_ROW, True)
        return fill(draws, out, *args, **ends)

    return draw


# --- in place --------------------------------------------------------------------------------------


def _uniform_(draws: Draws, x: Tensor, *args: Any, **options: Any) -> Tensor:
    low = args[0] if args else options.get("from", 0.0)
    high = args[1] if len(args) > 1 else options.get("to", 1.0)
    return x.copy_(low + draws.uniform(shape_of(draws, x)) * (high - low))


def _normal_(draws: Draws, x: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    return x.copy_(mean + std * _normals(draws, shape_of(draws, x)))


def _log_normal_(draws: Draws, x: Tensor, mean: float = 1.0, std: float = 2.0) -> Tensor:
    return x.copy_(torch.exp(mean + std * _normals(draws, shape_of(draws, x))))


def _bernoulli_(draws: Draws, x: Tensor, p: Any = 0.5) -> Tensor:
    return x.copy_(draws.uniform(shape_of(draws, x)) < p)


def _exponential_(draws: Draws, x: Tensor, lambd: float = 1.0) -> Tensor:
    return x.copy_(-torch.log1p(-draws.uniform(shape_of(draws, x))) / lambd)


def _cauchy_(draws: Draws, x: Tensor, median: float = 0.0, sigma: float = 1.0) -> Tensor:
    return x.copy_(median + sigma * torch.tan(math.pi * (draws.uniform(shape_of(draws, x)) - 0.5)))


def _geometric_(draws: Draws, x: Tensor, p: float) -> Tensor:
    u = draws.uniform(shape_of(draws, x)).double()
    return x.copy_((torch.log1p(-u) / math.log1p(-p)).ceil().clamp(min=1.0) if p < 1 else torch.ones_like(u))


def _random_(draws: Draws, x: Tensor, *args: Any, **options: Any) -> Tensor:
    low, high = _ends(args, options.get("from"), options.get("to"))
    high = LARGEST_INTEGER.get(x.dtype, 1 << 31) if high is None else high
    return x.copy_(_integers(draws, low, high, shape_of(draws, x)))


def _kaiming_uniform_(
    draws: Draws, tensor: Tensor, a: float = 0, mode: Any = "fan_in", nonlinearity: Any = "leaky_relu"
) -> Tensor:
    if not tensor.numel():
        return tensor
    size: int = init._calculate_correct_fan(tensor, mode)
    most = math.sqrt(3.0 / size) * init.calculate_gain(nonlinearity, a)
    return _start(_uniform_)(draws, tensor, -most, most)


def _start(fill: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Weights at their start, to which no gradient flows; ``torch.nn.init``'s names for the ends of numbers."""

    def draw(
        draws: Draws, tensor: Tensor, *args: Any, a: float | None = None, b: float | None = None, **kw: Any
    ) -> Any:
        ends = {name: value for name, value in (("from", a), ("to", b)) if value is not None}
        with torch.no_grad():
            return fill(draws, tensor, *args, **ends, **kw)

    return draw


# --- what needs several numbers for one --------------------------------------------------------------


def _standard_gamma(draws: Draws, input: Tensor) -> Tensor:
    return distributions.gamma(input, lambda draw: draws.by_row(shape_of(draws, input), draw))


def _dirichlet(draws: Draws, input: Tensor) -> Tensor:
    with torch.no_grad():  # PyTorch itself knows the gradient
        each = _standard_gamma(draws, input)
    return each / each.sum(-1, keepdim=True)


def _poisson(draws: Draws, input: Tensor) -> Tensor:
    u = draws.by_row(shape_of(draws, input), lambda rng, inner: rng.uniform(shape=inner, dtype=torch.float64))
    return distributions.poisson(input, u)


def _binomial(draws: Draws, count: Tensor, prob: Tensor) -> Tensor:
    shape = shape_of(draws, count, prob)
    count, prob = count.expand(shape), prob.expand(shape)
    return draws.by_row(shape, lambda rng, inner: distributions.binomial(count, prob, rng, inner))


def _dropout(
    draws: Draws, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, train: Any = None
) -> Tensor:
    if not (training if train is None else train) or not 0 <= p <= 1:
        return functional.dropout(input, p, False, inplace)
    kept = draws.uniform(shape_of(draws, input)) >= p
    scale = kept.to(input.dtype) * (1.0 / (1.0 - p) if p < 1 else 0.0)
    return input.mul_(scale) if inplace else input * scale


def _gumbel_softmax(
    draws: Draws, logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    clocks = -torch.log1p(-draws.uniform(shape_of(draws, logits))).clamp(max=-1e-30)
    soft = ((logits - clocks.log().to(logits.dtype)) / tau).softmax(dim)
    if not hard:
        return soft
    one = torch.zeros_like(soft).scatter_(dim, soft.argmax(dim, keepdim=True), 1.0)
    return one - soft.detach() + soft


OVER: dict[Any, Callable[..., Tensor]] = {
    torch.rand: _rand,
    torch.randn: _randn,
    torch.randint: _randint,
    torch.randperm: _randperm,
    torch.normal: _normal,
    torch.bernoulli: _bernoulli,
    torch.multinomial: _multinomial,
    torch.poisson: _poisson,
    torch.binomial: _binomial,
    torch._standard_gamma: _standard_gamma,
    torch._sample_dirichlet: _dirichlet,
    torch.rand_like: _like(_uniform_),
    torch.randn_like: _like(_normal_),
    torch.randint_like: _like(
        lambda draws, x, *given, low=None, high=None: _random_(draws, x, *_ends(given, low, high))
    ),
    torch.dropout: _dropout,
    functional.dropout: _dropout,
    functional.gumbel_softmax: _gumbel_softmax,
    init.uniform_: _start(_uniform_),
    init.normal_: _start(_normal_),
    init.kaiming_uniform_: _kaiming_uniform_,
    Tensor.uniform_: _uniform_,
    Tensor.normal_: _normal_,
    Tensor.log_normal_: _log_normal_,
    Tensor.bernoulli: _bernoulli,
    Tensor.bernoulli_: _bernoulli_,
    Tensor.exponential_: _exponential_,
    Tensor.cauchy_: _cauchy_,
    Tensor.geometric_: _geometric_,
    Tensor.random_: _random_,
    Tensor.multinomial: _multinomial,
}
"""What is taken over, and how by row."""
MADE = {
    torch.empty, torch.zeros, torch.ones, torch.full, torch.tensor, torch.arange, torch.linspace, torch.eye,
    torch.empty_like, torch.zeros_like, torch.ones_like, torch.full_like,
}  # fmt: skip
"""What makes tensors of sizes that are given, or of those of others."""
SIZES = {Tensor.shape.__get__, Tensor.size}  # type: ignore[attr-defined]
"""What tells a size."""
