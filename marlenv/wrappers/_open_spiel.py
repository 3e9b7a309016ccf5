"""OpenSpiel's games and states: which tensors a game really gives, and how its chance is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from marlenv.errors import IllegalAction, SpecError, UnknownName, Unsupported, nearest
from marlenv.optional import need

Sampler = Callable[[Sequence[int], Sequence[float]], int]
KINDS = ("observation", "information_state")
WHO = "OpenSpielEnv"


def load_game(game_string: str, parameters: Mapping[str, Any] | None) -> Any:
    """A game by its name, with parameters in the name or beside it.

    Raises:
        UnknownName: names the nearest game.
        SpecError: the game needs other parameters.
    """
    spiel, names = need("pyspiel", WHO), game_names()
    name = game_string.partition("(")[0]
    if name not in names:
        raise UnknownName(f"{WHO}: no game is called {name!r}; {nearest(name, names)}")
    try:
        return spiel.load_game(game_string, dict(parameters)) if parameters else spiel.load_game(game_string)
    except (spiel.SpielError, IndexError) as error:  # IndexError: a parameter is missing
        raise SpecError(f"{WHO}: {game_string!r} cannot be loaded: {error}") from error


def game_names() -> list[str]:
    """The names of all games, those that are written in Python too."""
    need("open_spiel.python.games", WHO)  # registers them
    return sorted(need("pyspiel", WHO).registered_names())


def refuse_mean_field(game: Any, who: str) -> None:
    """Raises for games that have no single players."""
    kind = game.get_type()
    if kind.dynamics == need("pyspiel", who).GameType.Dynamics.MEAN_FIELD:
        raise Unsupported(f"{who}: {kind.short_name!r} is a mean-field game; it has no single players to act")


class Tensors:
    """What the players of a game can see, as float32 arrays.

    Args:
        state: any state of the game that is not a chance node.
        who: the wrapper, for messages.

    Raises:
        Unsupported: the game gives neither observation nor information-state tensors.
    """

    def __init__(self, state: Any, who: str) -> None:
        spiel, game = need("pyspiel", who), state.get_game()
        self.shapes: dict[str, tuple[int, ...]] = {}
        for name in KINDS:
            if not getattr(game.get_type(), f"provides_{name}_tensor"):
                continue
            try:  # some games promise a tensor and have none
                size, shape = len(getattr(state, f"{name}_tensor")(0)), tuple(getattr(game, f"{name}_tensor_shape")())
            except (spiel.SpielError, NotImplementedError):
                continue
            if size:
                self.shapes[name] = shape if int(np.prod(shape)) == size else (size,)
        if not self.shapes:
            raise Unsupported(
                f"{who}: {game.get_type().short_name!r} gives neither observation nor information-state tensors, so there "
                f"is nothing to observe"
            )

    def of(self, state: Any, player: int) -> dict[str, Any]:
        """What a player sees."""
        seen = {}
        if "observation" in self.shapes:
            flat = np.array(state.observation_tensor(player), dtype=np.float32)
            seen["observation"] = flat.reshape(self.shapes["observation"])
        if "information_state" in self.shapes:
            flat = np.array(state.information_state_tensor(player), dtype=np.float32)
            seen["information_state"] = flat.reshape(self.shapes["information_state"])
        return seen


class Match:
    """A game being played, whose chance is drawn as soon as it comes up.

    Args:
        game: of OpenSpiel.
        sampler: picks an outcome of chance; the match's own generator when None.
        who: the wrapper, for messages.
    """

    def __init__(self, game: Any, sampler: Sampler | None, who: str) -> None:
        self.game, self.sampler, self.who = game, sampler, who
        self.rng = np.random.default_rng()
        self.start(None, None)
        legal = [a for i in range(game.num_players()) for a in self.state.legal_actions(i)]
        self.actions: int = max([game.num_distinct_actions(), *(a + 1 for a in legal)])
        """How many actions a player can choose from; some games promise too few."""
        self.tensors = Tensors(self.state, who)

    def start(self, seed: int | None, text: Any) -> Any:
        """Begins a game, or goes on from a serialized state; returns the state."""
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.state = self.game.new_initial_state() if text is None else self.game.deserialize_state(text)
        self.draw_chance()
        self.earned = np.asarray(self.state.returns(), dtype=np.float64)
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
                state.apply_action(int(self.sampler(outcomes, chances)))

    def acting(self) -> set[int]:
        """The players who are asked for an action."""
        state = self.state
        if state.is_terminal():
            return set()
        if state.is_simultaneous_node():
            return {i for i in range(self.game.num_players()) if state.legal_actions(i)}
        return {state.current_player()}

    def play(self, chosen: Mapping[int, int]) -> list[float]:
        """Plays the moves of the acting players; returns what every player won by them.

        Raises:
            IllegalAction: names the player, the action and what is legal.
        """
        state = self.state
        for player, action in chosen.items():
            legal = state.legal_actions(player)
            if action not in legal:
                shown = f"{legal[:20]}{' ...' if len(legal) > 20 else ''}"
                raise IllegalAction(
                    f"{self.who}: action {action} of agent 'player_{player}' is illegal; legal are {shown}"
                )
        if state.is_simultaneous_node():
            state.apply_actions([chosen.get(i, 0) for i in range(self.game.num_players())])
        else:
            state.apply_action(*chosen.values())
        self.draw_chance()
        before, self.earned = self.earned, np.asarray(state.returns(), dtype=np.float64)
        return (self.earned - before).tolist()

    def legal(self, player: int) -> Any:
        """The legal actions of a player as a mask; None for one who does not act."""
        state = self.state
        if state.is_terminal() or not (state.is_simultaneous_node() or state.current_player() == player):
            return None
        mask = np.zeros(self.actions, dtype=np.bool_)
        mask[state.legal_actions(player)] = True
        return mask
