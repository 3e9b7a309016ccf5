"""Options of EnvPool's tasks, looked at before EnvPool is: some would end the program, others say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marlenv.errors import SpecError, SpecTypeError, whole


def check_options(who: str, task: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raises where an option is not like the task's own, or names a game that there is not.

    Args:
        who: the wrapper, for the message.
        task: the task's name.
        given: the options.
        defaults: those of the task. Counts are positive where their default is; others may be 0, or -1, as theirs is.

    Raises:
        SpecTypeError: an option is no whole number, or no text, where the default is one.
        SpecError: a number is too small; there is no such game.

    >>> check_options("MultiThreadedEnv", "Pong-v5", {"stack_num": 0}, {"stack_num": 4})
    Traceback (most recent call last):
    marlenv.errors.SpecError: MultiThreadedEnv: 'Pong-v5': stack_num must be an integer from 1 on, got 0
    """
    for name, value in given.items():
        usual = defaults.get(name)
        if type(usual) is int and name != "seed":
            whole(f"{who}: {task!r}", name, value, min(usual, 1))
        elif isinstance(usual, (str, float)) and not isinstance(value, str if isinstance(usual, str) else (int, float)):
            kind = "a text" if isinstance(usual, str) else "a number"
            raise SpecTypeError(f"{who}: {task!r}: {name} must be {kind}, got {value!r}")
    if "full_action_space" in defaults and given.keys() & {"task", "base_path"}:
        both = {**defaults, **given}
        rom = Path(both["base_path"]) / "atari" / "roms" / f"{both['task']}.bin"
        if not rom.is_file():
            raise SpecError(f"{who}: {task!r}: there is no game {both['task']!r}, its file would be {rom}")
