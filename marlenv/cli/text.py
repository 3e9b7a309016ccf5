"""What commands print with: a progress bar, numbers, options as text."""

from __future__ import annotations

import ast
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any

from marlenv.errors import SpecError

WORDS = {"true": True, "false": False}


def parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    """``["n_agents=4", "name=x"]`` as keyword arguments; values are Python literals, or text.

    True and False may be written as TOML writes them.

    >>> parse_options(["n_agents=4", "mode=fast", "ratio=0.5", "swap=false"])
    {'n_agents': 4, 'mode': 'fast', 'ratio': 0.5, 'swap': False}
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise SpecError(f"--set takes name=value, got {pair!r}")
        if name in options:
            raise SpecError(f"--set {pair}: {name} was given before, as {options[name]!r}; give it once")
        options[name] = literal(value)
    return options


def literal(value: str) -> Any:
    """A Python literal, or the text itself."""
    try:
        return WORDS[value] if value in WORDS else ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


def duration(seconds: float) -> str:
    """A time that people read at a glance.

    >>> duration(7.4), duration(130), duration(9000)
    ('7s', '2m10s', '2h30m')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


class Progress:
    """A progress bar on standard error, on one line however narrow; silent when that is not a terminal."""

    def __init__(self, total: int, unit: str = "steps") -> None:
        self.total, self.unit, self.done = total, unit, 0
        self.live = sys.stderr.isatty()
        self.started = self._shown = time.perf_counter()
        self._length = 0  # of the line that stands there

    def step(self, count: int = 1) -> None:
        """Moves the bar."""
        self.done += count
        now = time.perf_counter()
        if self.live and (now - self._shown > 0.1 or self.done >= self.total):
            self._shown = now
            rate = self.done / max(1e-9, now - self.started)
            left = f"  {duration((self.total - self.done) / rate)} left" if 0 < self.done < self.total else ""
            line = self._line(f"{self.done}/{self.total} {self.unit}", f"  {rate:,.0f}/s{left}")
            end = "" if self.done < self.total else "\n"
            print(f"\r{line.ljust(self._length)}", end=end, file=sys.stderr, flush=True)
            self._length = len(line)

    def _line(self, count: str, speed: str) -> str:
        """The bar with words behind; in a narrow terminal a shorter bar, then none, then fewer words."""
        room = shutil.get_terminal_size().columns - 1  # the last column would begin another line
        bar = min(30, room - len(count) - len(speed) - 3)
        if bar < 5:
            return (count + speed if len(count + speed) <= room else count)[: max(0, room)]
        filled = min(bar, bar * self.done // max(1, self.total))
        return f"[{'#' * filled}{'.' * (bar - filled)}] {count}{speed}"

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started


def number(value: float) -> str:
    """A number with three significant digits and thousands separators.

    >>> number(1234567.0), number(0.01234), number(3.0)
    ('1,234,567', '0.0123', '3')
    """
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
