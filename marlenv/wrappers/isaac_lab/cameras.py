"""Isaac Lab's tiled cameras: a picture of every row, drawn at once without a window.

Written for ``TiledCamera`` and ``TiledCameraCfg`` of 2.3.2, and the renderers of 3.0; not run against the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from marlenv.errors import DtypeError, KeyCollision, SpecError, SpecTypeError, UnknownName, nearest
from marlenv.keys import NestedKey
from marlenv.optional import need
from marlenv.specs import Bounded, Composite, TensorSpec, Unbounded

RENDERERS = {
    "isaac_rtx": None,
    "newton_warp": ("isaaclab_newton.renderers", "NewtonWarpRendererCfg"),
    "ovrtx": ("isaaclab_ov.renderers", "OVRTXRendererCfg"),
}
"""A renderer's name -> the module and the class of its settings; None for what Isaac Lab takes by itself."""


@dataclass
class Pictures:
    """What is read of a camera.

    Args:
        key: the entry of the data.
        camera: its name among ``env.scene.sensors``.
        data_type: what the camera draws, such as ``"rgb"`` or ``"depth"``.
        dtype: of the pictures, as the camera's when None; numbers from 0 to 1 become 0 to 255 where it is uint8.
        channels: how many are kept, all when None.
    """

    key: NestedKey = "pixels"
    camera: str = "tiled_camera"
    data_type: str = "rgb"
    dtype: torch.dtype | None = torch.uint8
    channels: int | None = 3

    def check(self, who: str, env: Any) -> None:
        """Raises where an env has no such camera, or the camera does not draw that."""
        if self.dtype is not None and not isinstance(self.dtype, torch.dtype):
            raise DtypeError(f"{who}: pixels_dtype must be a dtype of torch or None, got {self.dtype!r}")
        sensors = dict(getattr(getattr(env, "scene", None), "sensors", None) or {})
        if self.camera not in sensors:
            raise UnknownName(
                f"{who}: the env has no sensor {self.camera!r}; {nearest(self.camera, list(sensors))}; "
                f"{who}.add_tiled_camera_config(cfg) puts a camera into the settings that gymnasium.make is given"
            )
        drawn = dict(sensors[self.camera].data.output)
        if self.data_type not in drawn:
            raise UnknownName(
                f"{who}: the camera {self.camera!r} does not draw {self.data_type!r}; "
                f"{nearest(self.data_type, list(drawn))}"
            )
        there = int(_tensor(drawn[self.data_type]).shape[-1])
        if self.channels is not None and not 1 <= self.channels <= there:
            raise SpecError(
                f"{who}: pixels_channels must be from 1 to {there}, which is what {self.data_type!r} has, or None, got "
                f"{self.channels!r}"
            )

    def added(self, who: str, env: Any, spec: Composite) -> Composite:
        """The specs of what is observed, with that of the pictures."""
        self.check(who, env)
        if self.key in spec.keys(True):
            raise KeyCollision(f"{who}: the env observes a {self.key!r} already; pass another pixels_key")
        out = spec.clone()
        out[self.key] = self.spec(env).to(spec.device)
        return out

    def spec(self, env: Any) -> TensorSpec:
        """The spec of the pictures of all rows."""
        picture = self.read(env)
        if picture.dtype == torch.uint8:
            return Bounded(0, 255, picture.shape, dtype=torch.uint8)
        return Unbounded(picture.shape, dtype=picture.dtype)

    def read(self, env: Any) -> Tensor:
        """The pictures that were drawn last, ``[B, H, W, C]``, in memory of their own."""
        picture = _tensor(env.scene.sensors[self.camera].data.output[self.data_type])[..., : self.channels]
        if self.dtype == torch.uint8 and picture.is_floating_point():
            picture = picture.mul(255).clamp(0, 255)
        return picture.to(picture.dtype if self.dtype is None else self.dtype, copy=True)


def _tensor(array: Any) -> Tensor:
    """An array of Isaac Lab's as a tensor; those of 3.0 have one."""
    return array if isinstance(array, Tensor) else array.torch


def add_tiled_camera_config(
    env_cfg: Any,
    *,
    sensor_name: str = "tiled_camera",
    data_type: str = "rgb",
    renderer_backend: Literal["isaac_rtx", "newton_warp", "ovrtx"] | None = None,
    renderer_cfg: object | None = None,
    width: int = 320,
    height: int = 240,
    pos: tuple[float, float, float] = (-7.0, 0.0, 3.0),
    rot: tuple[float, float, float, float] = (0.9945, 0.0, 0.1045, 0.0),
    convention: Literal["opengl", "ros", "world"] = "world",
    focal_length: float = 24.0,
    focus_distance: float = 400.0,
    horizontal_aperture: float = 20.955,
    clipping_range: tuple[float, float] = (0.1, 100.0),
    render_interval: int | None = None,
) -> Any:
    """Puts a tiled camera into the settings of an env of Isaac Lab, which is made of them afterwards.

    Args:
        env_cfg: the settings; they are changed.
        sensor_name: the camera's name among ``env.scene.sensors``.
        data_type: what it draws.
        renderer_backend: ``"isaac_rtx"``, ``"newton_warp"`` or ``"ovrtx"``; Isaac Lab's own choice when None.
        renderer_cfg: settings of a renderer instead.
        width: pixels.
        height: pixels.
        pos: where it stands, from the origin of its row, metres.
        rot: how it is turned, a quaternion ``(w, x, y, z)``.
        convention: which axes of the camera look forward and up.
        focal_length: centimetres.
        focus_distance: metres.
        horizontal_aperture: centimetres.
        clipping_range: the nearest and the farthest that is drawn, metres.
        render_interval: physics steps per picture; as the settings have it when None.

    Returns:
        ``env_cfg``.

    Raises:
        SpecTypeError: there are both a ``renderer_backend`` and a ``renderer_cfg``.
        UnknownName: there is no such renderer.
        MissingExtra: Isaac Lab, or the part of it that has the renderer, is not installed.
    """
    who = "IsaacLabWrapper.add_tiled_camera_config"
    if renderer_backend is not None and renderer_cfg is not None:
        raise SpecTypeError(f"{who}: renderer_backend and renderer_cfg say the same thing twice; give one of them")
    if renderer_backend is not None:
        if renderer_backend not in RENDERERS:
            raise UnknownName(
                f"{who}: there is no renderer {renderer_backend!r}; {nearest(renderer_backend, list(RENDERERS))}"
            )
        if (place := RENDERERS[renderer_backend]) is not None:
            renderer_cfg = getattr(need(place[0], who), place[1])()
    sim, sensors = need("isaaclab.sim", who), need("isaaclab.sensors", who)
    camera = sensors.TiledCameraCfg
    lens = sim.PinholeCameraCfg(
        focal_length=focal_length,
        focus_distance=focus_distance,
        horizontal_aperture=horizontal_aperture,
        clipping_range=clipping_range,
    )
    made = camera(
        prim_path="{ENV_REGEX_NS}/Camera",
        offset=camera.OffsetCfg(pos=pos, rot=rot, convention=convention),
        data_types=[data_type],
        spawn=lens,
        width=width,
        height=height,
        **({} if renderer_cfg is None else {"renderer_cfg": renderer_cfg}),
    )
    setattr(env_cfg.scene, sensor_name, made)
    if render_interval is not None:
        env_cfg.sim.render_interval = render_interval
    return env_cfg
