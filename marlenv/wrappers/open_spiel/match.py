"""``Match``: a game of OpenSpiel being played, for ``OpenSpielWrapper``: moves, rewards, legal actions, and chance
drawn as soon as it comes up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from marlenv.errors import IllegalAction, SpecError, Unsupported
from marlenv.optional import need
from marlenv.wrappers.open_spiel.games import Tensors, reseeded
from marlenv.wrappers.open_spiel.positions import Positions

Sampler = Callable[[Sequence[int], Sequence[float]], int]


class Match:
    """A game being played, whose chance is drawn as soon as it comes up.

    Args:
        game: of OpenSpiel.
        sampler: picks an outcome of chance; the match's own generator when None.
        who: the wrapper, for messages.
    """

    def __init__(self, game: Any, sampler: Sampler | None, who: str) -> None:
        if sampler is not None and not callable(sampler):
            raise SpecError(f"{who}: chance_sampler must be a function, got {sampler!r}")
        self.game, self.sampler, self.who = game, sampler, who
        self.rng = np.random.default_rng()
        self.state: Any = None
        try:
            self.start(None, None)
            started: Any = self.state
            legal = [a for i in range(game.num_players()) for a in started.legal_actions(i)]
        except need("pyspiel", who).SpielError as error:
            raise Unsupported(
                f"{who}: {game.get_type().short_name!r} does not list its legal actions: {error}"
            ) from error
        self.actions: int = max([game.num_distinct_actions(), *(a + 1 for a in legal)])
        """How many actions a player can choose from; some games promise too few."""
        self.tensors = Tensors(self.state, who)
        self.positions = Positions(self.state, who)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "game"}

    def __setstate__(self, own: dict[str, Any]) -> None:
        """Of a copy, with the game of its state: OpenSpiel forgets what games that are written in Python hold."""
        self.__dict__.update(own)
        self.game = self.state.get_game()

    def start(self, seed: int | None, text: Any) -> Any:
        """Begins a game, or goes on from a serialized state; returns the state."""
        if seed is not None:
            self.rng, self.game = np.random.default_rng(seed % 2**64), reseeded(self.game, seed)
        self.state = self.game.new_initial_state() if text is None else self.positions.read(self.game, text)
        self._go_on()
        self.returns: list[float] = self.state.returns()
        return self.state

    def draw_chance(self) -> None:
        """Plays the moves of chance until a player is asked or the game is over."""
        state = self.state
        while state.is_chance_node():
            outcomes, chances = zip(*state.chance_outcomes(), strict=True)
            if self.sampler is None:
                at = np.searchsorted(np.cumsum(chances), self.rng.random() * sum(chances), "right")
                state.apply_action(outcomes[min(int(at), len(outcomes) - 1)])
            else:
                outcome = self.sampler(outcomes, chances)
                if outcome not in outcomes:
                    shown = f"{list(outcomes[:20])}{' ...' if len(outcomes) > 20 else ''}"
                    raise SpecError(f"{self.who}: chance_sampler must return one of {shown}, got {outcome!r}")
                state.apply_action(int(outcome))

    def _go_on(self) -> None:
        """Draws chance, and sees who is asked for an action then, and what is legal."""
        self.draw_chance()
        state = self.state
        self.over: bool = state.is_terminal()
        self.at_once: bool = state.is_simultaneous_node()
        self.legal: dict[int, list[int]] = {}
        """The legal actions of those who are asked for one."""
        if self.at_once:
            self.legal = {i: found for i in range(self.game.num_players()) if (found := state.legal_actions(i))}
        elif not self.over:
            player = state.current_player()
            self.legal = {player: state.legal_actions(player)}

    def play(self, chosen: Mapping[int, int]) -> list[float]:
        """Plays the moves of the acting players; returns what every player won by them.

        Raises:
            IllegalAction: names the player, the action and what is legal.
        """
        state = self.state
        for player, action in chosen.items():
            legal = self.legal[player]
            if action not in legal:
                shown = f"{legal[:20]}{' ...' if len(legal) > 20 else ''}"
                raise IllegalAction(
                    f"{self.who}: action {action} of agent 'player_{player}' is illegal; legal are {shown}"
                )
        if self.at_once:
            state.apply_actions([chosen.get(i, 0) for i in range(self.game.num_players())])
        else:
            state.apply_action(*chosen.values())
        self._go_on()
        before, self.returns = self.returns, state.returns()
        return [now - then for now, then in zip(self.returns, before, strict=True)]

    def mask(self, player: int) -> Any:
        """The legal actions of a player who acts, as a mask."""
        mask = np.zeros(self.actions, dtype=np.bool_)
        mask[self.legal[player]] = True
        return mask
