"""Machine code of games is kept on disk, and not used again after any file that it is made from has changed."""

from __future__ import annotations

import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import marlenv
from marlenv import groups, scenarios

pytest.importorskip("numba", reason="without numba there is no machine code of games")

from numba.core import caching

from marlenv.games.fast.cached import compiled

PLAY = """
import torch

from marlenv.games.fast.compiled import kernels

numbers = kernels().unit_numbers
out = torch.zeros(1).numpy()
numbers(torch.zeros(1, dtype=torch.int64).numpy(), torch.ones(1, dtype=torch.int64).numpy(), 0, out)
print(float(out[0]), sum(numbers.stats.cache_hits.values()))
"""


def double(x: int) -> int:
    return 2 * x


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """marlenv as it stands, in a place of its own, without machine code."""
    for package in (marlenv, groups, scenarios):  # the last two lie elsewhere in a checkout
        to = tmp_path / package.__name__.replace(".", "/")
        shutil.copytree(package.__path__[0], to, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    return tmp_path


def play(folder: Path) -> tuple[float, int]:
    """A number that machine code draws, and how often that was read from the disk."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PLAY],
        env={"PYTHONPATH": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    number, hits = done.stdout.split()
    return float(number), int(hits)


@pytest.mark.slow
def test_an_upgrade_does_not_go_on_with_old_machine_code(copy: Path) -> None:
    number, hits = play(copy)
    assert hits == 0
    assert play(copy) == (number, 1)
    other = copy / "marlenv" / "rng.py"  # a file that is none of the kernel's
    other.write_text(other.read_text().replace("0x9E3779B97F4A7C15", "0x9E3779B97F4A7C17"))
    changed, hits = play(copy)
    assert hits == 0
    assert changed != number


def test_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert compiled(double)(21) == 42


@pytest.mark.slow
def test_where_files_cannot_be_read(copy: Path) -> None:
    """As where only what Python compiled is: nobody could tell what machine code was made from."""
    source = copy / "marlenv" / "rng.py"
    py_compile.compile(str(source), cfile=str(source.with_suffix(".pyc")), doraise=True)
    source.unlink()
    number, hits = play(copy)
    assert hits == 0
    assert play(copy) == (number, 0)
