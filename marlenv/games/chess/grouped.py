"""Chess with a group per player, as all games have it; legal moves packed into 73 words of 64 bits, or as bools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import DtypeError, SpecError
from marlenv.games.chess import paths
from marlenv.games.chess.board import HASH, PLANES, WORDS, State
from marlenv.games.chess.rules import Chess
from marlenv.games.game_env import GameEnv
from marlenv.games.memory import SOME_OVER
from marlenv.games.rules import Told
from marlenv.games.turn_based import Moment, TurnBasedEnv, _held
from marlenv.rng import RowRNG
from marlenv.specs import TensorSpec, Unbounded
from marlenv.tensordicts import get, put

Mask = Literal["bits", "bool"]
BLACK = 1  # the seat


class ChessTurns(TurnBasedEnv[State]):
    """What both layouts of chess share. Abstract."""

    rules: Chess

    def _first(self, batch: Size, before: TensorDictBase | None = None, *, answer: bool = True) -> Moment[State]:
        """New games; those of Chess960 draw their first position from the row's seed and the position before."""
        if not (self.rules.chess960 and self.rules.number is None):
            return super()._first(batch, before, answer=answer)
        luck = super()._first(batch, before, answer=False).luck
        return self._opened(self._drawn(batch, before), luck=luck, answer=answer)

    def _drawn(self, batch: Size, before: TensorDictBase | None) -> State:
        """A first position of Chess960 per row."""
        rng = RowRNG(self._seed_of_games(), batch, self.device)
        held = None if before is None else _held(self, before)
        if held is None:
            rng = rng.fork(self._episode)
            self._episode += 1
        else:
            rng.counter = held.board[..., HASH].clone()
        return self.rules.start(batch, rng=rng, device=self.device)


class GroupedChessEnv(ChessTurns, GameEnv[State]):
    """Chess with a group per player; what ``ChessEnv(layout="grouped")`` makes.

    The keys are those of :class:`~marlenv.GameEnv`, with these of its own:

    | key | shape | meaning |
    |---|---|---|
    | `(group, "observation")` | int64 `[*B, A, 16]` | the words of the position as the player to move sees it; see :mod:`marlenv.games.chess.board` |
    | `(group, "action_mask")` | int64 `[*B, A, 73]` | legal moves: bit `s` of word `p` is action `64 p + s`; with `mask="bool"` bool `[*B, A, 4672]` |
    | `("state", "board")`, ... | int64 | the position; :class:`~marlenv.games.chess.board.State` |

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
            raise SpecError(f"ChessEnv: mask must be 'bits' or 'bool', got {mask!r}")
        self.mask: Mask = mask
        self._keys: tuple[Any, Tensor] | None = None
        self._limits, self._kept = rules.limits, rules.limits.plies + 1
        self._wide, self._mask_dtype = (PLANES, torch.int64) if mask == "bits" else (rules.n_actions, torch.bool)
        self._drawn_first = rules.chess960 and rules.number is None
        super().__init__(rules, **options)

    def _mask_spec(self, lead: Sequence[int]) -> TensorSpec:
        if self.mask == "bool":
            return super()._mask_spec(lead)
        return Unbounded((*lead, self._wide), dtype=self._mask_dtype)

    def _observed(self, state: State) -> Tensor:
        return state.board.unsqueeze(-2).expand(*state.board.shape[:-1], 2, WORDS)

    def _allowed(self, state: State, acting: Tensor) -> Tensor:
        if self.mask == "bool":
            return super()._allowed(state, acting)
        waits = (acting.movedim(-1, 0).to(torch.int64) - 1).unsqueeze(-1)  # all bits of those who wait
        return (state.moves | waits).movedim(0, -2)  # a player's masks lie together

    def _fitting(self, state: State, batch: Size) -> State:
        return checked(state, self.rules)

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
        kept = self._keys
        if kept is None or kept[0] is not stream or kept[1].shape != rows:
            kept = self._keys = (stream, stream.rng(rows).key)
        first, second = self._lane_of_seat or (0, 1)
        actions = paths.choose(state, kept[1], stream.used, (first, second), self.rules.path)
        stream.skip(2)
        for seat, node in self._nodes(tensordict, rows):
            put(node, "action", actions[seat])
        return tensordict

    def fast_step(self, tensordict: TensorDictBase, *, ahead: bool) -> tuple[TensorDict, TensorDict | None] | None:
        """A step in one call, unless a move is illegal."""
        state = self.read(tensordict)
        if not self._quick(state):
            return None
        actions: list[Any] = [None, None]
        for seat, node in self._nodes(tensordict):
            actions[seat] = get(node, "action")
        if any(action.dtype != torch.int64 for action in actions):
            raise DtypeError(f"ChessEnv: actions are int64, got {[action.dtype for action in actions]}")
        rules, batch, gone = self.rules, tensordict.batch_size, self._ended(tensordict)
        gone = rules.over(state) if gone is None else gone
        after, places = self._room(batch)
        begun = fresh = begun_places = None
        if ahead and not self._drawn_first:
            fresh = rules.first(state.board.device)
            begun, begun_places = self._room(batch, begun=True)
        what = paths.turn(state, actions, gone, self._limits, rules.chess960, places, fresh, begun_places, rules.path)
        if what != SOME_OVER or begun is None:
            return (after, None) if what else None
        black = get(dict(self._nodes(after))[BLACK], "action_mask")
        return after, self._with_old(begun, get(get(after, "state"), "history"), black)

    def fast_reset(self, tensordict: TensorDictBase, mask: Tensor) -> TensorDict | None:
        """All rows, those that are marked with a first position."""
        state, drawn = self.read(tensordict), self._drawn_first
        if not self._quick(state):
            return None if drawn else super().fast_reset(tensordict, mask)
        black = get(dict(self._nodes(tensordict))[BLACK], "action_mask")
        if black is None or black.dtype != self._mask_dtype or black.shape != (*mask.shape, 1, self._wide):
            return None
        begun, places = self._room(mask.shape, begun=True)
        start = self._drawn(mask.shape, tensordict) if drawn else self.rules.first(state.board.device)
        if not paths.renew(state, mask, start, places, self.rules.path):
            return None
        return self._with_old(begun, state.history, black)

    def _page(self, batch: Size, *, begun: bool) -> tuple[TensorDict, paths.Places]:
        """A new page, written by address: reading a number costs less than reading an array does."""
        board, *seen = torch.empty((3, *batch, WORDS), dtype=torch.int64).unbind(0)  # as the code expects them
        state = State(board, *(torch.empty((*batch, size), dtype=torch.int64) for size in (self._kept, PLANES)))
        masks = torch.empty((len(self.rules.players), *batch, 1, self._wide), dtype=self._mask_dtype)
        told = Told.blank(batch, state, [one.unsqueeze(-2) for one in seen], masks)
        words = self._wide if self.mask == "bits" else self._wide // 8
        return self._retold(told, rewards=not begun), paths.Places.of(told, words)

    def _with_old(self, begun: TensorDict, history: Tensor, black: Tensor) -> TensorDict:
        """The data of games begun anew: the history, and what Black may do, are those of before."""
        put(get(begun, "state"), "history", history)
        put(dict(self._nodes(begun))[BLACK], "action_mask", black)
        return begun


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
