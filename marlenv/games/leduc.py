"""Leduc poker (Southey et al. 2005, https://arxiv.org/abs/1207.1411) for any batch of games; two to ten players."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Size, Tensor

from marlenv.errors import flag
from marlenv.games.fast.compiled_rules import CompiledRules
from marlenv.games.parts import cards, drawing
from marlenv.games.parts.options import keep_whole
from marlenv.games.rules import Rules, where
from marlenv.rng import RowRNG

FOLD, CALL, RAISE = range(3)
WORDS = ("fold", "call", "raise")
MOST_RAISES = 2  # per round
BETS = (2, 4)  # chips by which the stakes go up, per round


class State(NamedTuple):
    """A position. A card is 2 * rank + suit."""

    cards: Tensor  # [*B, P] int64: the card of each player
    public: Tensor  # [*B] int64: the card on the table, -1 in the first round
    moves: Tensor  # [*B, 2, 3 P - 2] int8: what was done in each round, 0 fold, 1 call, 2 raise, -1 not yet
    chips: Tensor  # [*B, P] int64: what each player has put into the pot
    folded: Tensor  # [*B, P] bool: who is out of the hand
    turn: Tensor  # [*B] int64: who is to move
    waiting: Tensor  # [*B] int64: how many players must still act in this round
    rng: Tensor  # [*B, 2] int64: what the card on the table and the next deal are drawn from


@dataclass(frozen=True)
class LeducPoker(Rules[State]):
    """One card each, two rounds of betting, and between them a card on the table that all share.

    There are two suits and one rank more than players. Everybody puts in a chip; raises are 2 chips in the first
    round and 4 in the second, at most two per round. A pair with the table wins, else the highest card; equal hands
    share the pot.

    - observation ``[5 P + 4 + 4 (3 P - 2)]``: whose seat this is, own card, the table's card, and what was done: per
      move, called and raised. With ``recall=False`` ``[6 P + 4]``: seat, cards, and how many chips each player has in
      the pot
    - action: 0 fold (after a raise), 1 call (or check), 2 raise
    - reward: the chips won or lost, at the end
    - ends: when all but one have folded, or after the second round

    Args:
        num_players: 2 to 10.
        recall: whether players see all that was done, or only the chips.

    >>> rules = LeducPoker()
    >>> state = rules.start(Size([1]), rng=RowRNG(0, [1]))
    >>> for action in (2, 0):  # raise, fold
    ...     state = rules.play(state, torch.tensor([action]))
    >>> rules.returns(state)
    tensor([[ 1., -1.]])

    Source: https://arxiv.org/abs/1207.1411; for more players as in OpenSpiel 2.0 (``leduc_poker``).
    """

    num_players: int = 2
    recall: bool = True

    outcomes: ClassVar[tuple[str, ...]] = ("", "all others folded", "showdown")
    hidden: ClassVar[bool] = True
    pays_at_end: ClassVar[bool] = True
    n_actions: ClassVar[int] = 3

    def __post_init__(self) -> None:
        keep_whole(self, "num_players", 2, 10)
        flag("LeducPoker", "recall", self.recall)

    @property
    def players(self) -> tuple[str, ...]:
        return cards.seats(self.num_players, 2, 10, "LeducPoker")

    @property
    def deck(self) -> int:
        """How many cards there are."""
        return 2 * (self.num_players + 1)

    @property
    def longest(self) -> int:
        return 2 * (3 * self.num_players - 2)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        bets = 2 * self.longest if self.recall else self.num_players
        return (self.num_players + 2 * self.deck + bets,)

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        rng = RowRNG(0, batch_size, device) if rng is None else rng
        dealt = rng.permutation(self.deck)[..., : self.num_players]
        first = torch.zeros_like(dealt[..., 0])
        moves = torch.full((*batch_size, 2, self.longest // 2), -1, dtype=torch.int8, device=dealt.device)
        chips, folded = torch.ones_like(dealt), torch.zeros_like(dealt, dtype=torch.bool)
        return State(dealt, first - 1, moves, chips, folded, first, first + self.num_players, rng.state)

    def player(self, state: State) -> Tensor:
        return state.turn

    def is_position(self, state: State) -> Tensor:
        return super().is_position(state) & cards.are_dealt(state.cards, self.deck)

    def over(self, state: State) -> Tensor:
        alone = state.folded.sum(-1) == self.num_players - 1
        return alone | ((state.waiting == 0) & (state.public >= 0))

    def _round(self, state: State) -> Tensor:
        """What was done in this round; int8 ``[*B, 3 P - 2]``."""
        return torch.where((state.public >= 0).unsqueeze(-1), state.moves[..., 1, :], state.moves[..., 0, :])

    def legal(self, state: State) -> Tensor:
        mine = state.chips.gather(-1, state.turn.unsqueeze(-1)).squeeze(-1)
        may = [
            mine < state.chips.amax(-1),
            torch.ones_like(state.turn, dtype=torch.bool),
            (self._round(state) == RAISE).sum(-1) < MOST_RAISES,
        ]
        return torch.stack(may, -1) & ~self.over(state).unsqueeze(-1)

    def play(self, state: State, action: Tensor) -> State:
        second = state.public >= 0
        mover = cards.one_hot(state.turn, self.num_players)
        place = cards.one_hot((self._round(state) >= 0).sum(-1), self.longest // 2).unsqueeze(-2)
        place = place & cards.one_hot(second.long(), 2).unsqueeze(-1)
        moves = torch.where(place, action.to(torch.int8).reshape((*action.shape, 1, 1)), state.moves)
        stakes = state.chips.amax(-1) + torch.where(second, BETS[1], BETS[0]) * (action == RAISE)
        chips = torch.where(mover & (action != FOLD).unsqueeze(-1), stakes.unsqueeze(-1), state.chips)
        folded = state.folded | (mover & (action == FOLD).unsqueeze(-1))
        left = (~folded).sum(-1)
        waiting = torch.where(action == RAISE, left - 1, state.waiting - 1)
        opens = (waiting == 0) & ~second & (left > 1)
        turn = self._next(folded, torch.where(opens, self.num_players - 1, state.turn))
        public, rng = self._table(state, opens)
        waiting = torch.where(opens, left, waiting)
        after = State(state.cards, public, moves, chips, folded, turn, waiting, rng)
        return where(self.over(state), state, after)

    def _next(self, folded: Tensor, player: Tensor) -> Tensor:
        """The first player after another who has not folded."""
        seat = (player.unsqueeze(-1) + torch.arange(1, self.num_players + 1, device=player.device)) % self.num_players
        ahead = (~folded.gather(-1, seat)).to(torch.int8).argmax(-1, keepdim=True)
        return seat.gather(-1, ahead).squeeze(-1)

    def _table(self, state: State, opens: Tensor) -> tuple[Tensor, Tensor]:
        """The card on the table, turned up where a round ``opens``, and what the next is drawn from."""
        rng = RowRNG.from_state(state.rng)
        drawn = rng.choice(~cards.one_hot(state.cards, self.deck).any(-2))
        return torch.where(opens, drawn, state.public), torch.where(opens.unsqueeze(-1), rng.state, state.rng)

    def returns(self, state: State) -> Tensor:
        rank = state.cards // 2
        strength = rank + (rank == (state.public // 2).unsqueeze(-1)) * self.deck
        strength = strength.masked_fill(state.folded, -1)
        winners = strength == strength.amax(-1, keepdim=True)
        pot = state.chips.sum(-1, keepdim=True).to(torch.float32)
        won = winners * (pot / winners.sum(-1, keepdim=True)) - state.chips
        return (won * self.over(state).unsqueeze(-1)).to(torch.float32)

    def outcome(self, state: State) -> Tensor:
        alone = state.folded.sum(-1) == self.num_players - 1
        return (self.over(state) * torch.where(alone, 1, 2)).to(torch.int8)

    def observe(self, state: State) -> Tensor:
        """Seat, cards and moves (bool), or seat, cards and chips (float32); ``[*B, P, ...]``."""
        shape = state.cards.shape
        seat = torch.eye(self.num_players, dtype=torch.bool, device=state.cards.device).expand((*shape, -1))
        own = cards.one_hot(state.cards, self.deck)
        bets = state.chips
        if self.recall:
            bets = cards.one_hot(state.moves - 1, 2).flatten(-3)
        shared = [cards.one_hot(state.public, self.deck), bets]
        return torch.cat([seat, own, *(x.unsqueeze(-2).expand((*shape, -1)) for x in shared)], -1).to(
            torch.bool if self.recall else torch.float32
        )

    def fast_form(self) -> CompiledRules[State]:
        """The same answers for envs of many rows, see :mod:`marlenv.games.fast`."""
        return CompiledRules(self, "leduc_kernels", (self.num_players, int(self.recall)), work=(60, 300))

    # --- for people ------------------------------------------------------------------------------

    def action_name(self, state: State, action: int) -> str:
        """``fold``, ``call`` or ``raise``."""
        return WORDS[action]

    def _name(self, card: int) -> str:
        return cards.ranks(self.num_players + 1)[card // 2] + "sh"[card % 2]

    def _notes(self, state: State) -> list[str]:
        """Per player, chips, and whether it has folded."""
        pairs = zip(state.chips.tolist(), state.folded.tolist(), strict=True)
        return [f"{chips} in the pot{', folded' if folded else ''}" for chips, folded in pairs]

    def _shown(self, state: State, seat: int | None, color: bool) -> str:
        hands = [self._name(card) for card in state.cards.tolist()]
        laid_open = (~state.folded & (self.outcome(state) == 2)).tolist()
        lines = cards.table(self.players, hands, self._notes(state), seat, laid_open, color=color)
        card = "" if int(state.public) < 0 else f"table {self._name(int(state.public))}; "
        done = " / ".join(" ".join(WORDS[m] for m in row if m >= 0) for row in state.moves.tolist()).rstrip(" /")
        return "\n".join([*lines, *([drawing.faint(card + done, color)] if card or done else [])])

    def show(self, state: State, *, color: bool = False) -> str:
        """All cards, the chips, and what was done."""
        return self._shown(state, None, color)

    def view(self, state: State, seat: int, *, color: bool = False) -> str:
        """The table without the others' cards; at a showdown those who have not folded lay theirs open."""
        return self._shown(state, seat, color)

    def svg(self, state: State) -> str:
        """The players' cards and chips, and the card on the table."""
        picture = drawing.Picture(4.5, 1.4 * self.num_players, ground=drawing.FELT)
        ink = (drawing.INK, drawing.RED)
        for i, (card, note) in enumerate(zip(state.cards.tolist(), self._notes(state), strict=True)):
            picture.card((0, 1.4 * i), self._name(card), ink[card % 2])
            picture.text((1, 1.4 * i + 0.55), f"{self.players[i]}: {note}", drawing.WHITE, 0.24, anchor="start")
        table = int(state.public)
        picture.card((3.7, 0.7 * self.num_players - 0.7), self._name(max(table, 0)), ink[table % 2], back=table < 0)
        return picture.svg()
