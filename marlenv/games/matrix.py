"""Games in which all choose at once and a table says who gets what, once or again and again.

Source: https://en.wikipedia.org/wiki/Normal-form_game
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.errors import SpecError, nearest
from marlenv.games.fast.compiled_rules import CompiledRules
from marlenv.games.parts import cards, drawing
from marlenv.games.parts.options import keep_whole
from marlenv.games.rules import Rules, where
from marlenv.rng import RowRNG

ROUNDING = 1e-6  # of what adds up to zero, in tables of float32
RPS = ((0, -1, 1), (1, 0, -1), (-1, 1, 0))
NAMED: dict[str, tuple[tuple[str, ...], Any]] = {  # as in OpenSpiel 2.0 (matrix_games)
    "prisoners_dilemma": (("Cooperate", "Defect"), [[(5, 5), (0, 10)], [(10, 0), (1, 1)]]),
    "stag_hunt": (("Stag", "Hare"), [[(2, 2), (0, 1)], [(1, 0), (1, 1)]]),
    "chicken": (("Dare", "Chicken"), [[(0, 0), (4, 1)], [(1, 4), (3, 3)]]),
    "bach_or_stravinsky": (("Bach", "Stravinsky"), [[(3, 2), (0, 0)], [(0, 0), (2, 3)]]),
    "coordination": (("Left", "Right"), [[(1, 1), (0, 0)], [(0, 0), (1, 1)]]),
    "matching_pennies": (("Heads", "Tails"), [[(1, -1), (-1, 1)], [(-1, 1), (1, -1)]]),
    "rock_paper_scissors": (("Rock", "Paper", "Scissors"), [[(x, -x) for x in row] for row in RPS]),
    "shapleys_game": (
        ("Rock", "Paper", "Scissors"),
        [[(0, 0), (0, 1), (1, 0)], [(1, 0), (0, 0), (0, 1)], [(0, 1), (1, 0), (0, 0)]],
    ),
}


class State(NamedTuple):
    """A position."""

    last: Tensor  # [*B, P] int64: what was chosen in the last round, -1 before the first
    played: Tensor  # [*B] int64: how many rounds were played
    score: Tensor  # [*B, P] float64: what each player has earned


@dataclass(frozen=True)
class MatrixGame(Rules[State]):
    """All players choose at once; a table says what each earns. Played once, for some rounds, or without end.

    - observation ``[P n + 1]``: what each player chose in the last round, one-hot, own choice first and then the
      others' in the order of seats, zeros before the first round; the share of the rounds that is left, 1 in a game
      without end
    - action: a choice
    - reward: what the table says for the choices of all
    - ends: after ``rounds`` rounds

    Args:
        payoffs: the table, with what each player earns in each cell:
            ``payoffs[choice of player 0][choice of player 1]...`` is a tuple of numbers, one per player; or a name:
            ``"prisoners_dilemma"``, ``"stag_hunt"``, ``"chicken"``, ``"bach_or_stravinsky"``, ``"coordination"``,
            ``"matching_pennies"``, ``"rock_paper_scissors"``, ``"shapleys_game"``.
        rounds: how often the game is played; without end if None.
        choices: the names of the choices, all different; numbers for a table of one's own when left out.

    Raises:
        SpecError: no game has this name, the table is no table of finite numbers, or two choices have one name.

    >>> rules = MatrixGame("prisoners_dilemma", rounds=2)
    >>> state = rules.play(rules.start(Size([])), torch.tensor([0, 1]))
    >>> rules.returns(state), rules.over(state)
    (tensor([ 0., 10.], dtype=torch.float64), tensor(False))

    Source: https://en.wikipedia.org/wiki/Normal-form_game; payoffs of the named games as in OpenSpiel 2.0.
    """

    payoffs: Any = "prisoners_dilemma"
    rounds: int | None = 1
    choices: Sequence[str] | None = None

    outcomes: ClassVar[tuple[str, ...]] = ("", "all rounds played")
    simultaneous: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rounds is not None:
            keep_whole(self, "rounds", 1)
        if isinstance(self.payoffs, str):
            if self.payoffs not in NAMED:
                raise SpecError(f"MatrixGame: no game is called {self.payoffs!r}; {nearest(self.payoffs, NAMED)}")
            names, table = NAMED[self.payoffs]
            object.__setattr__(self, "choices", names if self.choices is None else self.choices)
            object.__setattr__(self, "payoffs", table)
        object.__setattr__(self, "payoffs", _frozen(self.payoffs))
        object.__setattr__(self, "choices", _names(self.choices))
        if not self._table.ndim:
            raise SpecError(
                f"MatrixGame: payoffs must be a table, payoffs[choice of player 0][...], or a game's name, got "
                f"{self.payoffs!r}"
            )
        *counts, players = self._table.shape
        if len(counts) != players or not players or 0 in counts:
            raise SpecError(
                f"MatrixGame: a table of {len(counts)} choices must hold {len(counts)} numbers per cell, one per "
                f"player, "
                f"got {players}: its shape is {list(self._table.shape)}"
            )
        if not bool(self._table.isfinite().all()):
            raise SpecError(f"MatrixGame: payoffs must be finite numbers, got {self.payoffs}")
        if self.choices is not None and len(self.choices) < max(counts):
            raise SpecError(f"MatrixGame: expected names for {max(counts)} choices, got {list(self.choices)}")

    @property
    def _table(self) -> Tensor:
        return _tensor(self.payoffs, torch.device("cpu"))

    @property
    def players(self) -> tuple[str, ...]:
        return tuple(f"player_{i}" for i in range(self._table.shape[-1]))

    @property
    def zero_sum(self) -> bool:
        table = self._table
        return bool((table.sum(-1).abs() <= ROUNDING * table.abs().sum(-1)).all())

    @property
    def n_actions(self) -> int:
        return max(self._table.shape[:-1])

    @property
    def longest(self) -> int | None:
        return self.rounds

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (len(self.players) * self.n_actions + 1,)

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        played = torch.zeros(batch_size, dtype=torch.int64, device=device)
        last = played.unsqueeze(-1).repeat(*[1] * len(batch_size), len(self.players)) - 1
        return State(last, played, torch.zeros_like(last, dtype=torch.float64))

    def player(self, state: State) -> Tensor:
        return torch.zeros_like(state.played)

    def over(self, state: State) -> Tensor:
        return state.played >= self.rounds if self.rounds else torch.zeros_like(state.played, dtype=torch.bool)

    def legal(self, state: State) -> Tensor:
        may = _choices(self.payoffs, state.last.device)
        return may & ~self.over(state)[..., None, None]

    def play(self, state: State, action: Tensor) -> State:
        action = action.to(torch.int64)
        table = _tensor(self.payoffs, action.device)
        won = table[tuple(action.unbind(-1))]
        return where(self.over(state), state, State(action, state.played + 1, state.score + won))

    def returns(self, state: State) -> Tensor:
        return state.score

    def observe(self, state: State) -> Tensor:
        """What was chosen last, one's own first, and the share of rounds that is left; float32 ``[*B, P, P n + 1]``."""
        players = len(self.players)
        seat = torch.arange(players, device=state.last.device)
        order = torch.where(seat == 0, seat.unsqueeze(-1), seat - (seat <= seat.unsqueeze(-1)).long())
        choices = state.last[..., order]  # [*B, P, P], own first
        chosen = cards.one_hot(choices, self.n_actions).flatten(-2).to(torch.float32)
        left = (
            (self.rounds - state.played).to(torch.float32) / self.rounds
            if self.rounds
            else torch.ones_like(state.played, dtype=torch.float32)
        )
        return torch.cat((chosen, left[..., None, None].expand((*chosen.shape[:-1], 1))), -1)

    def fast_form(self) -> CompiledRules[State]:
        """The same answers for envs of many rows, see :mod:`marlenv.games.fast`."""
        table, players = self._table, len(self.players)
        counts = torch.tensor(table.shape[:-1], device="cpu")
        numbers = counts.numpy(), table.reshape(-1, players).numpy()
        options = (players, self.n_actions, self.rounds or 0, *numbers)
        return CompiledRules(self, "matrix_kernels", options, work=(30, 150))

    # --- for people ------------------------------------------------------------------------------

    def action_name(self, state: State, action: int) -> str:
        """The name of a choice."""
        return str(action) if self.choices is None else self.choices[action]

    def _lines(self, state: State) -> Iterator[str]:
        rounds = "" if self.rounds is None else f" of {self.rounds}"
        yield f"{int(state.played)}{rounds} rounds played"
        for name, last, score in zip(self.players, state.last.tolist(), state.score.tolist(), strict=True):
            yield f"{name}  {'-' if last < 0 else self.action_name(state, last)}  {score:g}"

    def show(self, state: State, *, color: bool = False) -> str:
        """What everybody chose in the last round, and has earned; the table, for two players."""
        lines = list(self._lines(state))
        if len(self.players) == 2:
            lines += ["", *self._grid(state, color)]
        return "\n".join(lines)

    def _grid(self, state: State, color: bool) -> Iterator[str]:
        """The table of two players; the cell of the last round is bold."""
        words = [[", ".join(f"{x:g}" for x in cell) for cell in row] for row in self._table.tolist()]
        names = [self.action_name(state, i) for i in range(self.n_actions)]
        words = [["", *names[: len(words[0])]], *([name, *row] for name, row in zip(names, words, strict=False))]
        width = max(len(word) for row in words for word in row)
        last = [x + 1 for x in state.last.tolist()]
        for i, row in enumerate(words):
            cells = [word.ljust(width) for word in row]
            if i == last[0] > 0:
                cells[last[1]] = drawing.bold(cells[last[1]], color)
            yield "  ".join(cells).rstrip()

    def svg(self, state: State) -> str:
        """What everybody chose in the last round, and has earned."""
        lines = list(self._lines(state))
        picture = drawing.Picture(5, 0.6 * len(lines))
        for i, line in enumerate(lines):
            picture.text((0, 0.6 * i + 0.3), line, drawing.INK, anchor="start")
        return picture.svg()


