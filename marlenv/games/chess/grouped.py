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
from marlenv.games.turn_based import Moment, TurnBasedEnv, _held
from marlenv.rng import RowRNG
from marlenv.specs import TensorSpec, Unbounded
from marlenv.tensordicts import get, new, put

Mask = Literal["bits", "bool"]


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
        self._limits = rules.limits
        self._drawn_first = rules.chess960 and rules.number is None
        super().__init__(rules, **options)

    def _mask_spec(self, lead: Sequence[int]) -> TensorSpec:
        if self.mask == "bool":
            return super()._mask_spec(lead)
        return Unbounded((*lead, PLANES), dtype=torch.int64)

    def _observed(self, state: State) -> Tensor:
        return state.board.unsqueeze(-2).expand(*state.board.shape[:-1], 2, WORDS)

    def _allowed(self, state: State, acting: Tensor) -> Tensor:
        if self.mask == "bool":
            return super()._allowed(state, acting)
        return torch.where(acting.unsqueeze(-1), state.moves.unsqueeze(-2), -1)

    def _fitting(self, state: State, batch: Size) -> State:
        return checked(state, self.rules)

    # --- the short ways of the CPU ---------------------------------------------------------------

    def _quick(self, state: State) -> bool:
        """Whether all is simple: a group per player, nobody plays by himself, numba answers."""
        plain = self.opponent is None and self.max_plies is None and self._pair is not None
        return plain and paths.compiled(self.rules.path, state.board)

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
        actions = paths.choose(state, kept[1], stream.used, (first, second))
        stream.skip(2)
        for seat, node in self._nodes(tensordict, rows):
            put(node, "action", actions[seat])
        return tensordict

    def _nodes(self, tensordict: TensorDictBase, rows: Size | None = None) -> list[tuple[int, Any]]:
        """The groups of data, of one seat each, with their seats; those that are missing are made where ``rows`` says how."""
        found = []
        for path, seats, _ in self._groups:
            node: Any = tensordict
            for i, name in enumerate(path, 1):
                below = None if node is None else get(node, name)
                if below is None and rows is not None:
                    below = new({}, Size((*rows, 1)) if i == len(path) else rows, self.device)
                    put(node, name, below)
                node = below
            found.append((seats[0], node))
        return found

    def quick_step(self, tensordict: TensorDictBase) -> TensorDict | None:
        """A step in one call, unless a move is illegal."""
        state = self.read(tensordict)
        if not self._quick(state):
            return None
        actions: list[Any] = [None, None]
        for seat, node in self._nodes(tensordict):
            actions[seat] = get(node, "action")
        if any(action.dtype != torch.int64 for action in actions):
            raise DtypeError(f"ChessEnv: actions are int64, got {[action.dtype for action in actions]}")
        rules, batch, done = self.rules, actions[0].shape[:-1], get(tensordict, "done")
        gone = rules.over(state) if done is None else done
        masks = (self._new_mask(batch), self._new_mask(batch))
        after = paths.Ply(State(*map(self._room, state)), masks, paths.Told.of(batch))
        fresh = renewed = None
        if self._look.asked and not self._drawn_first:
            fresh = rules.first(state.board.device)
            board, moves = map(self._room, state[::2])
            kept = (self._new_mask(batch), masks[1])
            renewed = paths.Ply(State(board, after.state.history, moves), kept, paths.Told.of(batch))
        what = paths.turn(state, actions, gone, self._limits, rules.chess960, after, fresh, renewed)
        if what == SOME_OVER and renewed is not None:
            self._look.begun = self._written(renewed, rewards=False)
        return self._written(after, rewards=True) if what else None

    def quick_reset(self, tensordict: TensorDictBase, gone: Tensor) -> TensorDict | None:
        """All rows, those that are gone with a first position."""
        state, drawn = self.read(tensordict), self._drawn_first
        if not self._quick(state):
            return None if drawn else super().quick_reset(tensordict, gone)
        masks = {seat: None if node is None else get(node, "action_mask") for seat, node in self._nodes(tensordict)}
        fresh, black = self._new_mask(gone.shape), masks[1]
        if black is None or black.dtype != fresh.dtype or black.shape != (*gone.shape, 1, fresh.shape[-1]):
            return None
        start = self._drawn(gone.shape, tensordict) if drawn else self.rules.first(state.board.device)
        told = paths.Told.of(gone.shape)
        after = paths.renew(state, gone, start, fresh, told)
        if after is None:
            return None
        return self._written(paths.Ply(after, (fresh, black.squeeze(-2)), told), rewards=False)

    def _room(self, like: Tensor) -> Tensor:
        """Memory for words of as many positions: that of earlier plies which nobody holds any more."""
        return self._pool.take(like.shape, torch.int64)

    def _new_mask(self, batch: Size) -> Tensor:
        """Memory for the mask of a seat."""
        width, dtype = (self.rules.n_actions, torch.bool) if self.mask == "bool" else (PLANES, torch.int64)
        return self._pool.take((*batch, width), dtype)

    def _written(self, ply: paths.Ply, *, rewards: bool) -> TensorDict:
        """The data of a ply."""
        state, masks, told = ply
        device, batch = self.device, state.board.shape[:-1]
        terminated, truncated, done, alive, *acts = told.flags.unbind(0)
        own = {
            "observation": state.board.unsqueeze(-2),
            "alive": alive,
            "terminated": terminated.unsqueeze(-1),
            "truncated": truncated.unsqueeze(-1),
            "done": done.unsqueeze(-1),
        }
        data: dict[str, Any] = {
            "turn": told.turn,
            "outcome": told.outcome,
            "state": new({"board": state.board, "history": state.history, "moves": state.moves}, batch, device),
            "terminated": terminated,
            "truncated": truncated,
            "done": done,
        }
        earned = told.earned.unbind(0) if rewards else None
        group = Size((*batch, 1))
        for path, (seat,), _ in self._groups:
            node = data
            for name in path[:-1]:
                below = node.get(name)
                if below is None:
                    below = node[name] = new({}, batch, device)
                node = below._tensordict
            entries = {**own, "action_mask": masks[seat].unsqueeze(-2), "mask": acts[seat]}
            if earned is not None:
                entries["reward"] = earned[seat]
            node[path[-1]] = new(entries, group, device)
        return new(data, batch, device)


def checked(state: State, rules: Chess) -> State:
    """The state itself, if its parts fit the rules and each other."""
    kept = rules.limits.plies + 1
    board, history, moves = state
    lead = board.shape[:-1]
    if board.shape[-1:] == (WORDS,) and history.shape == (*lead, kept) and moves.shape == (*lead, PLANES):
        return state
    got = {name: list(part.shape) for name, part in state._asdict().items()}
    raise SpecError(
        f"ChessEnv: a position is board [*B, {WORDS}], history [*B, {kept}] and moves [*B, {PLANES}], got {got}; "
        f"make positions with Chess.from_fens under the same draws={rules.draws!r}"
    )
