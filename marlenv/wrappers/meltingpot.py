"""Melting Pot's substrates (https://github.com/google-deepmind/meltingpot, tested with dm-meltingpot 2.4.1, dmlab2d
1.0.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import MissingExtra, SpecError, UnknownName, Unsupported, nearest, whole
from marlenv.groups.maps import GroupMap, MarlGroupMapType
from marlenv.optional import need
from marlenv.specs import Categorical, Composite, OneHot, Unbounded
from marlenv.wrappers._agent import AgentSpecs, AgentStep
from marlenv.wrappers._parallel import ParallelSimEnv
from marlenv.wrappers._spaces import spec_of_array, torch_dtype

WORLD = "WORLD."
LIMIT, FRAMES = "maxEpisodeLengthFrames", 3600
"""The setting that says how many frames an episode has at most, and what the engine takes where it is missing."""


class MeltingpotWrapper(ParallelSimEnv):
    """A substrate of Melting Pot.

    Per group of ``A`` players, one group ``"agents"`` of ``"player_0"``, ... unless ``group_map`` says otherwise:

    | key | shape | meaning |
    |---|---|---|
    | `observation` | nested | what it sees: `RGB` `[A, H, W, 3]` uint8, numbers `[A, 1]`, inventories `[A, n]` |
    | `action` | `[A]` or `[A, n]` | the substrate's discrete actions |
    | `reward` | `[A, 1]` | float64 |
    | `alive`, `mask`, `done`, `terminated`, `truncated` | `[A]`, `[A, 1]` | alike for all players |

    At the root `RGB`, the picture of the whole world, and flags. Episodes end when the substrate says so. It
    does not tell why: an end in the last frame that its settings allow truncates, every other one terminates.

    No run can be repeated: Melting Pot draws from generators that it does not let anybody seed (two builds with one
    ``env_seed`` differ). So :meth:`set_seed` raises :class:`~marlenv.errors.Unsupported`.

    Args:
        env: a substrate.
        categorical_actions: actions as numbers; else one-hot.
        group_map: group -> players, a :class:`~marlenv.MarlGroupMapType` or its name.
        max_steps: truncate after so many steps.
        max_frames: the substrate's own time limit, ``maxEpisodeLengthFrames`` of its settings; none when left out.
        **options: ``use_mask=False``; ``unequal``; ``device``.
    """

    libname: ClassVar[str] = "meltingpot"
    git_url: ClassVar[str] = "https://github.com/google-deepmind/meltingpot"
    default_groups = MarlGroupMapType.ALL_IN_ONE_GROUP
    can_be_seeded = False

    def __init__(
        self,
        env: Any = None,
        categorical_actions: bool = True,
        group_map: GroupMap | MarlGroupMapType | str | None = None,
        max_steps: int | None = None,
        *,
        max_frames: int | None = None,
        **options: Any,
    ) -> None:
        if max_frames is not None:
            whole(type(self).__name__, "max_frames", max_frames, 1)
        self.categorical_actions, self.max_frames = categorical_actions, max_frames
        super().__init__(env=env, group_map=group_map, max_steps=max_steps, **options)

    @classmethod
    def _task_names(cls) -> list[str]:
        return sorted(_library().SUBSTRATES)

    def _build_env(self, env: Any = None) -> Any:
        if not all(hasattr(env, name) for name in ("observation_spec", "action_spec", "reward_spec", "reset")):
            raise SpecError(f"{type(self).__name__}: expected a substrate of Melting Pot, got {type(env).__name__}")
        return env

    def agent_specs(self) -> dict[str, AgentSpecs]:
        sim, found = self._env, {}
        specs = zip(sim.observation_spec(), sim.action_spec(), sim.reward_spec(), strict=True)
        for i, (observed, acted, paid) in enumerate(specs):
            own = Composite({name: spec_of_array(one) for name, one in observed.items() if not name.startswith(WORLD)})
            n = int(acted.num_values)
            action = Categorical(n) if self.categorical_actions else OneHot(n)
            reward = Unbounded((1,), dtype=torch_dtype(paid.dtype))
            found[f"player_{i}"] = AgentSpecs(Composite(observation=own), action, reward=reward)
        return found

    def root_specs(self) -> Composite:
        observed = self._env.observation_spec()[0]
        return Composite(
            {name[len(WORLD) :]: spec_of_array(x) for name, x in observed.items() if name.startswith(WORLD)}
        )

    def root_data(self) -> Mapping[str, Any]:
        return {name[len(WORLD) :]: value for name, value in self._last[0].items() if name.startswith(WORLD)}

    def sim_reset(self, seed: int | None) -> Mapping[str, AgentStep]:
        self._frames = 0
        return self._read(self._env.reset(), ended=False)

    def sim_step(self, actions: dict[str, Any]) -> Mapping[str, AgentStep]:
        self._frames += 1
        moment = self._env.step([int(actions.get(name, 0)) for name in self.agent_names])
        return self._read(moment, ended=moment.last())

    def _read(self, moment: Any, ended: bool) -> dict[str, AgentStep]:
        self._last: Sequence[Mapping[str, Any]] = moment.observation
        rewards = moment.reward or [0.0] * len(self.agent_names)
        ends = (False, True) if ended and self._frames == self.max_frames else (ended, False)
        return {
            name: AgentStep({"observation": observation}, reward, *ends)
            for name, observation, reward in zip(self.agent_names, moment.observation, rewards, strict=True)
        }

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            raise Unsupported(
                f"{type(self).__name__}.set_seed: Melting Pot cannot be seeded; two runs with the same seed differ, so "
                f"no "
                f"seed is taken"
            )

    @property
    def num_cycles(self) -> int:
        """How many steps the episode has had."""
        return self._flags.steps

    def get_rgb_image(self) -> Tensor:
        """The picture of the whole world now; uint8 ``[H, W, 3]``."""
        self._check_began("get_rgb_image")
        return torch.from_numpy(np.array(self._last[0][f"{WORLD}RGB"]))


class MeltingpotEnv(MeltingpotWrapper):
    """A substrate of Melting Pot by its name.

    Args:
        substrate: ``"commons_harvest__open"``, or a config of ``meltingpot.substrate.get_config``.
        roles: one role per player, such as ``["predator", "prey"]``; the substrate's default players when left out.
        **options: those of :class:`MeltingpotWrapper`.
    """

    def __init__(self, substrate: Any, *, roles: Sequence[str] | None = None, **options: Any) -> None:
        library, known = _library(), self.available_envs
        if isinstance(substrate, str) and substrate not in known:
            raise UnknownName(f"MeltingpotEnv: no substrate is called {substrate!r}; {nearest(substrate, known)}")
        config = library.get_config(substrate) if isinstance(substrate, str) else substrate
        self.roles = list(config.default_player_roles if roles is None else roles)
        if not self.roles or (unknown := sorted(set(self.roles) - set(config.valid_roles))):
            odd = unknown if self.roles else self.roles
            raise SpecError(
                f"MeltingpotEnv: roles {odd} make no sense; this substrate has {sorted(config.valid_roles)}"
            )
        heard = _Settings(config)
        sim = library.build_from_config(heard, roles=self.roles)
        super().__init__(sim, **{"max_frames": heard.frames, **options})


class _Settings:
    """A substrate's config that notes down the time limit when the engine's settings are made of it."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.frames: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.config, name)

    def lab2d_settings_builder(self, roles: Sequence[str], config: Any) -> Any:
        settings = self.config.lab2d_settings_builder(roles=roles, config=self.config)
        self.frames = int(settings.get(LIMIT, FRAMES))
        return settings


def _library() -> Any:
    try:
        return need("meltingpot.substrate", "MeltingpotEnv")
    except ModuleNotFoundError as error:
        if isinstance(error, MissingExtra) or error.name != "tensorflow":
            raise
        raise MissingExtra(
            "MeltingpotEnv: 'import meltingpot' needs 'tensorflow', which is not installed; pip install tensorflow-cpu"
        ) from error
