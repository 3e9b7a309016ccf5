"""OpenSpiel's games, for ``OpenSpielEnv``: by their names, with other seeds, and which tensors they really give."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from marlenv.errors import DtypeError, SpecError, UnknownName, Unsupported, nearest
from marlenv.optional import need

KINDS = ("observation", "information_state")
WHO = "OpenSpielEnv"
WHY = {IndexError: "a parameter is missing", TypeError: "a parameter is no number, text, truth value or game"}


def load_game(game_string: str, parameters: Mapping[str, Any] | None) -> Any:
    """A game by its name, with parameters in the name or beside it.

    Raises:
        DtypeError: the name is no text.
        UnknownName: names the nearest game.
        SpecError: the game needs other parameters, or they are no mapping, or stand in both places.
    """
    spiel, names = need("pyspiel", WHO), game_names()
    if not isinstance(game_string, str):
        raise DtypeError(
            f"{WHO}: expected the name of a game, got {type(game_string).__name__}; of a game that is loaded already "
            "make OpenSpielWrapper(game.new_initial_state())"
        )
    name = game_string.partition("(")[0]
    if name not in names:
        raise UnknownName(f"{WHO}: no game is called {name!r}; {nearest(name, names)}")
    if not isinstance(parameters, Mapping | None) or any(not isinstance(one, str) for one in parameters or ()):
        raise SpecError(f"{WHO}: parameters must map their names to values, got {parameters!r}")
    if parameters and "(" in game_string:
        raise SpecError(
            f"{WHO}: parameters stand in the name or beside it, not in both; got {game_string!r} and {dict(parameters)}"
        )
    try:
        return spiel.load_game(game_string, dict(parameters)) if parameters else spiel.load_game(game_string)
    except (spiel.SpielError, IndexError, TypeError) as error:
        why = WHY.get(type(error)) or complaint(error)
        raise SpecError(f"{WHO}: {game_string!r} cannot be loaded: {why}; {_parameters(name)}") from error


def complaint(error: Exception) -> str:
    """What OpenSpiel complains about, without the list of all its games."""
    return str(error).partition(" Available games")[0].strip()


def _parameters(name: str) -> str:
    """What parameters a game has, for messages."""
    kinds = {kind.short_name: kind for kind in need("pyspiel", WHO).registered_games()}
    names = sorted(kinds[name].parameter_specification) if name in kinds else []
    return f"its parameters: {', '.join(names) or 'none'}"


def game_names() -> list[str]:
    """The names of all games, those that are written in Python too."""
    spiel = need("pyspiel", WHO)
    need("open_spiel.python.games", WHO)  # registers them
    return sorted(spiel.registered_names())


def reseeded(game: Any, seed: int) -> Any:
    """The game with another seed, where it draws chance that it does not show; else the game itself."""
    kind = game.get_type()
    if "rng_seed" not in kind.parameter_specification:
        return game
    given = {**game.get_parameters(), "rng_seed": seed % (1 << 31)}
    return need("pyspiel", WHO).load_game(kind.short_name, given)


def game_of(who: str, state: Any) -> Any:
    """The game of a position.

    Raises:
        SpecError: it is none of OpenSpiel's.
        Unsupported: the game has no single players.
    """
    spiel = need("pyspiel", who)
    if not isinstance(state, spiel.State):
        hint = "; pass game.new_initial_state()" if hasattr(state, "new_initial_state") else ""
        raise SpecError(f"{who}: expected a pyspiel.State, got {type(state).__name__}{hint}")
    game = state.get_game()
    kind = game.get_type()
    if kind.dynamics == spiel.GameType.Dynamics.MEAN_FIELD:
        raise Unsupported(
            f"{who}: {kind.short_name!r} is a mean-field game; it has no single players to act; "
            "choose a sequential or a simultaneous game"
        )
    return game


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
                f"{who}: {game.get_type().short_name!r} gives neither observation nor information-state tensors, so "
                f"there "
                f"is nothing to observe"
            )

        self._reads = [(name, f"{name}_tensor", shape) for name, shape in self.shapes.items()]

    def of(self, state: Any, player: int) -> dict[str, Any]:
        """What a player sees."""
        tensors = {}
        for name, method, shape in self._reads:
            numbers = array("f", getattr(state, method)(player))  # numpy takes longer over a list
            flat = np.frombuffer(numbers, np.float32)
            tensors[name] = flat if len(shape) == 1 else flat.reshape(shape)
        return tensors
