"""Observations normalised with a location and a scale that are given, or measured before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Size, Tensor, nn

from marlenv.errors import NotFinite, ShapeError, SpecError, whole
from marlenv.keys import NestedKey
from marlenv.specs import Composite, Stacked
from marlenv.specs.shapes import concrete
from marlenv.transforms.base import ObservationTransform

if TYPE_CHECKING:
    from marlenv.envs import EnvBase


class ObservationNorm(ObservationTransform):
    """``obs * scale + loc``; or with ``standard_normal`` ``(obs - loc) / scale``. Actions go the other way.

    Where both are left out, :meth:`init_stats` measures them on a rollout.

    Args:
        loc: the location.
        scale: the scale.
        in_keys: observations; all floating ones when left out.
        out_keys: where the results go.
        in_keys_inv: actions or states, which the outside gives normalised.
        out_keys_inv: the same as the outside names them.
        standard_normal: take the location away and divide by the scale.
        eps: the least scale.

    >>> norm = ObservationNorm(loc=2.0, scale=2.0, in_keys=["observation"], standard_normal=True)
    >>> TransformedEnv(marlenv.testing.CountingEnv(), norm).rollout(3)["next", "observation"].squeeze(-1)
    tensor([-0.5000,  0.0000,  0.5000])
    """

    pure: ClassVar[bool] = True
    monotone: ClassVar[bool] = True
    invertible: ClassVar[bool] = True
    loc: Tensor
    scale: Tensor

    def __init__(
        self,
        loc: float | Tensor | None = None,
        scale: float | Tensor | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        standard_normal: bool = False,
        eps: float | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        if (loc is None) != (scale is None):
            raise SpecError("ObservationNorm: loc and scale go together; give both, or none and call init_stats()")
        floating = isinstance(scale, Tensor) and scale.dtype.is_floating_point
        self.eps = eps if eps is not None else torch.finfo(scale.dtype).eps if floating else 1e-6  # type: ignore[union-attr]
        self.register_buffer("standard_normal", torch.as_tensor(standard_normal))
        self.is_standard = bool(standard_normal)
        if scale is not None and not isinstance(scale, Tensor):
            scale = torch.tensor(float(scale)).clamp_min(self.eps)
        loc = torch.tensor(float(loc)) if loc is not None and not isinstance(loc, Tensor) else loc
        self.register_buffer("loc", nn.UninitializedBuffer() if loc is None else loc)
        self.register_buffer("scale", nn.UninitializedBuffer() if scale is None else scale)

    @property
    def initialized(self) -> bool:
        """Whether location and scale are known."""
        return not isinstance(self.loc, nn.UninitializedBuffer)

    def default_in_keys(self, env: EnvBase) -> list[NestedKey]:
        """The floating observations."""
        spec = env.full_observation_spec
        keys = super().default_in_keys(env)
        return [key for key in keys if spec[key].dtype is not None and spec[key].dtype.is_floating_point]

    def init_stats(
        self,
        num_iter: int,
        reduce_dim: int | Sequence[int] = 0,
        cat_dim: int | None = None,
        key: NestedKey | None = None,
        keep_dims: Sequence[int] | None = None,
    ) -> None:
        """Measures location and scale on rollouts of the env before this transform.

        Args:
            num_iter: how many steps, at least.
            reduce_dim: the dimensions that are averaged over.
            cat_dim: the dimension along which rollouts are concatenated; ``reduce_dim`` when left out.
            key: which observation, where there are several.
            keep_dims: dimensions that stay with size one.

        Raises:
            SpecError: they are known, or those of a transform before are not, or the dimensions do not fit.
        """
        whole("ObservationNorm.init_stats", "num_iter", num_iter, 1)
        dims = [reduce_dim] if isinstance(reduce_dim, int) else list(reduce_dim)
        cat_dim = dims[0] if cat_dim is None and len(dims) == 1 else cat_dim
        if cat_dim is None or cat_dim not in dims:
            raise SpecError(f"ObservationNorm.init_stats: cat_dim must be one of {dims}, got {cat_dim}")
        if self.initialized:
            raise SpecError(f"ObservationNorm.init_stats: loc and scale are known: {self.loc}, {self.scale}")
        env: Any = self.parent
        if env is None:
            raise SpecError("ObservationNorm.init_stats: belongs to no env, whose data could be measured")
        if any(isinstance(t, ObservationNorm) and not t.initialized for t in env.modules()):
            raise SpecError(
                "ObservationNorm.init_stats: a transform before this one has no statistics yet; begin with that"
            )
        if key is None and len(self.in_keys or ()) != 1:
            raise SpecError(f"ObservationNorm.init_stats: say which of {self.in_keys}, key=...")
        key = (self.in_keys or [])[0] if key is None else key
        if key not in env.full_observation_spec:
            raise self.no_entry(key, env.observation_keys, "the observations are")
        found, frames = [], 0
        while frames < num_iter:
            data = env.rollout(num_iter)
            frames += data.numel()
            found.append(data[key])
        beyond = sorted(dim for dim in (*dims, *(keep_dims or ())) if not -found[0].ndim <= dim < found[0].ndim)
        if beyond:
            raise SpecError(
                f"ObservationNorm.init_stats: a rollout of {key!r} has the dimensions {list(found[0].shape)}, of which "
                f"reduce_dim and keep_dims name some, got {beyond}"
            )
        loc, scale = self._measured(torch.cat(found, cat_dim), dims, list(keep_dims or ()))
        self._check_fit(env.full_observation_spec, key, loc.shape)
        self.loc, self.scale = loc, scale.clamp_min(self.eps)
        self._specs_follow()

    def _check_fit(self, spec: Composite, key: NestedKey, shape: Size) -> None:
        """Raises unless statistics are the same for every row and every step."""
        rows = spec.ndim
        one = Size((*[1] * rows, *spec[key].shape[rows:]))
        extra = len(one) - len(shape)
        if extra < 0 or any(a not in (1, b) for a, b in zip(shape, one[extra:], strict=True)):
            raise SpecError(
                f"ObservationNorm.init_stats: the statistics of {key!r} would differ by row or by step, "
                f"{list(shape)} for values of {list(one[rows:])}; average over both, "
                f"reduce_dim={tuple(range(rows + 1)) if rows else 0}, cat_dim={rows}"
            )

    def _measured(self, data: Tensor, dims: list[int], keep: list[int]) -> tuple[Tensor, Tensor]:
        dims = sorted(dim if dim < 0 else dim - data.ndim for dim in dims)
        keep = [dim if dim < 0 else dim - data.ndim for dim in keep]
        if not set(keep) <= set(dims):
            raise SpecError(f"ObservationNorm.init_stats: keep_dims must be among reduce_dim, got {keep} and {dims}")
        loc, scale = data.mean(dims, keepdim=True), data.std(dims, keepdim=True)
        for dim in dims:
            if dim not in keep:
                loc, scale = loc.squeeze(dim), scale.squeeze(dim)
        if not self.is_standard:
            scale = 1 / scale.clamp_min(self.eps)
            loc = -loc * scale
        for name, value in (("loc", loc), ("scale", scale)):
            if not bool(value.isfinite().all()):
                raise NotFinite(
                    f"ObservationNorm.init_stats: {name} is not finite, {value}; measure more than one step"
                )
        return loc, scale

    def _known(self) -> tuple[Tensor, Tensor]:
        if not self.initialized:
            raise SpecError("ObservationNorm: loc and scale are not known; give them, or call init_stats() first")
        return self.loc, self.scale

    def _apply_transform(self, obs: Tensor) -> Tensor:
        loc, scale = self._known()
        return (obs - loc) / scale if self.is_standard else obs * scale + loc

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        loc, scale = self._known()
        return state * scale + loc if self.is_standard else (state - loc) / scale

    def derive(self, spec: Any) -> Any:
        """The spec after the transform; as it is while the statistics are not known.

        Raises:
            ShapeError: the statistics do not fit the entry.
        """
        if not self.initialized:
            return spec
        if not isinstance(spec, Stacked):
            self._check_shapes(concrete(spec.shape))
        return super().derive(spec)

    def _check_shapes(self, shape: Size) -> None:
        """Raises unless the statistics are single numbers, or broadcast to the shape of an entry."""
        try:
            fits = torch.broadcast_shapes(shape, self.loc.shape, self.scale.shape) == shape
        except RuntimeError:
            fits = False
        if not fits:
            keys = self.in_keys or self.in_keys_inv
            raise ShapeError(
                f"ObservationNorm: loc and scale must be numbers, or fit every one of {keys}, got shapes "
                f"{list(self.loc.shape)} and {list(self.scale.shape)} for an entry {list(shape)}; entries of other "
                f"shapes want an ObservationNorm of their own"
            )

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in ("loc", "scale"):
            if prefix + name in state_dict and not self.initialized_as(name, state_dict[prefix + name]):
                setattr(self, name, state_dict[prefix + name].clone())
        super()._load_from_state_dict(state_dict, prefix, *args)

    def initialized_as(self, name: str, value: Tensor) -> bool:
        """Whether a statistic is known, in the shape of another."""
        mine = getattr(self, name)
        return not isinstance(mine, nn.UninitializedBuffer) and mine.shape == value.shape

    def __repr__(self) -> str:
        if self.initialized and self.loc.numel() == self.scale.numel() == 1:
            return f"ObservationNorm(loc={float(self.loc):.4g}, scale={float(self.scale):.4g}, in_keys={self.in_keys})"
        return super().__repr__()
