"""Rules for which options of a task go together, in sentences that name them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from marlenv.physics import Scenario


def refuse(scenario: Scenario, rules: Iterable[tuple[object, str]]) -> None:
    """Raises for the first rule that is broken.

    Args:
        scenario: whose options they are about.
        rules: whether each is broken, and a sentence; the error shows the options whose names are in it.

    Raises:
        ValueError: one of them is broken.

    """
    for broken, says in rules:
        if broken:
            words = set(re.findall(r"\w+", says))
            got = ", ".join(f"{name}={value!r}" for name, value in scenario.options().items() if name in words)
            raise ValueError(f"{type(scenario).__name__}: {says}, got {got}")
