"""Illegal moves: the error for one, what it costs where it loses the game, and which games one has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import IllegalAction
from marlenv.games.rules import Rules
from marlenv.tensordicts import get

if TYPE_CHECKING:
    from marlenv.games.env.turn_based import TurnBasedEnv

SAID_BY = "outcome", "terminated"
"""The entries that say that an illegal move ended a game, which no position does; TorchRL's keys have no outcome."""


def refusal(env: TurnBasedEnv[Any], state: Any, action: Tensor, wrong: Tensor) -> IllegalAction:
    """The error for the first action that is ``wrong``, bool ``[*B]``, or ``[*B, P]`` where all act at once."""
    rules = env.rules
    *row, column = (wrong if rules.simultaneous else wrong.unsqueeze(-1)).nonzero()[0].tolist()
    at = tuple(row)
    one = type(state)(*(leaf[at] for leaf in state))
    seat = column if rules.simultaneous else int(rules.player(one))
    chosen = int(action[(*at, column)] if rules.simultaneous else action[at])
    name, words = env._in_words(one, seat, chosen, at)
    whose = ", whom the opponent plays," if env.opponent is not None and seat != env.seat else ""
    return IllegalAction(
        f"{type(env).__name__}: action {name} of player {rules.players[seat]!r}"
        f"{f' in row {row}' if row else ''}{whose} is illegal; "
        f"legal are {words[:20]}{' ...' if len(words) > 20 else ''}"
    )


def penalty(rules: Rules[Any], wrong: Tensor) -> Tensor:
    """-1 for those who moved illegally, bool ``[*B, P]``; the others share +1 for each in a zero-sum game."""
    count = wrong.sum(-1, keepdim=True).to(torch.float32)
    share = count / (len(rules.players) - count).clamp(min=1) if rules.zero_sum else count * 0.0
    return torch.where(wrong, -1.0, share)


def lost_games(rules: Rules[Any], state: Any, tensordict: TensorDictBase) -> Tensor | None:
    """Which games an illegal move has ended, as the data say; bool ``[*B]``, or None where they do not say."""
    if (outcome := get(tensordict, "outcome")) is not None:
        ended: Tensor = outcome.squeeze(-1) == len(rules.outcomes)
        return ended
    terminated = get(tensordict, "terminated")
    return None if terminated is None else terminated.squeeze(-1) & ~rules.over(state)
