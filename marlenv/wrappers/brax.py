"""Brax's robots, simulated in JAX.

https://github.com/google/brax, tested with 0.14.2, JAX 0.10.2 and mujoco-mjx 3.17.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

import torch

from marlenv.errors import SpecTypeError, UnknownName, Unsupported, nearest, whole
from marlenv.optional import need
from marlenv.options import naming_options
from marlenv.specs import Bounded, Unbounded
from marlenv.wrappers._base import option_names, own_options
from marlenv.wrappers._jax_arrays import spec_of_tree
from marlenv.wrappers._jax_state import JaxStateEnv, Row
from marlenv.wrappers._used_options import check_used

LIMIT = "truncation"  # where Brax's EpisodeWrapper says in the infos that it cut an episode off


class BraxWrapper(JaxStateEnv):
    """An env of Brax's, with one robot in each row.

    | key | shape | meaning |
    |---|---|---|
    | `observation` | float32 `[*B, n]` | nested where the env observes a dict: `("observation", "state")`, ... |
    | `action` | float32 `[*B, n]` | from -1 to 1 |
    | `reward` | float32 `[*B, 1]` | |
    | `done`, `terminated`, `truncated` | bool `[*B, 1]` | truncated where Brax's ``EpisodeWrapper`` cut it off |
    | `state` | nested | Brax's own state, from which the next step starts |

    Args:
        env: the env, as ``brax.envs.get_environment`` or ``brax.envs.create(..., auto_reset=False)`` makes it.
        batch_size: how many rows, such as ``[128]``.
        categorical_action_encoding: taken for TorchRL's sake; Brax has no choices.
        cache_clear_frequency: taken for TorchRL's sake; without gradients there is nothing to clear.
        requires_grad: refused if True: steps have no gradient here.
        from_pixels: refused if True.
        **options: ``jit``, ``device``, ``frame_skip``, ``allow_done_after_reset``, ``run_type_checks``.

    Raises:
        SpecTypeError: ``env`` is none of Brax's.
        Unsupported: it resets itself, so that its last observations would be lost, or is a batch already; gradients.

    >>> BraxWrapper.libname
    'brax'

    Source: Brax 0.14.2, https://arxiv.org/abs/2106.13281.
    """

    libname: ClassVar[str] = "brax"
    module: ClassVar[str] = "brax.envs"
    git_url: ClassVar[str] = "https://github.com/google/brax"

    def __init__(
        self,
        env: Any = None,
        categorical_action_encoding: bool = False,
        cache_clear_frequency: int | None = None,
        *,
        requires_grad: bool = False,
        from_pixels: bool = False,
        **options: Any,
    ) -> None:
        if from_pixels:
            raise Unsupported(
                f"{type(self).__name__}: there are no pixels in the data; brax.io.image.render draws trajectories"
            )
        if requires_grad:
            raise Unsupported(f"{type(self).__name__}: steps have no gradient, got requires_grad=True; leave it out")
        super().__init__(env, **options)

    @classmethod
    def _task_names(cls) -> list[str]:
        return list(need("brax.envs", cls.__name__)._envs)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        envs, who, env = need("brax.envs", type(self).__name__), type(self).__name__, kwargs.get("env")
        if not isinstance(env, envs.Env):
            raise SpecTypeError(f"{who}: env must be an env of Brax's, got {type(env).__name__}; BraxEnv takes names")
        training = need("brax.envs.wrappers.training", who)
        for layer in _layers(env):
            if isinstance(layer, (training.AutoResetWrapper, training.VmapWrapper)):
                raise Unsupported(
                    f"{who}: env has a {type(layer).__name__} around it, got {type(env).__name__}; rows and resets are "
                    f"this wrapper's: brax.envs.create(name, auto_reset=False) without batch_size leaves them out"
                )

    def _build_env(self, env: Any = None) -> Any:
        return env

    def _make_specs(self, env: Any) -> None:
        state, seen = self._shapes()
        self._limited = LIMIT in state.info
        self._set_specs(
            spec_of_tree(seen, held=False), Bounded(-1, 1, (env.action_size,), dtype=torch.float32), Unbounded((1,))
        )

    def row_reset(self, key: Any) -> tuple[Any, Row]:
        """A new state, and what is observed of it."""
        state = self._env.reset(key)
        return state, _observed(state)

    def row_step(self, state: Any, action: Any) -> tuple[Any, Row]:
        """The next state, what is observed of it, reward and flags."""
        state, jnp = self._env.step(state, action), need("jax.numpy", type(self).__name__)
        done = state.done[None] > 0
        cut = done & (state.info[LIMIT] > 0) if self._limited else done & False
        flags = {"done": done, "truncated": cut, "terminated": done & ~cut}
        return state, {**_observed(state), "reward": jnp.asarray(state.reward, dtype=jnp.float32)[None], **flags}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_env": _portable(self._env)}

    def clear_cache(self) -> None:
        """Forgets all that JAX has compiled, here and elsewhere; the next step compiles again."""
        need("jax", type(self).__name__).clear_caches()


class BraxEnv(BraxWrapper):
    """A task of Brax's by its name: ``"ant"``, ``"halfcheetah"``, ``"humanoid"``, ``"hopper"`` and others.

    Args:
        env_name: as ``brax.envs`` has it.
        episode_length: steps after which Brax truncates an episode; never when left out.
        **options: those of :class:`BraxWrapper`; all others go to the task, such as ``backend="spring"``.

    Raises:
        UnknownName: there is no such task; names the nearest.

    >>> BraxEnv.libname  # BraxEnv("ant", batch_size=[128], episode_length=1000)
    'brax'

    Source: Brax 0.14.2, https://arxiv.org/abs/2106.13281.
    """

    def __init__(self, env_name: str, *, episode_length: int | None = None, **options: Any) -> None:
        envs, who = need("brax.envs", type(self).__name__), type(self).__name__
        self.env_name, self.episode_length, known = env_name, episode_length, self._task_names()
        if env_name not in known:
            raise UnknownName(f"{who}: Brax has no task {env_name!r}; {nearest(env_name, known)}")
        ours = own_options(type(self), options)
        with naming_options(who, options, option_names(type(self))):
            env = envs.get_environment(env_name, **options)
        check_used(who, env, options, option_names(type(self)))
        if episode_length is not None:
            whole(who, "episode_length", episode_length, 1)
            env = need("brax.envs.wrappers.training", who).EpisodeWrapper(env, episode_length, 1)
        super().__init__(env, **ours)


def _observed(state: Any) -> Row:
    return {"observation": state.obs}  # a dict stays one: Brax calls one of its entries "state"


def _layers(env: Any) -> Iterator[Any]:
    """An env, what it wraps, what that wraps, ..."""
    while env is not None:
        yield env
        env = getattr(env, "env", None)


class _Module:
    """What a copy or a pickle has in the place of a module, and gets the module of."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.name,)


def _portable(env: Any) -> Any:
    """An env that can be pickled: Brax holds the physics of a robot as a module, which cannot."""
    out = copy(env)
    for name, value in vars(env).items():
        if isinstance(value, ModuleType):
            out.__dict__[name] = _Module(value.__name__)
    if "env" in vars(env):
        out.__dict__["env"] = _portable(env.env)
    return out
