"""The README of a room names every file and folder in it, nothing that is not there, and links that lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
READMES = sorted(p for top in ("marlenv", "groups", "scenarios") for p in (ROOT / top).rglob("README.md"))
NEEDED = ("groups", "marlenv/vector", "marlenv/games", "marlenv/games/chess")


def faults(room: Path, text: str) -> list[str]:
    """What a README says wrongly or leaves out."""
    named = {name.rstrip("/") for name in re.findall(r"`([\w./]+(?:\.(?:py|h|cpp|md)|/))`", text)}
    inside = {p.name for p in room.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()} - {"__init__.py"}
    missing = [f"{name} is not named" for name in sorted(inside) if name not in named and Path(name).stem not in named]
    gone = [f"{name} is not there" for name in sorted(named) if not ((room / name).exists() or (ROOT / name).exists())]
    links = [link for link in re.findall(r"\]\(([^)#:]+)\)", text) if not (room / link).exists()]
    return [*missing, *gone, *(f"the link {link} leads nowhere" for link in links)]


@pytest.mark.parametrize("readme", READMES, ids=lambda p: str(p.parent.relative_to(ROOT)))
def test_a_readme_knows_its_room(readme: Path) -> None:
    assert not faults(readme.parent, readme.read_text())


def test_the_large_rooms_have_one() -> None:
    assert {ROOT / room / "README.md" for room in NEEDED} <= set(READMES)


def test_a_planted_fault_is_found() -> None:
    room, text = ROOT / "groups", (ROOT / "groups/README.md").read_text()
    assert faults(room, text.replace("`tree.py`", "`trees.py`")) == ["tree.py is not named", "trees.py is not there"]
    assert faults(room, text + "[x](nowhere.md)") == ["the link nowhere.md leads nowhere"]
