"""ML-Agents' own protocol, in an environment of its own, with a stand-in player at the other end.

What is checked stands in ``mlagents_protocol.py``, which runs there; the player is ``stand_in_player.py``.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.sim]
SCRIPT = Path(__file__).with_name("mlagents_protocol.py")
CHECKS = [part.split("(")[0] for part in SCRIPT.read_text().split("@check\ndef ")[1:]]


@functools.cache
def said() -> dict[str, str]:
    """Check -> how it failed, or nothing."""
    python = Path(sys.prefix) / "mlagents" / "bin" / "python"
    if not python.exists():
        pytest.skip("needs ML-Agents with its protobuf: VENV=.venv tests/simulators.sh mlagents")
    root = str(SCRIPT.parents[2])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), root]))}
    call = [str(python), "-W", "ignore", str(SCRIPT)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=300, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))[7:])["checks"]


@pytest.mark.parametrize("name", CHECKS)
def test_the_wrapper_shows_what_the_player_sent(name: str) -> None:
    assert not said()[name], said()[name]


def test_nothing_is_left_out() -> None:
    assert set(said()) == {*CHECKS}
