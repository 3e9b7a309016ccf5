"""``marlenv`` and ``python -m marlenv.cli``: finds the command and turns errors into one line and exit code 2."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Any, NoReturn

from marlenv.errors import MarlenvError, nearest

HERE = Path(__file__).parents[1]
TRACEBACK = "MARLENV_TRACEBACK"
"""The environment variable that lets errors through as they are."""
COMMANDS = {
    "list": "the envs that have a name",
    "show": "groups and specs of an env",
    "check": "run the contract on an env",
    "play": "play a game in the terminal",
    "rollout": "play an env, print a summary and keep the data",
    "profile": "see where the time of a step goes",
    "tournament": "play tournaments, rate players, write reports",
    "bench": "compare speeds with the peers that are installed",
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and name the nearest valid word."""

    def error(self, message: str) -> NoReturn:
        """Prints one line and exits with code 2."""
        known = [option for action in self._actions for option in action.option_strings]
        unknown = re.search(r"unrecognized arguments: (\S+)", message)
        choice = re.search(r"argument ([^:]*): invalid choice: '([^']*)'", message)
        if unknown is not None and not unknown[1].startswith("-"):
            meant = f"; write --set {unknown[1]}" if "=" in unknown[1] and "--set" in known else ""
            message = f"unexpected argument {unknown[1]!r}{meant}"
        elif unknown is not None:
            message = f"unknown option {unknown[1]!r}; {nearest(unknown[1], known)}"
        elif choice is not None:
            named = {"/".join(a.option_strings) or a.metavar or a.dest: a for a in self._actions}
            known = [str(word) for word in named[choice[1]].choices or ()]
            message = f"{choice[1]}: unknown choice {choice[2]!r}; {nearest(choice[2], known)}"
        fail(f"{self.prog}: {message}")


def fail(message: str) -> NoReturn:
    """Prints an error as one line and exits with code 2."""
    print(f"error: {' '.join(str(message).split())}", file=sys.stderr)
    raise SystemExit(2)


def build_parser(only: str | None = None) -> tuple[Parser, Parser]:
    """The parser of all commands, and that of the command that is asked for, which alone is imported."""
    parser = Parser(prog="marlenv", description="Multi-agent environments for PyTorch.")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    chosen = parser
    for name, about in COMMANDS.items():
        sub = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
        if only == name:
            importlib.import_module(f"marlenv.cli.{name}").configure(sub)
            chosen = sub
    return parser, chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # simulators that draw do so into memory
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what a terminal cannot show costs no work
    try:
        return called(words)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def called(words: list[str]) -> int:
    """Runs the command that is called with these words; returns its exit code."""
    command = next((w for w in words if w in COMMANDS), None)
    parser, chosen = build_parser(command)
    options, surplus = parser.parse_known_args(words)
    if surplus:
        chosen.error(f"unrecognized arguments: {surplus[0]}")
    if options.version:
        from marlenv._version import __version__

        print(f"marlenv {__version__}")
        return 0
    if options.command is None:
        parser.print_help()
        return 0
    return run(options.command, options)


def run(command: str, options: Any) -> int:
    """Runs a parsed command; errors become one line, those of users' own code with their place."""
    if (here := str(Path.cwd())) not in sys.path:  # for module:callable, as with ``python -m``
        sys.path.insert(0, here)
    try:
        code = int(importlib.import_module(f"marlenv.cli.{command}").run(options))
        print(end="", flush=True)
    except BrokenPipeError:
        hush()
        return 0
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        fail(told(error))
    return code


def hush() -> None:
    """Leads standard output nowhere if its reader is gone, so that Python does not complain at its end."""
    try:
        print(end="", flush=True)
    except BrokenPipeError:
        with contextlib.suppress(OSError, ValueError):  # no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def told(error: Exception) -> str:
    """An error with what was noted of it; with its type and its place, where it is not one that marlenv raises."""
    text = "; ".join((str(error), *getattr(error, "__notes__", ())))
    place = extract_tb(error.__traceback__)[-1]
    ours = Path(place.filename).is_relative_to(HERE) and (place.line or "").startswith("raise")
    if ours or isinstance(error, MarlenvError | OSError):
        return text
    where = f"{place.filename}:{place.lineno}, in {place.name}; {TRACEBACK}=1 shows the way"
    return f"{type(error).__name__}: {text} ({where})"


if __name__ == "__main__":
    raise SystemExit(main())
