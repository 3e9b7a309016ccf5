"""What the rules of a game are: pure functions of a state of tensors, for any batch of positions at once.

Who adds a game writes a subclass of :class:`Rules`; :class:`marlenv.GameEnv` makes an env of it. The letters: ``*B``
batch dimensions, ``P`` players, ``n`` actions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Size, Tensor

from marlenv.errors import BadNotation, DtypeError, Unsupported, nearest
from marlenv.rng import GOLDEN, RowRNG, mix_

State = TypeVar("State", bound="tuple[Any, ...]")  # a NamedTuple of tensors, each [*B, ...]


class Rules(ABC, Generic[State]):
    """The rules of a game; a frozen dataclass whose fields are the game's options (board size, komi, ...).

    A subclass says what is abstract here; all else has a default. Every method takes and returns whole batches; row
    ``i`` of the answer depends on row ``i`` alone. Rules keep nothing: a game with chance has the state of a
    :class:`~marlenv.rng.RowRNG` (int64 ``[*B, 2]``, called ``rng``) among its tensors. Shapes and dtypes never change:
    an env that is made of rules tries them on a few games, and says what does not fit.
    """

    @property
    @abstractmethod
    def players(self) -> tuple[str, ...]:
        """The players' names as people of the game say them: ``("white", "black")``."""

    @property
    def zero_sum(self) -> bool:
        """Whether the returns of all players add up to zero at every state."""
        return True

    simultaneous: ClassVar[bool] = False
    """Whether all players act at once: then ``legal`` is ``[*B, P, n]`` and ``play`` takes ``[*B, P]``."""

    alternating: ClassVar[bool] = False
    """Whether two players move in turn without exception; then an opponent's answer is exactly one move."""

    pays_at_end: ClassVar[bool] = False
    """Whether all returns are zero until the game is over; then the reward of a step is the returns after it."""

    hidden: ClassVar[bool] = False
    """Whether a player may not know the whole state; then :meth:`view` draws what the player in a seat may know."""

    @property
    @abstractmethod
    def n_actions(self) -> int:
        """How many different actions there are, legal or not: ``n``."""

    @property
    @abstractmethod
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of what one player sees, without batch and player dimensions."""

    @property
    @abstractmethod
    def longest(self) -> int | None:
        """An upper bound on the number of actions in a game; None where there is none."""

    @abstractmethod
    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        """The first position of ``batch_size`` games; games with chance draw from ``rng`` and keep its state."""

    @abstractmethod
    def player(self, state: State) -> Tensor:
        """Whose turn it is; int64 ``[*B]``. Anything at all in a finished game, but in range."""

    @abstractmethod
    def legal(self, state: State) -> Tensor:
        """What the player to move may do; bool ``[*B, n]``: something until the game is over, then nothing."""

    @abstractmethod
    def play(self, state: State, action: Tensor) -> State:
        """The position after ``action``, int64 ``[*B]``, which must be legal where the game is not over.

        A finished game stays as it is, whatever the action (which must be in range).
        """

    @abstractmethod
    def over(self, state: State) -> Tensor:
        """Whether the game has ended; bool ``[*B]``."""

    @abstractmethod
    def returns(self, state: State) -> Tensor:
        """The sum of each player's rewards since the start; float32 ``[*B, P]``. The reward of a step is the
        difference.

        float64 where rewards are many, so that the difference keeps its digits; with :attr:`pays_at_end` float32.
        """

    @abstractmethod
    def observe(self, state: State) -> Tensor:
        """What each player may know, from the player's own seat; float32 or bool ``[*B, P, *observation_shape]``.

        An env gives bool as its ``observation_dtype``, and any other dtype as it is.
        """

    def outcome(self, state: State) -> Tensor:
        """Why the game ended, as an index into :attr:`outcomes`; int8 ``[*B]``, 0 while it goes on."""
        return self.over(state).to(torch.int8)

    outcomes: ClassVar[tuple[str, ...]] = ("", "over")
    """The words for :meth:`outcome`."""

    # --- what follows from these -----------------------------------------------------------------

    def permits(self, state: State, action: Tensor) -> Tensor:
        """Whether each action is legal, whatever its number; bool ``[*B]``, or ``[*B, P]`` where all act at once.

        False in a finished game.
        """
        return allowed(self.legal(state), action)

    def pick(self, state: State, unit: Tensor) -> Tensor:
        """A legal action for each number in [0, 1), all equally likely; int64 ``[*B]``, or ``[*B, P]``.

        In a finished game any action in range.
        """
        return picked(self.legal(state), unit)

    def is_position(self, state: State) -> Tensor:
        """Whether what somebody gave as positions can be some; bool ``[*B]``. Steps do not ask.

        Of the player to move alone; rules whose other numbers may not be out of range override it.
        """
        if self.simultaneous:
            return torch.ones_like(self.over(state))
        player = self.player(state)
        return (player >= 0) & (player < len(self.players))

    def position_key(self, state: State) -> Tensor:
        """A number that positions share if they are the same to all players; int64 ``[*B]``.

        Of what all players observe and whose turn it is; rules whose observations count moves override it.

        >>> from marlenv.games import Othello
        >>> rules = Othello()
        >>> key = rules.position_key(rules.start(torch.Size([2])))
        >>> bool(key[0] == key[1])
        True
        """
        seen = self.observe(state)
        flat = seen.flatten(seen.ndim - 1 - len(self.observation_shape))
        if flat.is_floating_point():
            flat = (flat.to(torch.float32) + 0.0).view(torch.int32)  # so that -0 is 0
        if self.simultaneous:
            return hashed(flat)
        return hashed(torch.cat((flat.to(torch.int64), self.player(state).unsqueeze(-1)), -1))

    # --- for people ------------------------------------------------------------------------------

    def show(self, state: State, *, color: bool = False) -> str:
        """One position (no batch dimensions) drawn with characters, as the game's people draw it."""
        raise Unsupported(f"{type(self).__name__} has no drawing")

    def view(self, state: State, seat: int, *, color: bool = False) -> str:
        """:meth:`show` without what the player in ``seat`` may not know."""
        if self.hidden:
            raise Unsupported(f"{type(self).__name__} has no drawing for one player")
        return self.show(state, color=color)

    def svg(self, state: State) -> str:
        """One position (no batch dimensions) as an SVG picture."""
        raise Unsupported(f"{type(self).__name__} has no picture")

    def action_name(self, state: State, action: int) -> str:
        """An action as the game's people write it (``"e4"``, ``"D"``), in one position without batch dimensions."""
        return str(action)

    def read_action(self, state: State, text: str) -> int:
        """The legal action that people mean by ``text``, in one position; where all act at once, of any player.

        Raises:
            BadNotation: no legal action is called that; names the nearest.
            DtypeError: it is no text.
        """
        if not isinstance(text, str):
            raise DtypeError(f"{type(self).__name__}.read_action: expected a str, got {type(text).__name__} {text!r}")
        names = self.legal_names(state)
        wanted = _plain(text)
        for name, action in names.items():
            if _plain(name) == wanted:
                return action
        raise BadNotation(f"{type(self).__name__}: no legal move is called {text!r}; {nearest(text, names)}")

    def legal_names(self, state: State, seat: int | None = None) -> dict[str, int]:
        """The legal actions of one position by their names; where all act at once, those of ``seat``, or of all."""
        legal = self.legal(state)
        if self.simultaneous:
            legal = legal.any(-2) if seat is None else legal[seat]
        return {self.action_name(state, a): a for a in legal.nonzero().flatten().tolist()}

    def score_sheet(self, states: Sequence[State], actions: Sequence[int], header: Mapping[str, str]) -> str | None:
        """A played game in the format that the game's people exchange games in (PGN); None where they have none.

        Args:
            states: the positions in which moves were made, each without batch dimensions; the first one where none was.
            actions: the moves.
            header: what is known about the game: ``"white": "Ada"``, ``"date": "2026-01-31"``.
        """
        return None


