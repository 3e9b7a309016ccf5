"""Every example in a docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest
import torch

import marlenv

SKIP = {"marlenv.cli.__main__"}  # runs the command line when imported


def modules() -> list[str]:
    """All modules of the package, imported once under their one name."""
    found = {"marlenv"}
    for root in ("marlenv", "marlenv.groups", "marlenv.scenarios"):
        package = importlib.import_module(root)
        found |= {root, *(m.name for m in pkgutil.walk_packages(package.__path__, root + "."))}
    return sorted(found - SKIP)


@pytest.mark.parametrize("name", modules())
def test_docstring_examples(name: str) -> None:
    module = importlib.import_module(name)
    names = {public: getattr(marlenv, public) for public in marlenv.__all__}
    import tensordict

    extra = {**names, "torch": torch, "marlenv": marlenv, "TensorDict": tensordict.TensorDict, **vars(module)}
    assert doctest.testmod(module, extraglobs=extra, optionflags=doctest.IGNORE_EXCEPTION_DETAIL).failed == 0
