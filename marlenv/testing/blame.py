"""Whose an error is: the clause that it belongs to, the place that raised it, and how it is told."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

OWNERS = {
    "finish": "data_match_the_specs",
    "checked": "data_match_the_specs",
    "merge": "data_match_the_specs",
    "advance": "data_match_the_specs",
    "_refuse_done": "nothing_is_done_after_a_reset",
    "from_unit": "masks_leave_a_choice",
}
"""Functions of the env layer that look at what an env returned -> the clause that an error in them belongs to."""
LAYER = re.compile(r"(marlenv\.(envs|groups|tensordicts|specs)|torch|tensordict)(\.|$)")
SITE = ("site-packages", "dist-packages")


def owner(error: BaseException | None) -> str | None:
    """The clause that an error of a play belongs to; None where it comes from the env's own code."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__ if error else None))):
        module = frame.f_globals.get("__name__", "")
        if not LAYER.match(module):
            return None
        if (name := OWNERS.get(frame.f_code.co_name)) is not None:
            return name
    return None


def place(error: BaseException) -> str:
    """File and line of the innermost function that is neither a library's nor ours: ``"my_env.py:41 in _step"``."""
    frames = traceback.extract_tb(error.__traceback__)
    home = str(Path(__file__).resolve().parents[1])
    theirs = [f for f in frames if not f.filename.startswith(home) and not any(s in f.filename for s in SITE)]
    chosen = (theirs or [f for f in frames if "testing" not in f.filename] or list(frames))[-1:]
    return "".join(f"{Path(f.filename).name}:{f.lineno} in {f.name}" for f in chosen)


def text_of(error: BaseException) -> str:
    """An error with its notes, on one line."""
    return "; ".join([str(error), *getattr(error, "__notes__", [])])


def signature(error: BaseException) -> tuple[object, ...]:
    """What two appearances of the same error have in common."""
    frames = traceback.extract_tb(error.__traceback__)
    return type(error), str(error), (frames[-1].filename, frames[-1].lineno) if frames else None
