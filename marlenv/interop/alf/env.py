"""Our env as a batched environment of ALF."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.errors import KeyMissing, SpecTypeError, Unsupported
from marlenv.interop.agents import HIDDEN
from marlenv.interop.alf.nests import UNTRANSFORMED, Nest, numbers
from marlenv.interop.alf.time_step import AlfSpec, StepType, TimeStep, alf_spec
from marlenv.interop.entries import action_entry, named, reward_entry
from marlenv.interop.spaces import check_numbers, check_shape
from marlenv.keys import Path, last, nested, path
from marlenv.specs import Composite
from marlenv.specs.plain import is_plain
from marlenv.tensordicts import anything, fetch

WHO = "to_alf"


class AlfEnvironment:
    """An env of ours behind ALF's interface of batched environments; made by :func:`marlenv.to_alf`.

    Args:
        env: our env, with one agent or one group, and rows.
    """

    batched = True
    is_tensor_based = True

    def __init__(self, env: EnvBase) -> None:
        if not isinstance(env, EnvBase):
            raise SpecTypeError(f"{WHO}: expected an env of marlenv, got {type(env).__name__}")
        if len(env.batch_size) != 1:
            raise Unsupported(f"{WHO}: expected an env with rows, got batch size {list(env.batch_size)}; num_envs=8")
        self.inner, self._key = env, action_entry(WHO, env)
        self.path: Path = path(self._key)[:-1]
        whole: Composite = env.full_observation_spec_unbatched
        group, action = whole[nested(self.path)] if self.path else whole, env.full_action_spec_unbatched[self._key]
        self.lone = bool(group.ndim) and group.shape[0] == 1
        """Whether there is a dimension of agents with one agent in it, which nobody needs."""
        reward = reward_entry(WHO, env, self.path, group.shape[0] if group.ndim else 1)
        if reward is None:
            raise KeyMissing(f"{WHO}: no reward of {named(self.path)}; the env has {env.reward_keys}")
        self._reward_path = reward
        self._observation = self._nest(self.path)
        self._actions = alf_spec(WHO, "/".join(path(self._key)), action[0] if self.lone else action)
        kept = UNTRANSFORMED in whole.keys()
        self._untransformed = self._nest((UNTRANSFORMED, *self.path)) if kept else None
        places = {(*at, "info"): bool(at) and self.lone for at in ((), self.path)}
        self._infos = [
            Nest(WHO, env, at, lone) for at, lone in places.items() if whole.get(nested(at), None) is not None
        ]
        self._td: TensorDictBase | None = None
        self._now = TimeStep()

    def _nest(self, at: Path) -> Nest:
        hide = (*HIDDEN, UNTRANSFORMED, *map(last, self.inner.reward_keys))
        return Nest(WHO, self.inner, at, self.lone, hide)

    # --- specs -----------------------------------------------------------------------------------

    @property
    def batch_size(self) -> int:
        """How many envs there are."""
        return int(self.inner.batch_size[0])

    def observation_spec(self) -> Any:
        """What is observed, a nest of specs without the batch."""
        return self._observation.spec

    def action_spec(self) -> Any:
        """What is to be done."""
        return self._actions

    def reward_spec(self) -> AlfSpec:
        """One number, the sum over agents."""
        return AlfSpec(())

    def env_info_spec(self) -> dict[str, Any]:
        """What ``env_info`` holds: the env's infos; none of most envs."""
        return {name: spec for nest in self._infos for name, spec in nest.spec.items()}

    def time_step_spec(self) -> TimeStep:
        """The specs of all fields of a time step."""
        spec = TimeStep(
            step_type=AlfSpec((), torch.int32, 0, 2),
            reward=self.reward_spec(),
            discount=AlfSpec((), torch.float32, 0.0, 1.0),
            observation=self.observation_spec(),
            prev_action=self._actions,
            env_id=AlfSpec((), torch.int32),
            env_info=self.env_info_spec(),
        )
        return spec if self._untransformed is None else self._with_untransformed(spec, self._untransformed.spec)

    # --- episodes --------------------------------------------------------------------------------

    def seed(self, seed: int) -> None:
        """Seeds the next episodes; every env gets its own from it."""
        self.inner.set_seed(int(seed))

    def reset(self) -> TimeStep:
        """Starts episodes in all envs."""
        self._td = self.inner.reset()
        spec = self.inner.full_action_spec[self._key]
        self._now = self._time_step(self._td, None, numbers(spec.zero(), spec, self.lone))
        return self._now

    def reset_rows(self, mask: Tensor) -> TimeStep:
        """Starts episodes in some envs; the others stay where they are. ALF's own have no such method.

        Args:
            mask: which ones, bool ``[B]``.
        """
        if self._td is None:
            return self.reset()
        self._td = self.inner.reset(self._td.set("_reset", mask.unsqueeze(-1).to(self._td.device or "cpu")))
        spec, before = self.inner.full_action_spec[self._key], self._now
        first = self._time_step(self._td, None, numbers(spec.zero(), spec, self.lone))
        self._now = _started(mask, first, before)
        if self._untransformed is not None:
            kept = _started(mask, first.untransformed, before.untransformed)
            self._now = self._now._replace(untransformed=kept)
        return self._now

    def current_time_step(self) -> TimeStep:
        """The time step that came last; the first one, where nothing has started yet."""
        return self.reset() if self._td is None else self._now

    def step(self, action: Tensor) -> TimeStep:
        """Plays an action in every env; those whose episode is over start anew instead, without reading it."""
        if self._td is None:
            return self.reset()
        first, td, encoded = self._now.is_last(), self._td, self._encode_action(action)
        if anything(first):
            td = self.inner.reset(td.set("_reset", first.unsqueeze(-1)))
            td.set("_step", ~first.unsqueeze(-1))
        data = self.inner.step(td.set(self._key, encoded))
        self._td = self.inner.step_mdp(data)
        action = torch.as_tensor(action)
        rows = first.reshape(-1, *[1] * (action.ndim - 1))
        self._now = self._time_step(data.get("next"), first, torch.where(rows, 0, action))
        return self._now

    def _encode_action(self, action: Any) -> Tensor:
        spec = self.inner.full_action_spec[self._key]
        value = torch.as_tensor(action)
        check_numbers(WHO, self._key, spec, value, self._actions)
        check_shape(WHO, tuple(value.shape), (self.batch_size, *self._actions.shape), self._actions)
        plain = is_plain(spec)
        return value.to(spec.dtype).reshape(spec.shape) if plain else spec.encode(value.reshape(spec.shape[:-1]))

    def _time_step(self, td: TensorDictBase, first: Tensor | None, action: Any) -> TimeStep:
        """The time step of data ``[B]``, in whose rows ``first`` episodes start; in all of them with None."""
        rows, device = self.batch_size, self.inner.device
        kind = torch.full((rows,), int(StepType.FIRST), dtype=torch.int32, device=device)
        reward, discount = torch.zeros(rows, device=device), torch.ones(rows, device=device)
        if first is not None:
            terminated, over = (td.get(name).flatten(1).all(-1) for name in ("terminated", "done"))
            kind = torch.where(first, kind, over.to(torch.int32) + int(StepType.MID))
            reward = torch.where(first, reward, self._reward(td))
            discount = torch.where(terminated & ~first, 0.0, discount)
        now = TimeStep(
            step_type=kind,
            reward=reward,
            discount=discount,
            observation=self._observation.read(td),
            prev_action=action,
            env_id=torch.arange(rows, dtype=torch.int32, device=device),
            env_info={name: value for nest in self._infos for name, value in nest.read(td).items()},
        )
        if self._untransformed is None:
            return now
        kept = self._with_untransformed(now, self._untransformed.read(td))
        reward = self._reward(td.get(UNTRANSFORMED))
        reward = torch.zeros_like(reward) if first is None else torch.where(first, 0.0, reward)
        return kept._replace(untransformed=kept.untransformed._replace(reward=reward))

    def _with_untransformed(self, now: TimeStep, observation: Any) -> TimeStep:
        return now._replace(untransformed=now._replace(observation=observation))

    def _reward(self, td: TensorDictBase) -> Tensor:
        """The sum over agents, float32 ``[B]``."""
        reward: Tensor = fetch(td, self._reward_path)
        return reward.float().flatten(1).sum(-1)

    # --- others ----------------------------------------------------------------------------------

    def render(self, mode: str = "rgb_array") -> Any:
        """A picture of the first row, uint8 ``[H, W, 3]``.

        Raises:
            Unsupported: the env draws nothing.
        """
        if not hasattr(self.inner, "render"):
            raise Unsupported(f"{WHO}: {type(self.inner).__name__} draws nothing")
        env: Any = self.inner
        return env.render()

    def close(self) -> None:
        """Closes the env."""
        self.inner.close(raise_if_closed=False)


def _started(mask: Tensor, first: TimeStep, before: TimeStep) -> TimeStep:
    """The time step where the rows that ``mask`` marks have started anew, and the others stand where they did."""
    kept = {
        name: torch.where(mask.reshape(-1, *[1] * (now.ndim - 1)), new, now)
        for name in ("step_type", "reward", "discount", "prev_action")
        if isinstance(now := getattr(before, name), Tensor) and isinstance(new := getattr(first, name), Tensor)
    }
    return first._replace(**kept)
