"""Simulators draw into memory, and their own warnings are not ours."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from types import ModuleType

import pytest

from marlenv.optional import has

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

# JAX compiles a function anew for every env; with this once in a run
COMPILED = tempfile.TemporaryDirectory(prefix="marlenv-jax-", ignore_cleanup_errors=True)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", COMPILED.name)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


@pytest.fixture(autouse=True)
def quiet_simulators() -> object:
    with warnings.catch_warnings():
        for module in ("pygame", "pettingzoo", "gymnasium", "mpe2", "pkg_resources", "Box2D", "rlcard", "vmas"):
            warnings.filterwarnings("ignore", module=module)
        warnings.filterwarnings("ignore", message=".*pkg_resources.*")
        warnings.filterwarnings("ignore", message=".*avx2.*")
        # Box2D dies, and takes Python along, when this warning is an error
        warnings.filterwarnings("ignore", message="builtin type .* has no __module__ attribute")
        yield


@pytest.fixture
def tensorflow_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two names of tensorflow, 1.4 GB, that Melting Pot has in its type annotations."""
    if not has("tensorflow"):
        tensorflow = ModuleType("tensorflow")
        tensorflow.Tensor, tensorflow.executing_eagerly = type, lambda: True
        monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
