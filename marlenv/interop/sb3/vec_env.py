"""The agents of all rows with Stable-Baselines3's interface of vectorized envs. Imported when it is first needed."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.errors import NeedsReset, ShapeError, SpecError, Unsupported
from marlenv.interop.face import Face
from marlenv.interop.sb3.attributes import answers, values
from marlenv.optional import need

WHO = "to_sb3_vec_env"
base: Any = need("stable_baselines3.common.vec_env.base_vec_env", f"marlenv.{WHO}")
spaces: Any = need("gymnasium.spaces", f"marlenv.{WHO}")


class RowsAndAgents(base.VecEnv):
    """An env of ours behind the interface of Stable-Baselines3's vectorized envs.

    Args:
        env: our env.
        render_mode: ``"rgb_array"``, or None.
    """

    def __init__(self, env: EnvBase, render_mode: str | None = None) -> None:
        self._face = Face(WHO, env, each=True, hide=("action_mask",))
        modes = ["rgb_array"] if hasattr(env, "render") else []
        if render_mode is not None and render_mode not in modes:
            raise Unsupported(f"{WHO}: render_mode must be one of {[None, *modes]}, got {render_mode!r}")
        self.inner, self._mode = env, render_mode
        self._td: TensorDictBase | None = None
        self._actions: Any = None
        number = self._face.rows * self._face.agents
        super().__init__(number, _checked_observations(self._face), _checked_actions(self._face))
        self.metadata["render_fps"] = 10
        self._dead = self._absent = np.zeros(number, dtype=bool)

    # --- episodes --------------------------------------------------------------------------------

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seeds the next reset; the numbers that it returns are those of envs that are seeded one by one."""
        return list(super().seed(secrets.randbits(32) if seed is None else seed))

    def reset(self) -> Any:
        """Starts episodes in all rows; only the first call is needed."""
        options = self._options[0]
        if any(one != options for one in self._options):
            raise Unsupported(f"{WHO}: the rows are one env, so set_options takes one dict for all, got several")
        if self._seeds[0] is not None:
            self.inner.set_seed(self._seeds[0])
        self._td = self.inner.reset(**options)
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        self._dead = np.zeros(self.num_envs, dtype=bool)
        self._absent = self._face.absent(self._td, self._dead)
        self._reset_seeds()
        self._reset_options()
        return self._face.observations(self._td)

    def step_async(self, actions: Any) -> None:
        """Takes an action for every env."""
        if len(actions) != self.num_envs:
            raise ShapeError(f"{WHO}: expected {self.num_envs} actions, one for each env, got {len(actions)}")
        self._actions = actions

    def step_wait(self) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Plays the actions; observations, rewards, whether episodes are over, and infos."""
        if self._td is None:
            raise NeedsReset.before(type(self).__name__, "step")
        data, self._td = self.inner.step_and_maybe_reset(self._face.set_action(self._td, self._actions))
        following = data.get("next")
        of_rows = self._face.flags(following)
        of_row = np.logical_or(*of_rows).reshape(-1).repeat(self._face.agents)
        terminated, truncated = self._face.flags_of_agents(following, of_rows)
        dead, over = self._dead, (terminated | truncated) & ~self._dead | of_row
        absent, self._dead = self._absent, (dead | over) & ~of_row
        self._absent = self._face.absent(self._td, self._dead)
        self._dead = self._dead & self._absent  # who is born again is not done any more
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        if over.any():
            last = self._face.observations(following)
            for i in np.flatnonzero(over).tolist():
                infos[i]["terminal_observation"] = _one(last, i)
                infos[i]["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i] and not dead[i])
                self.reset_infos[i] = {}
        if absent.any():
            for i in np.flatnonzero(absent).tolist():
                infos[i]["alive"] = False
        rewards = self._face.rewards(following).astype(np.float32)
        return self._face.observations(self._td), rewards, over, infos

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions are legal; bool, ``[num_envs, n]``."""
        if self._td is None:
            raise NeedsReset.before(type(self).__name__, "action_masks")
        return self._face.action_masks(self._td)

    def close(self) -> None:
        """Closes the env."""
        self.inner.close(raise_if_closed=False)

    # --- pictures --------------------------------------------------------------------------------

    def _pictures(self) -> list[Any]:
        env: Any = self.inner
        return [np.asarray(env.render(row) if env.batch_size else env.render()) for row in range(self._face.rows)]

    def get_images(self) -> Sequence[Any]:
        """A picture for every env, uint8 ``[H, W, 3]``; the agents of a row have the same."""
        if self.render_mode != "rgb_array":
            return [None] * self.num_envs
        return [picture for picture in self._pictures() for _ in range(self._face.agents)]

    def render(self, mode: str | None = None) -> Any:
        """All rows in one picture, uint8 ``[H, W, 3]``; with ``"human"`` it is shown."""
        if self.render_mode == "rgb_array" and mode in (None, "rgb_array"):
            return base.tile_images(self._pictures())
        return super().render(mode)

    # --- what the envs have ----------------------------------------------------------------------

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of every env: the one value of rows that are one env; of the children of a pool each its own."""
        chosen = list(self._get_indices(indices))
        if attr_name == "action_masks" and not self._face.masked:
            raise AttributeError(f"{WHO}: no actions are masked in {type(self.inner).__name__}")
        own = ("render_mode", "action_masks", "observation_space", "action_space", "metadata")
        if attr_name not in own:
            return self._spread(values(self.inner, attr_name), chosen)
        return [self._mode if attr_name == "render_mode" else getattr(self, attr_name)] * len(chosen)

    def _spread(self, found: list[Any], chosen: list[int]) -> list[Any]:
        """What the children of a pool answered, or the one env, as that of the envs here."""
        each = self.num_envs // len(found)
        return [found[i // each] for i in chosen]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Sets an attribute where it is: of the env that all rows are, one that it transforms, or all of a pool's."""
        self._refuse_some(f"set_attr({attr_name!r})", indices)
        setattr(self.inner, attr_name, value)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Calls a method: of every env ``action_masks``, ``render`` and ``get_wrapper_attr``; others once of all rows,
        or once of every child of a pool.
        """
        chosen = list(self._get_indices(indices))
        if method_name == "action_masks":
            self.get_attr(method_name)
            return list(self.action_masks()[chosen])
        if method_name == "render":
            pictures = self.get_images()
            return [pictures[i] for i in chosen]
        if method_name in ("get_wrapper_attr", "has_wrapper_attr"):
            name = str(method_args[0] if method_args else method_kwargs["name"])
            return [self.has_attr(name)] * len(chosen) if method_name[:3] == "has" else self.get_attr(name, chosen)
        self._refuse_some(f"env_method({method_name!r})", indices)
        return self._spread(answers(self.inner, method_name, method_args, method_kwargs), chosen)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Whether a transform of this class is around the env; of Gymnasium's wrappers there are none."""
        chain: Any = getattr(self.inner, "transform", None)
        inside: list[Any] = list(chain) if hasattr(chain, "__iter__") else []
        found = [chain, *inside]
        return [any(isinstance(one, wrapper_class) for one in found)] * len(list(self._get_indices(indices)))

    def _refuse_some(self, what: str, indices: Any) -> None:
        """Raises where something that all rows share is asked of some of them."""
        if len(set(self._get_indices(indices))) != self.num_envs:
            raise Unsupported(
                f"{WHO}: {what} reaches all rows, since they are one env, got indices={indices!r}; leave indices out"
            )


