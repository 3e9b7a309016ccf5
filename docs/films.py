"""Draws ``docs/pictures/films``: a short film of every scenario, with one view for all of it.

``python docs/films.py`` draws all of them, ``python docs/films.py balance wheel`` some. Policies, options and seeds are
those of the pictures (``docs/contact_sheet.py``).
"""

from __future__ import annotations

import io
import sys
from typing import Any

from contact_sheet import COLORS, OPTIONS, PICTURES, policy_of
from PIL import Image

import marlenv
from marlenv.physics.env.draw import draw_frames
from marlenv.physics.maths.views import rows_last
from marlenv.registration import available

FILMS = PICTURES / "films"
SIZE, STEPS, EVERY, DURATION = 200, 72, 3, 120  # pixels; steps, of which some are drawn; milliseconds of a frame


def states_of(env: Any, name: str) -> list[dict[str, Any]]:
    """What row 0 is like every few steps, until the episode ends."""
    policy = policy_of(name) or env.rand_action
    data, kept = env.reset(), []
    for t in range(STEPS):
        if t % EVERY == 0:
            kept.append({entry: rows_last(x).clone() for entry, x in env.get_state()[:1].items()})
        data = env.step(policy(env.rand_action(data)))
        if bool(data["next", "done"][0]):
            break
        data = env.step_mdp(data)
    return kept


def film_of(name: str) -> list[Image.Image]:
    """The frames, in the few colours of the first one's palette, which keeps the file small."""
    env: Any = marlenv.make(name, 1, seed=1, compile="none", **OPTIONS.get(name, {}))
    frames = [Image.fromarray(x) for x in draw_frames(env.simulation, states_of(env, name), (SIZE, SIZE))]
    strip = Image.new("RGB", (SIZE * len(frames), SIZE))
    for i, frame in enumerate(frames):
        strip.paste(frame, (i * SIZE, 0))
    palette = strip.quantize(COLORS, dither=Image.Dither.NONE)
    return [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]


def save(name: str) -> int:
    """Writes a film as the smaller one of two kinds of WebP; returns how large it is, in bytes."""
    first, *rest = film_of(name)
    kinds: list[dict[str, Any]] = [{"lossless": True, "quality": 100}, {"quality": 60}]
    tried = []
    for kind in kinds:
        out = io.BytesIO()
        first.save(out, "WEBP", save_all=True, append_images=rest, duration=DURATION, loop=0, method=6, **kind)
        tried.append(out.getvalue())
    return (FILMS / f"{name}.webp").write_bytes(min(tried, key=len))


def main() -> None:
    """Draws the films that are named, or all."""
    FILMS.mkdir(exist_ok=True)
    for name in sys.argv[1:] or available("scenario"):
        print(f"{name}: {save(name)} bytes")


if __name__ == "__main__":
    main()
