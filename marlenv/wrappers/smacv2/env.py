"""SMACv2 (https://github.com/oxwhirl/smacv2, arXiv:2212.07489), which needs StarCraft II.

Tested against a class with smacv2's public surface (``tests/wrappers/stand_in_smacv2.py``): smacv2 is on no package
registry and the game's binary could not be had.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
import torch

from marlenv.errors import SpecError
from marlenv.groups.maps import MarlGroupMapType
from marlenv.specs import Binary, Bounded, Categorical, Composite, OneHot, Unbounded
from marlenv.tensordicts import nest
from marlenv.wrappers._agent import AgentSpecs, AgentStep
from marlenv.wrappers._base import own_options
from marlenv.wrappers._parallel import ParallelSimEnv
from marlenv.wrappers.smacv2.battle import battle, begin, check_legal, kind_of
from marlenv.wrappers.smacv2.maps import check_map, default_capabilities, library, map_names, seed_distributions

SEEDS = 1 << 31  # StarCraft takes smaller ones


class SMACv2Wrapper(ParallelSimEnv):
    """A battle of SMACv2: units of one team against the game's own player.

    Per group of ``A`` units, one group ``"agents"`` of ``"0"``, ``"1"``, ... unless ``group_map`` says otherwise:

    | key | shape | meaning |
    |---|---|---|
    | `observation` | `[A, obs]` | what the unit sees; zeros when it is dead |
    | `action` | `[A]` or `[A, n]` | nothing, stop, move, attack or heal |
    | `action_mask` | `[A, n]` | legal actions; all True for the dead |
    | `alive`, `mask` | `[A]` | the unit lives |
    | `done`, `terminated`, `truncated` | `[A, 1]` | a dead unit has terminated |

    At the root `reward` `[1]` of the team, `state`, flags, and `info`: `battle_won`, `episode_limit` bool,
    `dead_allies`, `dead_enemies` int64. A time limit, and a crash of the game, truncate.

    Args:
        env: a ``StarCraft2Env`` or a ``StarCraftCapabilityEnvWrapper``.
        categorical_actions: actions as numbers; else one-hot.
        **options: ``group_map``; ``max_steps`` truncates; ``use_mask=False``; ``unequal``; ``device``.
    """

    libname: ClassVar[str] = "smacv2"
    git_url: ClassVar[str] = "https://github.com/oxwhirl/smacv2"
    default_groups = MarlGroupMapType.ALL_IN_ONE_GROUP
    default_rule = False
    team_reward = True

    def __init__(self, env: Any = None, categorical_actions: bool = True, **options: Any) -> None:
        self.categorical_actions = categorical_actions
        super().__init__(env=env, **options)

    @classmethod
    def _task_names(cls) -> list[str]:
        return map_names()

    def _build_env(self, env: Any = None) -> Any:
        if not all(hasattr(env, name) for name in ("get_env_info", "get_avail_actions", "get_obs", "step")):
            raise SpecError(f"{type(self).__name__}: expected a StarCraft2Env of smacv2, got {type(env).__name__}")
        self._about = env.get_env_info()
        self._start_again = False
        return env

    def agent_specs(self) -> dict[str, AgentSpecs]:
        n, about = int(self._about["n_actions"]), self._about
        observed = Composite(observation=Unbounded((int(np.prod(about["obs_shape"])),), dtype=torch.float32))
        action = Categorical(n) if self.categorical_actions else OneHot(n, dtype=torch.int64)
        return {str(i): AgentSpecs(observed, action, n) for i in range(int(about["n_agents"]))}

    def root_specs(self) -> Composite:
        bit, many = Binary(shape=(), dtype=torch.bool), Bounded(0, 1 << 30, (), dtype=torch.int64)
        info = Composite(battle_won=bit, episode_limit=bit, dead_allies=many, dead_enemies=many)
        return Composite(state=Unbounded((int(np.prod(self._about["state_shape"])),), dtype=torch.float32), info=info)

    def root_data(self) -> Mapping[str, Any]:
        info = nest({name: torch.tensor(value) for name, value in self._info.items()}, torch.Size())
        return {"state": self._state, "info": info}

    def sim_reset(self, seed: int | None) -> Mapping[str, AgentStep]:
        if self._start_again:
            self._env.full_restart()
            self._start_again = False
        begin(self._env, type(self).__name__)
        self._frames = 0
        self._info = battle({}, False, len(self.agent_names))
        return self._observe(0.0, over=False)

    def sim_step(self, actions: dict[str, Any]) -> Mapping[str, AgentStep]:
        names = self.agent_names
        chosen = [int(actions.get(name, 0)) for name in names]
        check_legal(type(self).__name__, names, actions, chosen, self._legal_now)
        reward, over, info = self._env.step(chosen)
        self._frames += 1
        late = bool(over) and self._frames >= int(self._about["episode_limit"])
        self._info = battle(info, late, len(names))
        if over and not info:  # the game has crashed and was started again: there is nothing to look at
            last = self._last.items()
            return {name: step._replace(reward=reward, truncated=True) for name, step in last if name in actions}
        return self._observe(reward, bool(over))

    def _observe(self, reward: float, over: bool) -> dict[str, AgentStep]:
        sim, cut = self._env, self._info["episode_limit"]
        self._state = np.array(sim.get_state(), dtype=np.float32).reshape(-1)
        self._legal_now = np.asarray(sim.get_avail_actions(), dtype=np.bool_)
        steps = {}
        for name, observation, legal in zip(self.agent_names, sim.get_obs(), self._legal_now, strict=True):
            dead = bool(legal[0])  # doing nothing is for the dead
            ends = dead or (over and not cut), over and cut and not dead
            steps[name] = AgentStep({"observation": np.asarray(observation).reshape(-1)}, reward, *ends, legal)
        self._last = steps
        return steps

    def _set_seed(self, seed: int | None) -> None:
        """Seeds the game, which is started with it at the next reset, and what draws teams and positions."""
        if seed is None:
            return
        game = getattr(self._env, "env", self._env)
        game._seed = seed % SEEDS
        seed_distributions(self._env, seed)
        self._start_again = self._began

    def get_agent_type(self, agent_index: int) -> str:
        """The kind of unit that an agent commands, such as ``"marine"``."""
        return kind_of(self._env, agent_index)

    def render(self, mode: str = "human") -> Any:
        """The battle as the game draws it."""
        return self._env.render(mode)


class SMACv2Env(SMACv2Wrapper):
    """A map of SMACv2 by its name.

    Args:
        map_name: such as ``"10gen_terran"``, or a map of SMAC such as ``"3s5z"``.
        capability_config: what is drawn anew in every episode (numbers and kinds of units, where they start); for the
            10gen maps that of smacv2's examples when left out, five units on either side.
        seed: of the game, of teams and of positions.
        categorical_actions: actions as numbers; else one-hot.
        **options: those of :class:`SMACv2Wrapper`, and those of ``StarCraft2Env``.

    Raises:
        UnknownName: no map has that name; names the nearest.
    """

    def __init__(
        self,
        map_name: str,
        capability_config: Mapping[str, Any] | None = None,
        seed: int | None = None,
        categorical_actions: bool = True,
        **options: Any,
    ) -> None:
        ours, envs = own_options(type(self), options), library("smacv2.env")
        check_map(map_name)
        self.map_name = map_name
        drawn = default_capabilities(map_name) if capability_config is None else deepcopy(dict(capability_config))
        game_seed = None if seed is None else seed % SEEDS
        if drawn is None:
            sim = envs.StarCraft2Env(map_name=map_name, seed=game_seed, **options)
        else:  # smacv2 writes into the config
            sim = envs.StarCraftCapabilityEnvWrapper(
                capability_config=drawn, map_name=map_name, seed=game_seed, **options
            )
            seed_distributions(sim, seed)
        super().__init__(sim, categorical_actions, **ours)