def _plain(text: str) -> str:
    return "".join(text.split()).casefold()


def allowed(legal: Tensor, action: Tensor) -> Tensor:
    """Whether each action is among the legal ones; False for numbers out of range.

    Args:
        legal: bool ``[*B, n]``.
        action: int64 ``[*B]``.

    >>> allowed(torch.tensor([[True, False], [True, True]]), torch.tensor([1, 2]))
    tensor([False, False])
    """
    n = legal.shape[-1]
    within = action.clamp(0, n - 1)
    return legal.gather(-1, within.unsqueeze(-1)).squeeze(-1) & (within == action)


def picked(legal: Tensor, unit: Tensor) -> Tensor:
    """The legal action at the place ``unit`` (in [0, 1)) of the way; ``n - 1`` where nothing is legal.

    >>> picked(torch.tensor([False, True, True]), torch.tensor(0.5))
    tensor(2)
    """
    ranks = legal.cumsum(-1, dtype=torch.int32)
    place = (unit * ranks[..., -1]).to(torch.int32).unsqueeze(-1)
    return (ranks <= place).sum(-1).clamp(max=legal.shape[-1] - 1)


def hashed(words: Tensor) -> Tensor:
    """A number for each row of numbers, which other rows have by a chance of 2 ** -64; int64 ``[*B]``.

    Args:
        words: whole numbers or bool ``[*B, n]``.

    >>> hashed(torch.tensor([[1, 2], [2, 1], [1, 2]])).unique().numel()
    2
    """
    places = mix_(torch.arange(1, words.shape[-1] + 1, device=words.device) * GOLDEN)
    return mix_(words.to(torch.int64) + places).sum(-1)


def where(mask: Tensor, yes: State, no: State) -> State:
    """Row by row one position or the other; ``mask`` is bool ``[*B]``."""
    return type(yes)(*(rows_where(mask, a, b) for a, b in zip(yes, no, strict=True)))


def rows_where(mask: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """``yes`` in the rows where ``mask`` is True, else ``no``; ``[*B, ...]``.

    >>> rows_where(torch.tensor([True, False]), torch.ones(2, 2), torch.zeros(2, 2))
    tensor([[1., 1.],
            [0., 0.]])
    """
    if yes.ndim == mask.ndim:
        return torch.where(mask, yes, no)
    if mask.ndim == 0 or mask.device.type != "cpu" or torch.compiler.is_compiling() or yes.shape != no.shape:
        return torch.where(mask.reshape((*mask.shape, *[1] * (yes.ndim - mask.ndim))), yes, no)
    rows, last = mask.reshape(-1).nonzero().squeeze(-1), mask.ndim - 1  # whole rows at a time: much less work on CPUs
    out = no.flatten(0, last).clone(memory_format=torch.contiguous_format)
    out.index_copy_(0, rows, yes.flatten(0, last).index_select(0, rows))
    return out.unflatten(0, mask.shape)
