"""The list of packages is the folders that there are; what is missing from it would be missing from the wheel."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


def folders() -> set[str]:
    found = set()
    for top, name in (("marlenv", "marlenv"), ("groups", "marlenv.groups"), ("scenarios", "marlenv.scenarios")):
        for init in (ROOT / top).rglob("__init__.py"):
            inner = init.parent.relative_to(ROOT / top).parts
            found.add(".".join((name, *inner)))
    return found


def test_every_folder_is_listed() -> None:
    assert set(SETTINGS["tool"]["setuptools"]["packages"]) == folders()


def test_every_folder_outside_marlenv_is_mapped() -> None:
    mapping = SETTINGS["tool"]["setuptools"]["package-dir"]
    for name in folders():
        top = name.split(".")[1] if "." in name else ""
        if top in ("groups", "scenarios"):
            assert mapping.get(name, "").replace("/", ".") == name.removeprefix("marlenv."), name


def test_core_dependencies_are_four() -> None:
    names = {d.split(">")[0].split("=")[0] for d in SETTINGS["project"]["dependencies"]}
    assert names == {"torch", "tensordict", "numpy", "networkx"}


def test_no_hint_installs_the_distribution_of_somebody_else() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "marlenv").rglob("*.py")]:
        for hint in ("pip install marlenv ", "pip install marlenv\n"):
            assert hint not in path.read_text(), path


def test_every_extra_that_a_message_names_exists() -> None:
    from marlenv.optional import EXTRAS

    assert set(EXTRAS.values()) <= set(SETTINGS["project"]["optional-dependencies"])
