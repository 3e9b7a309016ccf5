"""The list of packages is the folders that there are; what is missing from it would be missing from the wheel."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

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


EXTRAS = SETTINGS["project"]["optional-dependencies"]
TOOLS = {"test", "docs", "dev"}  # what developers install, with constraints.txt


def test_extras_say_ranges_and_constraints_say_versions() -> None:
    """Exact versions clash with what users have; the highest that was tried is the one that CI runs with."""
    pins = dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
    pins = {name.lower().replace("-", "_"): pin for name, pin in pins.items()}
    for extra in EXTRAS.keys() - TOOLS:
        for text in EXTRAS[extra]:
            if text.startswith("marlenv-torch["):
                continue
            range_ = re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\d.]+),<([\d.]+)", text)
            assert range_, f"{extra}: {text} must say its lowest version and the first that was not tried"
            name, low, high = range_.groups()
            pin = pins.get(name.lower().replace("-", "_"))
            if pin is not None:
                assert number(low) <= number(pin) < number(high), f"{extra}: {text}, and CI runs {pin}"


def number(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def test_dependencies_of_the_core_say_the_lowest_version() -> None:
    for text in SETTINGS["project"]["dependencies"]:
        name, low = text.split(">=")
        assert number(re.split(r"[+a-z]", version(name))[0]) >= number(low)


def test_the_citation_is_of_this_version() -> None:
    from marlenv import __version__

    text = (ROOT / "CITATION.cff").read_text()
    yaml = pytest.importorskip("yaml", reason="needs PyYAML: pip install -e '.[docs]'")
    cited = yaml.safe_load(text)
    assert {"cff-version", "message", "title", "authors", "version", "license"} <= cited.keys()
    assert cited["version"] == __version__
    assert cited["license"] == SETTINGS["project"]["license"]


def test_marks_of_types_are_in_the_wheel() -> None:
    assert (ROOT / "marlenv" / "py.typed").exists()
    assert SETTINGS["tool"]["setuptools"]["package-data"]["marlenv"] == ["py.typed", "*.pyi"]
