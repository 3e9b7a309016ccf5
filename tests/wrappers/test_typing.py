"""A user's mypy takes every public wrapper for a class that can be made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from typing import Any

import marlenv
from marlenv.wrappers.{module} import {made} as Made

sim: Any = None
one: marlenv.{made} = marlenv.{made}(sim)
other: Made = Made(sim)
"""
MADE = {
    "gym": ("GymWrapper", "GymEnv", "HabitatEnv", "MOGymEnv", "RoboHiveEnv"),
    "jaxmarl": ("JaxMARLWrapper", "JaxMARLEnv"),
    "meltingpot": ("MeltingpotWrapper", "MeltingpotEnv"),
    "open_spiel": ("OpenSpielWrapper", "OpenSpielEnv"),
    "openml": ("OpenMLEnv",),
    "pettingzoo": ("PettingZooWrapper", "PettingZooEnv"),
    "pgx": ("PgxWrapper", "PgxEnv"),
    "procgen": ("ProcgenWrapper", "ProcgenEnv"),
    "smacv2": ("SMACv2Wrapper", "SMACv2Env"),
    "vmas": ("VmasWrapper", "VmasEnv"),
}
ABSTRACT = "from marlenv.wrappers import TurnSimEnv\n\nTurnSimEnv()\n"


def mypy(tmp_path: Path, text: str) -> str:
    script = tmp_path / "user.py"
    script.write_text(text)
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--ignore-missing-imports", "--cache-dir"]
    command += [str(tmp_path / "cache"), str(script)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_every_wrapper_can_be_made_and_a_base_cannot(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="needs mypy: pip install -e '.[dev]'")
    parts = [SCRIPT.format(module=module, made=name) for module, names in MADE.items() for name in names]
    said = mypy(tmp_path, "".join(parts))
    assert "abstract" not in said, said
    assert "Cannot instantiate abstract class" in mypy(tmp_path, ABSTRACT)
