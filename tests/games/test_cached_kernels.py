"""Machine code of games is kept on disk, and not used again after any file that it is made from has changed."""

from __future__ import annotations

import os
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


@pytest.mark.parametrize("size", [0, 7])
def test_files_that_were_not_written_to_their_end_are_made_again(size: int, tmp_path: Path) -> None:
    """They were errors of numba for ever."""
    (file := tmp_path / "triple.py").write_text("def triple(x):\n    return 3 * x\n")
    source = {}
    for hits in (0, 0, 1):
        exec(compile(file.read_text(), str(file), "exec"), source)
        triple = compiled(source["triple"])
        assert triple(14) == 42
        assert sum(triple.stats.cache_hits.values()) == hits
        if not hits and not list(tmp_path.rglob("cut")):
            for kept in tmp_path.rglob("*.nb[ci]"):
                kept.write_bytes(kept.read_bytes()[:size])
            (tmp_path / "cut").touch()


def test_a_full_disk_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_data", full)
    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_index", full)
    assert compiled(lambda x: 5 * x)(5) == 25


def test_numba_may_be_switched_off() -> None:
    """Games of many rows ended in an AttributeError."""
    code = "import marlenv; print(float(marlenv.make('{}', num_envs=80, seed=0).rollout(9)['next', '{}'].sum()))"
    for game, key in (("tic_tac_toe", "x', 'reward"), ("chess", "white', 'reward")):
        ran = [
            subprocess.run(
                [sys.executable, "-c", code.format(game, key)],
                env={**os.environ, "NUMBA_DISABLE_JIT": off},
                capture_output=True,
                text=True,
                check=False,
            )
            for off in ("0", "1")
        ]
        assert [one.returncode for one in ran] == [0, 0], ran[1].stderr
        assert ran[0].stdout == ran[1].stdout
