"""Kuhn poker (https://en.wikipedia.org/wiki/Kuhn_poker) for any batch of games, with two to ten players."""

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

WORDS = ("pass", "bet")


class State(NamedTuple):
    """A position."""

    cards: Tensor  # [*B, P] int64: the card of each player, 0 the lowest of P + 1
    moves: Tensor  # [*B, 2 P - 1] int8: what was done so far, 0 pass, 1 bet, -1 not yet
    rng: Tensor  # [*B, 2] int64: what the next deal is drawn from


@dataclass(frozen=True)
class KuhnPoker(Rules[State]):
    """One card each, one chip in the pot, one round: pass or bet a chip.

    After a bet the others in turn pass (fold) or bet (call). The highest card among those who bet, or among all if
    nobody did, takes the pot. There is one card more than players.

    - observation ``[6 P - 1]``: whose seat this is, own card, and what was done: per move, passed and bet. With
      ``recall=False`` ``[3 P + 1]``: seat, card, and how many chips each player has in the pot
    - action: 0 pass, 1 bet
    - reward: the chips won or lost, at the end
    - ends: when nobody has bet, or everybody has answered the bet

    Args:
        num_players: 2 to 10.
        recall: whether players see all that was done, or only the chips.

    >>> rules = KuhnPoker()
    >>> state = rules.start(Size([1]), rng=RowRNG(0, [1]))._replace(cards=torch.tensor([[2, 0]]))
    >>> for action in (0, 1, 1):  # pass, bet, call: king against jack
    ...     state = rules.play(state, torch.tensor([action]))
    >>> rules.returns(state)
    tensor([[ 2., -2.]])

    Source: Kuhn 1950, "A simplified two-person poker"; for more players as in OpenSpiel 2.0 (``kuhn_poker``).
    """

    num_players: int = 2
    recall: bool = True

    outcomes: ClassVar[tuple[str, ...]] = ("", "nobody bet", "the bet was answered")
    hidden: ClassVar[bool] = True
    pays_at_end: ClassVar[bool] = True
    n_actions: ClassVar[int] = 2

    def __post_init__(self) -> None:
        keep_whole(self, "num_players", 2, 10)
        flag("KuhnPoker", "recall", self.recall)

    @property
    def players(self) -> tuple[str, ...]:
        return cards.seats(self.num_players, 2, 10, "KuhnPoker")

    @property
    def longest(self) -> int:
        return 2 * self.num_players - 1

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (6 * self.num_players - 1 if self.recall else 3 * self.num_players + 1,)

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        rng = RowRNG(0, batch_size, device) if rng is None else rng
        dealt = rng.permutation(self.num_players + 1)[..., : self.num_players]
        moves = torch.full((*batch_size, self.longest), -1, dtype=torch.int8, device=dealt.device)
        return State(dealt, moves, rng.state)

    def _count(self, state: State) -> Tensor:
        return (state.moves >= 0).sum(-1)

    def _bets(self, state: State) -> Tensor:
        """Who has bet; bool ``[*B, P]``. Everybody moves at most twice, and bets at most once."""
        bet = torch.nn.functional.pad(state.moves == 1, (0, 1))
        return bet.reshape((*bet.shape[:-1], 2, self.num_players)).any(-2)

    @staticmethod
    def _stays(bets: Tensor) -> Tensor:
        """Who has not folded, at the end; bool ``[*B, P]``."""
        return bets | ~bets.any(-1, keepdim=True)

    def player(self, state: State) -> Tensor:
        return self._count(state) % self.num_players

    def is_position(self, state: State) -> Tensor:
        return cards.are_dealt(state.cards, self.num_players + 1)

    def over(self, state: State) -> Tensor:
        bet = state.moves == 1
        first = torch.where(bet.any(-1), bet.to(torch.int8).argmax(-1), 0)
        return self._count(state) == self.num_players + first

    def legal(self, state: State) -> Tensor:
        return (~self.over(state)).unsqueeze(-1).expand((*state.cards.shape[:-1], 2)).clone()

    def play(self, state: State, action: Tensor) -> State:
        here = cards.one_hot(self._count(state), self.longest)
        moves = torch.where(here, action.unsqueeze(-1).to(torch.int8), state.moves)
        return where(self.over(state), state, state._replace(moves=moves))

    def returns(self, state: State) -> Tensor:
        bets = self._bets(state)
        chips = 1.0 + bets.to(torch.float32)
        winner = torch.where(self._stays(bets), state.cards, -1).argmax(-1)
        won = cards.one_hot(winner, self.num_players) * chips.sum(-1, keepdim=True) - chips
        return won * self.over(state).unsqueeze(-1)

    def outcome(self, state: State) -> Tensor:
        return (self.over(state) * (1 + (state.moves == 1).any(-1))).to(torch.int8)

    def observe(self, state: State) -> Tensor:
        """Seat, card and moves (bool), or seat, card and chips (float32); ``[*B, P, ...]``."""
        shape = state.cards.shape
        seat = torch.eye(self.num_players, dtype=torch.bool, device=state.cards.device).expand((*shape, -1))
        own = cards.one_hot(state.cards, self.num_players + 1)
        if not self.recall:
            chips = (1.0 + self._bets(state)).unsqueeze(-2).expand((*shape, -1))
            return torch.cat((seat, own, chips), -1)
        done = cards.one_hot(state.moves, 2).flatten(-2).unsqueeze(-2)
        return torch.cat((seat, own, done.expand((*shape, -1))), -1)

    def fast_form(self) -> CompiledRules[State]:
        """The same answers for envs of many rows, see :mod:`marlenv.games.fast`."""
        return CompiledRules(self, "kuhn_kernels", (self.num_players, int(self.recall)), work=(30, 150))

    # --- for people ------------------------------------------------------------------------------

    def action_name(self, state: State, action: int) -> str:
        """``pass`` or ``bet``."""
        return WORDS[action]

    def _shown(self, state: State, seat: int | None, color: bool) -> str:
        hands = [cards.ranks(self.num_players + 1)[card] for card in state.cards.tolist()]
        done = [WORDS[move] for move in state.moves.tolist() if move >= 0]
        notes = [" ".join(done[i :: self.num_players]) for i in range(self.num_players)]
        stays = self._stays(self._bets(state))
        laid_open = (stays & self.over(state) & (stays.sum() > 1)).tolist()
        pot = drawing.faint(f"pot {self.num_players + done.count('bet')}", color)
        return "\n".join([*cards.table(self.players, hands, notes, seat, laid_open, color=color), pot])

    def show(self, state: State, *, color: bool = False) -> str:
        """The players' cards, what they did, and the pot."""
        return self._shown(state, None, color)

    def view(self, state: State, seat: int, *, color: bool = False) -> str:
        """The table without the others' cards; at a showdown those who have not folded lay theirs open."""
        return self._shown(state, seat, color)

    def svg(self, state: State) -> str:
        """The players' cards and what they did."""
        picture = drawing.Picture(3, 1.4 * self.num_players, ground=drawing.FELT)
        done = [WORDS[move] for move in state.moves.tolist() if move >= 0]
        for i, card in enumerate(state.cards.tolist()):
            picture.card((0, 1.4 * i), cards.ranks(self.num_players + 1)[card], drawing.INK)
            words = f"{self.players[i]}: {' '.join(done[i :: self.num_players])}"
            picture.text((1, 1.4 * i + 0.55), words, drawing.WHITE, 0.28, anchor="start")
        return picture.svg()
