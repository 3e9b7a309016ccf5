"""Flame graphs: who called whom and how long that took, as an SVG picture that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from marlenv.cli.parts import DATA, ENV, MEANING, PACKING, POLICY, TRANSFORM
from marlenv.cli.sampling import Node, Tree
from marlenv.cli.text import number

WIDE, HIGH = 1200, 18  # of the picture, of a function
EDGE, TOP = 10, 66
LETTER = 6.7  # how wide one is, at 11 pixels
NARROWEST = 0.4  # what is drawn
GAP = 0.5  # between neighbours
COLORS = {ENV: "#a6d49f", TRANSFORM: "#f6c177", PACKING: "#a9c8ea", POLICY: "#d7b3e0", DATA: "#d0d0d0"}


def flame_graph(tree: Tree, micros: float, title: str) -> str:
    """A picture of all samples: callers above what they called, as wide as their time, with numbers on hover.

    Args:
        tree: the samples.
        micros: microseconds per step.
        title: stands above.
    """
    places = list(_places(tree.top, EDGE, (WIDE - 2 * EDGE) / max(1, tree.top.count), 0))
    high = TOP + HIGH * (1 + max((level for *_, level in places), default=0)) + EDGE
    words = f"{title}: {number(micros)} us per step"
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE}" height="{high}" viewBox="0 0 {WIDE} {high}" '
        f'font-family="monospace" font-size="11">',
        f'<rect width="{WIDE}" height="{high}" fill="#ffffff"/>',
        f'<text x="{EDGE}" y="22" font-size="14">{escape(_cut(words, (WIDE - 2 * EDGE) / (LETTER * 14 / 11)))}</text>',
        *_legend(tree),
    ]
    body = [_drawn(node, x, wide, level, micros, tree.top.count) for node, x, wide, level in places]
    return "\n".join([*head, *body, "</svg>"]) + "\n"


def _legend(tree: Tree) -> Iterator[str]:
    """What the colours mean, with the share of each."""
    shares, x = tree.shares(), float(EDGE)
    for kind, color in COLORS.items():
        share = sum(value for name, value in shares.items() if name.partition(" ")[0] == kind)
        if not any(name.startswith(kind) for name in shares):
            continue
        what = MEANING[kind] if kind == TRANSFORM else f"{kind}: {MEANING[kind]}"
        words = f"{what} {100 * share:.1f} %"
        yield f'<rect x="{x:.1f}" y="35" width="12" height="12" fill="{color}"/>'
        yield f'<text x="{x + 17:.1f}" y="45">{escape(words)}</text>'
        x += 17 + LETTER * len(words) + 18


def _places(node: Node, x: float, scale: float, level: int) -> Iterator[tuple[Node, float, float, int]]:
    """Where functions are drawn: their left edge, their width, and how many callers are above."""
    wide = scale * node.count
    if wide < NARROWEST:
        return
    yield node, x, wide, level
    for one in sorted(node.below.values(), key=lambda one: (one.name, one.part, one.where)):
        yield from _places(one, x, scale, level + 1)
        x += scale * one.count


def _drawn(node: Node, x: float, wide: float, level: int, micros: float, total: int) -> str:
    """A function: a box, its name as far as it fits, and its numbers for whoever points at it."""
    y, share = TOP + HIGH * level, node.count / max(1, total)
    where = f"\n{node.where}" if node.where else ""
    says = (
        f"{node.name}{where}\n{node.part}\n{100 * share:.1f} %, {number(micros * share)} us per step, "
        f"{node.count:,} samples ({node.own:,} in itself)"
    )
    drawn, color = max(wide - GAP, wide / 2), COLORS[node.part.split()[0]]
    box = f'<rect x="{x:.2f}" y="{y}" width="{drawn:.2f}" height="{HIGH - 1}" fill="{color}"/>'
    fits = (wide - 6) / LETTER
    whose = node.part.removeprefix(f"{TRANSFORM} ")  # its methods may be those of Transform
    name = node.name if whose == node.part or whose in node.name else f"{whose}: {node.name}"
    text = f'<text x="{x + 3:.2f}" y="{y + 12}">{escape(_cut(name, fits))}</text>' if fits >= 3 else ""
    return f"<g><title>{escape(says)}</title>{box}{text}</g>"


def _cut(words: str, fits: float) -> str:
    """As much of some words as fits, in letters."""
    return words if len(words) <= fits else f"{words[: int(fits) - 1]}…"
