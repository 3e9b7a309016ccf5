"""OpenSpiel's games (https://github.com/google-deepmind/open_spiel, tested with 2.0.2)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from tensordict import NonTensorData, TensorDict, TensorDictBase

from marlenv.errors import SpecError, Unsupported
from marlenv.groups.maps import GroupMap, MarlGroupMapType
from marlenv.specs import Categorical, Composite, NonTensor, OneHot, Unbounded
from marlenv.wrappers._agent import AgentSpecs, AgentStep
from marlenv.wrappers._turns import Observe, Result, TurnSimEnv
from marlenv.wrappers.open_spiel.games import complaint, game_names, game_of, load_game
from marlenv.wrappers.open_spiel.match import Match, Sampler


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
    serialized position. ``reset(td)`` starts from the ``state`` in ``td``, if there is one; it is checked before
    OpenSpiel reads it. Chance is drawn inside, between the players' moves.

    Args:
        env: a ``pyspiel.State``; every episode starts from a new one of its game.
        group_map: group -> players, a :class:`~marlenv.MarlGroupMapType` or its name.
        categorical_actions: actions as numbers; else one-hot.
        return_state: emit the serialized position.
        chance_sampler: picks an outcome from outcomes and their probabilities; the env's own generator when left out.
        observe: ``"all"`` looks at every player in every step, ``"acting"`` at those about to act.
        batch_size: must be empty; vectorise with :class:`~marlenv.SerialEnv`.
        seed: seeds the env.
        **options: ``use_mask``, ``max_steps``, ``device``, ``unequal``.

    >>> env = OpenSpielEnv("kuhn_poker", categorical_actions=True)
    >>> env.set_seed(0) is not None and env.rollout(9)["next", "agents", "reward"].sum().item()
    0.0
    """

    libname: ClassVar[str] = "open_spiel"
    looks_are_own = True
    module: ClassVar[str] = "pyspiel"
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
        batch_size: Sequence[int] | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        if batch_size:
            raise SpecError(f"{type(self).__name__}: batch_size must be empty, got {list(batch_size)}; use SerialEnv")
        self.categorical_actions, self.return_state = categorical_actions, return_state
        self.chance_sampler = chance_sampler
        group_map = group_map or MarlGroupMapType.ONE_GROUP_PER_AGENT
        super().__init__(env=env, group_map=group_map, observe=observe, **options)
        if seed is not None:
            self.set_seed(seed)

    @classmethod
    def _task_names(cls) -> list[str]:
        return game_names()

    def _build_env(self, env: Any = None) -> Any:
        who = type(self).__name__
        game = game_of(who, env)
        about = game.get_type()
        self.parallel = about.dynamics == self.lib.GameType.Dynamics.SIMULTANEOUS
        self.has_observation = about.provides_observation_tensor
        self.has_information_state = about.provides_information_state_tensor
        self._match = Match(game, self.chance_sampler, who)
        return self._match.state

    def __getstate__(self) -> dict[str, Any]:
        try:
            copy.deepcopy(self._env)
        except self.lib.SpielError as error:
            raise Unsupported(
                f"{type(self).__name__}: {str(self.game)!r} can be neither copied nor pickled, as OpenSpiel does not "
                f"make it again from what it writes of it ({complaint(error)}); make another env instead"
            ) from error
        return super().__getstate__()

    @property
    def game(self) -> Any:
        """OpenSpiel's game."""
        return self._match.game

    def agent_specs(self) -> dict[str, AgentSpecs]:
        n, shapes = self._match.actions, self._match.tensors.shapes
        observed = Composite({name: Unbounded(shape, dtype=torch.float32) for name, shape in shapes.items()})
        action = Categorical(n) if self.categorical_actions else OneHot(n, dtype=torch.int64)
        self._seats = {f"player_{i}": i for i in range(self.game.num_players())}
        return {name: AgentSpecs(observed, action, n) for name in self._seats}

    def root_specs(self) -> Composite:
        out = Composite(current_player=Unbounded((), dtype=torch.int32))
        return out.update(Composite(state=NonTensor((), example_data=""))) if self.return_state else out

    def root_data(self) -> Mapping[str, Any]:
        data: dict[str, Any] = {"current_player": self._env.current_player()}
        return {**data, "state": self._match.positions.write(self._env)} if self.return_state else data

    # --- a game ----------------------------------------------------------------------------------

    def current_player(self) -> int:
        """The seat to move, or one of OpenSpiel's negative numbers: -2 for all at once, -4 at the end."""
        return int(self._env.current_player())

    def reset_options(self, tensordict: TensorDictBase | None) -> dict[str, Any]:
        found = None if tensordict is None else tensordict.get("state", None)
        given = getattr(found, "data", found)
        ours = given is not None and (self.return_state or isinstance(given, str))
        return {"given": given} if ours else {}

    def sim_reset(self, seed: int | None, given: str | None = None) -> None:
        self._env = self._match.start(seed, given)

    def sim_acting(self) -> set[str]:
        return {self.agent_names[i] for i in self._match.legal}

    def sim_play(self, actions: dict[str, Any]) -> Mapping[str, Result]:
        gained = self._match.play({self._seats[name]: int(action) for name, action in actions.items()})
        over = self._match.over
        return {name: (gain, over, False) for name, gain in zip(self._seats, gained, strict=True)}

    def sim_look(self, agent: str) -> AgentStep:
        seat, match = self._seats[agent], self._match
        mask = match.mask(seat) if seat in match.legal else None
        return AgentStep(match.tensors.of(match.state, seat), 0.0, False, False, mask)

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        self._check_began("get_state")
        drawn = self._match.rng.bit_generator.state
        entries = {"state": self._match.positions.write(self._env), "rng": drawn, "steps": self._flags.steps}
        return TensorDict({name: NonTensorData(value) for name, value in entries.items()})

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        text, drawn, steps = (getattr(x, "data", x) for x in (state.get(name) for name in ("state", "rng", "steps")))
        self.sim_reset(None, text)
        self._began, self._sim_seed = True, None  # a seed that is not used yet would deal the next game
        self._match.rng.bit_generator.state = drawn
        return self._opened(int(steps))


class OpenSpielEnv(OpenSpielWrapper):
    """A game of OpenSpiel by its name.

    Args:
        game_string: ``"leduc_poker"``, or with parameters ``"goofspiel(num_cards=4)"``.
        parameters: of the game.
        **options: those of :class:`OpenSpielWrapper`.
    """

    def __init__(self, game_string: str, parameters: Mapping[str, Any] | None = None, **options: Any) -> None:
        self.game_string = game_string
        super().__init__(load_game(game_string, parameters).new_initial_state(), **options)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        super()._check_kwargs(kwargs)
        for name in kwargs["env"].get_game().get_type().parameter_specification:
            if name in kwargs:
                raise TypeError(
                    f"{type(self).__name__} has no option {name!r}, which is a parameter of the game; "
                    f"pass parameters={ {name: kwargs[name]} }"
                )
