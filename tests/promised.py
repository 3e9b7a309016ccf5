"""Prints the lowest versions that ``pyproject.toml`` promises, as pip takes them; for ``lowest.sh``."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def lowest(requirements: list[str]) -> list[str]:
    """``name==lowest`` for each requirement.

    >>> lowest(["torch>=2.6", "a[b]>=1.0,<2"])
    ['torch==2.6', 'a[b]==1.0']
    """
    return [re.sub(r">=([^,]+).*", r"==\1", text) for text in requirements]


if __name__ == "__main__":
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    print("\n".join(lowest(settings["project"]["dependencies"])))
