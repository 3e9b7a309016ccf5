"""The scripts that learn, each once in seconds; ``make learn`` runs them to the end, where they must have learned."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[1] / "tutorials" / "training"
RUNS = {
    "mappo_navigation": ["ppo_navigation.py"],
    "ippo_navigation": ["ppo_navigation.py", "--critic", "own"],
    "ppo_gymnasium": ["ppo_gymnasium.py"],
    "qmix_spread": ["qmix_spread.py"],
    "maddpg_tag": ["maddpg_tag.py"],
    "self_play_tic_tac_toe": ["self_play.py"],
    "self_play_connect_four": ["self_play.py", "--game", "connect_four"],
    **{
        f"ppo_{name}": ["ppo_scenarios.py", "--scenario", name]
        for name in ("territory", "commons", "predator_prey", "rescue", "skirmish")
    },
}
LINES = 130


VARIATIONS = {
    *("ippo_navigation", "self_play_connect_four", "ppo_territory", "ppo_predator_prey", "ppo_rescue", "ppo_skirmish")
}  # of scripts that are run already
LONGEST = "ppo_territory"


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (n in VARIATIONS) + [pytest.mark.full] * (n == LONGEST)) for n in RUNS],
)
@pytest.mark.filterwarnings("ignore")  # TorchRL warns of its own ways
def test_a_script_runs_from_end_to_end(name: str, tmp_path: Path, monkeypatch, capsys) -> None:
    script, *options = RUNS[name]
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", [script, *options, "--smoke", "--out", str(tmp_path)])
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng():
            runpy.run_path(str(FOLDER / script), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
    said = capsys.readouterr().out
    assert re.search(rf"{name}: learned - random = -?[\d.]+, 95 % in \[", said)
    assert (tmp_path / f"{name}.svg").read_text().startswith("<svg")


def test_every_script_is_run_and_short() -> None:
    scripts = {path.name: path.read_text() for path in FOLDER.glob("*.py") if path.name != "report.py"}
    assert set(scripts) == {run[0] for run in RUNS.values()}
    for name, text in scripts.items():
        assert text.count("\n") < LINES, name


def test_a_run_that_learned_nothing_says_so(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    from report import Report

    report = Report("planted", "points", torch.zeros(50))
    report.add(10, torch.zeros(50))
    with pytest.raises(AssertionError, match="nothing was learned"):
        report.end(torch.randn(50, generator=torch.Generator().manual_seed(0)), False, tmp_path)
    report.end(torch.ones(50), False, tmp_path)
    assert "0.00 to 0.00" not in (tmp_path / "planted.svg").read_text()
