"""The games of a ledger for others: positions of a game again, JSON lines, PGN. Always written anew, never appended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from marlenv.errors import Unsupported
from marlenv.games.rules import Rules
from marlenv.tournament.adjudicate import ADJUDICATED
from marlenv.tournament.asking import CUT, ENDINGS, OVER
from marlenv.tournament.config import Config
from marlenv.tournament.games import Game, Games
from marlenv.tournament.moves import Moves
from marlenv.tournament.play import Played
from marlenv.tournament.rules_board import RulesBoard
from marlenv.tournament.store import Ledger


def positions(board: RulesBoard, game: Game, moves: Moves) -> tuple[list[Any], list[Any]]:
    """The positions of a game from its first one, without batch dimensions, and the moves between them.

    Moves of an opening are among them.
    """
    rules, moves_before = board.rules, () if game.opening is None else board.openings[game.opening].moves
    board.begin(Games.of([replace(game, opening=None)]), None)
    state = board.state
    if game.opening is not None and (start := board.openings[game.opening].start) is not None:
        state = start
    made = [*([m] for m in moves_before), *moves]
    states = [state]
    for move in made:
        action = torch.tensor([move]) if rules.simultaneous else torch.tensor(move)
        state = rules.play(state, action)
        states.append(state)
    bare = [type(s)(*(leaf[0] for leaf in s)) for s in states]
    return bare, [move if rules.simultaneous else move[0] for move in made]


def board_of(ledger: Ledger) -> RulesBoard | None:
    """What the games of a ledger were played on; None where that is an env without rules."""
    board = Config.kept(ledger).board()
    return board if isinstance(board, RulesBoard) else None


def jsonl(ledger: Ledger) -> Iterator[str]:
    """A line per finished game: numbers, players by seat, returns, how it ended, moves."""
    for line in lines(ledger.played()):
        yield json.dumps(line) + "\n"


def lines(played: Played) -> Iterator[dict[str, Any]]:
    """What :func:`jsonl` writes, as dictionaries."""
    for k, game in enumerate(played.games):
        ending, culprit = int(played.ending[k]), int(played.culprit[k])
        yield {
            "id": game.id,
            "round": game.round,
            "players": list(game.players),
            "opening": game.opening,
            "returns": played.returns[k].tolist(),
            "plies": int(played.plies[k]),
            "ending": ENDINGS[ending],
            "forfeited_by": game.players[culprit] if culprit >= 0 else None,
            "moves": played.moves[k] if played.moves else [],
            "seconds": played.seconds[k].tolist(),
        }


def pgn(ledger: Ledger) -> Iterator[str]:
    """The finished games as their people exchange them, with a tag Termination; the result is what the ledger says.

    Raises:
        Unsupported: the game has no such format.
    """
    board, played = board_of(ledger), ledger.played()
    rules: Rules[Any] | None = None if board is None else board.rules
    for k, game in enumerate(played.games):
        if board is None or rules is None:
            raise Unsupported("export: this env has no score sheets; export .jsonl")
        states, moves = positions(board, game, played.moves[k])
        ending = int(played.ending[k])
        result = "*"
        if ending != CUT or bool(played.returns[k].any()):
            result = {1.0: "1-0", -1.0: "0-1", 0.0: "1/2-1/2"}[
                float((played.returns[k, 0] - played.returns[k, 1]).sign())
            ]
        header = dict(zip(rules.players, game.players, strict=True))
        header |= {"event": str(ledger.config["env"]), "round": f"{game.round + 1}.{game.id}", "result": result}
        cut = "unterminated" if result == "*" else "adjudication"
        header["termination"] = {OVER: "normal", CUT: cut, ADJUDICATED: "adjudication"}.get(ending, ENDINGS[ending])
        sheet = rules.score_sheet(states[: max(len(moves), 1)], moves, header)
        if sheet is None:
            raise Unsupported(f"export: {type(rules).__name__} has no score sheets; export .jsonl")
        yield sheet.rstrip() + "\n\n"
