"""gym 0.21, 0.25 and 0.26, each in an environment of its own, beside themselves: every number, end and vector.

What is checked stands in ``gym_generation.py``, which runs there.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.sim]
SCRIPT = Path(__file__).with_name("gym_generation.py")
VERSIONS = ["0.21.0", "0.25.2", "0.26.2"]
NAMES = [f"every_number_of_{name}" for name in ast.literal_eval(SCRIPT.read_text().split("NAMES = ")[1].split("\n")[0])]
OTHERS = ["rows_of_a_vector", "rows_of_a_vector_of_processes"]
DECORATED = [part.split("(")[0] for part in SCRIPT.read_text().split("@check\ndef ")[1:]]


@functools.cache
def said(version: str) -> dict[str, str]:
    """Check -> how it failed, or nothing."""
    python = Path(os.environ.get("GYM_PYTHONS", sys.prefix)) / f"gym-{version}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"needs gym {version}: VENV=.venv tests/simulators.sh gym")
    root = str(SCRIPT.parents[2])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), root]))}
    call = [str(python), "-W", "ignore", str(SCRIPT)]  # gym says that it is not maintained
    done = subprocess.run(call, capture_output=True, text=True, timeout=600, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))[7:])
    assert result["version"] == version
    return result["checks"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", [*NAMES, *OTHERS, *DECORATED])
def test_it_is_what_the_simulator_does(name: str, version: str) -> None:
    assert not said(version)[name], said(version)[name]


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_left_out(version: str) -> None:
    assert set(said(version)) == {*NAMES, *OTHERS, *DECORATED}
