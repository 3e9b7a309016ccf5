"""The "Use" examples of the wrappers' pages run as they stand there; those of native envs run when the pages are
made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import openml_folder
import pytest
import stand_in_gym_suites
import stand_in_isaac
import stand_in_smacv2

from marlenv import available
from marlenv.optional import has
from marlenv.registration import find

PAGES = Path(__file__).resolve().parents[2] / "docs" / "envs"
SLOW = {
    "brax",
    "dm_control",
    "dm_soccer",
    "jaxmarl",
    "jumanji",
    "meltingpot",
    "openml",
    "pettingzoo",
    "pgx",
    "procgen",
    "unity_mlagents",
}  # one takes seconds, the others are installed there
STAND_IN = {
    "habitat": stand_in_gym_suites.habitat,
    "robohive": stand_in_gym_suites.robohive,
    "isaac_lab": stand_in_isaac.lab_installed,
    "isaacgym": stand_in_isaac.installed,
    "smacv2": stand_in_smacv2.installed,
}


def cases() -> list[Any]:
    names = available("wrapper")
    noisy = {"brax": [pytest.mark.filterwarnings("ignore")]}  # it warns of itself, JAX and MuJoCo wherever it is used
    return [
        pytest.param(name, marks=[*([pytest.mark.slow] if name in SLOW else []), *noisy.get(name, [])])
        for name in names
    ]


def test_every_page_of_a_wrapper_is_run() -> None:
    pages = {page.stem for page in PAGES.glob("*.md") if "\nWrapper. " in page.read_text()}
    assert pages == set(available("wrapper")) >= SLOW | set(STAND_IN)


@pytest.mark.sim
@pytest.mark.parametrize("name", cases())
def test_the_use_example_runs(
    name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if name in STAND_IN:
        STAND_IN[name](monkeypatch)
    elif name == "openml":
        monkeypatch.setenv("SCIKIT_LEARN_DATA", str(openml_folder.write(tmp_path)))
    elif name == "meltingpot":
        request.getfixturevalue("tensorflow_names")
    if name not in STAND_IN and not has(str(find(name).needs)):
        pytest.skip(f"{find(name).needs} is not installed")
    if name == "unity_mlagents":
        pytest.importorskip("stand_in_unity").installed(monkeypatch)
    section = (PAGES / f"{name}.md").read_text().split("## Use")[1].split("\n## ")[0]
    (code,) = re.findall(r"^```py\n(.*?)^```", section, re.M | re.S)
    found: dict[str, Any] = {}
    exec(code, found)
    assert found["data"].batch_size[0] == 2
    assert bool(found["data"]["next", "done"].any()) or found["data"].batch_size == (2, 100)
    found["env"].close()
