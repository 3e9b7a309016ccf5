"""The rules of chess as :class:`marlenv.games.rules.Rules`: any number of games at once, on any device, with Chess960.

A state is three int64 tensors (``board.py``). ``moves.py`` and ``ending.py`` say what may be played and when a game
ends, ``kernels.py`` says the same for numba, ``notation.py`` and ``pgn.py`` read and write; this file ties them
together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, get_args

import torch
from torch import Size, Tensor

from marlenv.errors import BadNotation, DtypeError, IllegalAction, ShapeError, UnknownName, flag, nearest
from marlenv.games.chess import observation
from marlenv.games.chess.board import (
    ACTIONS,
    CHECKMATE,
    HASH,
    LIMITS,
    OUTCOME,
    OUTCOMES,
    PLANES,
    STANDARD,
    TURN,
    State,
    back_rank,
    squares_of,
    start_words,
)
from marlenv.games.chess.ending import Limits
from marlenv.games.chess.fast import paths
from marlenv.games.chess.numberings.numbering import Numbering
from marlenv.games.chess.pictures import drawing
from marlenv.games.chess.text import notation, pgn
from marlenv.games.chess.text.position import Position
from marlenv.games.parts.options import keep_whole
from marlenv.games.rules import Rules
from marlenv.rng import RowRNG, signed


class _Reader(Protocol):
    def __call__(self, text: str, position: Position, actions: Sequence[int]) -> int: ...


ZEROING_MOVES = 16 * 6 + 30  # pawns can make so many moves in a game, and so many pieces can be captured


@dataclass(frozen=True)
class Chess(Rules[State]):
    """Chess by the laws of FIDE, and Chess960.

    Player 0 is White. The player who mates has a return of 1 and the other of -1; every draw is 0 for both.

    - observation: ``[23, 8, 8]`` planes from one's own seat, see :mod:`marlenv.games.chess.observation`
    - action: ``plane * 64 + from``, 4672 of them, see :mod:`marlenv.games.chess.board`
    - ends: checkmate, stalemate, insufficient material, and a draw for repetition or want of progress

    Args:
        draws: ``"claim"`` ends a game at the third repetition and after 50 moves without progress, as if the draw were
            always claimed; ``"forced"`` at the fifth and after 75, where the arbiter must; ``"torchrl"``, as
            TorchRL's env, at the fifth and after 50.
        chess960: castling by the rules of Chess960, written as the king's step onto his rook.
        number: the starting position, 0 to 959; left out, the usual one, or in Chess960 one drawn by
            ``start(rng=...)``.
        path: ``"auto"`` takes numba on the CPU where it is installed, else torch; the results are the same bits.

    >>> rules = Chess()
    >>> state = rules.start(torch.Size([2]))
    >>> state = rules.play(state, rules.read_ucis(state, ["e2e4", "g1f3"]))
    >>> rules.fens(state)[1]
    'rnbqkbnr/pppppppp/8/8/8/5N2/PPPPPPPP/RNBQKB1R b KQkq - 1 1'

    Source: FIDE Laws of Chess 2023, https://handbook.fide.com/chapter/E012023
    """

    draws: Literal["claim", "forced", "torchrl"] = "claim"
    chess960: bool = False
    number: int | None = None
    path: paths.Path = "auto"

    players: ClassVar[tuple[str, ...]] = ("white", "black")
    alternating: ClassVar[bool] = True
    pays_at_end: ClassVar[bool] = True
    outcomes: ClassVar[tuple[str, ...]] = OUTCOMES

    def __post_init__(self) -> None:
        if not isinstance(self.draws, str) or self.draws not in LIMITS:
            raise UnknownName(f"Chess: draws={self.draws!r}; {nearest(self.draws, LIMITS)}")
        if self.path not in get_args(paths.Path):
            raise UnknownName(f"Chess: path={self.path!r}; {nearest(self.path, get_args(paths.Path))}")
        flag("Chess", "chess960", self.chess960)
        if self.number is not None:
            keep_whole(self, "number", 0, 959)
            if not self.chess960 and self.number != STANDARD:
                raise BadNotation(
                    f"Chess: position {self.number} needs chess960=True; without it only {STANDARD} can castle"
                )

    # --- Rules -----------------------------------------------------------------------------------

    @property
    def n_actions(self) -> int:
        """73 planes of 64 squares."""
        return ACTIONS

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The planes of one player."""
        return (observation.OBSERVED, 8, 8)

    @property
    def limits(self) -> Limits:
        """When a game without progress is drawn."""
        return Limits(*LIMITS[self.draws])

    @property
    def longest(self) -> int:
        """Every pawn move and capture at the last moment, and the draw."""
        return (ZEROING_MOVES + 1) * self.limits.plies

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        """The starting position; in Chess960 without a ``number`` one of the 960 per row, drawn from ``rng``."""
        if self.chess960 and self.number is None and rng is not None:
            return self._numbered(rng.randint(0, 960, [1]).squeeze(-1), rng.device if device is None else device)
        one = self.first(torch.device("cpu") if device is None else device)
        return State(*(part.expand(*batch_size, -1).clone() for part in one))

    def player(self, state: State) -> Tensor:
        """Whose turn it is; int64 ``[*B]``: 0 White, 1 Black."""
        return state.board[..., TURN]

    def legal(self, state: State, out: Tensor | None = None) -> Tensor:
        """The legal actions; bool ``[*B, 4672]``, all False in a finished game.

        ``state.moves`` says the same in an eighth of the memory. A mask that is given as ``out`` is written over and
        returned, which saves making a new one.
        """
        return paths.unpack(state.moves, out, self.path)

    def play(self, state: State, action: Tensor, out: State | None = None) -> State:
        """The positions after ``action``, int64 ``[*B]``.

        A row whose action is not among its moves stays as it is: a finished game, and an illegal action, which
        :meth:`permits` tells and :meth:`check` refuses. A state that is given as ``out`` is written over and returned;
        it may be ``state`` itself.

        >>> rules = Chess()
        >>> state = rules.start(torch.Size())
        >>> rules.fens(rules.play(state, torch.tensor(6 * 64 + 12)))
        ['rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1']
        """
        return paths.play(state, action, self.limits, self.chess960, self.path, out)

    def over(self, state: State) -> Tensor:
        """Whether the game has ended; bool ``[*B]``."""
        return state.board[..., OUTCOME] != 0

    def returns(self, state: State) -> Tensor:
        """1 for the player who has mated, -1 for the one who is mated, else 0; float32 ``[*B, 2]``."""
        mated = (state.board[..., OUTCOME] == CHECKMATE).to(torch.float32)
        white = mated * (2 * state.board[..., TURN] - 1)
        return torch.stack((white, -white), -1)

    def observe(self, state: State) -> Tensor:
        """The planes of both players; float32 ``[*B, 2, 23, 8, 8]``."""
        return observation.observe(state.board, self.limits.plies)

    def position_key(self, state: State) -> Tensor:
        """Squares, castling, en passant and turn, as the rule about repetitions compares them; int64 ``[*B]``."""
        return state.board[..., HASH]

    def planes(self, boards: Tensor) -> Tensor:
        """The planes of both players with earlier positions; float32 ``[*B, 2, 14 * T + 9, 8, 8]``.

        Args:
            boards: ``State.board`` of the present position and of those before it, ``[*B, T, 16]``; 0 where there was
                none.
        """
        return observation.with_history(boards, self.limits.plies)

    def planes_with(self, steps: int) -> int:
        """How many planes :meth:`planes` gives for so many positions."""
        return 14 * steps + observation.OBSERVED - 14

    def numbering(self, name: str) -> Numbering:
        """Other people's numbers for the moves: ``"uci"``, ``"lc0"``, ``"openspiel"``, ``"pettingzoo"`` or ``"san"``.

        Raises:
            UnknownName: there is no such numbering.

        >>> rules = Chess()
        >>> rules.numbering("openspiel").size
        4674
        """
        return Numbering(name, self.chess960, self.path)

    def state_of(self, board: Tensor, history: Tensor, moves: Tensor) -> State:
        """The state with these parts; see :class:`~marlenv.games.chess.board.State`."""
        return State(board, history, moves)

    def outcome(self, state: State) -> Tensor:
        """Why the game ended, as an index into :attr:`outcomes`; int8 ``[*B]``, 0 while it goes on."""
        return state.board[..., OUTCOME].to(torch.int8)

    def show(self, state: State, *, color: bool = False) -> str:
        """One position as a board of letters, or of coloured squares and figures."""
        return drawing.show(self._one(state), color=color)

    def action_name(self, state: State, action: int) -> str:
        """An action of one position in SAN; in UCI where it is not legal."""
        position = self._one(state)
        if action in _actions(state.moves.tolist()):
            return self.sans(state, torch.tensor(action, device=state.board.device))[0]
        return notation.describe(action, position)

    def legal_names(self, state: State, seat: int | None = None) -> dict[str, int]:
        """The legal actions of one position by their SAN."""
        self._one(state)
        actions = torch.tensor(_actions(state.moves.tolist()), dtype=torch.int64, device=state.board.device)
        many = State(*(part.expand(len(actions), -1) for part in state))
        return dict(zip(self.sans(many, actions), actions.tolist(), strict=True))

    def read_action(self, state: State, text: str) -> int:
        """The legal action that ``text`` means in one position, in SAN or UCI.

        Raises:
            BadNotation: no legal action is called that.
            DtypeError: it is no text.

        >>> rules = Chess()
        >>> state = rules.start(torch.Size())
        >>> rules.read_action(state, "Nf3") == rules.read_action(state, "g1f3")
        True
        """
        text = notation.as_text("Chess.read_action", text).strip()
        position, actions = self._one(state), _actions(state.moves.tolist())
        with contextlib.suppress(BadNotation):
            return notation.read_uci(text, position, actions)
        return notation.read_san(text, position, actions)

    def score_sheet(self, states: Sequence[State], actions: Sequence[int], header: Mapping[str, str]) -> str:
        """A played game in PGN.

        Args:
            states: the positions in which moves were made, each without batch dimensions; the first one where none was.
            actions: the moves.
            header: tags by any spelling: ``"white": "Ada"``, ``"date": "2026.01.31"``, ``"result": "1-0"``.

        >>> rules = Chess()
        >>> print(rules.score_sheet([rules.start(torch.Size())], [6 * 64 + 12], {"white": "Ada"}).splitlines()[-1])
        1. e4 *
        """
        tags = {name[:1].upper() + name[1:]: text for name, text in header.items()}
        result, fen = tags.pop("Result", None), pgn.START
        if states:
            fen = self.fens(states[0])[0]
            last = states[-1]
            if actions:
                last = self.play(last, torch.tensor(actions[-1], device=last.board.device))
            white = float(self.returns(last)[0])
            if result is None and bool(self.over(last)):
                result = {1.0: "1-0", -1.0: "0-1"}.get(white, "1/2-1/2")
        return str(pgn.record(actions, fen=fen, chess960=self.chess960, tags=tags, result=result))

    # --- beyond Rules ----------------------------------------------------------------------------

    def sample(self, state: State, random: Tensor) -> Tensor:
        """A legal action per row, every one equally likely; int64 ``[*B]``, 0 in finished games.

        Args:
            state: the positions.
            random: 64 random bits per row, int64 ``[*B]``.
        """
        return paths.sample(state.moves, random, self.path)

    def pick(self, state: State, unit: Tensor) -> Tensor:
        """A legal action for each number in [0, 1), all equally likely; int64 ``[*B]``, 0 in finished games."""
        return self.sample(state, (unit * 2.0**32).to(torch.int64) << 32)

    def draw(self, state: State, rng: RowRNG) -> Tensor:
        """A legal action per row, drawn with the next bits of ``rng``, a stream per row; int64 ``[*B]``.

        >>> rules = Chess()
        >>> state = rules.start(torch.Size([2]))
        >>> bool(rules.permits(state, rules.draw(state, RowRNG(0, [2]))).all())
        True
        """
        return paths.draw(state.moves, rng, self.path)

    def permits(self, state: State, action: Tensor) -> Tensor:
        """Whether each action is legal; bool ``[*B]``. A look at one bit per row, without waiting for the device."""
        return paths.permits(state, action, self.path)

    def check(self, state: State, action: Tensor) -> None:
        """Refuses illegal actions; waits for the device.

        Raises:
            IllegalAction: an action is not legal in its row; names row, player and move.

        >>> rules = Chess()
        >>> rules.check(rules.start(torch.Size([1])), torch.tensor([12]))
        Traceback (most recent call last):
        marlenv.errors.IllegalAction: Chess: row 0: white may not play e2f2 (action 12); legal: a2a3 a2a4 ... (20 moves)
        """
        permitted = self.permits(state, action)
        if bool(permitted.all()):
            return
        row = int((~permitted).flatten().nonzero()[0, 0])
        board, moves = (part.reshape(-1, part.shape[-1])[row].tolist() for part in (state.board, state.moves))
        played, position = int(action.flatten()[row]), Position.from_words(board)
        legal = sorted(notation.write_uci(a, position) for a in _actions(moves))
        if board[OUTCOME]:
            allowed = f"the game is over: {OUTCOMES[board[OUTCOME]]}"
        else:
            allowed = f"legal: {' '.join(legal[:2])}{' ...' if len(legal) > 2 else ''} ({len(legal)} moves)"
        who, move = self.players[board[TURN]], notation.describe(played, position)
        raise IllegalAction(f"Chess: row {row}: {who} may not play {move} (action {played}); {allowed}")

    def step(
        self, state: State, action: Tensor, fresh: State | None = None, out: State | None = None
    ) -> tuple[Tensor, State]:
        """:meth:`play`, then a new game where that ended one; faster than the two alone.

        Args:
            state: the positions.
            action: what is played, int64 ``[*B]``.
            fresh: what new games begin with, of the same batch dimensions or of none; left out, the starting position.
            out: a state to write to, which may be ``state`` itself.

        Returns:
            the boards after the action, int64 ``[*B, 16]``, which tell outcomes and what is seen; and the positions to
            go on from.

        >>> rules = Chess()
        >>> state = rules.from_fens(["7k/5Q2/6K1/8/8/8/8/8 w - - 0 1"])
        >>> ended, state = rules.step(state, rules.read_sans(state, ["Qg7"]))
        >>> OUTCOMES[ended[0, OUTCOME]], rules.fens(state)[0][:8]
        ('checkmate', 'rnbqkbnr')
        """
        fresh = self.first(state.board.device) if fresh is None else fresh
        return paths.step(state, action, fresh, self.limits, self.chess960, self.path, out)

    def restart(self, state: State, where: Tensor, fresh: State | None = None, out: State | None = None) -> State:
        """The positions with those rows replaced where ``where``, bool ``[*B]``, is True.

        Args:
            state: the positions.
            where: which rows begin a new game.
            fresh: what they begin with, of the same batch dimensions or of none; left out, the starting position.
            out: a state to write to, which may be ``state`` itself.
        """
        fresh = self.first(state.board.device) if fresh is None else fresh
        return paths.restart(state, where, fresh, self.path, out)

    def start_from(self, numbers: Tensor, *, device: torch.device | None = None) -> State:
        """The Chess960 starting positions of these numbers, int64 ``[*B]`` of 0 to 959.

        Raises:
            BadNotation: a number is out of range, or the game is not Chess960.
            DtypeError: the numbers are no tensor of integers.

        >>> rules = Chess(chess960=True)
        >>> rules.fens(rules.start_from(torch.tensor([0])))
        ['bbqnnrkr/pppppppp/8/8/8/8/PPPPPPPP/BBQNNRKR w KQkq - 0 1']
        """
        if not self.chess960:
            raise BadNotation("Chess.start_from: numbered positions need Chess(chess960=True)")
        odd = not isinstance(numbers, Tensor) or numbers.is_floating_point() or numbers.is_complex()
        if odd or numbers.dtype == torch.bool:
            got = numbers.dtype if isinstance(numbers, Tensor) else f"{type(numbers).__name__} {numbers!r}"
            raise DtypeError(f"Chess.start_from: numbers must be an int64 tensor [*B] of 0 to 959, got {got}")
        numbers = numbers.to(torch.int64)  # those of eight bits would pick rows as masks do
        for extreme in numbers.aminmax() if numbers.numel() else ():
            back_rank(int(extreme))
        return self._numbered(numbers, numbers.device if device is None else device)

    def from_fens(self, texts: Sequence[str], *, device: torch.device | None = None) -> State:
        """The positions of these FENs, ``[len(texts)]``, as if the game began there.

        Raises:
            BadNotation: a text is no FEN of a possible position; names its index.

        >>> rules = Chess()
        >>> state = rules.from_fens(["7k/8/6QK/8/8/8/8/8 b - - 0 1"])
        >>> rules.outcomes[rules.outcome(state)[0]]
        'stalemate'
        """
        positions = []
        for index, text in enumerate(notation.as_texts("FEN", texts)):
            try:
                positions.append(notation.read_fen(text, chess960=self.chess960))
            except BadNotation as error:
                error.add_note(f"in text {index} of {len(texts)}")
                raise
        return self.from_positions(positions, device=device)

    def from_positions(self, positions: Sequence[Position], *, device: torch.device | None = None) -> State:
        """The states of positions of the host, which are taken to be possible; ``[len(positions)]``."""
        words = [position.words() for position in positions]
        return self._settle(torch.tensor(words, dtype=torch.int64, device=device).reshape(len(words), 13))

    def positions(self, state: State) -> list[Position]:
        """The positions on the host, one row after another."""
        return [Position.from_words(words) for words in state.board.reshape(-1, state.board.shape[-1]).tolist()]

    def fens(self, state: State, *, shredder: bool = False) -> list[str]:
        """The FEN of every row; with castling rooks named by their files where ``shredder``."""
        return [notation.write_fen(position, shredder=shredder) for position in self.positions(state)]

    def ucis(self, state: State, action: Tensor) -> list[str]:
        """The actions as UCI writes them, one row after another."""
        paths.check_action("ucis", state, action)
        pairs = zip(self.positions(state), action.flatten().tolist(), strict=True)
        return [notation.describe(played, position) for position, played in pairs]

    def sans(self, state: State, action: Tensor) -> list[str]:
        """The legal actions as scores write them, with ``+`` and ``#``, one row after another.

        Raises:
            IllegalAction: an action is not legal in its row.

        >>> rules = Chess()
        >>> state = rules.from_fens(["6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1"])
        >>> rules.sans(state, rules.read_ucis(state, ["a1a8"]))
        ['Ra8#']
        """
        self.check(state, action)
        after = self.play(state, action)
        mated = (after.board[..., OUTCOME] == CHECKMATE).flatten().tolist()
        moves = state.moves.reshape(-1, PLANES).tolist()
        rows = zip(self.positions(state), self.positions(after), moves, action.flatten().tolist(), mated, strict=True)
        found = []
        for position, then, packed, played, mate in rows:
            check = then.attackers(then.king(then.black), not then.black)
            suffix = "#" if mate else "+" if check else ""
            found.append(notation.write_san(played, position, _actions(packed), suffix))
        return found

    def read_sans(self, state: State, texts: Sequence[str]) -> Tensor:
        """The legal actions that these SAN moves mean, one text per row; int64 ``[*B]``.

        Raises:
            BadNotation: a text is no SAN, or no legal move of its row.
        """
        return self._read(state, texts, notation.read_san)

    def read_ucis(self, state: State, texts: Sequence[str]) -> Tensor:
        """The legal actions that these UCI moves mean, one text per row; int64 ``[*B]``.

        Raises:
            BadNotation: a text is no UCI move, or no legal move of its row.
        """
        return self._read(state, texts, notation.read_uci)

    def svg(self, state: State, action: int | None = None) -> str:
        """One position as an SVG picture, from White's side; the squares of ``action`` are marked."""
        position = self._one(state)
        marked = () if action is None else notation.move_of(action, position)[:2]
        return drawing.svg(position, marked)

    # --- within ----------------------------------------------------------------------------------

    def _settle(self, words: Tensor) -> State:
        return paths.settle(words, self.limits, self.chess960, self.path)

    def first(self, device: torch.device) -> State:
        """The starting position without batch dimensions, which must not be written to."""
        key = (self, device)
        if torch.compiler.is_compiling() or key not in _STARTS:
            number = STANDARD if self.number is None else self.number
            one = self._settle(torch.tensor([signed(word) for word in start_words(number)], device=device))
            if torch.compiler.is_compiling():
                return one
            _STARTS[key] = one
        return _STARTS[key]

    def _numbered(self, numbers: Tensor, device: torch.device) -> State:
        """The Chess960 starting positions of these numbers."""
        key = (self, device)
        if key not in _STARTS_960:
            words = torch.tensor([[signed(word) for word in start_words(n)] for n in range(960)], device=device)
            _STARTS_960[key] = self._settle(words)
        numbers = numbers.to(device)
        return State(*(part[numbers] for part in _STARTS_960[key]))

    def _one(self, state: State) -> Position:
        if state.board.ndim != 1:
            raise ShapeError(
                f"Chess: one position is drawn at a time, got the batch {list(state.board.shape[:-1])}; index it"
            )
        return Position.from_words(state.board.tolist())

    def _read(self, state: State, texts: Sequence[str], read: _Reader) -> Tensor:
        lead = state.board.shape[:-1]
        moves = state.moves.reshape(-1, PLANES).tolist()
        if len(notation.as_texts("moves", texts)) != len(moves):
            raise ShapeError(f"Chess: one text per row, {len(moves)}; got {len(texts)}")
        found = []
        for row, (text, position, packed) in enumerate(zip(texts, self.positions(state), moves, strict=True)):
            try:
                found.append(read(text, position, _actions(packed)))
            except BadNotation as error:
                error.add_note(f"in row {row}: {notation.write_fen(position)}")
                raise
        return torch.tensor(found, dtype=torch.int64, device=state.board.device).reshape(lead)


_STARTS: dict[tuple[Chess, torch.device], State] = {}
_STARTS_960: dict[tuple[Chess, torch.device], State] = {}


def _actions(packed: Sequence[int]) -> list[int]:
    """The actions of one row of ``State.moves``, in the order of their numbers."""
    return [64 * plane + square for plane, word in enumerate(packed) if word for square in squares_of(word)]
