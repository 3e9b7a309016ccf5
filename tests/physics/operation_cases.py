"""What is computed as machine code and eagerly: functions for every operation and argument that the tracer knows."""

import torch
import torch.nn.functional as F

A = torch.ops.aten
INF, NAN = float("inf"), float("nan")
INT = torch.int64


def wild(*shape):
    """Any float32."""
    return "wild", shape, torch.float32


def far(*shape):
    """Any float32 up to 1e36, infinities and NaN.

    Of a finite number whose quotient is infinite, eager mode's remainder is NaN in whole vectors and right in the rest.
    """
    return "far", shape, torch.float32


def tame(*shape):
    """Quarters up to 8, infinities and NaN, whose sums are exact in any order."""
    return "tame", shape, torch.float32


def double(*shape):
    return "tame", shape, torch.float64


def ints(*shape):
    """Any int64."""
    return "ints", shape, INT


def small(*shape):
    """Integers from -9 to 9."""
    return "small", shape, INT


def bits(*shape):
    return "bits", shape, torch.bool


W, X, X2, N, S, M = wild(3), tame(3), tame(2, 3), ints(3), small(3), bits(3)
TABLE = torch.tensor([[0.5, -1.0, 2.0], [1.5, NAN, 0.0], [3.0, 4.0, -INF], [0.25, 0.75, 1.25]])
PICKS = torch.tensor([2, 0, 2])
CASES = {}


def case(name, f, *inputs):
    assert name not in CASES, name
    CASES[name] = (f, inputs)


def cases(prefix, functions, *inputs):
    for i, f in enumerate(functions):
        case(f"{prefix} {i}", f, *inputs)


# --- of one number -------------------------------------------------------------------------------

SMOOTH = (
    "sqrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sigmoid",
    "atan",
    "asin",
    "acos",
    "sinh",
    "cosh",
    "tanh",
    "erf",
    "rsqrt",
    "reciprocal",
    "floor",
    "ceil",
    "trunc",
    "round",
    "abs",
    "neg",
    "sign",
    "sgn",
    "frac",
    "isnan",
    "isinf",
    "isfinite",
    "relu",
    "square",
    "isposinf",
    "nan_to_num",
    "deg2rad",
    "logical_not",
    "sin",
    "cos",
    "tan",
)
for _name in SMOOTH:
    if hasattr(torch, _name):
        _f = getattr(torch, _name)
        case(f"{_name} float", _f, tame(3) if _name in ("sin", "cos", "tan", "sinh", "cosh") else W)
        case(f"{_name} double", _f, double(3))
        if _name not in ("frac",):
            case(f"{_name} int", _f, S)
for _name in ("floor", "ceil", "trunc", "round", "abs", "sign", "square", "neg"):
    case(f"{_name} any int", getattr(torch, _name), N)
cases("bits", [lambda m: ~m, lambda m: m.sign(), lambda m: m.float(), lambda m: m.sqrt(), lambda m: m.logical_not()], M)
cases("round decimals", [lambda x, d=d: torch.round(x, decimals=d) for d in (1, 2, 0, -1)], tame(3))
case("round int decimals", lambda n: torch.round(n.float(), decimals=-1), S)
cases("to", [lambda x, t=t: x.to(t) for t in (torch.float64, torch.bool)], W)
cases("narrow", [lambda n, t=t: n.to(t).to(INT) for t in (torch.int32, torch.int16, torch.int8, torch.uint8)], N)
cases(
    "narrow sums",
    [lambda n, t=t: (n.to(t) * 7 + n.to(t)).to(INT) for t in (torch.int32, torch.int16, torch.int8, torch.uint8)],
    N,
)
case("narrow negative", lambda n: (-n.to(torch.uint8)).to(INT), N)
cases("to int", [lambda x: x.long(), lambda x: x.nan_to_num(0, 7, -7).clamp(-9, 9).to(torch.int32).long()], tame(3))
cases("int to", [lambda n: n.float(), lambda n: n.double(), lambda n: n.bool(), lambda n: n.clone()], N)
case("double to", lambda x: (x.float(), x.long(), x.bool()), double(3))
cases(
    "nan_to_num",
    [
        lambda x: x.nan_to_num(),
        lambda x: x.nan_to_num(3.0),
        lambda x: x.nan_to_num(nan=1.0, posinf=2.0, neginf=-2.0),
        lambda x: x.nan_to_num(posinf=5.0),
    ],
    W,
)
cases(
    "activations",
    [
        F.leaky_relu,
        lambda x: F.leaky_relu(x, 0.3),
        F.elu,
        lambda x: A.elu(x, 0.5, 1.5, 2.0),
        F.selu,
        F.silu,
        lambda x: F.gelu(x.clamp(-9, 9)),
        lambda x: F.gelu(x.clamp(-9, 9), approximate="tanh"),
        F.softplus,
        lambda x: F.softplus(x, 2.0, 3.0),
        F.hardtanh,
        F.relu6,
        lambda x: F.hardtanh(x, -0.5, 2.0),
        torch.isneginf,
        torch.rad2deg,
    ],
    X,
)

# --- of two numbers ------------------------------------------------------------------------------

TWO = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": torch.minimum,
    "max": torch.maximum,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "fmin": torch.fmin,
    "fmax": torch.fmax,
    "max of": torch.max,
    "min of": torch.min,
}
for _name, _f in TWO.items():
    case(f"{_name} floats", _f, W, W)
    case(f"{_name} doubles", _f, double(3), double(3))
    case(f"{_name} ints", _f, N, N)
    case(f"{_name} mixed", _f, X, S)
    case(f"{_name} with numbers", lambda x, n, f=_f: (f(x, torch.tensor(2.5)), f(torch.tensor(1), n)), X, S)
    case(f"{_name} shapes", _f, X2, tame(1, 3))
    if _name not in ("sub",):
        case(f"{_name} bits", _f, M, bits(3))
