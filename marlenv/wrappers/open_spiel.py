"""OpenSpiel's games (https://github.com/google-deepmind/open_spiel, tested with 2.0.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from tensordict import NonTensorData, TensorDict, TensorDictBase

from marlenv.errors import SpecError, UnknownName, Unsupported, nearest
from marlenv.groups.maps import GroupMap, MarlGroupMapType
from marlenv.optional import need
from marlenv.specs import Categorical, Composite, NonTensor, OneHot, Unbounded
from marlenv.wrappers._agents import AgentSpecs
from marlenv.wrappers._turns import Look, Observe, Result, TurnSimEnv

Sampler = Callable[[Sequence[int], Sequence[float]], int]


class OpenSpielWrapper(TurnSimEnv):
    """A game of OpenSpiel: turn-based or simultaneous, with or without chance and hidden information.

    Per group of ``A`` players, one group ``"agents"`` unless ``group_map`` says otherwise (None: a group per player):

    | key | shape | meaning |
    |---|---|---|
    | `observation`, `information_state` | `[A, *]` | the tensors that the game has, from each player's seat |
    | `action` | `[A]` or `[A, n]` | read where `mask` is True |
    | `action_mask` | `[A, n]` | legal actions; all True for those who do not act |
    | `alive`, `mask` | `[A]` | the game goes on; it is this player's turn |
    | `reward` | `[A, 1]` | what this step brought; the sum over a game equals the game's `returns()` |

    At the root `current_player` int32 `[]` (-4 when the game is over), flags, and `state` with ``return_state``: the
    serialized position, which ``reset(td)`` starts from. Chance is drawn inside, between the players' moves.

    Args:
        env: a ``pyspiel.State``; every episode starts from a new one of its game.
        group_map: group -> players, a :class:`~marlenv.MarlGroupMapType` or its name.
        categorical_actions: actions as numbers; else one-hot.
        return_state: emit the serialized position.
        chance_sampler: picks an outcome from outcomes and their probabilities; the env's own generator when left out.
        observe: ``"all"`` looks at every player in every step, ``"acting"`` at those about to act.
        batch_size: must be empty; vectorise with :class:`~marlenv.SerialEnv`.
        **options: ``use_mask``, ``max_steps``, ``device``, ``unequal``.

    >>> env = OpenSpielEnv("kuhn_poker", categorical_actions=True)
    >>> env.set_seed(0) is not None and env.rollout(9)["next", "agents", "reward"].sum().item()
    0.0
    """

    libname: ClassVar[str] = "open_spiel"
    git_url: ClassVar[str] = "https://github.com/google-deepmind/open_spiel"

    def __init__(
        self,
        env: Any = None,
        *,
        group_map: GroupMap | MarlGroupMapType | str | None = MarlGroupMapType.ALL_IN_ONE_GROUP,
        categorical_actions: bool = False,
        return_state: bool = False,
        chance_sampler: Sampler | None = None,
        observe: Observe = "all",
        batch_size: Sequence[int] = (),
        **options: Any,
    ) -> None:
        if tuple(batch_size):
            raise SpecError(f"{type(self).__name__}: batch_size must be empty, got {list(batch_size)}; use SerialEnv")
        self.categorical_actions, self.return_state = categorical_actions, return_state
        self.chance_sampler = chance_sampler
        self._rng = np.random.default_rng()
        super().__init__(
            env=env, group_map=group_map or MarlGroupMapType.ONE_GROUP_PER_AGENT, observe=observe, **options
        )

    def _build_env(self, env: Any = None) -> Any:
        spiel = need("pyspiel", type(self).__name__)
        if not isinstance(env, spiel.State):
            raise SpecError(f"{type(self).__name__}: expected a pyspiel.State, got {type(env).__name__}")
        self.game = env.get_game()
        kind = self.game.get_type()
        if kind.dynamics == spiel.GameType.Dynamics.MEAN_FIELD:
            raise Unsupported(
                f"{type(self).__name__}: {kind.short_name!r} is a mean-field game; it has no single players to act"
            )
        self._env = self.game.new_initial_state()
        self._draw_chance()
        self._tensors = tensors_of(self._env)
        if not self._tensors:
            raise Unsupported(
                f"{type(self).__name__}: {kind.short_name!r} gives neither observation nor information-state tensors, "
                f"so there is nothing to observe"
            )
        legal = [a for i in range(self.game.num_players()) for a in self._env.legal_actions(i)]
        self._n = max([self.game.num_distinct_actions(), *(a + 1 for a in legal)])  # some games promise too few
        return self._env

    def agent_specs(self) -> dict[str, AgentSpecs]:
        n = self._n
        seen = Composite({name: Unbounded(tuple(shape), dtype=torch.float32) for name, shape in self._tensors})
        action = Categorical(n) if self.categorical_actions else OneHot(n, dtype=torch.int64)
        return {f"player_{i}": AgentSpecs(seen, action, n) for i in range(self.game.num_players())}

    def root_specs(self) -> Composite:
        out = Composite(current_player=Unbounded((), dtype=torch.int32))
        if self.return_state:
            out["state"] = NonTensor((), example_data="")
        return out

    def root_data(self) -> Mapping[str, Any]:
        data: dict[str, Any] = {"current_player": self._env.current_player()}
        if self.return_state:
            data["state"] = self._env.serialize()
        return data

    # --- a game ----------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        given = None if tensordict is None or not self.return_state else tensordict.get("state", None)
        return super()._reset(tensordict, given=given)

    def sim_reset(self, seed: int | None, given: Any = None) -> None:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        text = given.data if isinstance(given, NonTensorData) else given
        self._env = self.game.new_initial_state() if text is None else self.game.deserialize_state(text)
        self._draw_chance()
        self._earned = np.asarray(self._env.returns(), dtype=np.float64)

    def _draw_chance(self) -> None:
        state = self._env
        while state.is_chance_node():
            outcomes, chances = zip(*state.chance_outcomes(), strict=True)
            if self.chance_sampler is not None:
                state.apply_action(int(self.chance_sampler(outcomes, chances)))
            else:
                state.apply_action(
                    outcomes[int(np.searchsorted(np.cumsum(chances), self._rng.random() * sum(chances), "right"))]
                )

    def sim_acting(self) -> set[str]:
        state = self._env
        if state.is_terminal():
            return set()
        if state.is_simultaneous_node():
            return {name for i, name in enumerate(self.agents_names) if state.legal_actions(i)}
        return {self.agents_names[state.current_player()]}

    def sim_play(self, actions: dict[str, Any]) -> Mapping[str, Result]:
        state = self._env
        if state.is_simultaneous_node():
            state.apply_actions([int(actions.get(name, 0)) for name in self.agents_names])
        else:
            (action,) = actions.values()
            state.apply_action(int(action))
        self._draw_chance()
        earned = np.asarray(state.returns(), dtype=np.float64)
        gained, self._earned = earned - self._earned, earned
        over = state.is_terminal()
        return {name: Result(gain, over) for name, gain in zip(self.agents_names, gained, strict=True)}

    def sim_look(self, agent: str) -> Look:
        state, i = self._env, self.agents_names.index(agent)
        seen = {
            name: np.asarray(getattr(state, f"{name}_tensor")(i), dtype=np.float32).reshape(shape)
            for name, shape in self._tensors
        }
        return Look(seen, self._legal(state, i))

    def _legal(self, state: Any, i: int) -> Any:
        if state.is_terminal() or not (state.is_simultaneous_node() or state.current_player() == i):
            return None
        mask = np.zeros(self._n, dtype=bool)
        mask[state.legal_actions(i)] = True
        return mask

    # --- state -----------------------------------------------------------------------------------

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        text, drawn = self._env.serialize(), self._rng.bit_generator.state
        return TensorDict({"state": NonTensorData(text), "rng": NonTensorData(drawn)})

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        self._begin()
        self.sim_reset(None, state.get("state"))
        drawn = state.get("rng")
        self._rng.bit_generator.state = drawn.data if isinstance(drawn, NonTensorData) else drawn
        return self._opened()


def tensors_of(state: Any) -> list[tuple[str, tuple[int, ...]]]:
    """The tensors that a game really gives, with their shapes; some games promise one and have none."""
    spiel, game = need("pyspiel", "OpenSpielWrapper"), state.get_game()
    found = []
    for name in ("observation", "information_state"):
        if not getattr(game.get_type(), f"provides_{name}_tensor"):
            continue
        try:
            size, shape = len(getattr(state, f"{name}_tensor")(0)), tuple(getattr(game, f"{name}_tensor_shape")())
        except (spiel.SpielError, NotImplementedError):
            continue
        if size:
            found.append((name, shape if int(np.prod(shape)) == size else (size,)))
    return found


class OpenSpielEnv(OpenSpielWrapper):
    """A game of OpenSpiel by its name.

    Args:
        game_string: ``"leduc_poker"``, or with parameters ``"goofspiel(num_cards=4)"``.
        parameters: of the game.
        **options: those of :class:`OpenSpielWrapper`.
    """

    def __init__(self, game_string: str, parameters: Mapping[str, Any] | None = None, **options: Any) -> None:
        spiel = need("pyspiel", "OpenSpielEnv")
        need("open_spiel.python.games", "OpenSpielEnv")  # registers the games written in Python
        name = game_string.partition("(")[0]
        if name not in spiel.registered_names():
            raise UnknownName(f"OpenSpielEnv: no game is called {name!r}; {nearest(name, spiel.registered_names())}")
        try:
            game = spiel.load_game(game_string, dict(parameters)) if parameters else spiel.load_game(game_string)
        except (spiel.SpielError, IndexError) as error:  # IndexError: a parameter is missing
            raise SpecError(f"OpenSpielEnv: {game_string!r} cannot be loaded: {error}") from error
        self.game_string = game_string
        super().__init__(game.new_initial_state(), **options)

    @classmethod
    def available_envs(cls) -> list[str]:
        """The names of all games."""
        need("open_spiel.python.games", "OpenSpielEnv")
        return sorted(need("pyspiel", "OpenSpielEnv").registered_names())
