"""Transforms of chess: other people's numbers for moves, and planes with history; they ask the rules of their env."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import KeyMissing, SpecError, Unsupported, whole
from marlenv.keys import NestedKey, beside
from marlenv.specs import Binary, Categorical, Composite, Unbounded
from marlenv.tensordicts import fetch, write
from marlenv.transforms.base import Kind, Transform

if TYPE_CHECKING:
    from marlenv.envs import EnvBase

PAST = "past_boards"
GROUPED = 'make it with make("chess", layout="grouped")'


class _OnChess(Transform):
    """A transform that needs the positions of a grouped chess env in the data. Abstract."""

    def join(self, env: EnvBase) -> None:
        """Finds the rules and the groups.

        Raises:
            SpecError: the env is no chess, or its positions are not in the data.
        """
        self.rules: Any = getattr(env, "rules", None)
        if not hasattr(self.rules, "numbering") or ("state", "board") not in env.full_observation_spec:
            raise SpecError(f"{type(self).__name__}: the env must be chess with a group per player; {GROUPED}")
        self.actions: list[NestedKey] = list(env.action_keys)
        if "action" in self.actions:
            raise SpecError(f"{type(self).__name__}: the env must have a group per player; {GROUPED}")

    def _need_env(self) -> None:
        """Raises outside an env, which has the rules.

        Raises:
            Unsupported: so it is.
        """
        if "rules" not in self.__dict__:
            raise Unsupported(f"{type(self).__name__}: works in a chess env only, whose rules it asks; {GROUPED}")

    def _position(self, td: TensorDictBase) -> Any:
        """The positions in the data."""
        parts = [fetch(td, ("state", name)) for name in ("board", "history", "moves")]
        if any(part is None for part in parts):
            raise KeyMissing(
                f"{type(self).__name__}: no entry 'state'; the data has {sorted(map(str, td.keys()))}; start from "
                f"env.reset()"
            )
        return self.rules.state_of(*parts)


class ChessActions(_OnChess):
    """Other people's numbers for the moves of chess, in actions and masks.

    | `to` | numbers | whose |
    |---|---|---|
    | `"uci"` | 1968 | all moves that UCI can write, in alphabetical order |
    | `"lc0"` | 1858 | Leela Chess Zero's policy |
    | `"openspiel"` | 4674 | OpenSpiel's |
    | `"pettingzoo"` | 4672 | PettingZoo's `chess_v6` |
    | `"san"` | 29275 | TorchRL's; which number a move has depends on check and mate |

    The masks become bools of these numbers, all True for those who do not act.

    Args:
        to: the numbering.

    >>> env = marlenv.make("chess", num_envs=2, seed=0).append_transform(ChessActions(to="lc0"))
    >>> env.rollout(4)["white", "action_mask"].shape
    torch.Size([2, 4, 1, 1858])
    """

    def __init__(self, to: Literal["uci", "lc0", "openspiel", "pettingzoo", "san"] = "uci") -> None:
        super().__init__()
        self.to_numbers = to

    def join(self, env: EnvBase) -> None:
        """Finds the numbering.

        Raises:
            UnknownName: there is no such numbering.
        """
        super().join(env)
        self.numbering = self.rules.numbering(self.to_numbers)

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Sets the actions and masks of all groups."""
        for key in self.actions:
            inner, size = specs["action"][key], self.numbering.size
            specs["action"][key] = Categorical(size, inner.shape, device=inner.device)
            specs["observation"][beside(key, "action_mask")] = Binary(
                shape=(*inner.shape, size), dtype=torch.bool, device=inner.device
            )

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        legal = self.numbering.mask(self._position(next_tensordict))
        for key in self.actions:
            acting = fetch(next_tensordict, beside(key, "mask"))
            write(next_tensordict, beside(key, "action_mask"), legal.unsqueeze(-2) | ~acting.unsqueeze(-1))
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict_reset)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._need_env()
        state: Any = None
        for key in self.actions:
            number = fetch(tensordict, key)
            if number is None:
                continue
            state = self._position(tensordict) if state is None else state
            columns = [self.numbering.decode(state, one) for one in number.unbind(-1)]
            write(tensordict, key, torch.stack(columns, -1))
        return tensordict

    def __repr__(self) -> str:
        return f"ChessActions(to={self.to_numbers!r})"


class ChessPlanes(_OnChess):
    """Planes of AlphaZero for every player, from its own seat, with the positions of the last moves.

    Writes `planes` `[*B, A, 14 * steps + 9, 8, 8]` beside the actions of every group: for the present position and for
    each one before it own pieces, the other's, and two planes for repetitions; then colour, move number, castling, the
    clock, en passant and whose turn it is. Positions before the first one are all 0. See
    :mod:`marlenv.games.chess.observation`.

    Args:
        steps: how many positions, the present one included; AlphaZero has 8.
        out_key: the name of the entry.

    Source: Silver et al. 2018, https://doi.org/10.1126/science.aar6404

    >>> env = marlenv.make("chess", num_envs=2, seed=0).append_transform(ChessPlanes(steps=8))
    >>> env.rollout(3)["black", "planes"].shape
    torch.Size([2, 3, 1, 121, 8, 8])
    """

    only_in_env = "it follows the games of the env"

    def __init__(self, steps: int = 8, out_key: str = "planes") -> None:
        super().__init__()
        self.steps, self.out_key = whole("ChessPlanes", "steps", steps, 1), out_key

    def join(self, env: EnvBase) -> None:
        """Finds the seats of the groups."""
        super().join(env)
        base: Any = env
        players, groups = list(self.rules.players), base.tree.groups
        self.seats = {key: [players.index(agent) for agent in groups[key[:-1]]] for key in self.actions}

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the planes, and the positions that they are made from."""
        for key in self.actions:
            lead = specs["action"][key].shape
            shape = (*lead, self.rules.planes_with(self.steps), 8, 8)
            specs["observation"][beside(key, self.out_key)] = Unbounded(shape, device=specs["action"][key].device)
        board = specs["observation"]["state", "board"]
        lead, words = board.shape[:-1], board.shape[-1]
        specs["observation"][PAST] = Unbounded((*lead, self.steps, words), device=board.device, dtype=torch.int64)

    def _seen(self, td: TensorDictBase, past: Tensor) -> TensorDictBase:
        write(td, PAST, past)
        planes = self.rules.planes(past)
        for key in self.actions:
            write(td, beside(key, self.out_key), planes[..., self.seats[key], :, :, :])
        return td

    def _reset(self, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase) -> TensorDictBase:
        board = self._position(tensordict_reset).board.unsqueeze(-2)
        none = torch.zeros_like(board).expand(*board.shape[:-2], self.steps - 1, board.shape[-1])
        return self._seen(tensordict_reset, torch.cat((board, none), -2))

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        before = fetch(tensordict, PAST)
        if before is None:
            raise KeyMissing(
                f"ChessPlanes: no entry {PAST!r} in the data; start from env.reset(), and hand on what it gives"
            )
        board = self._position(next_tensordict).board.unsqueeze(-2)
        return self._seen(next_tensordict, torch.cat((board, before[..., :-1, :]), -2))

    def __repr__(self) -> str:
        return f"ChessPlanes(steps={self.steps})"
