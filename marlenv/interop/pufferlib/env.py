"""The agents of all rows with PufferLib's interface of native envs. Imported when it is first needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.errors import NeedsReset, ShapeError, SpecError
from marlenv.interop.face import Face
from marlenv.optional import need

WHO = "to_pufferlib"
puffer: Any = need("pufferlib", f"marlenv.{WHO}")
emulation: Any = need("pufferlib.emulation", f"marlenv.{WHO}")
ACTIONS = ("Box", "Discrete", "MultiDiscrete")


class AgentsOfPuffer(puffer.PufferEnv):
    """An env of ours behind PufferLib's interface of native envs.

    Args:
        env: our env.
        buf: where to write what is observed; memory of its own when left out.
    """

    def __init__(self, env: EnvBase, buf: Any = None) -> None:
        self._face = Face(WHO, env, each=True)
        self.inner = env
        self.single_observation_space, dtype = emulation.emulate_observation_space(self._face.observation_space)
        self.single_action_space = _choices_of_two(self._face.action_space)
        kind, shape = type(self.single_action_space).__name__, self.single_action_space.shape
        if kind not in ACTIONS or (kind == "MultiDiscrete" and len(shape) > 1):
            raise SpecError(
                f"{WHO}: entry 'action' is {self.single_action_space}, and PufferLib's native envs take {ACTIONS}, "
                f"MultiDiscrete of one dimension"
            )
        self.num_agents = self._face.rows * self._face.agents
        super().__init__(buf)
        emulated = self.single_observation_space is not self._face.observation_space
        self._fields = self.observations.view(dtype).reshape(self.num_agents) if emulated else None
        self._td: TensorDictBase | None = None
        self._dead = self._absent = np.zeros(self.num_agents, dtype=bool)
        self._returns, self._lengths = np.zeros(self.num_agents), np.zeros(self.num_agents, dtype=np.int64)

    def reset(self, seed: int | None = None) -> tuple[NDArray[Any], list[dict[str, Any]]]:
        """Starts episodes in all rows; what all agents observe, and infos."""
        if seed is not None:
            self.inner.set_seed(int(np.ravel(seed)[0]))  # pools give a list of one
        self._td = self.inner.reset()
        for held in (self.rewards, self.terminals, self.truncations, self._returns, self._lengths):
            held[:] = 0
        self._dead = np.zeros(self.num_agents, dtype=bool)
        self._absent = self._face.absent(self._td, self._dead)
        self.masks[:] = ~self._absent
        self._write(self._face.observations(self._td))
        return self.observations, []

    def step(self, actions: Any) -> Any:
        """Plays an action of every agent; observations, rewards, terminals, truncations and infos."""
        if self._td is None:
            raise NeedsReset.before(WHO, "step")
        if len(actions) != self.num_agents:
            raise ShapeError(f"{WHO}: expected {self.num_agents} actions, one for each agent, got {len(actions)}")
        data, self._td = self.inner.step_and_maybe_reset(self._face.set_action(self._td, actions))
        following = data.get("next")
        of_rows = self._face.flags(following)
        of_row = np.logical_or(*of_rows).reshape(-1).repeat(self._face.agents)
        terminated, truncated = self._face.flags_of_agents(following, of_rows)
        dead = self._dead
        self.rewards[:] = self._face.rewards(following)
        self.terminals[:], self.truncations[:] = terminated & ~dead, truncated & ~terminated & ~dead
        self._returns += self.rewards
        self._lengths += ~self._absent
        over = self.terminals | self.truncations
        infos = [
            {"episode_return": float(self._returns[i]), "episode_length": int(self._lengths[i])}
            for i in np.flatnonzero(of_row)
        ]
        self._returns[of_row], self._lengths[of_row] = 0.0, 0
        self._dead = (dead | over) & ~of_row
        self._absent = self._face.absent(self._td, self._dead)
        self._dead = self._dead & self._absent  # who is born again is not done any more
        self.masks[:] = ~self._absent
        self._write(self._face.observations(self._td))
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def _write(self, found: Any) -> None:
        """Writes what is observed into PufferLib's memory."""
        if self._fields is None:
            self.observations[:] = found
        else:
            _fill(self._fields, found)

    def render(self) -> Any:
        """A picture of a scenario, uint8 ``[H, W, 3]``; None where the env draws nothing."""
        env: Any = self.inner
        return np.asarray(env.render()) if hasattr(env, "render") else None

    def close(self) -> None:
        """Closes the env."""
        self.inner.close(raise_if_closed=False)


def _choices_of_two(space: Any) -> Any:
    """Zeros and ones, which PufferLib has no actions of, as choices of two; other spaces as they are."""
    if type(space).__name__ != "MultiBinary":
        return space
    return need("gymnasium.spaces", f"marlenv.{WHO}").MultiDiscrete(np.full(space.shape, 2))


def _fill(fields: Any, found: dict[str, Any]) -> None:
    for name, value in found.items():
        if isinstance(value, dict):
            _fill(fields[name], value)
        else:
            fields[name] = value
