"""The examples of ``docs/use_with.md`` that the page's own test leaves out run as they stand, each in a process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import marlenv
import marlenv.interop

pytestmark = pytest.mark.slow
PAGE = (Path(__file__).parents[2] / "docs" / "use_with.md").read_text()
BLOCKS = dict(re.findall(r"the slow tests run it with ([\w.]+)\" }\n(.*?)```", PAGE, re.S))
APART = Path(os.environ.get("BENCHMARL_PYTHON", Path(sys.prefix) / "benchmarl" / "bin" / "python"))
PARTS = {"ray.rllib": ("ray", "pyarrow", "lz4", "ormsgpack", "tensorboardX")}


@pytest.mark.parametrize("library", BLOCKS)
def test_an_example_runs(library: str, tmp_path: Path) -> None:
    python = str(APART) if library == "benchmarl" else sys.executable
    there = APART.exists() if library == "benchmarl" else all(map(find_spec, PARTS.get(library, (library,))))
    if not there:
        pytest.skip(f"needs {library}: VENV=.venv tests/simulators.sh")
    code = BLOCKS[library]
    assert len(code.splitlines()) <= 15
    done = subprocess.run(
        [python, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_every_library_has_an_example() -> None:
    assert set(BLOCKS) == {"supersuit", "stable_baselines3", "pufferlib", "ray.rllib", "benchmarl", "jax"}


def test_every_adapter_is_used_in_an_example_of_at_most_15_lines() -> None:
    blocks = re.findall(r"^``` ?(?:python|\{ \.python[^\n]*\})\n(.*?)^```", PAGE, re.S | re.M)
    assert max(len(block.splitlines()) for block in blocks) <= 15
    code = "\n".join(blocks)
    assert [name for name in marlenv.interop.__all__ if not re.search(rf"\b{name}\(", code)] == []
