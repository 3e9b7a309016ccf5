"""Every operation that the tracer knows, with every argument that it handles: machine code against eager mode."""

import os
import platform

import numpy as np
import operation_cases_arrays
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from operation_cases import CASES
from operations import ROWS, Library, Watched, declared

from marlenv.physics.jit import cache

pytestmark = pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
INF, NAN = float("inf"), float("nan")
SPECIAL = [NAN, INF, -INF, 0.0, -0.0]
TAME = [*SPECIAL, 0.25, -0.25, 0.5, -0.5, 1.0, 1.0, -1.0, 1.5, -1.5, 2.0, 2.5, -2.5, 3.0, 3.0, -3.0, 7.75, -8.0]
WILD = [*TAME, 1e5, -1e5, 1e10, -1e10, 1e-30, -1e-30, 88.0, -88.0, 0.1, 123.456]
POOLS = {
    "wild": WILD,
    "far": WILD,
    "tame": TAME,
    "small": [*range(-9, 10)],
    "ints": [*range(-9, 10), 2**31, -(2**31), 2**40 + 3, 2**62, -(2**63), 2**63 - 1],
    "bits": [True, False],
}
FREE = {
    "wild": st.floats(width=32),
    "far": st.floats(-(2.0**119), 2.0**119, width=32),
    "tame": st.integers(-32, 32).map(lambda n: n / 4),
    "small": st.integers(-9, 9),
    "ints": st.integers(-(2**63), 2**63 - 1),
    "bits": st.booleans(),
}


assert operation_cases_arrays.S  # adds its own
NAMES = list(CASES)
GROUPS = [NAMES[i : i + 20] for i in range(0, len(NAMES), 20)]


@pytest.fixture(
    scope="module",
    params=[
        (),
        pytest.param("one", marks=pytest.mark.slow),
        pytest.param(("-mno-avx512f",), marks=pytest.mark.full),
        pytest.param(("-march=x86-64",), marks=pytest.mark.full),
    ],
    ids=["as it is", "one row", "registers of 32 bytes", "registers of 16 bytes"],
)
def library(request, tmp_path_factory):
    lanes, options = (1, ()) if request.param == "one" else (ROWS, request.param)
    if options and platform.machine() != "x86_64":
        pytest.skip("an option of compilers for x86-64")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "OPTIONS", (*cache.OPTIONS, *options))
        if "MARLENV_CACHE" not in os.environ:
            patch.setenv("MARLENV_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))
        with Watched() as watched:
            made = Library(
                {name: (f, [(shape, dtype) for _, shape, dtype in inputs]) for name, (f, inputs) in CASES.items()},
                lanes,
            )
        made.given = watched.given
        yield made


@pytest.mark.slow
def test_every_handler_and_every_declared_argument_has_a_case(library):
    assert not sorted(declared() - library.given)


def numbers(rng, free, kind, shape, dtype):
    """Numbers ``[16, *shape]``: special ones, ties and free ones; every other row is finite."""
    if kind == "apart":
        return torch.as_tensor(rng.permuted(np.tile(np.arange(shape[-1]) / 2 - 1, (ROWS, 1)), axis=1)).to(dtype)
    pool = torch.tensor(POOLS[kind] + free[kind] * 2, dtype=dtype)
    calm = pool[pool.isfinite()] if dtype.is_floating_point else pool
    x, quiet = (part[torch.from_numpy(rng.integers(0, len(part), (ROWS, *shape)))] for part in (pool, calm))
    even = (torch.arange(ROWS) % 2 == 0).reshape(-1, *[1] * len(shape))
    return torch.where(even, quiet, x)


@pytest.mark.filterwarnings("ignore:var", "ignore:std", "ignore:The reduce argument of torch.scatter")
@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(
    seed=st.integers(0, 2**32),
    free=st.fixed_dictionaries({k: st.lists(v, min_size=3, max_size=3) for k, v in FREE.items()}),
)
def test_machine_code_computes_what_eager_mode_computes(library, names, seed, free):
    rng = np.random.default_rng(seed)
    for name in names:
        f, inputs = CASES[name]
        args = [numbers(rng, free, *one) for one in inputs]
        expected = f(*args)
        expected = expected if isinstance(expected, (tuple, list)) else (expected,)
        for ours, theirs in zip(library(name, *args), expected, strict=True):
            where = f"{name}({', '.join(map(str, args))}) is"
            torch.testing.assert_close(
                ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True, msg=lambda text, where=where: f"{where} {text}"
            )
