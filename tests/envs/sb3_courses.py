"""Two envs of one text of dynamics: one of gymnasium's form, as Stable-Baselines3 takes it, and one of ours."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from tensordict import TensorDict

import marlenv

IMAGE = {"last": (36, 40, 3), "first": (3, 36, 40)}


class Course:
    """What both envs do: env ``i`` ends after ``4 + i`` steps; even ones terminate, odd ones are truncated.

    Args:
        number: of the env.
        kind: what it observes: ``"vector"``, ``"first"`` or ``"last"`` (images by the place of their channels), or
            ``"dict"`` of a vector and an image.
        odd: what is not finite: ``"observation"``, ``"reset"`` or ``"reward"``, and nothing when left out.
    """

    def __init__(self, number: int, kind: str = "vector", odd: str = "") -> None:
        self.number, self.kind, self.odd = number, kind, odd
        self.episodes = -1
        self.start()

    def start(self) -> None:
        self.count, self.total = 0, 0.0
        self.episodes += 1

    def step(self, action: float) -> tuple[float, bool, bool]:
        """Reward, terminated, truncated."""
        self.count += 1
        self.total += action
        over = self.count >= 4 + self.number
        reward = action * (self.count % 3) - 0.5 * self.number
        reward = float("inf") if self.odd == "reward" and self.count == 3 else reward
        return reward, over and self.number % 2 == 0, over and self.number % 2 == 1

    def vector(self) -> np.ndarray:
        made = np.array([3.0 * self.count + self.number, self.total - self.count], dtype=np.float32)
        if self.odd == "observation" and self.count == 2:
            made[1] = np.nan
        if self.odd == "reset" and self.count == 0 and self.episodes > 0:
            made[0] = -np.inf
        return made

    def image(self, place: str) -> np.ndarray:
        shape = IMAGE[place]
        made = np.arange(np.prod(shape), dtype=np.int64).reshape(shape) * (1 + self.number) + 7 * self.count
        return (made % 256).astype(np.uint8)

    def observed(self) -> dict[str, np.ndarray]:
        if self.kind == "dict":
            return {"vector": self.vector(), "image": self.image("last")}
        return {"observation": self.vector() if self.kind == "vector" else self.image(self.kind)}


class Theirs(gymnasium.Env):
    """A course as SB3 takes it."""

    def __init__(self, *given: Any) -> None:
        self.course = Course(*given)
        spaces = {
            key: gymnasium.spaces.Box(0, 255, value.shape, np.uint8)
            if value.dtype == np.uint8
            else gymnasium.spaces.Box(-np.inf, np.inf, value.shape, np.float32)
            for key, value in self.course.observed().items()
        }
        self.observation_space = spaces.get("observation") or gymnasium.spaces.Dict(spaces)
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def shown(self) -> Any:
        made = self.course.observed()
        return made.get("observation", made)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.course.start()
        return self.shown(), {}

    def step(self, action: np.ndarray) -> Any:
        reward, terminated, truncated = self.course.step(float(action[0]))
        return self.shown(), reward, terminated, truncated, {}


class Ours(marlenv.EnvBase):
    """The same course as an env of ours."""

    def __init__(self, *given: Any) -> None:
        super().__init__()
        self.course = Course(*given)
        specs = {
            key: marlenv.Bounded(0, 255, value.shape, dtype=torch.uint8)
            if value.dtype == np.uint8
            else marlenv.Unbounded(value.shape)
            for key, value in self.course.observed().items()
        }
        self.observation_spec = marlenv.Composite(specs)
        self.action_spec = marlenv.Bounded(-1, 1, (1,))
        self.reward_spec = marlenv.Unbounded((1,))
        self.full_done_spec = marlenv.Composite(
            {name: marlenv.Categorical(2, (1,), dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        )

    def shown(self) -> dict[str, torch.Tensor]:
        return {key: torch.from_numpy(value) for key, value in self.course.observed().items()}

    def _reset(self, tensordict: TensorDict | None) -> TensorDict:
        self.course.start()
        return TensorDict(self.shown(), [])

    def _step(self, tensordict: TensorDict) -> TensorDict:
        reward, terminated, truncated = self.course.step(float(tensordict["action"]))
        flags = {"terminated": torch.tensor([terminated]), "truncated": torch.tensor([truncated])}
        return TensorDict({**self.shown(), **flags, "reward": torch.tensor([reward])}, [])

    def _set_seed(self, seed: int | None) -> None:
        pass
