"""Draws ``docs/pictures``: every scenario and every game some steps into an episode, and a sheet of all scenarios.

``python docs/contact_sheet.py`` writes the sheet again, ``python docs/contact_sheet.py go hex`` the pictures of those
envs, and ``all`` those of all. Policies are the ones written by hand where there are some, else random.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFont

import marlenv
from marlenv.cli import svg
from marlenv.envs.registry import load as load_object
from marlenv.physics import Heuristic
from marlenv.registration import find

PICTURES = Path(__file__).resolve().parent / "pictures"
SIZE, STEPS, COLUMNS, TITLE = 300, 40, 5, 24  # pixels, steps, pictures in a line, pixels
PLIES = {"tic_tac_toe": 5, "kuhn_poker": 1, "leduc_poker": 2, "prisoners_dilemma": 6, "matrix_game": 0, "hanabi": 12}
MOVES, COLORS = 30, 48  # plies of other games, colours of a picture
OPTIONS: dict[str, dict[str, Any]] = {
    "navigation": {"comms_range": 1.0},
    "sampling": {"comms_range": 1.0},
    "joint_passage": {"n_passages": 2},
    "road_traffic": {"is_testing_mode": True},
}
"""What shows more than the defaults do."""


def policy_of(name: str) -> Heuristic | None:
    """The policy that was written by hand for a scenario; None where there is none."""
    try:
        title = "".join(word.capitalize() for word in name.split("_"))
        found: Heuristic = load_object(f"marlenv.scenarios.{name}_policy:{title}Policy")()
    except Exception:
        return None
    return found


def picture(name: str, size: int = SIZE) -> np.ndarray:
    """A scenario, some steps into an episode."""
    env = marlenv.make(name, 1, seed=1, **OPTIONS.get(name, {}))
    env.rollout(STEPS, policy_of(name), break_when_any_done=True)
    pixels: np.ndarray = env.render(size=(size, size))
    return pixels


def of_game(name: str) -> np.ndarray:
    """A position of a game after random moves, as its people draw it."""
    env = marlenv.make(name, 1, seed=1)
    data = env.reset()
    for _ in range(PLIES.get(name, MOVES)):
        data = env.step_mdp(env.step(env.rand_action(data)))
    pixels: np.ndarray = svg.pixels(env.rules.svg(env.read(data[0])), (SIZE, SIZE))
    return pixels


def of_env(name: str) -> Image.Image:
    """The picture of an env's page, with few colours, which keeps the file small."""
    pixels = picture(name) if find(name).kind == "scenario" else of_game(name)
    page = Image.fromarray(pixels)
    inside = ImageChops.difference(page, Image.new("RGB", page.size, "white")).getbbox()  # without white margins
    return page.crop(inside).quantize(COLORS, dither=Image.Dither.NONE)


def native() -> list[str]:
    """The envs whose pages have pictures."""
    return [name for name in marlenv.available() if find(name).kind in ("scenario", "game")]


def sheet(names: list[str]) -> Image.Image:
    """Pictures in lines, each with its name above it."""
    lines = -(-len(names) // COLUMNS)
    page = Image.new("RGB", (COLUMNS * SIZE, lines * (SIZE + TITLE)), "white")
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(15)
    for i, name in enumerate(names):
        x, y = i % COLUMNS * SIZE, i // COLUMNS * (SIZE + TITLE)
        pen.text((x + 6, y + 4), name, fill="black", font=font)
        page.paste(Image.fromarray(picture(name)), (x, y + TITLE))
        pen.rectangle((x, y, x + SIZE - 1, y + TITLE + SIZE - 1), outline=(200, 200, 200))
    return page


def main() -> None:
    """Writes the sheet, or the pictures of the envs that are named, one file each."""
    PICTURES.mkdir(exist_ok=True)
    names = native() if sys.argv[1:] == ["all"] else sys.argv[1:]
    for name in names:
        of_env(name).save(PICTURES / f"{name}.png", optimize=True)
    if names:
        return
    names = [name for name in native() if find(name).kind == "scenario"]
    sheet(names).save(PICTURES / "scenarios.png", optimize=True)


if __name__ == "__main__":
    main()
