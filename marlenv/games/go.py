"""Go (https://en.wikipedia.org/wiki/Go_(game)) with area scoring, for any batch of boards at once.

Every stone carries the number of its chain: a new stone gives its number to the chains that it joins. Whether a chain
has one liberty only follows from three sums over its empty neighbours (how many, their numbers, the squares of those:
all neighbours are one point if and only if the squared sum of the numbers is their count times the sum of squares),
so no chain is searched.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import ClassVar, Literal, NamedTuple, get_args

import torch
from torch import Size, Tensor

from marlenv.errors import SpecError, UnknownName, nearest
from marlenv.games.fast.boards import FastBoard
from marlenv.games.parts import drawing
from marlenv.games.parts.options import keep_whole
from marlenv.games.parts.tables import Table
from marlenv.games.rules import Rules, hashed, where
from marlenv.rng import RowRNG, mix

Repetition = Literal["allow", "draw", "forbid"]
LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"  # no I
LAST = torch.iinfo(torch.int64).max
LARGE = torch.iinfo(torch.int16).max  # no chain has this number
# Where squares and count of a chain's sums begin: on 25 x 25 the numbers stay below 2**20, the squares below 2**29.
PLACE, LAST_PLACE = 22, 51


class State(NamedTuple):
    """A position.

    Cells are counted row by row from the lower left corner; ``N`` of them, and one more that is off the board.
    """

    chain: Tensor  # [*B, N + 1] int16: chains of black above 0, of white below, 0 free
    atari: Tensor  # [*B, N + 1] bool: stones of chains with one liberty
    legal: Tensor  # [*B, N + 1] bool: where the player to move may play; the last is a pass
    ply: Tensor  # [*B] int64: how many moves were made
    passes: Tensor  # [*B] int64: how many of the last moves were passes
    score: Tensor  # [*B] float32: what black is ahead by; 0 until the end
    outcome: Tensor  # [*B] int8: why the game ended: an index into the outcomes, 0 while it goes on
    seen: Tensor
    """int64 ``[*B, H]``: hashes of the boards after no move, one move, and so on; ``H`` is 0 where repetitions are
    allowed"""


@dataclass(frozen=True)
class Go(Rules[State]):
    """Surround more of the board than the other. Black begins.

    A position is scored by area, as by Tromp and Taylor: stones, and free cells that touch one colour only. Captures,
    ko and the ban on suicide are as everywhere; nothing is taken off as dead at the end.

    - observation: planes ``[7, size, size]``, row 1 first: own stones, the other's stones, ones if it is my turn, ones
      after a pass, free cells where who is to move may not play (ko, suicide, repetition), the points that komi gives
      me (negative for black), the share of moves that is left; boards that stood before are in ``seen`` of the state
    - action: a cell, counted row by row from the lower left corner (people say ``A1``), or ``size * size``, a pass
    - reward: +1 for more, -1 for less, 0 for as much
    - ends: with two passes in turn, or after ``moves`` moves; with ``repetition="draw"`` also with a repeated board

    Args:
        size: 2 to 25.
        komi: what white is given.
        repetition: of a board that stood before, beyond the simple ko: ``"allow"``, ``"draw"`` (as OpenSpiel does), or
            ``"forbid"`` (positional superko).
        moves: a game is scored after so many moves; twice the cells when left out.

    >>> rules = Go(size=9, komi=0.5)
    >>> state = rules.start(Size([]))
    >>> for name in ("E5", "pass", "pass"):
    ...     state = rules.play(state, torch.tensor(rules.read_action(state, name)))
    >>> state.score
    tensor(80.5000)

    Source: https://tromp.github.io/go.html; https://en.wikipedia.org/wiki/Rules_of_Go
    """

    size: int = 9
    komi: float = 7.5
    repetition: Repetition = "allow"
    moves: int | None = None

    players: ClassVar[tuple[str, ...]] = ("black", "white")
    outcomes: ClassVar[tuple[str, ...]] = ("", "two passes", "repetition", "scored at the move limit")
    alternating: ClassVar[bool] = True
    pays_at_end: ClassVar[bool] = True

    def __post_init__(self) -> None:
        keep_whole(self, "size", 2, 25)
        if self.repetition not in get_args(Repetition):
            raise UnknownName(f"Go: repetition={self.repetition!r}; {nearest(self.repetition, get_args(Repetition))}")
        keep_whole(self, "moves", 1)
        most = torch.finfo(torch.float32).max  # of the returns; no NaN is within it either
        if not isinstance(self.komi, Real) or isinstance(self.komi, bool) or not abs(self.komi) <= most:
            raise SpecError(f"Go: komi must be a finite number, got {self.komi!r}")
        object.__setattr__(self, "komi", float(self.komi))

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.size * self.size

    @property
    def n_actions(self) -> int:
        return self.cells + 1

    @property
    def longest(self) -> int:
        return 2 * self.cells if self.moves is None else self.moves

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (7, self.size, self.size)

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        zero = torch.zeros(batch_size, dtype=torch.int64, device=device)
        chain = zero.to(torch.int16).unsqueeze(-1).expand(*batch_size, self.cells + 1).clone()
        seen = chain.new_full(
            (*batch_size, 0 if self.repetition == "allow" else self.longest + 1), LAST, dtype=torch.int64
        )
        seen[..., :1] = 0  # the hash of the empty board
        legal, score = torch.ones_like(chain, dtype=torch.bool), zero.to(torch.float32)
        return State(chain, ~legal, legal, zero, zero.clone(), score, zero.to(torch.int8), seen)

    def player(self, state: State) -> Tensor:
        return state.ply & 1

    def legal(self, state: State) -> Tensor:
        return state.legal

    def is_position(self, state: State) -> Tensor:
        """Whether the moves made are in range, and no board is remembered that comes after them."""
        made = torch.arange(state.seen.shape[-1], device=state.seen.device) <= state.ply.unsqueeze(-1)
        return (state.ply >= 0) & (state.ply <= self.longest) & ((state.seen == LAST) | made).all(-1)

    def play(self, state: State, action: Tensor) -> State:
        n, gone = self.cells, state.outcome != 0
        passes, cell = action == n, action.unsqueeze(-1)
        sign = (1 - 2 * self.player(state)).to(torch.int16).unsqueeze(-1)
        beside = self._beside()[action]
        met = state.chain.gather(-1, beside)
        taken = torch.zeros_like(state.legal)
        captured = (met * sign < 0) & state.atari.gather(-1, beside)
        for one in torch.where(captured, met, LARGE).unbind(-1):
            taken = taken | (state.chain == one.unsqueeze(-1))
        number = (cell + 1).to(torch.int16) * sign
        joined = taken.new_zeros(()).expand_as(taken)
        for one in torch.where(met * sign > 0, met, LARGE).unbind(-1):
            joined = joined | (state.chain == one.unsqueeze(-1))
        chain = torch.where(joined, number, state.chain).masked_fill(taken, 0).scatter(-1, cell, number)
        chain[..., n] = 0  # where passes go
        in_eye = ((met * sign < 0) | (beside == n)).all(-1)
        ko = torch.where(in_eye & (taken.sum(-1) == 1) & ~passes, taken.to(torch.int8).argmax(-1), n)
        ply, run = state.ply + 1, torch.where(passes, state.passes + 1, 0)
        seen, here, repeated = self._remembered(state, chain, taken, action)
        outcome = torch.where(run == 2, 1, torch.where(repeated, 2, torch.where(ply >= self.longest, 3, 0)))
        score = self._score(chain, (outcome == 1) | (outcome == 3))
        atari, legal = self._free(chain, -sign, ko, seen, here, outcome == 0)
        after = State(chain, atari, legal, ply, run, score, outcome.to(torch.int8), seen)
        return where(gone, state, after)

    def _beside(self) -> Table:
        return _neighbours(self.size)

    def _free(
        self, chain: Tensor, sign: Tensor, ko: Tensor, seen: Tensor, here: Tensor, going: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Which stones are in atari, and where the owner of ``sign`` may play; bool ``[*B, N + 1]`` each."""
        n, near = self.cells, self._beside().on(chain.device)
        number = torch.arange(n + 1, device=chain.device)
        code = ((1 << LAST_PLACE) + (number * number << PLACE) + number).masked_fill(number == n, 0)
        empty = torch.where(chain == 0, code, 0)
        sides = near.unbind(-1)
        around = sum((empty.index_select(-1, side) for side in sides[1:]), empty.index_select(-1, sides[0]))
        owner = chain.to(torch.int64).abs()  # numbers of chains are cells from 1 on: no chain has two owners
        sums = torch.zeros_like(around).scatter_add_(-1, owner, around)
        count, squares = sums >> LAST_PLACE, (sums >> PLACE) & ((1 << LAST_PLACE - PLACE) - 1)
        total = sums & ((1 << PLACE) - 1)
        single = ((total * total == squares * count) & (count > 0)).index_fill(-1, near.new_zeros(1), False)
        atari = single.gather(-1, owner)
        mine, open_, captures = chain * sign, torch.zeros_like(atari), []
        for side in sides:
            met, weak = mine.index_select(-1, side), atari.index_select(-1, side)
            captures.append((met < 0) & weak)
            open_ = open_ | ((met == 0) & (side != n)) | ((met > 0) & ~weak) | captures[-1]
        free = open_ & (chain == 0) & (number != ko.unsqueeze(-1))
        if self.repetition == "forbid":
            free = free & ~self._repeats(chain, sign, torch.stack(captures, -1), owner, seen, here)
        free[..., n] = True
        return atari, free & going.unsqueeze(-1)

    # --- repetitions -----------------------------------------------------------------------------

    def _keys(self, chain: Tensor) -> Tensor:
        """What each stone adds to the hash of the board; int64 ``[*B, N + 1]``."""
        number = torch.arange(self.cells + 1, device=chain.device)
        return torch.where(chain == 0, 0, mix(torch.where(chain > 0, 2 * number + 1, 2 * number + 2)))

    def _remembered(self, state: State, chain: Tensor, taken: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The boards so far with this one, its hash ``[*B, 1]``, and whether the game is drawn by repetition.

        Args:
            state: the position before.
            chain: the board after a move.
            taken: the stones that the move took off.
            action: the move.
        """
        passes, ply = action == self.cells, state.ply.unsqueeze(-1)
        if self.repetition == "allow":
            return state.seen, ply, torch.zeros_like(passes)  # nobody asks for a hash
        stone = self._keys(chain).gather(-1, action.unsqueeze(-1))  # 0 of a pass
        lost = torch.where(taken, self._keys(state.chain), 0).sum(-1, keepdim=True)
        at = (ply + 1).clamp(max=self.longest)
        here = state.seen.gather(-1, at - 1) + stone - lost
        known = (state.seen == here).any(-1)
        seen = state.seen.scatter(-1, at, here)
        return seen, here, known & ~passes if self.repetition == "draw" else torch.zeros_like(passes)

    def _repeats(
        self, chain: Tensor, sign: Tensor, captures: Tensor, owner: Tensor, seen: Tensor, here: Tensor
    ) -> Tensor:
        """Where a stone would make a board that stood before; bool ``[*B, N + 1]``.

        Args:
            chain: the board.
            sign: of the owner of the stone.
            captures: bool ``[*B, N + 1, 4]``, which chains beside a cell a stone there would capture.
            owner: the absolute number of each cell's chain.
            seen: the boards so far.
            here: the hash of the board, ``[*B, 1]``.
        """
        near, keys = self._beside().on(chain.device), self._keys(chain)
        of_chain = torch.zeros_like(keys).scatter_add_(-1, owner, keys).gather(-1, owner)[..., near]
        beside = owner[..., near]
        lost = torch.zeros_like(keys)
        for i in range(4):
            again = (beside[..., i : i + 1] == beside[..., :i]).any(-1)  # a chain that touches the cell twice
            lost = lost + torch.where(captures[..., i] & ~again, of_chain[..., i], 0)
        stone = self._keys(sign.expand_as(chain))
        after, known = here + stone - lost, seen.sort(-1)[0]
        at = torch.searchsorted(known, after).clamp(max=known.shape[-1] - 1)
        return known.gather(-1, at) == after

    # --- the end ---------------------------------------------------------------------------------

    def _score(self, chain: Tensor, ended: Tensor) -> Tensor:
        """What black is ahead by where the game has ended, else 0; float32 ``[*B]``."""
        if chain.device.type == "cpu" and not torch.compiler.is_compiling():
            score = torch.zeros(ended.shape, dtype=torch.float32, device="cpu")
            if bool(ended.any()):
                score[ended] = self._area(chain[ended])
            return score
        return torch.where(ended, self._area(chain), 0.0)

    def _area(self, chain: Tensor) -> Tensor:
        """What black is ahead by: stones, and free cells from which only black is reached; float32 ``[*B]``."""
        near, look = self._beside().on(chain.device), chain.device.type == "cpu"
        reach = torch.stack((chain > 0, chain < 0))
        free = (chain == 0).index_fill(-1, near[-1, :1], False)
        for _ in range(2 * self.cells // 3 + self.size):  # no shortest way on the board is longer
            beside = [reach.index_select(-1, side) for side in near.unbind(-1)]
            wider = reach | (free & (beside[0] | beside[1] | beside[2] | beside[3]))
            if look and not torch.compiler.is_compiling() and torch.equal(wider, reach):
                break
            reach = wider
        black, white = reach.unbind(0)
        return ((black & ~white).sum(-1) - (white & ~black).sum(-1)).to(torch.float32) - self.komi

    def over(self, state: State) -> Tensor:
        return state.outcome != 0

    def outcome(self, state: State) -> Tensor:
        return state.outcome

    def returns(self, state: State) -> Tensor:
        black = state.score.sign()
        return torch.stack((black, -black), -1)

    def observe(self, state: State) -> Tensor:
        """What a board and its rules say; float32 ``[*B, 2, 7, size, size]``, see the class."""
        cells = state.chain[..., : self.cells].unflatten(-1, (self.size, self.size))
        black, white, free = cells > 0, cells < 0, cells == 0
        barred = free & ~state.legal[..., : self.cells].unflatten(-1, free.shape[-2:])
        left = (self.longest - state.ply).to(torch.float32) / self.longest
        planes = torch.empty((*state.ply.shape, 2, *self.observation_shape), device=cells.device, dtype=torch.float32)
        for seat, (own, other, komi) in enumerate(((black, white, -self.komi), (white, black, self.komi))):
            mine = (self.player(state) == seat, state.passes > 0)
            for at, plane in enumerate((own, other, *(x[..., None, None] for x in mine), barred)):
                planes[..., seat, at, :, :] = plane
            planes[..., seat, 5, :, :] = komi
        planes[..., 6, :, :] = left[..., None, None, None]
        return planes

    def position_key(self, state: State) -> Tensor:
        """Stones, whose turn it is, where it may play, and whether the last move was a pass; not the moves left."""
        turn = torch.stack((self.player(state), (state.passes > 0).to(torch.int64)), -1)
        return hashed(torch.cat((state.chain.sign().to(torch.int64), state.legal.to(torch.int64), turn), -1))

    def fast_form(self) -> FastBoard[State]:
        """The same answers for envs of many rows, see :mod:`marlenv.games.fast`."""
        komi, near = (float(-self.komi), float(self.komi)), self._beside().array
        number = torch.arange(self.cells + 1, device="cpu")
        keys = mix(torch.stack((2 * number + 1, 2 * number + 2))).numpy()
        repetition = get_args(Repetition).index(self.repetition)
        board = (self.size, komi, repetition, self.longest, near, keys)
        return FastBoard(self, "go_kernels", board, work=(30, 10 * self.cells))

    # --- for people ------------------------------------------------------------------------------

    def action_name(self, state: State, action: int) -> str:
        """Column (there is no I) and row, or ``pass``."""
        return "pass" if action == self.cells else f"{LETTERS[action % self.size]}{action // self.size + 1}"

    def marks(self, state: State) -> list[str]:
        """``X`` for black, ``O`` for white, ``+`` for star points and ``.`` for other cells, in the order of cells."""
        stars = _stars(self.size)
        free = ["+" if divmod(cell, self.size) in stars else "." for cell in range(self.cells)]
        return [
            "X" if c > 0 else "O" if c < 0 else f for c, f in zip(state.chain[: self.cells].tolist(), free, strict=True)
        ]

    def show(self, state: State, *, color: bool = False) -> str:
        """The board, row 1 below."""
        paint = {"X": drawing.green, "O": drawing.bold, "+": drawing.faint, ".": drawing.faint}
        shown = [paint[mark](mark, color) for mark in self.marks(state)]
        rows = [" ".join(shown[row * self.size : (row + 1) * self.size]) for row in reversed(range(self.size))]
        return drawing.labelled(rows, LETTERS[: self.size], color=color)

    def svg(self, state: State) -> str:
        """The board with stones on its crossings."""
        picture, n = drawing.Picture(self.size - 1, self.size - 1, margin=1.0, ground=drawing.WOOD), self.size
        for at in range(n):
            picture.line((at, 0), (at, n - 1), drawing.INK, 0.02)
            picture.line((0, at), (n - 1, at), drawing.INK, 0.02)
            picture.text((at, n - 0.25), LETTERS[at])
            picture.text((-0.75, n - 1 - at), str(at + 1))
        for cell, mark in enumerate(self.marks(state)):
            center = (cell % n, n - 1 - cell // n)
            if mark == "+":
                picture.disc(center, drawing.INK, 0.08)
            elif mark != ".":
                picture.disc(center, drawing.BLACK if mark == "X" else drawing.WHITE, 0.46, line=drawing.INK)
        return picture.svg()


@lru_cache(maxsize=32)
def _neighbours(size: int) -> Table:
    """The four neighbours of each cell, and of the place off the board, which is also what is beyond an edge.

    int64 ``[N + 1, 4]``.
    """

    def make() -> Tensor:
        n, lines = size * size, []
        for row, column in (divmod(cell, size) for cell in range(n)):
            near = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
            lines.append([r * size + c if 0 <= r < size and 0 <= c < size else n for r, c in near])
        return torch.tensor([*lines, [n] * 4], device="cpu")

    return Table(make)


def _stars(size: int) -> set[tuple[int, int]]:
    """The points that boards mark."""
    if size < 7:
        return {(size // 2, size // 2)} if size % 2 else set()
    edge = 2 if size < 13 else 3
    lines = [edge, size - 1 - edge] + ([size // 2] if size % 2 and size >= 13 else [])
    return {(a, b) for a in lines for b in lines} | ({(size // 2, size // 2)} if size % 2 else set())
