"""Which parts of a game's observation are what, with its default options: for the tables on the pages of games.

The parts lie along the first dimension after rows and players: numbers of a vector, planes of a board. Tests play the
games and compare parts with the positions.
"""

from __future__ import annotations

from typing import NamedTuple

import marlenv


class Part(NamedTuple):
    """A run of numbers or planes."""

    size: int
    what: str
    unit: str


BITS = "0 or 1"
SEAT = Part(2, "whose seat this is", BITS)
BOARD = [
    Part(1, "own stones", BITS),
    Part(1, "the other's stones", BITS),
    Part(1, "ones if it is my turn", BITS),
]
MATRIX = [
    Part(2, "own choice in the last round", BITS),
    Part(2, "the other's choice in the last round", BITS),
    Part(1, "what is left of the rounds", "share, 0 to 1"),
]
SQUARES = "a bit per square"
PARTS: dict[str, list[Part]] = {
    "tic_tac_toe": BOARD,
    "connect_four": BOARD,
    "othello": [
        Part(1, "own discs", BITS),
        Part(1, "the other's discs", BITS),
        Part(1, "ones if it is my turn", BITS),
    ],
    "hex": BOARD,
    "breakthrough": BOARD,
    "go": [
        *BOARD,
        Part(1, "ones after a pass", BITS),
        Part(1, "free cells that are barred", BITS),
        Part(1, "what komi gives me", "points"),
        Part(1, "the moves that are left", "share, 0 to 1"),
    ],
    "chess": [
        Part(1, "pieces of who is to move", SQUARES),
        Part(1, "pieces of who waits", SQUARES),
        *(Part(1, f"{kind} of both", SQUARES) for kind in ("pawns", "knights", "bishops", "rooks", "queens", "kings")),
        Part(1, "rooks that may still castle", SQUARES),
        Part(1, "where a pawn can be captured en passant", SQUARES),
        Part(1, "whose turn it is", "0 White, 1 Black"),
        Part(1, "moves since the last capture or pawn move", "plies"),
        Part(1, "the number of the move, from 1", "moves"),
        Part(1, "a hash of what must agree when positions are repeated", "none"),
        Part(1, "how often the position has stood", "times"),
        Part(1, "why the game ended, 0 while it goes on", "index"),
    ],
    "backgammon": [
        Part(96, "own checkers, for each point: whether there is 1, 2, 3, and how many more", f"{BITS}; checkers"),
        Part(96, "the other's checkers, in the same way", f"{BITS}; checkers"),
        Part(2, "own checkers on the bar, and off", "checkers"),
        Part(1, "whether it is my turn", BITS),
        Part(2, "the other's checkers on the bar, and off", "checkers"),
        Part(1, "whether it is the other's turn", BITS),
        Part(2, "the dice, lower first", "pips"),
        Part(1, "whether this is the second half of a double", BITS),
    ],
    "kuhn_poker": [SEAT, Part(3, "own card", BITS), Part(6, "what was done: for each move, passed and bet", BITS)],
    "leduc_poker": [
        SEAT,
        Part(6, "own card", BITS),
        Part(6, "the card on the table", BITS),
        Part(16, "what was done: for each move of each round, called and raised", BITS),
    ],
    "matrix_game": MATRIX,
    "prisoners_dilemma": MATRIX,
    "hanabi": [
        Part(125, "the other's five cards, each out of 25", BITS),
        Part(2, "whether a hand has fewer cards, own first", BITS),
        Part(40, "how many cards are in the deck, as so many ones", BITS),
        Part(25, "the height of each firework", BITS),
        Part(8, "hints, as so many ones", BITS),
        Part(3, "lives, as so many ones", BITS),
        Part(50, "what was discarded: for each card as many ones", BITS),
        Part(2, "the last move: who made it, counted from the own seat", BITS),
        Part(4, "whether it played, discarded, told a color, told a rank", BITS),
        Part(2, "who was told, counted from the own seat", BITS),
        Part(10, "which color, which rank was told", BITS),
        Part(5, "which cards that touched", BITS),
        Part(5, "the place of the card that was played or discarded", BITS),
        Part(25, "what card it was", BITS),
        Part(2, "whether it went onto the fireworks, and gave a hint back", BITS),
        Part(
            350,
            "for each player, own first, and each card: which of 25 it may be, which of 5 colors and ranks was told",
            BITS,
        ),
    ],
}


def table(name: str) -> str:
    """The parts as a table.

    Raises:
        LookupError: there is no list of parts, or it does not fill the observation.

    """
    env, at, rows = marlenv.make(name, 2), 0, []
    player = next(iter(env.group_map))
    size = env.full_observation_spec[player, "observation"].shape[2]
    if sum(part.size for part in PARTS.get(name, ())) != size:
        raise LookupError(f"{name}: say what the {size} parts of its observation are in docs/game_slices.py")
    for part in PARTS[name]:
        place = f"{at}:{at + part.size}" if part.size > 1 else f"{at}"
        rows.append(f'| `(group, "observation")` | `{place}` | {part.what} | {part.unit} |')
        at += part.size
    return "\n".join(["| entry | slice | what | unit |", "|---|---|---|---|", *rows])
