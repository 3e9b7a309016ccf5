"""One thread, hypothesis without a clock, and one place for machine code: the tensors here are small, and the machines
that run this are shared.
"""

import gc
import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("house", deadline=None, derandomize=True, database=None)
settings.load_profile("house")


def pytest_addoption(parser):
    parser.addoption(
        "--full", action="store_true", help="as many games, steps and calls as are promised, not a few of them; hours"
    )


gc.disable()  # until all tests are collected: nothing of what is made before is garbage


def pytest_collection_finish():
    """Twenty thousand tests and all libraries lie in memory now; looking through them for garbage over and over, as
    tests for leaks ask for, took as long as the tests."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config, items):
    """Leaves out what is marked ``full``: more of what the other cases of a test show."""
    if not config.getoption("--full"):
        config.hook.pytest_deselected(items=[item for item in items if "full" in item.keywords])
        items[:] = [item for item in items if "full" not in item.keywords]


@pytest.fixture
def sized(request):
    """Of two sizes of a test the first, which shows what is broken; with --full (`make full`) the second."""
    return (lambda few, many: many) if request.config.getoption("--full") else (lambda few, many: few)


KEPT = Path(__file__).resolve().parents[1] / "build" / "kernels"


@pytest.fixture(scope="session", autouse=True)
def _machine_code(tmp_path_factory):
    """Compiled once for all workers and all runs, out of the user's own cache, and waited for however slow the machine
    is."""
    from marlenv.errors import Unsupported
    from marlenv.physics.jit import cache, tiers

    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        if "MARLENV_CACHE" not in os.environ:
            patch.setenv("MARLENV_CACHE", str(KEPT))
            try:
                cache.own_folder()
            except Unsupported:  # a checkout that others may write to
                patch.setenv("MARLENV_CACHE", str(shared / "kernels"))
        patch.setattr(tiers, "PATIENCE", 600.0)
        yield
