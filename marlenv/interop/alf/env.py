"""Our env as a batched environment of ALF."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.errors import SpecTypeError, Unsupported
from marlenv.interop.agents import HIDDEN
from marlenv.interop.alf.time_step import AlfSpec, StepType, TimeStep, alf_spec
from marlenv.keys import Path, nested, path
from marlenv.specs import Composite
from marlenv.specs.plain import is_plain
from marlenv.tensordicts import fetch

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
        if len(env.action_keys) != 1:
            raise SpecTypeError(
                f"{WHO}: expected an env in which one agent, or one group, acts, got actions {env.action_keys}"
            )
        if len(env.batch_size) != 1:
            raise Unsupported(f"{WHO}: expected an env with rows, got batch size {list(env.batch_size)}; num_envs=8")
        self.inner, self._key = env, env.action_keys[0]
        self.path: Path = path(self._key)[:-1]
        whole: Composite = env.full_observation_spec_unbatched
        seen, action = whole[nested(self.path)] if self.path else whole, env.full_action_spec_unbatched[self._key]
        self.lone = bool(seen.ndim) and seen.shape[0] == 1
        """Whether there is a dimension of agents with one agent in it, which nobody needs."""
        if self.lone:
            seen, action = seen[0], action[0]
        shown = {name: one for name, one in seen.items() if name not in HIDDEN}
        self._names = list(shown)
        self._bare = self._names == ["observation"]
        self._observations = alf_spec(WHO, "observation", shown["observation"] if self._bare else Composite(shown))
        self._actions = alf_spec(WHO, "action", action)
        self._td: TensorDictBase | None = None
        self._now = TimeStep()

    # --- specs -----------------------------------------------------------------------------------

    @property
    def batch_size(self) -> int:
        """How many envs there are."""
        return int(self.inner.batch_size[0])

    def observation_spec(self) -> Any:
        """What is observed, a nest of specs without the batch."""
        return self._observations

    def action_spec(self) -> Any:
        """What is to be done."""
        return self._actions

    def reward_spec(self) -> AlfSpec:
        """One number, the sum over agents."""
        return AlfSpec(())

    def env_info_spec(self) -> dict[str, Any]:
        """What ``env_info`` holds: nothing."""
        return {}

    def time_step_spec(self) -> TimeStep:
        """The specs of all fields of a time step."""
        number = AlfSpec((), torch.int32)
        return TimeStep(
            step_type=AlfSpec((), torch.int32, 0, 2),
            reward=self.reward_spec(),
            discount=AlfSpec((), torch.float32, 0.0, 1.0),
            observation=self._observations,
            prev_action=self._actions,
            env_id=number,
            env_info={},
        )

    # --- episodes --------------------------------------------------------------------------------

    def seed(self, seed: int) -> None:
        """Seeds the next episodes; every env gets its own from it."""
        self.inner.set_seed(int(seed))

    def reset(self) -> TimeStep:
        """Starts episodes in all envs."""
        self._td = self.inner.reset()
        spec = self.inner.full_action_spec[self._key]
        self._now = self._time_step(self._td, None, self._numbers(spec.zero(), spec))
        return self._now

    def reset_rows(self, mask: Tensor) -> TimeStep:
        """Starts episodes in some envs; the others stay where they are. ALF's own have no such method.

        Args:
            mask: which ones, bool ``[B]``.
        """
        if self._td is None:
            return self.reset()
        self._td = self.inner.reset(self._td.set("_reset", mask.unsqueeze(-1).to(self._td.device or "cpu")))
        spec, then = self.inner.full_action_spec[self._key], self._now
        first = self._time_step(self._td, None, self._numbers(spec.zero(), spec))
        kept = {
            name: torch.where(mask.reshape(-1, *[1] * (now.ndim - 1)), new, now)
            for name in ("step_type", "reward", "discount", "prev_action")
            if isinstance(now := getattr(then, name), Tensor) and isinstance(new := getattr(first, name), Tensor)
        }
        self._now = first._replace(**kept)
        return self._now

    def current_time_step(self) -> TimeStep:
        """The time step that came last; the first one, where nothing has started yet."""
        return self.reset() if self._td is None else self._now

    def step(self, action: Tensor) -> TimeStep:
        """Plays an action in every env; those whose episode is over start anew instead, without reading it."""
        if self._td is None:
            return self.reset()
        begin, td = self._now.is_last(), self._td
        if bool(begin.any()):
            td = self.inner.reset(td.set("_reset", begin.unsqueeze(-1)))
            td.set("_step", ~begin.unsqueeze(-1))
        data = self.inner.step(td.set(self._key, self._told(action)))
        self._td = self.inner.step_mdp(data)
        action = torch.as_tensor(action)
        rows = begin.reshape(-1, *[1] * (action.ndim - 1))
        self._now = self._time_step(data.get("next"), begin, torch.where(rows, torch.zeros_like(action), action))
        return self._now

    def _told(self, action: Any) -> Tensor:
        spec = self.inner.full_action_spec[self._key]
        value = torch.as_tensor(action)
        plain = is_plain(spec)
        return value.to(spec.dtype).reshape(spec.shape) if plain else spec.encode(value.reshape(spec.shape[:-1]))

    def _time_step(self, td: TensorDictBase, begin: Tensor | None, action: Any) -> TimeStep:
        rows, device = self.batch_size, self.inner.device
        node = fetch(td, self.path) if self.path else td
        values = {name: self._value(node.get(name), name) for name in self._names}
        kind = torch.full((rows,), int(StepType.FIRST), dtype=torch.int32, device=device)
        reward, discount = torch.zeros(rows, device=device), torch.ones(rows, device=device)
        if begin is not None:
            terminated, over = (td.get(name).flatten(1).all(-1) for name in ("terminated", "done"))
            later = torch.where(over, int(StepType.LAST), int(StepType.MID)).to(torch.int32)
            kind = torch.where(begin, kind, later)
            paid = fetch(td, path(self.inner.reward_keys[0])).float().flatten(1).sum(-1)
            reward = torch.where(begin, reward, paid)
            discount = torch.where(terminated & ~begin, 0.0, discount)
        return TimeStep(
            step_type=kind,
            reward=reward,
            discount=discount,
            observation=values["observation"] if self._bare else values,
            prev_action=action,
            env_id=torch.arange(rows, dtype=torch.int32, device=device),
            env_info={},
        )

    def _value(self, value: Any, name: str) -> Any:
        spec = self.inner.full_observation_spec[nested((*self.path, name))]
        if isinstance(value, TensorDictBase):
            held = value.squeeze(1) if self.lone else value
            return {key: held.get(key) for key in held.keys()}
        return self._numbers(value, spec)

    def _numbers(self, value: Tensor, spec: Any) -> Tensor:
        """Values as ALF's specs have them: one-hot ones as numbers, and without a lone agent's dimension."""
        value = value if is_plain(spec) else value.to(torch.int64).argmax(-1)
        return value.squeeze(1) if self.lone else value

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
        if not self.inner.is_closed:
            self.inner.close()
