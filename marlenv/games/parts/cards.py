"""What card games share: seats by number, cards as one-hot rows, and hands that people can read."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from marlenv.errors import whole
from marlenv.games.parts import drawing

RANKS = "23456789TJQK"
HIDDEN = "?"


def seats(count: int, low: int, high: int, who: str) -> tuple[str, ...]:
    """The names of ``count`` players.

    Raises:
        SpecError: fewer than ``low`` or more than ``high``.

    >>> seats(2, 2, 10, "KuhnPoker")
    ('player_0', 'player_1')
    """
    return tuple(f"player_{i}" for i in range(whole(who, "num_players", count, low, high)))


def one_hot(index: Tensor, n: int) -> Tensor:
    """True at the index; all False where it is negative. bool ``[*index.shape, n]``.

    >>> one_hot(torch.tensor([1, -1]), 2)
    tensor([[False,  True],
            [False, False]])
    """
    return index.unsqueeze(-1) == torch.arange(n, device=index.device)


def are_dealt(hands: Tensor, deck: int) -> Tensor:
    """Whether players can hold these cards, one each: all of the deck, and no two the same; bool ``[*B]``.

    Args:
        hands: int64 ``[*B, P]``.
        deck: how many cards there are, from 0.

    >>> are_dealt(torch.tensor([[0, 2], [1, 1], [-1, 0]]), 3)
    tensor([ True, False, False])
    """
    return one_hot(hands, deck).any(-2).sum(-1) == hands.shape[-1]


def ranks(count: int) -> str:
    """The names of the ``count`` highest ranks below the ace, lowest first.

    >>> ranks(3)
    'JQK'
    """
    return RANKS[-count:]


def table(
    names: tuple[str, ...], hands: list[str], notes: list[str], seat: int | None, open_: Sequence[bool], *, color: bool
) -> list[str]:
    """A line per player: name, hand (where ``seat`` says who looks, hidden unless its own or ``open_``) and a note."""
    width = max(map(len, names))
    shown = [hand if seat in (None, i) or open_[i] else HIDDEN * len(hand) for i, hand in enumerate(hands)]
    return [
        f"{name.ljust(width)}  {drawing.bold(hand, color)}  {note}".rstrip()
        for name, hand, note in zip(names, shown, notes, strict=True)
    ]
