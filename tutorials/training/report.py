"""What the scripts beside this file say at the end: how much was learned, with an interval, and the curve."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from torch import Tensor

WIDTH, HEIGHT, EDGE = 480, 260, 56


def arguments(about: str, **choices: list[str]) -> argparse.Namespace:
    """``--smoke`` for a run of seconds that learns nothing, ``--out`` for the picture, and a choice or two."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--smoke", action="store_true", help="a run of seconds: everything happens once")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="more help on an idle machine only")
    parser.add_argument("--out", type=Path, default=Path("runs/training"), help="folder of the picture")
    for name, options in choices.items():
        parser.add_argument(f"--{name}", choices=options, default=options[0])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return options


class Report:
    """A learning curve: printed while it grows, drawn at the end.

    Args:
        name: of the run and its picture.
        unit: of the numbers.
        random: what random play gets per episode, ``[n]``.
    """

    def __init__(self, name: str, unit: str, random: Tensor) -> None:
        self.name, self.unit, self.random = name, unit, random
        self.points: list[tuple[int, float]] = []
        self.start = time.perf_counter()
        print(f"{name}: random play gets {random.mean():.2f} ({unit})", flush=True)

    def add(self, frames: int, results: Tensor) -> None:
        """One point: results per episode, ``[n]``."""
        self.points.append((frames, results.mean().item()))
        print(f"{frames:>9} frames {time.perf_counter() - self.start:5.0f} s: {results.mean():8.2f}", flush=True)

    def end(self, results: Tensor, smoke: bool, folder: Path) -> None:
        """The bootstrap interval of learned minus random play, 95 %, which must exclude zero unless all was smoke."""
        rng = torch.Generator().manual_seed(0)
        means = [x[torch.randint(len(x), (2000, len(x)), generator=rng)].mean(1) for x in (results, self.random)]
        low, high = torch.quantile(means[0] - means[1], torch.tensor([0.025, 0.975])).tolist()
        gain = results.mean() - self.random.mean()
        print(f"{self.name}: learned - random = {gain:.2f}, 95 % in [{low:.2f}, {high:.2f}]")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.svg").write_text(
            self.picture(f"learned - random: {gain:.2f}, 95 % in [{low:.2f}, {high:.2f}]")
        )
        assert smoke or low > 0, "nothing was learned"

    def picture(self, caption: str) -> str:
        """The curve over frames, with random play as a dashed line."""
        (xs, ys), level = zip(*self.points, strict=True), self.random.mean().item()
        low, high = min(*ys, level), max(*ys, level)
        span, last = (high - low) or 1.0, max(xs) or 1

        def place(x: float, y: float) -> str:
            right, up = x / last * (WIDTH - 2 * EDGE), (y - low) / span * (HEIGHT - 2 * EDGE)
            return f"{EDGE + right:.1f},{HEIGHT - EDGE - up:.1f}"

        line = " ".join(place(x, y) for x, y in self.points)
        (x0, y0), (x1, _) = (place(x, level).split(",") for x in (0, last))
        text = '<text x="{}" y="{}" font-size="11" font-family="sans-serif" fill="#444">{}</text>'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}">',
                f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
                f'<line x1="{x0}" y1="{y0}" x2="{x1}" y2="{y0}" stroke="#999" stroke-dasharray="4 3"/>',
                f'<polyline points="{line}" fill="none" stroke="#1f6fb2" stroke-width="2"/>',
                text.format(EDGE, 18, f"{self.name}: {self.unit}"),
                text.format(EDGE, HEIGHT - 26, f"0 to {last:,} frames; dashed: random play, {level:.2f}"),
                text.format(EDGE, HEIGHT - 8, caption),
                text.format(4, HEIGHT - EDGE + 4, f"{low:.2f}"),
                text.format(4, EDGE + 4, f"{high:.2f}"),
                "</svg>\n",
            ]
        )