def _frozen(table: Any) -> Any:
    """Nested tuples of numbers, so that equal tables are equal and have a hash."""
    if isinstance(table, (Tensor, np.ndarray, np.generic)):
        table = table.tolist()
    if isinstance(table, Sequence) and not isinstance(table, str):
        return tuple(_frozen(x) for x in table)
    if not isinstance(table, Real):
        raise SpecError(f"MatrixGame: the payoffs are no table of numbers, as one of them is {table!r}")
    return table


def _names(choices: Any) -> tuple[str, ...] | None:
    """The names of choices, by each of which people can mean but one."""
    if choices is None:
        return None
    try:
        names = None if isinstance(choices, str) else tuple(choices)
    except TypeError:  # a tensor of one number says but when it is read that it is no list
        names = None
    if names is None:
        raise SpecError(f"MatrixGame: choices must be a list of names, got {choices!r}")
    if not all(isinstance(name, str) for name in names):
        raise SpecError(f"MatrixGame: names of choices must be texts, got {list(names)}")
    read = ["".join(name.split()).casefold() for name in names]  # as Rules.read_action reads them
    if len(set(read)) < len(read):
        raise SpecError(
            f"MatrixGame: choices must have different names, letters of either case alike, got {list(names)}"
        )
    return names


@lru_cache
def _tensor(table: Any, device: torch.device) -> Tensor:
    """The table as float64 ``[n0, n1, ..., P]``."""
    try:
        return torch.tensor(table, dtype=torch.float64, device=device)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise SpecError(f"MatrixGame: the payoffs are no table of numbers ({error}): {table!r}") from None


@lru_cache
def _choices(table: Any, device: torch.device) -> Tensor:
    """Which choices each player has; bool ``[P, n]``."""
    counts = _tensor(table, torch.device("cpu")).shape[:-1]
    return (torch.arange(max(counts), device="cpu") < torch.tensor(counts, device="cpu").unsqueeze(-1)).to(device)
