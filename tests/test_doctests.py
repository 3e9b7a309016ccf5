"""Every example in a docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest
import torch

import marlenv

SKIP = {"marlenv.cli.__main__"}  # runs the command line when imported
NEEDS = {
    "marlenv.interop.benchmarl": "benchmarl.environments",
    "marlenv.interop.jax": "jax",
    "marlenv.interop.pufferlib": "pufferlib",
    "marlenv.interop.rllib": "ray.rllib",
    "marlenv.interop.sb3": "stable_baselines3",
}
"""Rooms with examples of what only the slow tier installs."""


def modules() -> list[str]:
    """All modules of the package, imported once under their one name."""
    found = {"marlenv"}
    for root in ("marlenv", "marlenv.groups", "marlenv.scenarios"):
        package = importlib.import_module(root)
        found |= {root, *(m.name for m in pkgutil.walk_packages(package.__path__, root + "."))}
    return sorted(found - SKIP)


def needed(name: str) -> str | None:
    return next((module for room, module in NEEDS.items() if f"{name}.".startswith(f"{room}.")), None)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if needed(n) else n for n in modules()])
def test_docstring_examples(name: str) -> None:
    if other := needed(name):
        pytest.importorskip(other, reason=f"needs {other}: VENV=.venv tests/simulators.sh", exc_type=ImportError)
    module = importlib.import_module(name)
    names = {public: getattr(marlenv, public) for public in marlenv.__all__}
    import tensordict

    extra = {**names, "torch": torch, "marlenv": marlenv, "TensorDict": tensordict.TensorDict, **vars(module)}
    assert doctest.testmod(module, extraglobs=extra, optionflags=doctest.IGNORE_EXCEPTION_DETAIL).failed == 0
