"""What an opponent that is a policy is shown, and whether it answered for the seats that it plays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import KeyMissing, ShapeError
from marlenv.games.rules import Rules
from marlenv.keys import NestedKey
from marlenv.tensordicts import fetch

Seats = Mapping[NestedKey, Sequence[int]]
"""Where actions are written, and the seats whose they are, in order."""


def without_actions(tensordict: TensorDictBase, keys: Iterable[NestedKey]) -> TensorDictBase:
    """A copy of the data in which nobody has chosen yet; the tensors are the same."""
    return tensordict.copy().exclude(*keys, inplace=True)


def check_answer(
    who: str, rules: Rules[Any], seat: int, places: Seats, answer: TensorDictBase, state: Any, waiting: Tensor
) -> None:
    """Raises unless the opponent wrote an action for each seat that it must play now.

    Args:
        who: the env.
        rules: of the game.
        seat: the one that the opponent does not play.
        places: where it writes.
        answer: the data with what it wrote.
        state: the positions.
        waiting: in which games it plays now, bool ``[*B]``.

    Raises:
        KeyMissing: an action is not there; where players move in turn, only those to move need one.
        ShapeError: one has another shape than the env's actions.
    """
    batch = answer.batch_size
    for key, seats in places.items():
        action = fetch(answer, key)
        if action is None:
            own, asked = [one for one in seats if one != seat], waiting
            if not rules.simultaneous:
                turn = rules.player(state)
                asked = waiting & torch.isin(turn, torch.tensor(own, device=turn.device))
            if bool(asked.any()):
                names = ", ".join(rules.players[one] for one in own)
                raise KeyMissing(
                    f"{who}: the opponent wrote no {key!r}, the action of {names}; it must write it into the data that "
                    f"it is given, which now have {sorted(map(str, answer.keys(True, True)))}"
                )
        elif action.shape != (want := (*batch, *([] if isinstance(key, str) else [len(seats)]))):
            raise ShapeError(
                f"{who}: the opponent's action {key!r} must have shape {list(want)}, got {list(action.shape)}"
            )
