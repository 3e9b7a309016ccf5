"""Draws ``docs/pictures/scenarios.png``: every scenario some steps into an episode, side by side, with its name.

``python docs/contact_sheet.py`` writes it again. Policies are the ones written by hand where there are some, else random.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import marlenv
from marlenv.envs.registry import find
from marlenv.envs.registry import load as load_object
from marlenv.physics import Heuristic

PICTURES = Path(__file__).resolve().parent / "pictures"
SIZE, STEPS, COLUMNS, TITLE = 300, 40, 5, 24  # pixels, steps, pictures in a line, pixels
OPTIONS: dict[str, dict[str, Any]] = {
    "navigation": {"comms_range": 1.0},
    "sampling": {"comms_range": 1.0},
    "joint_passage": {"n_passages": 2},
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
    """Writes the sheet, or the pictures of the scenarios that are named, one file each."""
    PICTURES.mkdir(exist_ok=True)
    names = [name for name in marlenv.available() if find(name).kind == "scenario"]
    if len(sys.argv) > 1:
        for name in sys.argv[1:]:
            Image.fromarray(picture(name, 600)).save(PICTURES / f"{name}.png")
        return
    sheet(names).save(PICTURES / "scenarios.png", optimize=True)


if __name__ == "__main__":
    main()
