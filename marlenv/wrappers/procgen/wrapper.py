"""Procgen's games, which are drawn anew level by level.

https://github.com/openai/procgen, tested with its fork procgen2 0.10.7, which is imported as ``procgen`` too.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import IllegalAction, SpecTypeError, Unsupported
from marlenv.optional import need
from marlenv.specs import Binary, Bounded, Categorical, Composite, Unbounded
from marlenv.tensordicts import get, new
from marlenv.wrappers._base import EnvWrapper

FORCED = -1
"""The action with which Procgen starts a level anew."""


class ProcgenWrapper(EnvWrapper):
    """Games of Procgen that step at once.

    | key | shape | meaning |
    |---|---|---|
    | `observation` | uint8 `[B, 3, 64, 64]` | what the player sees |
    | `action` | int64 `[B]` | one of 15 combinations of buttons |
    | `reward` | float32 `[B, 1]` | |
    | `done`, `terminated`, `truncated` | bool `[B, 1]` | a time limit terminates too: Procgen does not tell |

    Procgen draws nothing after the last action of an episode, but the first picture of the next one. That picture comes
    with the reset; the step that ends an episode observes what was drawn before it. Seeds are given when games are
    made: ``set_seed`` makes those of a ``ProcgenEnv`` anew, and refuses for others.

    Args:
        env: a ``procgen.ProcgenEnv`` or a ``procgen.ProcgenGym3Env``.
        **options: ``device``, ``allow_done_after_reset``, ``run_type_checks``.

    Raises:
        SpecTypeError: ``env`` is none of Procgen's.

    >>> ProcgenWrapper.libname
    'procgen'

    Source: procgen2 0.10.7; Cobbe et al. 2019, https://arxiv.org/abs/1912.01588.
    """

    libname: ClassVar[str] = "procgen"
    git_url: ClassVar[str] = "https://github.com/openai/procgen"
    can_be_seeded: ClassVar[bool] = False
    skips_frames = False
    handles_partial_steps = True

    def __init__(self, env: Any = None, **options: Any) -> None:
        super().__init__(**options, **({} if env is None else {"env": env}))

    @classmethod
    def _task_names(cls) -> list[str]:
        return sorted(need("procgen.env", cls.__name__).ENV_NAMES)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        env = kwargs.get("env")
        if not hasattr(getattr(env, "env", env), "callmethod"):
            raise SpecTypeError(
                f"{type(self).__name__}: env must be a ProcgenEnv or a ProcgenGym3Env, got {type(env).__name__}; "
                f"ProcgenEnv of marlenv takes names"
            )

    def _build_env(self, env: Any = None) -> Any:
        return getattr(env, "env", env)

    def _make_specs(self, env: Any) -> None:
        self.batch_size = (count,) = (env.num,)
        high, wide, colours = env.ob_space["rgb"].shape
        pixels = Bounded(0, 255, (count, colours, high, wide), dtype=torch.uint8)
        self.observation_spec = Composite(observation=pixels, shape=self.batch_size)
        self._choices = int(env.ac_space.eltype.n)
        self.action_spec = Categorical(self._choices, (count,))
        self.reward_spec = Unbounded((count, 1))
        flag = Binary(shape=(count, 1), dtype=torch.bool)
        self.full_done_spec = Composite(
            done=flag, terminated=flag.clone(), truncated=flag.clone(), shape=self.batch_size
        )
        self._drawn = self._look()[1]
        self._fresh = np.ones(count, dtype=bool)
        """Rows at the start of an episode that nobody has seen."""

    @property
    def observation_space(self) -> Any:
        """What gym3 says of observations."""
        return self._env.ob_space

    @property
    def action_space(self) -> Any:
        """What gym3 says of actions."""
        return self._env.ac_space

    def _look(self) -> tuple[NDArray[np.float32], Tensor, NDArray[np.bool_]]:
        reward, seen, first = self._env.observe()
        return reward, torch.from_numpy(np.ascontiguousarray(seen["rgb"].transpose(0, 3, 1, 2))), np.array(first)

    def _act(self, actions: Any, rows: NDArray[np.bool_]) -> tuple[Any, Tensor, NDArray[np.bool_]]:
        """Plays actions in some rows; the others, which Procgen plays too, are put back to where they were."""
        before = None if rows.all() else self._env.callmethod("get_state")
        self._env.act(np.where(rows, actions, 0).astype(np.int32))
        found = self._look()
        if before is not None:
            after = self._env.callmethod("get_state")
            kept = [new if row else old for row, new, old in zip(rows, after, before, strict=True)]
            self._env.callmethod("set_state", kept)
        return found

    # --- an episode ------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        mask = None if tensordict is None or not self._began else get(tensordict, "_reset")
        rows = np.ones(len(self._fresh), dtype=bool) if mask is None else mask.reshape(-1).cpu().numpy()
        forced = rows & ~self._fresh
        if forced.any():
            self._drawn = _where(forced, self._act(FORCED, forced)[1], self._drawn)
        self._fresh, self._began = self._fresh & ~rows, True
        return self._sent({"observation": self._drawn.clone()})

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._check_began("step")
        mask = get(tensordict, "_step")
        rows = np.ones(len(self._fresh), dtype=bool) if mask is None else mask.reshape(-1).cpu().numpy()
        actions = get(tensordict, "action").cpu().numpy()
        if rows.any() and not 0 <= actions[rows].min() <= actions[rows].max() < self._choices:
            raise IllegalAction(f"{type(self).__name__}.step: actions are numbers below {self._choices}, got {actions}")
        reward, drawn, first = self._act(actions, rows)
        over = first & rows
        seen = _where(rows & ~over, drawn, self._drawn)
        self._drawn, self._fresh = _where(rows, drawn, self._drawn), np.where(rows, over, self._fresh)
        done = torch.from_numpy(over).unsqueeze(-1)
        paid = torch.from_numpy(np.where(rows, reward, 0).astype(np.float32)).unsqueeze(-1)
        flags = {"terminated": done, "truncated": torch.zeros_like(done), "done": done.clone()}
        return self._sent({"observation": seen.clone(), "reward": paid, **flags})

    def _sent(self, data: dict[str, Tensor]) -> TensorDictBase:
        out = new(data, self.batch_size)
        return out if self.device is None else out.to(self.device)

    def __getstate__(self) -> dict[str, Any]:
        raise Unsupported.to_copy(type(self).__name__, "Procgen's games")

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            raise Unsupported(
                f"{type(self).__name__}.set_seed: games take their seed when they are made; pass rand_seed= there, or "
                f"let ProcgenEnv make them"
            )


def _where(rows: NDArray[np.bool_], new: Tensor, old: Tensor) -> Tensor:
    return torch.where(torch.from_numpy(rows)[:, None, None, None], new, old)
