"""Envs of Isaac Lab. Not run against the real simulator: tested on a stand-in with its interface.

https://github.com/isaac-sim/IsaacLab, written for 2.3.2, of which both kinds of env were read.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase

from marlenv.errors import Unsupported
from marlenv.keys import NestedKey
from marlenv.specs import Binary, Composite, Unbounded
from marlenv.tensordicts import rows
from marlenv.wrappers._base import EnvWrapper
from marlenv.wrappers._choices import check_choices
from marlenv.wrappers._spaces import spec_of
from marlenv.wrappers.isaac_lab.cameras import Pictures, add_tiled_camera_config
from marlenv.wrappers.isaac_lab.scene import check_asked, scene_of
from marlenv.wrappers.isaac_lab.simulation import Simulation, check


class IsaacLabWrapper(EnvWrapper):
    """An env of Isaac Lab's, ``ManagerBasedRLEnv`` or ``DirectRLEnv``, all of whose rows step at once on the GPU.

    | key | shape | meaning |
    |---|---|---|
    | `policy` and others | `[B, ...]` | as the env calls its groups of observations |
    | `pixels` | uint8 `[B, H, W, 3]` | what a tiled camera draws, with ``from_tiled_camera`` |
    | `action` | `[B, n]` | one-hot where it is a choice, unless ``categorical_action_encoding`` |
    | `reward` | float32 `[B, 1]` | |
    | `done`, `terminated`, `truncated` | bool `[B, 1]` | as Isaac Lab says |

    Not run against the real simulator: the tests play stand-ins with the interface of its envs.

    Isaac Lab starts a row anew inside of its last step, and returns the first observation of the new episode. That one
    comes with the reset here. The last observation is computed just before Isaac Lab starts the row, as its own
    recorder does. Where rows end, this costs a second computation of what is observed; terms with a history lack the
    newest entry in it, and noise models of ``DirectRLEnv`` are left out. Its seeds move torch's global generator.

    Isaac Lab observes all rows when some are reset. Histories and modifiers of the rows that go on are put back.

    A camera shows what was drawn last: the picture at the start of an episode is of the new episode only if the
    settings say ``num_rerenders_on_reset`` (1 or more), else it is the last one of the episode before.

    Args:
        env: what ``gymnasium.make`` made of a task of Isaac Lab, whose app runs.
        categorical_action_encoding: choices as numbers; else one-hot.
        from_tiled_camera: read the pictures of a camera, which :meth:`add_tiled_camera_config` puts into the settings.
        tiled_camera_name: its name among ``env.scene.sensors``.
        tiled_camera_data_type: what it draws, such as ``"rgb"`` or ``"depth"``.
        pixels_key: where pictures stand in the data.
        pixels_dtype: of pictures, the camera's own when None; numbers from 0 to 1 become 0 to 255 where it is uint8.
        pixels_channels: how many channels are kept, all when None.
        **options: ``device`` (the env's when left out), ``allow_done_after_reset``, ``run_type_checks``.

    Raises:
        SpecTypeError: ``env`` lacks something of Isaac Lab's envs, or has several agents (``DirectMARLEnv``).
        UnknownName: there is no such camera, or it does not draw that.

    >>> IsaacLabWrapper.libname
    'isaaclab'

    Source: Isaac Lab 2.3, https://arxiv.org/abs/2301.04195.
    """

    libname: ClassVar[str] = "isaaclab"
    git_url: ClassVar[str] = "https://github.com/isaac-sim/IsaacLab"
    skips_frames = False
    add_tiled_camera_config = staticmethod(add_tiled_camera_config)

    def __init__(
        self,
        env: Any = None,
        *,
        categorical_action_encoding: bool = False,
        from_tiled_camera: bool = False,
        tiled_camera_name: str = "tiled_camera",
        tiled_camera_data_type: str = "rgb",
        pixels_key: NestedKey = "pixels",
        pixels_dtype: torch.dtype | None = torch.uint8,
        pixels_channels: int | None = 3,
        device: torch.device | str | int | None = None,
        **options: Any,
    ) -> None:
        self.categorical_action_encoding = categorical_action_encoding
        asked = Pictures(pixels_key, tiled_camera_name, tiled_camera_data_type, pixels_dtype, pixels_channels)
        self._pictures = asked if from_tiled_camera else None
        self._seed_now: int | None = None
        device = getattr(getattr(env, "unwrapped", env), "device", None) if device is None else device
        super().__init__(device=device, **options, **({} if env is None else {"env": env}))

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        check(type(self).__name__, kwargs.get("env"))

    def _build_env(self, env: Any = None) -> Any:
        return env

    def _make_specs(self, env: Any) -> None:
        inner = env.unwrapped
        self.batch_size = batch = (int(inner.num_envs),)
        seen, categorical = spec_of(inner.single_observation_space), self.categorical_action_encoding
        action = spec_of(inner.single_action_space, categorical=categorical)
        self._one_hot = hasattr(action, "to_categorical") and not categorical
        self._observed = seen = seen if isinstance(seen, Composite) else Composite(observation=seen)
        flag = Binary(shape=(1,), dtype=torch.bool)
        for family, spec in (
            ("observation", seen.clone()),
            ("action", Composite(action=action)),
            ("reward", Composite(reward=Unbounded((1,)))),
            ("done", Composite(done=flag, terminated=flag.clone(), truncated=flag.clone())),
        ):
            setattr(self, f"full_{family}_spec", spec.expand(*batch).to(self.device))
        if self._pictures is not None:
            self.full_observation_spec = self._pictures.added(type(self).__name__, inner, self.full_observation_spec)
        self._simulation = Simulation(env, self._data, draws=self._pictures is not None)
        self.supports_set_state = hasattr(inner, "reset_to")

    # --- an episode ------------------------------------------------------------------------------

    def _reset(
        self,
        tensordict: TensorDictBase | None = None,
        *,
        set_state: bool = False,
        scene_state: Any = None,
        is_relative: bool = False,
        seed: int | None = None,
    ) -> TensorDict:
        mask = None if tensordict is None or not self._began else tensordict.get("_reset", None)
        where = torch.ones(self.batch_size, dtype=torch.bool) if mask is None else rows(mask, 1).cpu()
        check_asked(type(self).__name__, set_state, scene_state)
        if set_state:
            who = f"{type(self).__name__}.reset_to_state"
            self._simulation.start_in(who, scene_state, where, is_relative=is_relative, seed=seed)
        elif mask is None:
            seed, self._seed_now = self._seed_now if seed is None else seed, None
            self._simulation.reset(seed)
        else:
            self._simulation.reset_rows(where)
        self._began = True
        return self._data(self._simulation.seen)

    def reset_to_state(
        self,
        state: Any,
        tensordict: TensorDictBase | None = None,
        *,
        is_relative: bool = False,
        seed: int | None = None,
    ) -> TensorDictBase:
        """Starts episodes in a scene; the same as ``reset(tensordict, set_state=True, scene_state=state)``.

        Commands, histories and the count of steps are those of a new episode. What Isaac Lab draws at a reset it draws
        here too, so that the stream of random numbers moves.

        Args:
            state: as :meth:`get_state` gives it, or Isaac Lab's ``scene.get_state()``.
            tensordict: may hold a ``"_reset"`` mask: only the rows that it marks start.
            is_relative: positions in ``state`` count from the origin of each row.
            seed: of Isaac Lab's random numbers.

        Raises:
            Unsupported: ``DirectRLEnv`` cannot start in a scene.
            KeyMissing, ShapeError: the scene is of another task, or of another number of rows.
        """
        if not self.supports_set_state:
            raise Unsupported(
                f"{type(self).__name__}.reset_to_state: {type(self._env.unwrapped).__name__} has no reset_to; only "
                f"manager-based envs of Isaac Lab start in a given scene"
            )
        return self.reset(tensordict, set_state=True, scene_state=state, is_relative=is_relative, seed=seed)

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        return scene_of(f"{type(self).__name__}.get_state", self._env.unwrapped)

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        raise Unsupported(
            f"{type(self).__name__}.set_state: a scene of Isaac Lab is less than a whole state, and an episode starts "
            f"in it: reset_to_state(state)"
        )

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        self._check_began("step")
        action = tensordict.get("action")
        check_choices(type(self).__name__, self.full_action_spec["action"], action)
        action = self.full_action_spec["action"].to_categorical(action) if self._one_hot else action
        last, reward, terminated, truncated = self._simulation.step(action)
        over, out = terminated | truncated, self._data(self._simulation.seen)
        if last is not None:
            mask = over.to(out.device)
            out = out.apply(lambda new, old: torch.where(mask.reshape(-1, *[1] * (new.ndim - 1)), old, new), last)
        flags = {"terminated": terminated, "truncated": truncated & ~terminated, "done": over}
        columns = {"reward": reward.float(), **flags}
        return out.update({name: value.clone().unsqueeze(-1).to(self.device) for name, value in columns.items()})

    def _data(self, seen: Any) -> TensorDict:
        """Copies of what is observed, because Isaac Lab writes into the same memory again."""
        seen = seen if hasattr(seen, "items") else {"observation": seen}
        only = {"policy": "observation"} if "observation" in self._observed.keys() else {}
        named = {only.get(name, name): value for name, value in seen.items()}
        out = TensorDict(named, self.batch_size).select(*self._observed.keys()).clone()
        if self._pictures is not None:
            out.set(self._pictures.key, self._pictures.read(self._env.unwrapped))
        return out.to(self.device)

    def _set_seed(self, seed: int | None) -> None:
        self._seed_now = seed
