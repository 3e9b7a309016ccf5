"""Hanabi (https://en.wikipedia.org/wiki/Hanabi_(card_game)) for any batch of games, with two to five players.

A card is ``ranks * color + rank``, both from 0. What is observed, and the numbers of the actions, are those of the
Hanabi Learning Environment (Bard et al. 2020, https://arxiv.org/abs/1902.00506).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import torch
from torch import Size, Tensor

from marlenv.errors import SpecError
from marlenv.games.fast.compiled_rules import CompiledRules
from marlenv.games.parts import cards, drawing
from marlenv.games.parts.options import keep_whole
from marlenv.games.parts.tables import Table
from marlenv.games.rules import Rules, where
from marlenv.rng import RowRNG

COLORS = ("red", "yellow", "green", "white", "blue")
INKS = (drawing.RED, drawing.GOLD, drawing.GREEN, drawing.FAINT, drawing.BLUE)
PLAY, DISCARD, HINT_COLOR, HINT_RANK = range(4)


class Last(NamedTuple):
    """The last move: the columns of :attr:`State.last`."""

    player: Tensor  # who made it
    kind: Tensor  # PLAY, DISCARD, HINT_COLOR, HINT_RANK; -1 before the first move
    target: Tensor  # who was told something
    value: Tensor  # which color or rank they were told
    touched: Tensor  # which of their cards it is, as bits
    place: Tensor  # which card was played or discarded, counted from the oldest
    card: Tensor  # what it was
    scored: Tensor  # 1 if it went onto the fireworks
    token: Tensor  # 1 if that gave a hint back


class State(NamedTuple):
    """A position."""

    hands: Tensor  # [*B, P, H] int64: the players' cards, oldest first, -1 for none
    known: Tensor  # [*B, P, H, 2, C + R] bool: which colors and ranks hints leave open; which were told of the card
    fireworks: Tensor  # [*B, C] int64: how many cards of each color were played
    deck: Tensor  # [*B, C * R] int64: how many of each card are still to be drawn
    discards: Tensor  # [*B, C * R] int64: how many of each card were discarded
    hints: Tensor  # [*B] int64: information tokens
    lives: Tensor  # [*B] int64: lives that are left
    turn: Tensor  # [*B] int64: who is to move
    left: Tensor  # [*B] int64: how many moves are left once the deck is empty
    last: Tensor  # [*B, 9] int64: the last move and whom it told what; the fields of Last
    rng: Tensor  # [*B, 2] int64: what cards are drawn from


@dataclass(frozen=True)
class Hanabi(Rules[State]):
    """Build fireworks together: cards of each color from 1 upwards. Everybody sees all cards but their own.

    Of each color there are three 1s, one of the highest rank, and two of each other. A move plays a card, discards
    one (which gives a hint back), or spends a hint: another player is told all cards of one color or one rank. A card
    that does not fit costs a life.

    - observation bool ``[n]``, seats counted from the own one: the others' cards; the deck, fireworks, hints and
      lives; what was discarded; the last move; and of all cards what hints leave open and have told (658 bits for two
      players)
    - action, for hands of ``H``: ``0 .. H - 1`` discard a card, ``H .. 2 H - 1`` play one; then, for each other
      player in turn, tell a color; and so a rank
    - reward, for all: 1 for each card that fits; minus all of them with the last life
    - ends: with the last life, with all fireworks, or when everybody has moved once after the deck ran out

    Args:
        num_players: 2 to 5.
        colors: 1 to 5.
        ranks: 2 to 5.
        hand_size: five cards, four for four or five players when left out.
        max_hints: information tokens at the start.
        max_lives: lives at the start.

    >>> rules = Hanabi()
    >>> state = rules.start(Size([2]), rng=RowRNG(0, [2]))
    >>> rules.observe(state).shape, rules.n_actions, int(state.deck[0].sum())
    (torch.Size([2, 2, 658]), 20, 40)

    Source: https://arxiv.org/abs/1902.00506; OpenSpiel 2.0 (``hanabi``).
    """

    num_players: int = 2
    colors: int = 5
    ranks: int = 5
    hand_size: int | None = None
    max_hints: int = 8
    max_lives: int = 3

    outcomes: ClassVar[tuple[str, ...]] = ("", "no lives left", "all fireworks", "the deck ran out")
    hidden: ClassVar[bool] = True
    zero_sum: ClassVar[bool] = False

    def __post_init__(self) -> None:
        keep_whole(self, "num_players", 2, 5)
        bounds = {"colors": (1, 5), "ranks": (2, 5), "hand_size": (1, 10), "max_hints": (0, 20), "max_lives": (1, 20)}
        for name, (low, high) in bounds.items():
            keep_whole(self, name, low, high)
        if self.num_players * self.hand >= sum(self._copies()):
            raise SpecError(
                f"Hanabi: {self.num_players} hands of {self.hand} cards need a deck of more than {sum(self._copies())}"
            )

    @property
    def players(self) -> tuple[str, ...]:
        return cards.seats(self.num_players, 2, 5, "Hanabi")

    @property
    def hand(self) -> int:
        """How many cards a player holds."""
        return (5 if self.num_players < 4 else 4) if self.hand_size is None else self.hand_size

    def _copies(self) -> list[int]:
        """How many there are of each card."""
        return [3, *[2] * (self.ranks - 2), 1] * self.colors

    @property
    def n_actions(self) -> int:
        return 2 * self.hand + (self.num_players - 1) * (self.colors + self.ranks)

    @property
    def longest(self) -> int:
        deck = sum(self._copies()) - self.num_players * self.hand
        return 2 * deck + self.max_hints + self.num_players + self.colors

    @property
    def observation_shape(self) -> tuple[int, ...]:
        p, h, c, r, kinds = self.num_players, self.hand, self.colors, self.ranks, self.colors * self.ranks
        total = sum(self._copies())
        board = total - p * h + kinds + self.max_hints + self.max_lives + total
        move = p + 4 + p + c + r + 2 * h + kinds + 2
        return ((p - 1) * h * kinds + p + board + move + p * h * (kinds + c + r),)

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        rng = RowRNG(0, batch_size, device) if rng is None else rng
        copies, pack = (table.on(rng.device) for table in _pack(tuple(self._copies())))
        dealt = pack[rng.permutation(len(pack))[..., : self.num_players * self.hand]]
        empty = torch.zeros(batch_size, dtype=torch.int64, device=rng.device)
        kinds = torch.zeros((*batch_size, len(copies)), dtype=torch.int64, device=rng.device)
        last = torch.zeros((*batch_size, len(Last._fields)), dtype=torch.int64, device=rng.device)
        last[..., Last._fields.index("kind")] = -1
        hands = dealt.reshape(*batch_size, self.num_players, self.hand)
        return State(
            hands=hands,
            known=self._unknown(rng.device).expand(*hands.shape, 2, -1).clone(),
            fireworks=kinds[..., : self.colors].clone(),
            deck=copies - cards.one_hot(dealt, len(copies)).sum(-2),
            discards=kinds,
            hints=empty + self.max_hints,
            lives=empty + self.max_lives,
            turn=empty,
            left=empty + self.num_players,
            last=last,
            rng=rng.state,
        )

    def _unknown(self, device: torch.device) -> Tensor:
        """What is known of a new card: nothing is ruled out, nothing was told; bool ``[2, C + R]``."""
        return (torch.arange(2, device=device) == 0).unsqueeze(-1).expand(2, self.colors + self.ranks)

    def player(self, state: State) -> Tensor:
        return state.turn

    def outcome(self, state: State) -> Tensor:
        full = state.fireworks.sum(-1) == self.colors * self.ranks
        ended = torch.where(state.left <= 0, 3, 0).masked_fill(full, 2).masked_fill(state.lives <= 0, 1)
        return ended.to(torch.int8)

    def over(self, state: State) -> Tensor:
        return self.outcome(state) != 0

    def returns(self, state: State) -> Tensor:
        score = state.fireworks.sum(-1) * (state.lives > 0)
        return score.to(torch.float32).unsqueeze(-1).expand(*score.shape, self.num_players).clone()

    def _traits(self, hands: Tensor) -> Tensor:
        """Color and rank of cards, as known hints write them; bool ``[*hands.shape, C + R]``."""
        color, rank = hands // self.ranks, torch.where(hands < 0, -1, hands % self.ranks)
        return torch.cat((cards.one_hot(color, self.colors), cards.one_hot(rank, self.ranks)), -1)

    def _from(self, seat: Tensor, leaf: Tensor) -> Tensor:
        """What belongs to players, from a seat on: own first; ``[*B, P, ...]``."""
        order = (seat.unsqueeze(-1) + torch.arange(self.num_players, device=seat.device)) % self.num_players
        order = order.reshape(*order.shape, *[1] * (leaf.ndim - order.ndim)).expand(leaf.shape)
        return leaf.gather(seat.ndim, order)

    def legal(self, state: State) -> Tensor:
        hands = self._from(state.turn, state.hands)
        holds = hands[..., 0, :] >= 0
        told = self._traits(hands[..., 1:, :]).any(-2) & (state.hints > 0)[..., None, None]
        hints = [told[..., : self.colors].flatten(-2), told[..., self.colors :].flatten(-2)]
        may = torch.cat([holds & (state.hints < self.max_hints).unsqueeze(-1), holds, *hints], -1)
        return may & ~self.over(state).unsqueeze(-1)

    def _last(self, state: State, action: Tensor) -> Last:
        """What an action is; what comes of it is still open."""
        h, rest = self.hand, self.num_players - 1
        hint = action - 2 * h
        ranked = hint - rest * self.colors
        kind = torch.where(
            action < h, DISCARD, torch.where(hint < 0, PLAY, torch.where(ranked < 0, HINT_COLOR, HINT_RANK))
        )
        offset = torch.where(kind == HINT_COLOR, hint // self.colors, ranked // self.ranks) + 1
        value = torch.where(kind == HINT_COLOR, hint % self.colors, ranked % self.ranks)
        told = kind >= HINT_COLOR
        place = (action % h).masked_fill(told, 0)
        card = state.hands.gather(-2, state.turn[..., None, None].expand(*state.turn.shape, 1, h)).squeeze(-2)
        none = torch.zeros_like(action)
        return Last(
            player=state.turn,
            kind=kind,
            target=((state.turn + offset) % self.num_players).masked_fill(~told, 0),
            value=value.masked_fill(~told, 0),
            touched=none,
            place=place,
            card=card.gather(-1, place.unsqueeze(-1)).squeeze(-1).masked_fill(told, 0).clamp(min=0),
            scored=none,
            token=none,
        )

    def play(self, state: State, action: Tensor) -> State:
        move = self._last(state, action)
        told = self._told(state, move)
        done = self._played(state, move)
        after = where(move.kind >= HINT_COLOR, told, done)
        empty = state.deck.sum(-1) == 0
        after = after._replace(turn=(state.turn + 1) % self.num_players, left=state.left - empty.long())
        deals = (move.kind < HINT_COLOR) & ~empty & ~self.over(after)
        after = where(deals, self._dealt(after, state.turn), after)
        return where(self.over(state), state, after)

    def _told(self, state: State, move: Last) -> State:
        """The position after a hint."""
        column = move.value + torch.where(move.kind == HINT_RANK, self.colors, 0)
        trait = cards.one_hot(column, self.colors + self.ranks)[..., None, None, :]
        is_color = torch.arange(self.colors + self.ranks, device=column.device) < self.colors
        same_kind = is_color == (move.kind == HINT_COLOR)[..., None, None, None]
        target = cards.one_hot(move.target, self.num_players)[..., None, None]
        fits = (self._traits(state.hands) & trait).any(-1, keepdim=True)
        open_, told = state.known.unbind(-2)
        ruled = torch.where(fits, open_ & (trait | ~same_kind), open_ & ~trait)
        known = torch.stack((torch.where(target, ruled, open_), told | (trait & fits & target)), -2)
        bits = 1 << torch.arange(self.hand, device=column.device)
        touched = ((fits & target).squeeze(-1).any(-2) * bits).sum(-1)
        return state._replace(known=known, hints=state.hints - 1, last=torch.stack(move._replace(touched=touched), -1))

    def _played(self, state: State, move: Last) -> State:
        """The position after a card is played or discarded, before a new one is drawn."""
        color = cards.one_hot(move.card // self.ranks, self.colors)
        height = (state.fireworks * color).sum(-1)
        plays = move.kind == PLAY
        scored = plays & (height == move.card % self.ranks)
        token = scored & (height == self.ranks - 1) & (state.hints < self.max_hints)
        lost = cards.one_hot(move.card, self.colors * self.ranks) & ~scored.unsqueeze(-1)
        mover = cards.one_hot(state.turn, self.num_players)
        return state._replace(
            hands=_without(state.hands, mover, move.place, state.hands.new_full((), -1)),
            known=_without(state.known, mover, move.place, self._unknown(mover.device)),
            fireworks=state.fireworks + (color & scored.unsqueeze(-1)),
            discards=state.discards + lost,
            hints=state.hints + (token | ~plays),
            lives=state.lives - (plays & ~scored).long(),
            last=torch.stack(move._replace(scored=scored.long(), token=token.long()), -1),
        )

    def _dealt(self, state: State, player: Tensor) -> State:
        """The position after a player draws a card, which is the newest of the hand."""
        rng = RowRNG.from_state(state.rng)
        card = rng.choice(state.deck)
        slot = cards.one_hot(player, self.num_players).unsqueeze(-1) & cards.one_hot(
            torch.full_like(player, self.hand - 1), self.hand
        ).unsqueeze(-2)
        hands = torch.where(slot, card[..., None, None], state.hands)
        return state._replace(
            hands=hands, deck=state.deck - cards.one_hot(card, state.deck.shape[-1]).long(), rng=rng.state
        )

    def observe(self, state: State) -> Tensor:
        """What each player sees, seats counted from the own one; bool ``[*B, P, n]``."""
        shape = (*state.turn.shape, self.num_players)
        seats = torch.arange(self.num_players, device=state.turn.device).expand(shape)
        spread = lambda leaf: leaf.unsqueeze(len(shape) - 1).expand(*shape, *leaf.shape[len(shape) - 1 :])  # noqa: E731
        hands = self._from(seats, spread(state.hands))
        known = self._from(seats, spread(state.known))
        held = (hands >= 0).unsqueeze(-1)
        plausible = known[..., 0, : self.colors].unsqueeze(-1) & known[..., 0, self.colors :].unsqueeze(-2)
        knowledge = torch.cat((plausible.flatten(-2), known[..., 1, :]), -1) & held
        parts = [
            cards.one_hot(hands[..., 1:, :], self.colors * self.ranks).flatten(-3),
            ~held.squeeze(-1).all(-1),
            spread(self._table(state)),
            self._moved(Last(*(spread(column) for column in state.last.unbind(-1))), seats),
            knowledge.flatten(-3),
        ]
        return torch.cat(parts, -1)

    def _table(self, state: State) -> Tensor:
        """What lies on the table; bool ``[*B, n]``. Counts are as many bits."""
        room = sum(self._copies()) - self.num_players * self.hand
        gone = [_bits(state.discards[..., card], copies) for card, copies in enumerate(self._copies())]
        fireworks = cards.one_hot(state.fireworks - 1, self.ranks).flatten(-2)
        tokens = [_bits(state.hints, self.max_hints), _bits(state.lives, self.max_lives)]
        return torch.cat([_bits(state.deck.sum(-1), room), fireworks, *tokens, *gone], -1)

    def _moved(self, last: Last, seats: Tensor) -> Tensor:
        """The last move, players counted from each seat; bool ``[*B, P, n]``."""
        told, some = last.kind >= HINT_COLOR, last.kind >= 0
        hand = torch.arange(self.hand, device=seats.device)
        one = lambda value, n, when: cards.one_hot(value, n) & when.unsqueeze(-1)  # noqa: E731
        away = lambda player: (player - seats) % self.num_players  # noqa: E731
        parts = [
            one(away(last.player), self.num_players, some),
            cards.one_hot(last.kind, 4),
            one(away(last.target), self.num_players, told),
            one(last.value, self.colors, last.kind == HINT_COLOR),
            one(last.value, self.ranks, last.kind == HINT_RANK),
            (last.touched.unsqueeze(-1) >> hand & 1).to(torch.bool),
            one(last.place, self.hand, some & ~told),
            one(last.card, self.colors * self.ranks, some & ~told),
            torch.stack((last.scored, last.token), -1).to(torch.bool),
        ]
        return torch.cat(parts, -1)

    def fast_form(self) -> CompiledRules[State]:
        """The same answers for envs of many rows, see :mod:`marlenv.games.fast`."""
        options = (self.num_players, self.hand, self.colors, self.ranks, self.max_hints, self.max_lives)
        return CompiledRules(self, "hanabi_kernels", options, work=(250, 2000))

    # --- for people ------------------------------------------------------------------------------

    def action_name(self, state: State, action: int) -> str:
        """``play 1`` (the oldest card), ``discard 5``, ``tell player_1 red``, ``tell player_1 3``."""
        move = self._last(state, torch.tensor(action, device=state.turn.device))
        kind, value = int(move.kind), int(move.value)
        if kind in (PLAY, DISCARD):
            return f"{('play', 'discard')[kind]} {int(move.place) + 1}"
        return f"tell {self.players[int(move.target)]} {COLORS[value] if kind == HINT_COLOR else value + 1}"

    def _name(self, card: int) -> str:
        return "-" if card < 0 else f"{COLORS[card // self.ranks][0].upper()}{card % self.ranks + 1}"

    def _told_of(self, known: Tensor) -> str:
        """What a card's owner was told: ``r``, ``3``, ``r3`` or nothing."""
        told = known[1].nonzero().flatten().tolist()
        return "".join(COLORS[i][0] if i < self.colors else str(i - self.colors + 1) for i in told)

    def _shown(self, state: State, seat: int | None, color: bool) -> str:
        built = " ".join(f"{COLORS[c][0].upper()}{n}" for c, n in enumerate(state.fireworks.tolist()))
        lost = " ".join(self._name(card) for card, n in enumerate(state.discards.tolist()) for _ in range(n))
        lines = [
            f"fireworks {drawing.bold(built, color)}",
            f"hints {int(state.hints)}, lives {int(state.lives)}, deck {int(state.deck.sum())}",
            f"discards {lost}".rstrip(),
        ]
        for i, hand in enumerate(state.hands.tolist()):
            shown = [cards.HIDDEN if i == seat and card >= 0 else self._name(card) for card in hand]
            told = [self._told_of(known) for known in state.known[i]]
            words = [f"{card}({hint})" if hint else card for card, hint in zip(shown, told, strict=True)]
            lines.append(f"{'>' if i == int(state.turn) else ' '} {self.players[i]}  {' '.join(words)}")
        return "\n".join(lines)

    def show(self, state: State, *, color: bool = False) -> str:
        """The table and all cards, oldest first, with what their owners were told."""
        return self._shown(state, None, color)

    def view(self, state: State, seat: int, *, color: bool = False) -> str:
        """The table and the others' cards; of one's own, what one was told."""
        return self._shown(state, seat, color)

    def svg(self, state: State) -> str:
        """The fireworks and all cards."""
        picture = drawing.Picture(max(self.colors, self.hand) + 2.5, 1.4 * (self.num_players + 1), ground=drawing.FELT)
        for c, height in enumerate(state.fireworks.tolist()):
            picture.card((c + 2.5, 0), str(height) if height else "", INKS[c])
        picture.text((0, 0.55), f"hints {int(state.hints)}, lives {int(state.lives)}", drawing.WHITE, anchor="start")
        for i, hand in enumerate(state.hands.tolist()):
            y = 1.4 * (i + 1)
            picture.text((0, y + 0.55), self.players[i], drawing.WHITE, anchor="start")
            for j, card in enumerate(hand):
                if card >= 0:
                    picture.card((j + 2.5, y), str(card % self.ranks + 1), INKS[card // self.ranks])
        return picture.svg()


@lru_cache
def _pack(copies: tuple[int, ...]) -> tuple[Table, Table]:
    """How many there are of each card, and all cards in order; int64."""
    return Table(lambda: torch.tensor(copies)), Table(
        lambda: torch.arange(len(copies)).repeat_interleave(torch.tensor(copies))
    )


def _bits(count: Tensor, most: int) -> Tensor:
    """A number as so many ones, then zeros; bool ``[*B, most]``."""
    return torch.arange(most, device=count.device) < count.unsqueeze(-1)


def _without(leaf: Tensor, mover: Tensor, place: Tensor, fill: Tensor) -> Tensor:
    """What belongs to cards, without the card at ``place`` of the mover's hand: newer ones move up.

    Args:
        leaf: ``[*B, P, H, ...]``.
        mover: bool ``[*B, P]``.
        place: int64 ``[*B]``.
        fill: of the place that is left empty, ``[...]``.
    """
    dim, hand = place.ndim + 1, leaf.shape[place.ndim + 1]
    tail = [1] * (leaf.ndim - dim - 1)
    here = torch.arange(hand, device=leaf.device)
    newer = (here + (here >= place.unsqueeze(-1))).unsqueeze(-2) * torch.ones_like(mover, dtype=torch.int64).unsqueeze(
        -1
    )
    padded = torch.cat((leaf, fill.to(leaf.dtype).expand(*leaf.shape[:dim], 1, *leaf.shape[dim + 1 :])), dim)
    moved = padded.gather(dim, newer.reshape(*newer.shape, *tail).expand(leaf.shape))
    return torch.where(mover.reshape(*mover.shape, 1, *tail), moved, leaf)
