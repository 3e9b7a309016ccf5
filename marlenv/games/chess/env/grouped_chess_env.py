"""Chess with a group per player, as all games have it; legal moves packed into 73 words of 64 bits, or as bools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import SpecError
from marlenv.games.chess.board import PLANES, WORDS, State
from marlenv.games.chess.fast import paths
from marlenv.games.chess.rules import Chess
from marlenv.games.env.game_env import GameEnv
from marlenv.games.env.time_step import TimeStep, streams_where
from marlenv.games.env.turn_based import FIRST, FIRST_RNG, TurnBasedEnv
from marlenv.games.fast.compiled import SOME_OVER
from marlenv.games.fast.step_buffers import Blank, StepBuffers
from marlenv.keys import NestedKey, nested
from marlenv.rng import RowRNG
from marlenv.specs import TensorSpec, Unbounded
from marlenv.tensordicts import get, put

Mask = Literal["bits", "bool"]
BLACK = 1  # the seat


class ChessTurns(TurnBasedEnv[State]):
    """The start of games for :class:`ChessEnv` and :class:`GroupedChessEnv`. Abstract."""

    rules: Chess

    def __init__(self, rules: Chess, **options: Any) -> None:
        self._draws_first = rules.chess960 and rules.number is None
        super().__init__(rules, **options)

    def _first(self, batch: Size, before: TensorDictBase | None = None, *, answer: bool = True) -> TimeStep[State]:
        """New games; those of Chess960 draw their first position from a stream of the row, as others after them will.

        It goes on from that in the data ``before``.
        """
        if not self._draws_first:
            return super()._first(batch, before, answer=answer)
        opponent_rng = self._streams(batch, before)[1]
        held = None if before is None else self.extra(before, FIRST_RNG)
        if held is None:
            rng = RowRNG(self._seed_of_games(), batch, self.device).fork(FIRST).fork(self._episode)
            self._episode += 1
        else:
            rng = RowRNG.from_state(held).fork(0)
        state = self.rules.start(batch, rng=rng, device=self.device)
        return self._opened(state, opponent_rng=opponent_rng, first_rng=rng.state, answer=answer)

    def _first_rng(self, tensordict: TensorDictBase) -> Tensor | None:
        return self._drawing_on(self.extra(tensordict, FIRST_RNG), tensordict.batch_size) if self._draws_first else None

    def _drawing_on(self, held: Tensor | None, batch: Size) -> Tensor | None:
        """A stream per row that first positions are drawn from; positions that were made by hand have none."""
        if held is not None or not self._draws_first:
            return held
        return RowRNG(self._seed_of_games(), batch, self.device).fork(FIRST).state


class GroupedChessEnv(ChessTurns, GameEnv[State]):
    """Chess with a group per player; what ``make("chess")`` makes.

    The keys are those of :class:`~marlenv.GameEnv`, with these of its own:

    | key | shape | meaning |
    |---|---|---|
    | `(group, "observation")` | int64 `[*B, A, 16]` | the position as the player to move sees it: `chess/board.py` |
    | `(group, "action_mask")` | int64 `[*B, A, 73]` | bit `s` of word `p`: action `64 p + s`; or bool `[*B, A, 4672]` |
    | `("state", "board")`, ... | int64 | the position; :class:`~marlenv.games.chess.board.State` |
    | `("state", "first_rng")` | int64 `[*B, 2]` | in Chess960: what first positions are drawn from |

    Planes for networks are the transform :class:`~marlenv.ChessPlanes`, other numberings of the moves
    :class:`~marlenv.ChessActions`.

    Args:
        rules: of chess.
        mask: ``"bits"``, or ``"bool"`` for masks that a distribution takes as they are, at eight times the memory.
        **options: those of :class:`~marlenv.GameEnv`.

    >>> env = GroupedChessEnv(Chess(), batch_size=[4], seed=0)
    >>> env.rollout(5)["white", "action_mask"].shape
    torch.Size([4, 5, 1, 73])
    """

    def __init__(self, rules: Chess, *, mask: Mask = "bits", **options: Any) -> None:
        if mask not in ("bits", "bool"):
            raise SpecError(f"GroupedChessEnv: mask must be 'bits' or 'bool', got {mask!r}")
        self.mask: Mask = mask
        self._keys: tuple[Any, Tensor] | None = None
        self._limits, self._kept = rules.limits, rules.limits.plies + 1
        self._wide, self._mask_dtype = (PLANES, torch.int64) if mask == "bits" else (rules.n_actions, torch.bool)
        super().__init__(rules, **options)

    @property
    def _mask_keys(self) -> dict[NestedKey, NestedKey]:  # type: ignore[override]
        """Where masks stand as bits, for who draws random actions without positions, as pools do."""
        paths = [path for path, *_ in self.layout.groups]
        bits = self.mask == "bits"
        return {nested((*one, "action")): nested((*one, "action_mask")) for one in paths} if bits else {}

    def _mask_spec(self) -> TensorSpec:
        return super()._mask_spec() if self.mask == "bool" else Unbounded((self._wide,), dtype=self._mask_dtype)

    def _observed(self, state: State) -> Tensor:
        return state.board.unsqueeze(-2).expand(*state.board.shape[:-1], 2, WORDS)

    def _allowed(self, state: State, acting: Tensor) -> Tensor:
        if self.mask == "bool":
            return super()._allowed(state, acting)
        waits = (acting.movedim(-1, 0).to(torch.int64) - 1).unsqueeze(-1)  # all bits of those who wait
        return (state.moves | waits).movedim(0, -2)  # a player's masks lie together

    def _fitting(self, state: State, batch: Size) -> State:
        return self._fitting_rows(state, batch) if any(part is None for part in state) else checked(state, self.rules)

    # --- the short ways of the CPU ---------------------------------------------------------------

    def _quick(self, state: State) -> bool:
        """Whether all is simple: a group per player, nobody plays by himself, memory on the CPU."""
        plain = self.opponent is None and self.max_plies is None and self._pair is not None
        return plain and state.board.is_cpu and not torch.compiler.is_compiling()

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Draws random actions from the env's own stream, legal in the positions of ``tensordict``."""
        held = None if tensordict is None else get(tensordict, "state")
        if tensordict is None or held is None:
            return super().rand_action(tensordict)
        state, stream, rows = self.read(tensordict), self.action_stream, tensordict.batch_size
        if not self._quick(state) or rows != state.board.shape[:-1]:
            return super().rand_action(tensordict)
        actions = paths.env_actions(state, *self._drawing(rows), self.rules.path)
        stream.skip(2)
        for group, node in self.layout.nodes(tensordict, rows, self.device):
            put(node, "action", actions[group.seats[0]])
        return tensordict

    def _drawing(self, rows: Size) -> tuple[Tensor, int, tuple[int, int]]:
        """The keys of the streams of random actions, the place there, and the offsets of White and Black."""
        stream, kept = self.action_stream, self._keys
        if kept is None or kept[0] is not stream or kept[1].shape != rows:
            kept = self._keys = (stream, stream.rng(rows).key)
        first, second = self._stream_order or (0, 1)
        return kept[1], stream.used, (first, second)

    def fast_step(self, tensordict: TensorDictBase, *, ahead: bool) -> tuple[TensorDict, TensorDict | None] | None:
        """A step in one call, unless a move is illegal; new games whose first positions are drawn are none of it."""
        if ahead and self._draws_first:
            return None
        state = self.read(tensordict)
        if not self._quick(state):
            return None
        actions = self.actions_by_seat(tensordict)
        rules, batch, done = self.rules, tensordict.batch_size, self._done(tensordict)
        done = rules.over(state) if done is None else done
        after, following = self._lend(batch, rewards=True)
        if (first_rng := self._first_rng(tensordict)) is not None:
            put(get(after, "state"), FIRST_RNG, first_rng.clone())
        fresh, restarted = self._lend(batch, rewards=False) if ahead else (None, None)
        result = self.fast_play(state, actions, done, following, restarted)
        if result != SOME_OVER or fresh is None:
            return (after, None) if result else None
        return after, self._with_old(fresh, get(get(after, "state"), "history"), self._mask_of_black(after))

    def fuses(self, batch: Size) -> bool:
        """Whether a rollout can be written into memory, step after step; first positions that are drawn cannot."""
        ours = type(self) is GroupedChessEnv and not self._draws_first and batch.numel() > 0
        return ours and self._quick(self._example) and paths.compiled(self.rules.path, self._example.board)

    def fast_play(
        self, state: State, actions: Sequence[Tensor], done: Tensor, following: Any, restarted: Any | None
    ) -> int:
        """Plays a step into memory; of what begins anew all but histories and Black's masks."""
        rules, start = self.rules, None if restarted is None else self.rules.first(state.board.device)
        how = self._limits, rules.chess960
        return paths.env_step(state, actions, done, *how, following, start, restarted, rules.path)

    def fast_rollout(
        self, steps: int, before: StepBuffers[State], after: StepBuffers[State], actions: list[Tensor], *, stops: bool
    ) -> tuple[int, int]:
        """Random play in one call."""
        drawing, how = self._drawing(before.turn.shape[:-1]), (self._limits, self.rules.chess960)
        start, places = self.rules.first(before.turn.device), (self.places(before), self.places(after))
        played, why = paths.env_rollout(steps, *places, actions, start, drawing, *how, stops=stops)
        self.action_stream.skip(2 * played)
        return played, why

    def fast_reset(self, tensordict: TensorDictBase, mask: Tensor) -> TensorDict | None:
        """All rows, those of ``mask`` with a first position."""
        state = self.read(tensordict)
        if not self._quick(state):
            return self._copied(tensordict, mask)
        black = self._mask_of_black(tensordict)
        if black is None or black.dtype != self._mask_dtype or black.shape != (*mask.shape, 1, self._wide):
            return None
        fresh, restarted = self._lend(mask.shape, rewards=False)
        start, first_rng = self.rules.first(state.board.device), None
        if self._draws_first:
            drawn = self._first(mask.shape, tensordict, answer=False)
            start, first_rng = drawn.state, streams_where(mask, drawn.first_rng, self._first_rng(tensordict))
        if not paths.env_reset(state, mask, start, restarted, self.rules.path):
            return self._copied(tensordict, mask)
        if first_rng is not None:
            put(get(fresh, "state"), FIRST_RNG, first_rng)
        return self._with_old(fresh, state.history, black)

    def _copied(self, tensordict: TensorDictBase, mask: Tensor) -> TensorDict | None:
        """The same, of games that are not over, too, where all begin in the same way."""
        return None if self._draws_first else super().fast_reset(tensordict, mask)

    def blank_buffers(self, blank: Blank) -> StepBuffers[State]:
        """Memory for a fast step."""
        board, *observations = blank((3,), (WORDS,), torch.int64).unbind(0)  # as the code expects them
        state = State(board, *(blank((), (size,), torch.int64) for size in (self._kept, PLANES)))
        masks = blank((len(self.rules.players),), (1, self._wide), self._mask_dtype)
        return StepBuffers.blank(blank, state, [one.unsqueeze(-2) for one in observations], masks)

    def places(self, buffers: StepBuffers[State]) -> paths.Addresses:
        """Memory is written by address: reading a number costs less than reading an array does."""
        return paths.Addresses.of(buffers, self._wide if self.mask == "bits" else self._wide // 8)

    def _mask_of_black(self, td: TensorDictBase) -> Any:
        """What Black may do, in data with a group per player."""
        [node] = [node for group, node in self.layout.nodes(td) if group.seats == [BLACK]]
        return None if node is None else get(node, "action_mask")

    def _with_old(self, fresh: TensorDict, history: Tensor, black: Tensor) -> TensorDict:
        """The data of games that begin, with the history and the mask of Black of those before them."""
        put(get(fresh, "state"), "history", history)
        put(next(node for group, node in self.layout.nodes(fresh) if group.seats == [BLACK]), "action_mask", black)
        return fresh


def checked(state: State, rules: Chess) -> State:
    """The state itself, if its parts fit the rules and each other."""
    kept = rules.limits.plies + 1
    board, history, moves = state
    lead, whole = board.shape[:-1], board.dtype == history.dtype == moves.dtype == torch.int64
    if whole and board.shape[-1:] == (WORDS,) and history.shape == (*lead, kept) and moves.shape == (*lead, PLANES):
        return state
    got = {name: f"{part.dtype} {list(part.shape)}" for name, part in state._asdict().items()}
    raise SpecError(
        f"ChessEnv: a position is int64 board [*B, {WORDS}], history [*B, {kept}] and moves [*B, {PLANES}], got {got}; "
        f"make positions with Chess.from_fens under the same draws={rules.draws!r}"
    )
