"""Whoever stops reading what a command prints loses none of its files: ``marlenv ... | head -1``."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from marlenv.cli import bench
from marlenv.cli.__main__ import main
from marlenv.cli.play import colorful


def unread(folder: Path, words: str, typed: str = "", buffered: str = "") -> tuple[int, str]:
    """Runs a command whose output has no reader; exit code, standard error."""
    read, write = os.pipe()
    os.close(read)
    env = {**os.environ, "PYTHONUNBUFFERED": buffered}
    done = subprocess.run(
        [sys.executable, "-m", "marlenv.cli", *words.split()],
        input=typed, stdout=write, stderr=subprocess.PIPE, cwd=folder, env=env, text=True, check=False,
    )  # fmt: skip
    os.close(write)
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("buffered", ["1", ""])
def test_flame_graphs_and_games_are_kept(tmp_path: Path, buffered: str) -> None:
    words = "profile tic_tac_toe --steps 5 --seconds 0.1 --out flame.svg"
    assert unread(tmp_path, words, buffered=buffered) == (0, "")
    assert (tmp_path / "flame.svg").read_text().startswith("<svg")
    assert unread(tmp_path, "play connect_four --save g.json --seed 1", "4\nquit\n", buffered) == (0, "")
    assert json.loads((tmp_path / "g.json").read_text())["result"] is None


class Gone(io.StringIO):
    """Standard output whose reader has gone."""

    def write(self, _: str) -> int:
        raise BrokenPipeError


def test_a_game_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Gone())
    monkeypatch.setattr("marlenv.cli.play.colorful", lambda: False)
    assert main(["play", "tic_tac_toe", "--save", str(tmp_path / "g.json"), "--seed", "1"]) == 0
    assert json.loads((tmp_path / "g.json").read_text())["moves"] == []


def test_figures_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from marlenv.cli.benches import specs

    monkeypatch.setattr(specs, "measure", lambda rounds, **_: [])
    monkeypatch.setattr(sys, "stdout", Gone())
    assert "specs" in bench.SUITES
    assert main(["bench", "specs", "--json", str(tmp_path / "f.json")]) == 0
    assert json.loads((tmp_path / "f.json").read_text()) == []


@pytest.mark.parametrize(
    ("names", "colours"),
    [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_that_wants_no_colours_gets_none(
    monkeypatch: pytest.MonkeyPatch, names: dict[str, str], colours: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert colorful() is colours
