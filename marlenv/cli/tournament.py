"""``marlenv tournament``: plays tournaments that survive a crash, rates players, writes reports."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from marlenv.cli.files import writable
from marlenv.cli.text import Progress
from marlenv.errors import SpecError
from marlenv.files import whole_file
from marlenv.text_table import table

HELP = {
    "run": "play the tournament of a TOML file, or go on with it",
    "resume": "go on with a tournament",
    "status": "how many games are played",
    "rate": "standings, with intervals",
    "verify": "play some games again, and say which come out otherwise",
    "report": "write a page with standings and replays",
    "export": "write the games as .jsonl, or as .pgn for games that have it",
}


TAKES = {
    "ledger": (None, ["run"]),
    "workers": (0, ["run", "resume"]),
    "out": (None, ["report", "export"]),
    "games": (20, ["verify"]),
    "level": (0.95, ["run", "resume", "rate", "report"]),
    "draws": ("davidson", ["run", "resume", "rate", "report"]),
    "no_seat": (False, ["run", "resume", "rate", "report"]),
    "replays": (100, ["report"]),
}
"""Options -> what they are when left out, and the verbs that take them."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.epilog = "; ".join(f"{verb}: {about}" for verb, about in HELP.items())
    parser.add_argument("verb", choices=list(HELP), help="what to do")
    parser.add_argument("file", type=Path, help="the TOML file of run, the ledger of the others")
    parser.add_argument("--ledger", type=Path, help="where run keeps the games; CONFIG.sqlite when left out")
    parser.add_argument("--workers", type=int, help="how many processes play, on Ray; 0 for this one alone")
    parser.add_argument("--out", type=Path, help="the file that report and export write; one that is there is replaced")
    parser.add_argument("--games", type=int, help="how many games verify plays again")
    parser.add_argument("--level", type=float, help="of the intervals")
    half = "half: each as half a win and half a loss"
    parser.add_argument("--draws", choices=("davidson", "half"), help=half)
    parser.add_argument("--no-seat", action="store_true", help="sitting first is worth nothing (seat=False)")
    parser.add_argument("--replays", type=int, help="how many games the report shows")
    parser.set_defaults(**{name: default for name, (default, _) in TAKES.items()})


def run(options: argparse.Namespace) -> int:
    """Does what the verb says."""
    verbs: dict[str, Callable[[argparse.Namespace], None]] = {
        "run": _run,
        "resume": _resume,
        "status": _status,
        "rate": _rate,
        "verify": _verify,
        "report": _report,
        "export": _export,
    }
    for name, (default, takers) in TAKES.items():
        if options.verb not in takers and getattr(options, name) != default:
            raise SpecError(
                f"tournament {options.verb}: takes no --{name.replace('_', '-')}, which is for {' and '.join(takers)}"
            )
    verbs[options.verb](options)
    return 0


def _run(options: argparse.Namespace) -> None:
    from marlenv.tournament.config import Config
    from marlenv.tournament.drive import open_ledger

    config = Config.read(options.file)
    _play(open_ledger(config, options.ledger or options.file.with_suffix(".sqlite")).path, options)


def _resume(options: argparse.Namespace) -> None:
    _play(options.file, options)


def _play(path: Path, options: argparse.Namespace) -> None:
    """Plays what is left, and prints the standings."""
    from marlenv.tournament import drive
    from marlenv.tournament.store import Ledger

    ledger = Ledger(path)
    left = ledger.counts()
    progress = Progress(left["open"] + left["leased"], "games")

    def step(count: int) -> None:
        if progress.done + count > progress.total:  # another round was scheduled
            known = ledger.counts()
            progress.total = progress.done + max(count, known["open"] + known["leased"])
        progress.step(count)

    drive.run(ledger, step, workers=options.workers)
    print(f"{ledger.counts()['finished']} games: {path}")
    print(_standings(ledger, options))


def _status(options: argparse.Namespace) -> None:
    from marlenv.tournament.config import Config
    from marlenv.tournament.store import Ledger

    ledger = Ledger(options.file)
    counts = ledger.counts()
    print(f"{Config.kept(ledger).env}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))


def _rate(options: argparse.Namespace) -> None:
    from marlenv.tournament.store import Ledger

    print(_standings(Ledger(options.file), options))


def _rating(options: argparse.Namespace) -> dict[str, Any]:
    """How strengths are found."""
    return {"draws": options.draws, "seat": False if options.no_seat else None}


def _standings(ledger: object, options: argparse.Namespace) -> str:
    from marlenv.tournament.config import Config
    from marlenv.tournament.plan import verdict
    from marlenv.tournament.report import standings
    from marlenv.tournament.store import Ledger

    assert isinstance(ledger, Ledger)
    config, played = Config.kept(ledger), ledger.played(moves=False)
    rows, note = standings(played, list(config.players), options.level, **_rating(options))
    note = "\n".join(line for line in (note, verdict(config, played, options.level)) if line)
    if not rows:
        return note
    head = list(rows[0])
    text = table([list(row.values()) for row in rows], head, right=range(1, len(head)))
    return f"{text}\n{note}" if note else text


def _verify(options: argparse.Namespace) -> None:
    from marlenv.tournament.store import Ledger
    from marlenv.tournament.verify import verify

    warnings = verify(Ledger(options.file), options.games)
    print("\n".join(f"warning: {text}" for text in warnings) or "all games came out the same")


def _report(options: argparse.Namespace) -> None:
    from marlenv.tournament.files import placed
    from marlenv.tournament.report import write_report
    from marlenv.tournament.store import Ledger

    ledger, out = Ledger(options.file), options.out or options.file.with_suffix(".html")
    writable("--out", placed("report", out, ledger.path))
    write_report(ledger, out, level=options.level, replays=options.replays, **_rating(options))
    print(f"report: {out.resolve()}")


def _export(options: argparse.Namespace) -> None:
    from marlenv.tournament.export import jsonl, pgn
    from marlenv.tournament.files import placed
    from marlenv.tournament.store import Ledger

    ledger, out = Ledger(options.file), options.out or options.file.with_suffix(".jsonl")
    if out.suffix not in (".jsonl", ".pgn"):
        raise SpecError(f"export --out {out}: expected a name that ends in .jsonl or .pgn")
    lines = jsonl(ledger) if out.suffix == ".jsonl" else pgn(ledger)
    with whole_file("export", placed("export", out, ledger.path)) as draft:
        draft.write_text("".join(lines), encoding="utf-8")
    print(f"{len(ledger.played().games)} games: {out.resolve()}")
