"""RoboHive's tasks of robots, which are envs of gym (https://github.com/vikashplus/robohive).

Not run against the simulator, whose robots and rooms are on no package registry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import SpecError, Unsupported, whole
from marlenv.optional import need
from marlenv.specs import Bounded, Composite, TensorSpec, Unbounded
from marlenv.wrappers._attributes import ClassValue
from marlenv.wrappers._backend import set_gym_backend
from marlenv.wrappers._spaces import torch_dtype
from marlenv.wrappers.gym.env import GymEnv


class RoboHiveEnv(GymEnv):
    """A task of RoboHive by its name.

    | key | shape | meaning |
    |---|---|---|
    | as the task's ``obs_keys`` call them | | numbers have one dimension |
    | `pixels` | uint8 `[cameras, H, W, 3]` | with `from_pixels` |
    | `depths` | float `[cameras, ...]` | with `from_depths` |
    | `action`, `reward`, `done`, `terminated`, `truncated` | | as those of :class:`GymEnv` |

    Not run against the real simulator: the tests play envs with the public methods of RoboHive's. Its infos are read on
    request: ``env.set_info_dict_reader(default_info_dict_reader(["solved"]))``.

    Args:
        env_name: such as ``"FrankaReachRandom-v0"``.
        from_pixels: draw what the cameras see after every step.
        pixels_only: leave out what is observed besides pictures.
        from_depths: how far away what they see is, too.
        cameras: which ones; all of the task when left out.
        picture_size: height and width of pictures, pixels.
        **options: those of :class:`GymEnv`; all others go to the task.

    Raises:
        SpecError: cameras or depths without ``from_pixels``, or no cameras with it.
        Unsupported: ``num_envs``; RoboHive has no vectors.

    >>> RoboHiveEnv.libname  # RoboHiveEnv("FrankaReachRandom-v0")
    'robohive'

    Source: robohive 0.7.0; torchrl 0.14.1 ``RoboHiveEnv``.
    """

    libname: ClassVar[str] = "robohive"
    git_url: ClassVar[str] = "https://github.com/vikashplus/robohive"

    @ClassValue
    def lib(cls) -> Any:  # noqa: N805
        """The library that RoboHive has registered its tasks in."""
        need("robohive", cls.__name__)
        return need("robohive.utils", cls.__name__).gym

    def __init__(
        self,
        env_name: str,
        *,
        from_pixels: bool = False,
        pixels_only: bool = True,
        from_depths: bool = False,
        cameras: Sequence[str] | None = None,
        picture_size: tuple[int, int] = (224, 224),
        **options: Any,
    ) -> None:
        if (from_depths or cameras) and not from_pixels:
            what = f"cameras={list(cameras)}" if cameras else "from_depths=True"
            raise SpecError(f"{type(self).__name__}: {what} needs from_pixels=True")
        if not isinstance(picture_size, Sequence) or len(picture_size) != 2:
            raise SpecError(f"{type(self).__name__}: picture_size must be height and width, got {picture_size!r}")
        for name, pixels in zip(("height of pictures", "width of pictures"), picture_size, strict=True):
            whole(type(self).__name__, name, pixels, 1)
        self.from_depths, self.cameras, self.picture_size = from_depths, cameras, picture_size
        with set_gym_backend(lambda: type(self).lib):
            super().__init__(env_name, from_pixels=from_pixels, pixels_only=pixels_only, **options)

    @classmethod
    def _task_names(cls) -> list[str]:
        return sorted(need("robohive", cls.__name__).robohive_env_suite)

    @classmethod
    def get_available_cams(cls, env_name: str) -> list[str]:
        """The names of a task's cameras."""
        env = cls.lib.make(env_name)
        model = env.unwrapped.sim.model
        names = [model.id2name(i, 7) for i in range(model.ncam)]  # 7: a camera, in MuJoCo's numbering of objects
        env.close()
        return names

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        super()._check_kwargs(kwargs)
        if self._count is not None:
            raise Unsupported(
                f"{type(self).__name__}: RoboHive has no vectors, got num_envs={self._count}; SerialEnv and "
                f"ParallelEnv play several, as marlenv.make('robohive/{self.env_name}', num_envs={self._count}) does"
            )

    def _build_env(self, **task: Any) -> Any:  # type: ignore[override]
        if self.from_pixels:
            if self.cameras is None:
                self.cameras = self.get_available_cams(self.env_name)
            if isinstance(self.cameras, str) or not self.cameras:
                raise SpecError(
                    f"{type(self).__name__}: from_pixels=True needs a list of cameras, got {self.cameras!r}; "
                    f"get_available_cams({self.env_name!r}) says which there are"
                )
            high, wide = self.picture_size
            kinds = ["rgb", "d"] if self.from_depths else ["rgb"]
            task["visual_keys"] = [f"{kind}:{cam}:{high}x{wide}:2d" for kind in kinds for cam in self.cameras]
        return self.lib.make(self.env_name, **task)

    def _make_specs(self, env: Any) -> None:
        super()._make_specs(env)
        env.reset()
        data, specs = self.read_obs(None), {}
        for name, value in data.items():
            pixels: TensorSpec = Bounded(0, 255, value.shape, dtype=torch.uint8)
            specs[name] = pixels if name == "pixels" else Unbounded(value.shape, dtype=value.dtype)
        self.observation_spec = Composite(specs)

    def read_obs(self, observations: Any) -> dict[str, Any]:
        """What is observed by its names, and pictures where asked for, as a dict of tensors."""
        sim, data = self._env.unwrapped, {}
        if not self.pixels_only:
            data = {name: _tensor(np.atleast_1d(sim.obs_dict[name])) for name in sim.obs_keys}
        if self.from_pixels:
            pictures = sim.get_exteroception()
            data["pixels"] = self._stacked(pictures, "rgb:")
            if self.from_depths:
                data["depths"] = self._stacked(pictures, "d:")
        return data

    def _pixels(self) -> Tensor:
        return self._stacked(self._env.unwrapped.get_exteroception(), "rgb:")

    def _stacked(self, pictures: dict[str, Any], kind: str) -> Tensor:
        found = [np.asarray(pictures[name]) for name in self._env.unwrapped.visual_keys if name.startswith(kind)]
        return _tensor(np.stack(found))

    def _set_seed(self, seed: int | None) -> None:
        super()._set_seed(seed)
        if seed is not None:  # its reset does not seed what tasks draw from
            self._env.unwrapped.seed(seed % 2**31)


def _tensor(array: Any) -> Tensor:
    return torch.from_numpy(np.array(array)).to(torch_dtype(array.dtype))
