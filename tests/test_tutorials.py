"""The tutorials have the form they promise; `make tutorials` runs them."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
import torch

from marlenv.tournament.config import Config
from marlenv.tournament.plan import following
from marlenv.tournament.play import blank

FOLDER = Path(__file__).resolve().parents[1] / "tutorials"
SCRIPTS = sorted(FOLDER.glob("*.py"))
LINES = 120


def test_they_are_numbered_without_a_gap() -> None:
    assert [path.name[:3] for path in SCRIPTS] == [f"{i:02d}_" for i in range(1, len(SCRIPTS) + 1)]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_a_tutorial_is_a_short_script_in_percent_format(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert text.count("\n") < LINES, f"{text.count(chr(10))} lines"
    assert text.startswith('# %% [markdown]\n"""# ')
    title = (ast.get_docstring(tree) or "").splitlines()[0]
    assert re.match(rf"# {int(path.name[:2])}\. \w", title), (
        f"the first line of the docstring is its number and title: {title}"
    )
    assert re.search(r"^# %%$", text, re.M), "no code cell"
    assert "torch.set_num_threads(1)" in text
    assert "assert " in text or "except " in text, "a tutorial checks what it says"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_a_tutorial_needs_no_torchrl(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not [n for n in names if n.split(".")[0] == "torchrl"]


@pytest.mark.slow
def test_the_tournament_of_the_demo_is_won_by_who_plays_perfectly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER / "tournament")
    config = Config.of({**tomllib.loads((FOLDER / "tournament" / "tic_tac_toe.toml").read_text()), "cycles": 4})
    arena = config.arena()
    played = arena.play(following(config, arena, blank([], 2)))
    seat = torch.tensor([[name == "minimax" for name in game.players] for game in played.games])
    assert len(played.games) == 48
    assert (played.returns[seat] >= 0).all()
    assert (played.returns[seat] > 0).sum() > 12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "options", "groups"),
    [
        ("simple_tag", {}, 2),
        ("simple_spread", {"group_map": {"scout": ["agent_1"], "others": ["agent_0", "agent_2"]}}, 2),
        ("navigation", {"group_map": "one_group_per_agent"}, 4),
    ],
)
def test_training_needs_no_other_code_for_other_tasks_and_groups(task: str, options: dict, groups: int) -> None:
    """Tutorial 6 with another first line, for one update."""
    text, at = (FOLDER / "06_train.py").read_text(), 'TASK, OPTIONS = "simple_spread", {}'
    assert at in text
    text = text.replace(at, f"TASK, OPTIONS = {task!r}, {options!r}")
    text = re.sub(r"ROWS, STEPS, UPDATES = .*", "ROWS, STEPS, UPDATES = 8, 6, 1", text)
    text = text.rpartition("assert ")[0]
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    found: dict = {"__name__": "tutorial"}
    exec(compile(text, "06_train.py", "exec"), found)
    torch.set_num_threads(threads)
    torch.random.set_rng_state(state)
    assert len(found["teams"]) == len(found["last"]) == groups
    assert all(torch.isfinite(x).all() for team in found["teams"] for x in team.parameters())


def test_they_tell_one_story() -> None:
    """All but the game are about covering landmarks."""
    for path in SCRIPTS:
        if "game" not in path.stem:
            assert "landmark" in path.read_text().lower() or "simple_spread" in path.read_text(), path.name
