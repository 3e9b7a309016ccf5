"""Backgammon (https://bkgm.com/rules.html) without the doubling cube, for any batch of games.

Places are counted from the owner's side: ``0 .. 23`` are the points 1 to 24, 24 is the bar, 25 is off the board.
Checkers move downwards; the other player's point of place ``p`` is ``23 - p``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Size, Tensor

from marlenv.errors import SpecError, flag
from marlenv.games.fast.compiled_rules import CompiledRules
from marlenv.games.parts import drawing
from marlenv.games.parts.bits import counted, flags
from marlenv.games.parts.tables import Table
from marlenv.games.rules import Rules, where
from marlenv.rng import RowRNG

POINTS, BAR, OFF, NONE = 24, 24, 25, 25
PAIR = 26 * 26  # ways to choose two places
HOME = (1 << 6) - 1  # the points 1 to 6 as bits
SETUP = {5: 5, 7: 3, 12: 5, 23: 2}
HYPER = {21: 1, 22: 1, 23: 1}
SCORING = ("win", "gammon", "full")


class State(NamedTuple):
    """A position."""

    board: Tensor  # [*B, 2, 26] int8: how many checkers each player has in each place, as the player counts them
    dice: Tensor  # [*B, 2] int64: what was rolled, the higher one first
    turn: Tensor  # [*B] int64: who is to move
    again: Tensor  # [*B] bool: whether this is the second half of a double
    rng: Tensor  # [*B, 2] int64: what the next roll is drawn from


@dataclass(frozen=True)
class Backgammon(Rules[State]):
    """Bring fifteen checkers home and bear them off first. ``x`` is player 0; who begins is rolled.

    A turn is one action that moves up to two checkers; after a double the same player moves again if it could move
    two. Both numbers must be
    played where possible, else the higher one. Doubles are legal if each half is (as in OpenSpiel).

    - observation float32 ``[201]``: for own and then for the other's checkers, for each of 24 points as the owner of
      the seat counts them, whether there is 1, 2 or 3, and how many more than 3; then own bar, off, turn, the other's
      bar, off, turn; the dice, lower first; whether this is the second half of a double
    - action: ``676 * low + 26 * first + second``: the place (0 to 23 the points 1 to 24, 24 the bar, 25 none) from
      which the first and the second checker are moved; ``low`` is 1 if the lower number is played first, or alone
    - reward: +1 and -1 at the end; more for a gammon or backgammon with ``scoring``
    - ends: when a player has borne off all checkers

    Args:
        scoring: ``"win"`` counts wins; ``"gammon"`` counts 2 if the loser has borne off nothing; ``"full"`` counts 3 if
            the loser besides has a checker on the bar or in the winner's home.
        hyper: three checkers each, on the points 22 to 24.

    >>> rules = Backgammon()
    >>> state = rules.start(Size([]), rng=RowRNG(0))._replace(dice=torch.tensor([3, 1]), turn=torch.tensor(0))
    >>> rules.action_name(rules.play(state, torch.tensor(26 * 7 + 5)), NONE * 26 + NONE)
    'pass'
    >>> rules.read_action(state, "8/5 6/5")
    187

    Source: https://bkgm.com/rules.html; OpenSpiel 2.0 (``backgammon``).
    """

    scoring: Literal["win", "gammon", "full"] = "win"
    hyper: bool = False

    players: ClassVar[tuple[str, ...]] = ("x", "o")
    outcomes: ClassVar[tuple[str, ...]] = ("", "win", "gammon", "backgammon")
    pays_at_end: ClassVar[bool] = True
    n_actions: ClassVar[int] = 2 * PAIR
    longest: ClassVar[int | None] = None
    observation_shape: ClassVar[tuple[int, ...]] = (201,)

    def __post_init__(self) -> None:
        flag("Backgammon", "hyper", self.hyper)
        if self.scoring not in SCORING:
            raise SpecError(f"Backgammon: scoring must be one of {SCORING}, got {self.scoring!r}")

    @property
    def checkers(self) -> int:
        """How many checkers each player has."""
        return sum((HYPER if self.hyper else SETUP).values())

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        rng = RowRNG(0, batch_size, device) if rng is None else rng
        places = SETUPS.on(rng.device)[int(self.hyper)]
        pair, turn = rng.randint(0, 15), rng.randint(0, 2)
        again = torch.zeros(batch_size, dtype=torch.bool, device=rng.device)
        board = places.expand(*batch_size, 2, 26).clone()
        return State(board, UNEQUAL[pair], turn, again, rng.state)

    def player(self, state: State) -> Tensor:
        return state.turn

    def over(self, state: State) -> Tensor:
        return (state.board[..., OFF] == self.checkers).any(-1)

    def _moves(self, state: State) -> Tensor:
        """The legal actions: for both orders of the numbers and each first place, the second ones as bits.

        int64 ``[*B, 2, 26]``.
        """
        own, other = _sides(state)
        dice = state.dice
        mine, alone = _word(own[..., :NONE] > 0), _word(own[..., :NONE] == 1)
        free = ~_word(other[..., :POINTS].flip(-1) > 1) & ((1 << POINTS) - 1)
        inside = free.unsqueeze(-1) << dice & ((1 << NONE) - 1)  # [*B, 2]: from where each number leads to a free point
        first = _movable(mine.unsqueeze(-1), inside, dice)  # [*B, 2]
        bit = 1 << torch.arange(NONE, device=dice.device)
        left = mine[..., None, None] & ~(alone[..., None, None] & bit)
        after = left | bit >> dice.unsqueeze(-1)  # [*B, 2, 25]: where there are checkers after that
        second = _movable(after, inside.flip(-1).unsqueeze(-1), dice.flip(-1).unsqueeze(-1))
        second = second.masked_fill(first.unsqueeze(-1) & bit == 0, 0)
        some, two = first != 0, (second != 0).flatten(-2).any(-1)
        single = torch.stack((some[..., 0], ~some[..., 0]), -1) & ~two.unsqueeze(-1)  # the number that is played alone
        second = second | (single.unsqueeze(-1) & (first.unsqueeze(-1) & bit != 0)).long() << NONE
        once = dice[..., 0] == dice[..., 1]  # of a double, one order is enough
        none = torch.stack((torch.zeros_like(once), ~some.any(-1)), -1).long() << NONE
        second[..., 1, :].masked_fill_(once.unsqueeze(-1), 0)
        moves = torch.cat((second, none.unsqueeze(-1)), -1)
        return moves.masked_fill(self.over(state)[..., None, None], 0)

    def legal(self, state: State) -> Tensor:
        return flags(self._moves(state), 4, 8).flatten(-2)[..., :26].flatten(-3)

    def permits(self, state: State, action: Tensor) -> Tensor:
        within = action.clamp(0, self.n_actions - 1)
        seconds = self._moves(state).flatten(-2).gather(-1, (within // 26).unsqueeze(-1)).squeeze(-1)
        return (seconds >> within % 26 & 1 != 0) & (within == action)

    def pick(self, state: State, unit: Tensor) -> Tensor:
        moves = self._moves(state).flatten(-2)
        counts = counted(moves)
        ranks = counts.cumsum(-1)
        place = (unit * ranks[..., -1]).long().unsqueeze(-1)
        row = (ranks <= place).sum(-1, keepdim=True).clamp(max=moves.shape[-1] - 1)
        place = place - ranks.gather(-1, row) + counts.gather(-1, row)
        bits = moves.gather(-1, row) >> torch.arange(26, device=row.device) & 1
        return row.squeeze(-1) * 26 + (bits.cumsum(-1) <= place).sum(-1).clamp(max=25)

    def play(self, state: State, action: Tensor) -> State:
        own, other = _sides(state)
        action = action.to(torch.int64)
        low, places = action // PAIR, action % PAIR
        dice = torch.where((low == 1).unsqueeze(-1), state.dice.flip(-1), state.dice)
        own, other = _moved(own, other, places // 26, dice[..., 0])
        own, other = _moved(own, other, places % 26, dice[..., 1])
        board = torch.stack((own, other), -2)
        board = torch.where((state.turn == 0)[..., None, None], board, board.flip(-2))
        again = (state.dice[..., 0] == state.dice[..., 1]) & ~state.again & (places % 26 != NONE)
        rng = RowRNG.from_state(state.rng)
        rolled = rng.randint(1, 7, [2]).sort(-1, descending=True)[0]
        after = State(
            board,
            torch.where(again.unsqueeze(-1), state.dice, rolled),
            torch.where(again, state.turn, 1 - state.turn),
            again,
            torch.where(again.unsqueeze(-1), state.rng, rng.state),
        )
        return where(self.over(state), state, after)

    def _worth(self, state: State) -> Tensor:
        """1 for a win, 2 for a gammon, 3 for a backgammon, 0 while the game goes on; int64 ``[*B]``."""
        lost = state.board[..., OFF] < self.checkers  # [*B, 2]
        bare = (state.board[..., OFF] == 0) & lost
        behind = (state.board[..., POINTS - 6 : BAR + 1].sum(-1) > 0) & bare  # in the winner's home, or on the bar
        return self.over(state) * (1 + bare.any(-1).long() + behind.any(-1).long())

    def returns(self, state: State) -> Tensor:
        worth = self._worth(state).clamp(max=1 + SCORING.index(self.scoring)).unsqueeze(-1)
        won = state.board[..., OFF] == self.checkers
        return torch.where(won, worth, -worth).to(torch.float32)

    def outcome(self, state: State) -> Tensor:
        return self._worth(state).to(torch.int8)

    def observe(self, state: State) -> Tensor:
        """Both players' points, bars, checkers that are off, turns and dice; float32 ``[*B, 2, 201]``."""
        mine = state.board.unsqueeze(-2)  # [*B, 2, 1, 26]
        theirs = state.board.flip(-2).unsqueeze(-2)
        counts = torch.cat((mine[..., :POINTS], theirs[..., :POINTS].flip(-1)), -2).unsqueeze(-1)  # [*B, 2, 2, 24, 1]
        points = torch.cat((counts == 1, counts == 2, counts == 3, (counts - 3).clamp(min=0)), -1).flatten(-3)
        turn = state.turn.unsqueeze(-1) == torch.arange(2, device=state.turn.device)
        dice = state.dice.flip(-1).unsqueeze(-2).expand(*state.turn.shape, 2, 2)
        again = state.again[..., None, None].expand(*state.turn.shape, 2, 1)
        sides = [mine[..., 0, BAR:], turn.unsqueeze(-1), theirs[..., 0, BAR:], ~turn.unsqueeze(-1)]
        return torch.cat([x.to(torch.float32) for x in (points, *sides, dice, again)], -1)

    def fast_form(self) -> CompiledRules[State]:
        """The same answers for envs of many rows, see :mod:`marlenv.games.fast`."""
        options = (self.checkers, 1 + SCORING.index(self.scoring), int(self.hyper))
        return CompiledRules(self, "backgammon_kernels", options, work=(300, 1500))

    # --- for people ------------------------------------------------------------------------------

    def action_name(self, state: State, action: int) -> str:
        """Moves as players count their points: ``8/5 6/5*``, ``bar/22``, ``3/off``, or ``pass``."""
        own, other = _sides(state)
        dice = state.dice.flip(-1) if action >= PAIR else state.dice
        words = []
        for place, number in zip((action % PAIR // 26, action % 26), dice.unbind(-1), strict=True):
            if place == NONE:
                continue
            to = place - int(number)
            before = int(other[BAR])
            own, other = _moved(own, other, torch.tensor(place, device="cpu"), number.cpu())
            hit = "*" if int(other[BAR]) > before else ""
            words.append(f"{'bar' if place == BAR else place + 1}/{'off' if to < 0 else to + 1}{hit}")
        return " ".join(words) or "pass"

    def show(self, state: State, *, color: bool = False) -> str:
        """The board, its points counted as the player to move counts them."""
        seat = int(state.turn)
        own, other = (side.tolist() for side in _sides(state))
        marks = (self.players[seat], self.players[1 - seat])

        def stones(place: int) -> str:
            mine, theirs = own[place], other[23 - place]
            word = (f"{marks[0]}{mine}" if mine else f"{marks[1]}{theirs}" if theirs else "-").rjust(4)
            paint = (
                drawing.faint if not mine and not theirs else drawing.red if (seat == 0) == (mine > 0) else drawing.blue
            )
            return paint(word, color)

        rows = (range(12, 24), range(11, -1, -1))
        numbers = [drawing.faint("".join(f"{place + 1:4d}" for place in row), color) for row in rows]
        lines = [numbers[0], *("".join(map(stones, row)) for row in rows), numbers[1]]
        sides = (
            f"{mark}: {side[BAR]} on the bar, {side[OFF]} off" for mark, side in zip(marks, (own, other), strict=True)
        )
        rolled = " ".join(map(str, state.dice.tolist()))
        return "\n".join([*lines, *sides, f"{marks[0]} to move: {rolled}{' again' if bool(state.again) else ''}"])

    def svg(self, state: State) -> str:
        """The board with red checkers for x and blue ones for o, counted as x counts its points."""
        picture = drawing.Picture(13, 10, ground=drawing.WOOD)
        x, o = (side.tolist() for side in state.board)
        for place in range(POINTS):
            column = place - 12 if place > 11 else 11 - place
            column, top = column + (column > 5), place > 11
            y, tip = (0.0, 4.2) if top else (10.0, 5.8)
            fill = drawing.FELT if place % 2 else drawing.PAPER
            picture.polygon([(column, y), (column + 1, y), (column + 0.5, tip)], fill)
            picture.text((column + 0.5, -0.25 if top else 10.25), str(place + 1))
            for fill, count in ((drawing.RED, x[place]), (drawing.BLUE, o[23 - place])):
                for i in range(count):
                    away = 0.5 + i * min(0.85, 4.0 / max(count, 1))
                    picture.disc((column + 0.5, away if top else 10 - away), fill, line=drawing.INK)
        for fill, side, y in ((drawing.RED, x, 7.0), (drawing.BLUE, o, 3.0)):
            for i in range(side[BAR]):
                picture.disc((6.5, y + 0.3 * i), fill, line=drawing.INK)
        rolled = " ".join(map(str, state.dice.tolist()))
        picture.text((6.5, 5), f"{self.players[int(state.turn)]}: {rolled}", drawing.INK, 0.4)
        return picture.svg()


def _sides(state: State) -> tuple[Tensor, Tensor]:
    """The checkers of the player to move, and those of the other; int8 ``[*B, 26]`` each."""
    first = (state.turn == 0).unsqueeze(-1)
    a, b = state.board.unbind(-2)
    return torch.where(first, a, b), torch.where(first, b, a)


def _word(places: Tensor) -> Tensor:
    """The places that are True as bits; int64 ``[*B]`` for ``[*B, n]``."""
    return (places * (1 << torch.arange(places.shape[-1], device=places.device))).sum(-1)


def _movable(mine: Tensor, inside: Tensor, number: Tensor) -> Tensor:
    """From which places a checker can move by a number; bits, int64 of any shape.

    Args:
        mine: where there are checkers, as bits.
        inside: from where the number leads to a free point, as bits.
        number: of the dice.
    """
    moves = mine & inside
    moves = torch.where(mine >> BAR != 0, moves & 1 << BAR, moves)  # who has a checker on the bar must enter it first
    exact = 1 << number - 1
    last = HIGHEST[mine & HOME]
    bears_off = torch.where(mine & exact != 0, exact, torch.where(mine < exact, last, 0))
    return torch.where(mine <= HOME, moves | bears_off, moves)


def _moved(own: Tensor, other: Tensor, place: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
    """Both sides after a checker moves from ``place``, int64 ``[*B]``; 25 moves none."""
    places = torch.arange(26, device=own.device)
    moves = (place != NONE).unsqueeze(-1)
    to = (place - number).unsqueeze(-1)
    own = own - ((places == place.unsqueeze(-1)) & moves).to(own.dtype)
    own = own + ((places == torch.where(to < 0, OFF, to)) & moves).to(own.dtype)
    hit = (places == 23 - to) & moves & (to >= 0) & (other == 1) & (places < POINTS)
    other = torch.where(hit, 0, other) + ((places == BAR) & hit.any(-1, keepdim=True)).to(other.dtype)
    return own, other


def _unequal() -> Tensor:
    """The pairs of different numbers, higher first; int64 ``[15, 2]``."""
    return torch.tensor([[high, low] for low in range(1, 7) for high in range(low + 1, 7)], device="cpu")


def _highest() -> Tensor:
    """The highest bit of each number; int64 ``[64]``."""
    numbers = torch.arange(HOME + 1, device="cpu")
    bits = 1 << torch.arange(6, device="cpu")
    return torch.where(bits <= numbers.unsqueeze(-1), bits, 0).amax(-1)


def _setups() -> Tensor:
    """How many checkers each place has at the start, and with three checkers; int8 ``[2, 26]``."""
    return torch.tensor(
        [[setup.get(place, 0) for place in range(26)] for setup in (SETUP, HYPER)], dtype=torch.int8, device="cpu"
    )


UNEQUAL, HIGHEST, SETUPS = Table(_unequal), Table(_highest), Table(_setups)
