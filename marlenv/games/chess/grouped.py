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
from marlenv.games.turn_based import Moment, TurnBasedEnv
from marlenv.rng import RowRNG
from marlenv.specs import TensorSpec, Unbounded
from marlenv.tensordicts import get, new, put

Mask = Literal["bits", "bool"]
LANES = torch.arange(2)  # which of a row's numbers a seat draws with


class ChessTurns(TurnBasedEnv[State]):
    """What both layouts of chess share. Abstract."""

    rules: Chess

    def _first(self, batch: Size, before: TensorDictBase | None = None, *, answer: bool = True) -> Moment[State]:
        """New games; those of Chess960 draw their first position from the row's seed and the position before."""
        if not self.rules.chess960 or self.rules.number is not None:
            return super()._first(batch, before, answer=answer)
        luck = super()._first(batch, before, answer=False).luck
        return self._opened(self._drawn(batch, before), luck=luck, answer=answer)

    def _drawn(self, batch: Size, before: TensorDictBase | None) -> State:
        """A first position of Chess960 per row."""
        rng = RowRNG(self._seed_of_games(), batch, self.device)
        if before is None:
            rng = rng.fork(self._episode)
            self._episode += 1
        else:
            rng.counter = self.read(before).board[..., HASH].clone()
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
        self._pool, self._keys = Buffers(), None
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

    def read(self, tensordict: TensorDictBase) -> State:
        """The positions in the data."""
        return checked(super().read(tensordict), self.rules)

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
        state = self.read(tensordict)
        if not self._quick(state) or tensordict.batch_size != state.board.shape[:-1]:
            return super().rand_action(tensordict)
        stream, rows = self.action_stream, tensordict.batch_size
        key = self._keys
        if key is None or key[0] is not stream or key[1].shape != rows:
            key = self._keys = (stream, stream.rng(rows).key)
        lanes = LANES if self._lane_of_seat is None else torch.tensor(self._lane_of_seat)
        actions = paths.choose(state, key[1], stream.used, lanes)
        stream.skip(2)
        for (path, seats, _) in self._groups:
            node: Any = tensordict
            for i, name in enumerate(path, 1):
                below = get(node, name)
                if below is None:
                    below = new({}, Size((*rows, 1)) if i == len(path) else rows, self.device)
                    put(node, name, below)
                node = below
            put(node, "action", actions[seats[0]])
        return tensordict

    def quick_step(self, tensordict: TensorDictBase) -> TensorDict | None:
        """A step in one call, unless a move is illegal."""
        state = self.read(tensordict)
        if not self._quick(state):
            return None
        actions: list[Any] = [None, None]
        for path, seats, _ in self._groups:
            node: Any = tensordict
            for name in path:
                node = get(node, name)
            actions[seats[0]] = get(node, "action")
        white, black = actions
        if white.dtype != torch.int64 or black.dtype != torch.int64:
            raise DtypeError(f"ChessEnv: actions are int64, got {white.dtype} and {black.dtype}")
        rules, batch, done = self.rules, white.shape[:-1], get(tensordict, "done")
        gone = rules.over(state) if done is None else done
        after, masks, facts = paths.blank(state), (self._new_mask(batch), self._new_mask(batch)), paths.Facts.of(batch)
        if not paths.turn(state, white, black, gone, rules.limits, rules.chess960, after, masks, facts):
            return None
        return self._written(after, masks, facts, rewards=True)

    def quick_reset(self, tensordict: TensorDictBase, gone: Tensor) -> TensorDict | None:
        """All rows, those that are gone with a first position."""
        state = self.read(tensordict)
        if not self._quick(state):
            return None
        masks: list[Any] = [None, None]
        for path, seats, _ in self._groups:
            node: Any = tensordict
            for name in (*path, "action_mask"):
                node = None if node is None else get(node, name)
            masks[seats[0]] = None if node is None else node.squeeze(-2)
        white, black = masks
        fresh = self._new_mask(gone.shape)
        if white is None or black is None or white.shape != fresh.shape or white.dtype != fresh.dtype:
            return None
        fresh.copy_(white)
        drawn = self.rules.chess960 and self.rules.number is None
        start = self._drawn(gone.shape, tensordict) if drawn else self.rules.first(state.board.device)
        after = State(*(part.clone(memory_format=torch.contiguous_format) for part in state))
        facts = paths.Facts.of(gone.shape)
        paths.renew(gone, start, after, fresh, facts)
        return self._written(after, (fresh, black), facts, rewards=False)

    def _new_mask(self, batch: Size) -> Tensor:
        if self.mask == "bits":
            return torch.empty((*batch, PLANES), dtype=torch.int64)
        return self._pool.take(Size((*batch, self.rules.n_actions)))

    def _written(self, state: State, masks: Sequence[Tensor], facts: paths.Facts, *, rewards: bool) -> TensorDict:
        """The data that follows from positions, the masks of both players and facts."""
        device, batch = self.device, state.board.shape[:-1]
        _, terminated, truncated, done, alive, *acts, _ = facts.flags.split((16, 1, 1, 1, 1, 1, 1, 2), -1)
        _, *earned, _ = facts.floats.split((2, 1, 1, 2), -1)
        own = {
            "observation": state.board.unsqueeze(-2),
            "alive": alive,
            "terminated": terminated.unsqueeze(-1),
            "truncated": truncated.unsqueeze(-1),
            "done": done.unsqueeze(-1),
        }
        data: dict[str, Any] = {
            "turn": facts.words[..., :1],
            "outcome": facts.bytes[..., 22:23].view(torch.int8),
            "state": new(state._asdict(), batch, device),
            "terminated": terminated,
            "truncated": truncated,
            "done": done,
        }
        group = Size((*batch, 1))
        for path, (seat,), _ in self._groups:
            node = data
            for name in path[:-1]:
                below = node.get(name)
                if below is None:
                    below = node[name] = new({}, batch, device)
                node = below._tensordict
            entries = {**own, "action_mask": masks[seat].unsqueeze(-2), "mask": acts[seat]}
            if rewards:
                entries["reward"] = earned[seat].unsqueeze(-1)
            node[path[-1]] = new(entries, group, device)
        return new(data, batch, device)


class Buffers:
    """Memory for large bool tensors that is used again once nobody else holds it; making it anew costs more than filling it."""

    MOST = 8

    def __init__(self) -> None:
        self._held: list[Tensor] = []

    def take(self, shape: Size) -> Tensor:
        """A bool tensor of any content that shares memory with nothing that is still held elsewhere."""
        for one in self._held:
            if one.shape == shape and torch._C._storage_Use_Count(one.untyped_storage()._cdata) <= ALONE:
                return one.view(shape)
        made = torch.empty(shape, dtype=torch.bool)
        self._held = [*(one for one in self._held if one.shape == shape), made][-self.MOST :]
        return made.view(shape)

    def __deepcopy__(self, memo: Any) -> Buffers:
        return Buffers()

    def __reduce__(self) -> Any:
        return Buffers, ()


def _alone() -> int:
    """How many hold the memory of a tensor that only one variable holds, while one looks."""
    one = torch.empty(1)
    return int(torch._C._storage_Use_Count(one.untyped_storage()._cdata))


ALONE = _alone()


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

