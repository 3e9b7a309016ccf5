"""Transforms that record what goes by, and write it out with ``dump``: data, and films."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase
from torch import Tensor

from marlenv.errors import DtypeError, ShapeError, SpecError, whole
from marlenv.files import save, whole_file
from marlenv.keys import NestedKey, last
from marlenv.record.loggers import Logger
from marlenv.record.video import grid
from marlenv.specs import Composite, NonTensor, TensorSpec, Unbounded
from marlenv.tensordicts import fetch, shallow, unite
from marlenv.transforms import CenterCrop, ObservationTransform, Transform
from marlenv.transforms.base import Kind

if TYPE_CHECKING:
    from marlenv.envs import EnvBase


class TensorDictRecorder(Transform):
    """Keeps the data of steps, and writes them into a file.

    Args:
        out_file_base: what the names of files begin with; ``_tensordict.t`` follows.
        skip_reset: leave the data of resets out; else their rewards are zeros.
        skip: keep every so many steps.
        in_keys: which entries; all when left out.
    """

    def __init__(
        self, out_file_base: str, skip_reset: bool = True, skip: int = 4, in_keys: Sequence[NestedKey] | None = None
    ) -> None:
        super().__init__(in_keys or ())
        self.out_file_base, self.skip_reset = out_file_base, skip_reset
        self.skip = whole("TensorDictRecorder", "skip", skip, 1)
        self.kept: list[TensorDictBase] = []
        self.count = 0

    def _keep(self, td: TensorDictBase) -> None:
        self.count += 1
        if self.count % self.skip == 0:
            self.kept.append((td.select(*self.in_keys) if self.in_keys else td).clone())

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        self._keep(next_tensordict)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return tensordict_reset

    def _on_reset(self, tensordict: TensorDictBase) -> None:
        if not self.skip_reset:
            spec = self.container.full_reward_spec
            self._keep(unite(spec.zero(tensordict.batch_size[: tensordict.ndim - spec.ndim]), shallow(tensordict)))

    def dump(self, suffix: str | None = None, **_: Any) -> Path | None:
        """Writes what was kept, stacked, and forgets it; returns the file, or None where nothing was kept.

        Raises:
            OSError: the file cannot be written; an older one is as it was, and nothing is forgotten.
        """
        if not self.kept:
            return None
        path = Path("_".join([self.out_file_base, *([suffix] if suffix else []), "tensordict.t"]))
        steps = TensorDict.lazy_stack(self.kept, 0).contiguous()
        with whole_file("TensorDictRecorder.dump", path, "an older file and the data are kept; dump again") as draft:
            save(steps, draft)
        self.kept, self.count = [], 0
        return path


class VideoRecorder(ObservationTransform):
    """Films images that go by: ``[*B, C, H, W]`` or ``[*B, H, W, C]``, of 1 or 3 colours.

    The film grows until :meth:`dump` is called, which hands it to a logger.

    Args:
        logger: where films go.
        tag: their name.
        in_keys: images; ``"pixels"`` when left out.
        skip: film every so many steps; when left out 2 in an env without batch dimensions, else 1.
        center_crop: film the middle only, of that size.
        make_grid: put the rows of a batch side by side; True in an env when left out. Else they follow one another.
        out_keys: TorchRL's argument; images stay as they are.
        fps: frames per second; the logger's when left out.
        max_frames: the longest film.
        dump_on_done: dump whenever all rows are done.
        **kwargs: handed to the logger's ``log_video``.
    """

    def __init__(
        self,
        logger: Logger | None,
        tag: str,
        in_keys: Sequence[NestedKey] | None = None,
        skip: int | None = None,
        center_crop: int | None = None,
        make_grid: bool | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        fps: float | None = None,
        max_frames: int | None = None,
        dump_on_done: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(["pixels"] if in_keys is None else in_keys, out_keys)
        if max_frames is not None:
            whole("VideoRecorder", "max_frames", max_frames, 1)
        if skip is not None:
            whole("VideoRecorder", "skip", skip, 1)
        if logger is not None and not callable(getattr(logger, "log_video", None)):
            raise SpecError(f"VideoRecorder: logger must be a logger with log_video(), or None, got {logger!r}")
        self.logger, self.tag, self.skip, self.make_grid = logger, tag, skip, make_grid
        self.cropped = None if center_crop is None else CenterCrop(center_crop)
        self.max_frames, self.dump_on_done = max_frames, dump_on_done
        self.options = {**kwargs, **({} if fps is None else {"fps": fps})}
        self.frames: list[Tensor] = []
        self.count = self.films = 0

    def join(self, env: EnvBase) -> None:
        """Finds out whether the env has batch dimensions, and whether it has the images."""
        super().join(env)
        for key in self.in_keys or ():
            if key not in env.full_observation_spec:
                raise self.no_entry(key, env.observation_keys, "the env observes")
        self.skip = self.skip or (1 if env.batch_size else 2)
        self.make_grid = True if self.make_grid is None else self.make_grid

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """As it is."""
        return spec.clone()

    def overwrites(self, key: NestedKey) -> bool:
        """Nothing that it films."""
        return super().overwrites(key) and key not in (self.in_keys or ())

    def _apply_transform(self, obs: Any, key: NestedKey | None = None) -> Any:
        self.count += 1
        room = None if self.max_frames is None else self.max_frames - len(self.frames)
        if self.count % (self.skip or 1) == 0 and room != 0:
            image = self._image(
                torch.as_tensor(obs.data) if hasattr(obs, "tolist") and not isinstance(obs, Tensor) else obs
            )
            if image.ndim > 3:
                flat = image.flatten(0, -4)
                frames = [grid(flat)] if self.make_grid else list(flat[:room])
            else:
                frames = [image]
            self._check_size(frames, key)
            self.frames += frames
        return obs

    def _check_size(self, frames: list[Tensor], key: NestedKey | None) -> None:
        """Raises where images have another size than those before."""
        old, new = (list(f[0].shape[-2:]) if f else [] for f in (self.frames, frames))
        if old and new and old != new:
            raise ShapeError(
                f"VideoRecorder: expected images of one size, {old} as the first of the film, got {new}"
                f"{'' if key is None else f' of {key!r}'}; give each size a VideoRecorder of its own"
            )

    def _image(self, obs: Tensor) -> Tensor:
        """The image as bytes of three colours, ``[*B, 3, H, W]``."""
        image = obs.unsqueeze(-1) if obs.ndim == 2 else obs
        if image.ndim < 3 or not {image.shape[-1], image.shape[-3]} & {1, 3}:
            raise ShapeError(f"VideoRecorder: expected images [..., C, H, W] or [..., H, W, C], got {list(obs.shape)}")
        first = image.shape[-3] in (1, 3) and image.shape[-1] not in (1, 3)
        image = image if first else image.movedim(-1, -3)
        image = image.expand(*image.shape[:-3], 3, *image.shape[-2:])
        if image.is_floating_point():
            image = (image * 255).round().clamp(0, 255)
        elif image.dtype == torch.bool:
            image = image.to(torch.uint8) * 255
        elif image.dtype != torch.uint8 and (image.is_complex() or ((image < 0) | (image > 255)).any()):
            raise DtypeError(
                f"VideoRecorder: expected images of uint8, floats 0 to 1, bools, or integers 0 to 255, got others of "
                f"{image.dtype}; scale them before"
            )
        image = image if self.cropped is None else self.cropped._apply_transform(image)
        return image.detach().to("cpu", torch.uint8, copy=True)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.in_keys or ():
            value = fetch(next_tensordict, key)
            if value is not None:
                self._apply_transform(value, key)
        return next_tensordict

    forward = _call

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return tensordict_reset

    def _on_reset(self, tensordict: TensorDictBase) -> None:
        self._call(tensordict)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        self._call(next_tensordict)
        if self.dump_on_done:
            flags = [fetch(next_tensordict, key) for key in self.container.done_keys if last(key) == "done"]
            if all(bool(flag.all()) for flag in flags if flag is not None):
                self.dump()
        return next_tensordict

    def dump(self, suffix: str | None = None, step: int | None = None, **_: Any) -> None:
        """Hands the film to the logger, ``[1, T, 3, H, W]`` of bytes, and begins another."""
        if self.frames and self.logger is not None:
            name = self.tag if suffix is None else f"{self.tag}_{suffix}"
            film = torch.stack(self.frames).unsqueeze(0)
            self.logger.log_video(name, film, step=self.films if step is None else step, **self.options)
        self.frames, self.count = [], 0
        self.films += 1

    def __repr__(self) -> str:
        return f"VideoRecorder({self.tag!r}, in_keys={self.in_keys})"


class PixelRenderTransform(Transform):
    """Writes what the env's ``render`` draws into the data, ``pixels``.

    What is drawn is found out by a reset of a copy of the env. An env that cannot be copied, such as a pool of
    processes, is reset itself, and its first episode is used up: seed it afterwards.

    Args:
        out_keys: one key.
        preproc: of what is drawn.
        as_non_tensor: write it as it is, of a pool one image for every row; found out when left out: an image of one
            row in an env of several.
        render_method: the name of the env's method.
        pass_tensordict: hand the data to the method.
        **kwargs: handed to the method.

    >>> env = marlenv.make("simple_spread", num_envs=1, seed=0)
    >>> env = env.append_transform(PixelRenderTransform(preproc=lambda image: image[None]))
    >>> env.reset()["pixels"].dtype
    torch.uint8
    """

    def __init__(
        self,
        out_keys: Sequence[NestedKey] | NestedKey | None = None,
        preproc: Callable[[Any], Any] | None = None,
        as_non_tensor: bool | None = None,
        render_method: str = "render",
        pass_tensordict: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__((), ["pixels"] if out_keys is None else out_keys)
        if len(self.out_keys or ()) != 1:
            raise SpecError(f"PixelRenderTransform: out_keys must be one, got {self.out_keys}")
        self.preproc, self.as_non_tensor, self.render_method = preproc, as_non_tensor, render_method
        self.pass_tensordict, self.options, self.enabled = pass_tensordict, kwargs, True

    def join(self, env: EnvBase) -> None:
        """Finds the method.

        Raises:
            SpecError: there is none.
        """
        super().join(env)
        if not callable(getattr(env, self.render_method, None)):
            raise SpecError(
                f"PixelRenderTransform: {type(self.container.base_env).__name__} has no {self.render_method}()"
            )

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the images; their shape is that of one after a reset."""
        value = self._first_drawn(self.container.base_env)
        spec, key = specs["observation"], (self.out_keys or [])[0]
        if isinstance(value, Tensor):
            spec[key] = Unbounded(value.shape, device=value.device, dtype=value.dtype)
        else:
            each = isinstance(value, NonTensorStack)
            spec[key] = NonTensor(spec.shape, example_data=_first(value), batched=each)

    def _first_drawn(self, env: Any) -> Any:
        """What is drawn after a reset: of a copy, which is left to be collected, as it may share what closing ends."""
        try:
            twin = deepcopy(env)
            return self._drawn(twin, twin.reset())
        except Exception:  # of what cannot be copied, or not without what it draws with
            pass
        try:
            state = env.get_state()
        except (NotImplementedError, RuntimeError):
            state = None
        value = self._drawn(env, env.reset())
        if state is not None:
            env.set_state(state)
        return value

    def _drawn(self, env: Any, td: TensorDictBase) -> Any:
        """A tensor; or what is not to be one: an image of the whole batch, or one for every row of a pool."""
        method = getattr(env, self.render_method)
        image = method(td, **self.options) if self.pass_tensordict else method(**self.options)
        if image is None or (isinstance(image, (list, tuple)) and any(one is None for one in image)):
            raise SpecError(
                f"PixelRenderTransform: {type(env).__name__}.{self.render_method}() returned None where an image is "
                f'expected; make the env so that it draws (one of Gymnasium with render_mode="rgb_array")'
            )
        image = image if self.preproc is None else self.preproc(image)
        each, rows = isinstance(image, (list, tuple)), td.batch_size
        if self.as_non_tensor is None:
            shape = (len(image), *image[0].shape) if each else image.shape
            self.as_non_tensor = bool(rows) and tuple(shape[: td.ndim]) != tuple(rows)
        if self.as_non_tensor and each and rows and len(image) == rows[0]:
            return NonTensorStack(*(NonTensor(rows[1:], example_data=one, batched=True).zero() for one in image))
        if self.as_non_tensor:
            return NonTensorData(image, batch_size=rows, device=td.device)
        if each:
            return torch.stack([torch.as_tensor(one) for one in image])
        return torch.as_tensor(image.copy() if hasattr(image, "copy") else image)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self.enabled:
            next_tensordict.set((self.out_keys or [])[0], self._drawn(self.container.base_env, next_tensordict))
        return next_tensordict

    def switch(self, mode: str | bool | None = None) -> None:
        """Turns drawing on or off (``"on"``, ``"off"`` or a bool), or the other way round."""
        if mode not in (None, True, False, "on", "off"):
            raise SpecError(f"PixelRenderTransform.switch: mode must be 'on', 'off' or a bool, got {mode!r}")
        self.enabled = not self.enabled if mode is None else mode in (True, "on")

    def __repr__(self) -> str:
        return f"PixelRenderTransform({(self.out_keys or [''])[0]!r})"


def _first(value: Any) -> Any:
    """The first image of a stack."""
    return _first(value[0]) if isinstance(value, NonTensorStack) else value.data