FLOATS = {
    "div": lambda a, b: a / b,
    "floor_divide": lambda a, b: a // b,
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": lambda a, b: a % b,
    "fmod": torch.fmod,
    "pow": torch.pow,
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "logaddexp": torch.logaddexp,
}
for _name, _f in FLOATS.items():
    case(f"{_name} floats", _f, X, X)
    case(f"{_name} doubles", _f, double(3), double(3))
    case(
        f"{_name} numbers",
        lambda x, f=_f: (f(x, torch.tensor(0.1)), f(torch.tensor(2.0), x), f(x, torch.tensor(-3.0))),
        X,
    )
cases(
    "large",
    [lambda x: x % 0.3, lambda x: x % -7.0, lambda x: x // 0.1, lambda x: torch.fmod(x, 0.7), lambda x: x / 3],
    far(3),
)
cases(
    "alpha",
    [
        lambda x, y: torch.add(x, y, alpha=2.5),
        lambda x, y: torch.sub(x, y, alpha=-2),
        lambda x, y: torch.rsub(x, y, alpha=3),
        lambda x, y: torch.add(x, 2, alpha=3),
        lambda x, y: torch.rsub(x, 2.5),
        lambda x, y: 1 - y,
    ],
    X,
    X,
)
cases(
    "alpha int",
    [
        lambda n, m: torch.add(n, m, alpha=3),
        lambda n, m: torch.sub(n, m, alpha=3),
        lambda n, m: torch.rsub(n, 7, alpha=-2),
    ],
    N,
    N,
)
case("alpha bits", lambda m, k: torch.add(m, k, alpha=False), M, bits(3))
DIVISORS = (1, 2, 3, 7, -1, -2, -3, -7)
cases(
    "int //",
    [
        lambda n, d=d: (
            n // d,
            n % d,
            torch.fmod(n, d),
            torch.div(n, d, rounding_mode="trunc"),
            torch.div(n, d, rounding_mode="floor"),
            n / d,
        )
        for d in DIVISORS
    ],
    small(3),
)
cases("any int //", [lambda n, d=d: (n // d, n % d, torch.div(n, d, rounding_mode="trunc")) for d in (1, 3, -3)], N)
cases(
    "int // data",
    [lambda n, m: n // m.clamp(min=1), lambda n, m: n % m.clamp(max=-1), lambda n, m: n // (m.clamp(-5, 5).abs() + 1)],
    S,
    S,
)
cases("power", [lambda x, p=p: x**p for p in (0, 1, 2, 3, 4, 5, 0.5, -0.5, -1, -2, -3, 1.5, 0.0, 2.0)], X)
cases("power of", [lambda x: 2**x, lambda x: 0.5**x, lambda x: x**x], X)
cases("int power", [lambda n, p=p: n**p for p in (0, 1, 2, 3, 5)], S)
cases(
    "shift",
    [
        lambda n, k=k: (
            n >> k,
            n << k,
            A.bitwise_left_shift(n, torch.tensor(k)),
            A.bitwise_right_shift(n, k),
            A.__lshift__(n, k),
            A.__rshift__(n, k),
        )
        for k in (0, 1, 7, 62)
    ],
    N,
)
case("shift by data", lambda n, k: n >> k.clamp(0, 9), N, S)
cases(
    "bitwise",
    [lambda n, m: n & m, lambda n, m: n | m, lambda n, m: n ^ m, lambda n, m: A.bitwise_and(n, 6), lambda n, m: ~n],
    N,
    N,
)
cases("bitwise bits", [lambda n, m: n & m, lambda n, m: n | m, lambda n, m: n ^ m, lambda n, m: ~n & m], M, bits(3))
for _name in ("logical_and", "logical_or", "logical_xor"):
    case(_name, getattr(torch, _name), X, S)
case("isclose", lambda x, y: (torch.isclose(x, y), torch.isclose(x, x + 1e-9)), X, X)

# --- of three numbers ----------------------------------------------------------------------------

cases(
    "clamp",
    [
        lambda x: x.clamp(-1, 1),
        lambda x: x.clamp(min=0.5),
        lambda x: x.clamp(max=0.5),
        lambda x: x.clamp(2, -2),
        lambda x: x.clamp_min(1.0),
        lambda x: x.clamp_max(1.0),
        lambda x: x.clip(NAN, 1.0),
    ],
    W,
)
case(
    "clamp tensors",
    lambda x, a, b: (x.clamp(a, b), x.clamp(min=a), x.clamp(max=b), A.clamp_min(x, a), A.clamp_max(x, b)),
    W,
    wild(3),
    wild(3),
)
case("clamp ints", lambda n: (n.clamp(-2, 2), n.clamp(min=1.5), n.clamp_max(3)), N)
case(
    "where",
    lambda m, x, n: (torch.where(m, x, n), torch.where(m, 1.0, x), torch.where(m, n, 0), torch.where(x > 0, m, ~m)),
    M,
    W,
    N,
)
case(
    "masked_fill",
    lambda x, m: (x.masked_fill(m, 3), x.masked_fill(m, torch.tensor(NAN)), x.masked_fill(~m[:, :1], -INF)),
    W,
    M,
)
cases(
    "addcmul",
    [
        torch.addcmul,
        lambda x, y, z: torch.addcmul(x, y, z, value=-2.5),
        torch.addcdiv,
        lambda x, y, z: torch.addcdiv(x, y, z, value=0.5),
        torch.lerp,
        lambda x, y, z: torch.lerp(x, y, 0.3),
        lambda x, y, z: torch.lerp(x, y, 0.75),
    ],
    X,
    X,
    X,
)