def _one(values: Any, i: int) -> Any:
    return {name: value[i] for name, value in values.items()} if isinstance(values, dict) else values[i]


def _checked_observations(face: Face) -> Any:
    """The space of observations, where Stable-Baselines3 has networks for it."""
    space = face.observation_space
    inner = space.spaces.items() if isinstance(space, spaces.Dict) else ()
    if not inner and isinstance(space, spaces.Dict):
        raise SpecError(f"{WHO}: there is nothing to observe in {type(face.env).__name__}")
    for name, one in inner:
        if isinstance(one, spaces.Dict):
            raise SpecError(
                f"{WHO}: entry {name!r} holds entries of its own, and Stable-Baselines3 takes no dicts in dicts; "
                f"RenameTransform and SelectTransform make entries of them"
            )
    return space


def _checked_actions(face: Face) -> Any:
    """The space of actions, where Stable-Baselines3's algorithms can play it."""
    space = face.action_space
    if isinstance(space, (spaces.MultiBinary, spaces.MultiDiscrete)) and len(space.shape) > 1:
        raise SpecError(
            f"{WHO}: entry 'action' has several dimensions {space}, and Stable-Baselines3 takes one; "
            f"give the env actions of one"
        )
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.integer):
        raise SpecError(
            f"{WHO}: entry 'action' is whole numbers {space}, which Stable-Baselines3 would take for real ones; "
            f"use Categorical or MultiCategorical actions"
        )
    if isinstance(space, spaces.Box) and not space.is_bounded("both"):
        raise SpecError(
            f"{WHO}: entry 'action' has no bounds {space}, and Stable-Baselines3 needs finite ones; "
            f"give the env Bounded actions"
        )
    if isinstance(space, spaces.Dict):
        raise SpecError(f"{WHO}: entry 'action' is a dict {list(space)}, and Stable-Baselines3 has no such actions")
    return space
