"""PyMARL and EPyMARL: our envs with the methods that their runners call.

After ``MultiAgentEnv`` of PyMARL (https://github.com/oxwhirl/pymarl, ``src/envs/multiagentenv.py``) and of EPyMARL
(https://github.com/uoe-agents/epymarl, whose ``reset`` and ``step`` are Gymnasium's). Neither is on a package registry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marlenv.envs import EnvBase
from marlenv.errors import DtypeError, IllegalAction, NeedsReset, ShapeError, SpecError, Unsupported, nearest, whole
from marlenv.interop.agents import Agents, cut_off, lone
from marlenv.optional import need

STYLES = ("pymarl", "epymarl")


def to_pymarl(
    env: EnvBase, *, episode_limit: int | None = None, common_reward: bool = True, style: str = "pymarl"
) -> PyMARLEnv:
    """Our env as a ``MultiAgentEnv`` of PyMARL, or of EPyMARL.

    Its agents are those of all groups that act, in order. Observations are vectors, padded with zeros to the longest;
    the state is the env's own, or what all agents observe side by side. Agents that do not act, since they are dead or
    it is not their turn, may play action 0 alone.

    Args:
        env: an env with groups, one row, and numbered actions.
        episode_limit: the longest episode; the env's own when left out. Longer ones are cut off.
        common_reward: one reward, the sum over agents; else a list with one of each.
        style: ``"pymarl"``, or ``"epymarl"``, in which ``reset`` and ``step`` return what Gymnasium's do.

    Raises:
        SpecTypeError: ``env`` is no env of ours, or has no groups.
        Unsupported: it has several rows, or there is no such style.
        SpecError: actions are no numbers, a reward is several, or nobody knows how long episodes are.
        KeyMissing: none of several rewards is called ``"reward"``.
        MissingExtra: Gymnasium, which turns what is observed into vectors, is not installed.

    >>> env = to_pymarl(marlenv.make("simple_spread", continuous_actions=False, max_steps=25))
    >>> env.get_env_info()
    {'state_shape': 42, 'obs_shape': 14, 'n_actions': 9, 'n_agents': 3, 'episode_limit': 25}
    """
    if style not in STYLES:
        raise Unsupported(f"to_pymarl: there is no style {style!r}; {nearest(style, STYLES)}")
    return (PyMARLEnv if style == "pymarl" else EPyMARLEnv)(env, episode_limit, common_reward)


class PyMARLEnv:
    """An env of ours behind PyMARL's interface; made by :func:`to_pymarl`.

    Args:
        env: our env.
        episode_limit: the longest episode.
        common_reward: one reward for all agents.
    """

    def __init__(self, env: EnvBase, episode_limit: int | None = None, common_reward: bool = True) -> None:
        self.inner, self.common_reward = env, common_reward
        self._all = Agents("to_pymarl", env)
        self.agents = self._all.names
        self.n_agents = len(self.agents)
        if episode_limit is None:
            episode_limit = getattr(env, "max_steps", None) or getattr(env, "max_plies", None)
        if episode_limit is None:
            raise SpecError(f"to_pymarl: how long are episodes of {type(env).__name__} at most? give episode_limit=25")
        whole("to_pymarl", "episode_limit", episode_limit, 1)
        self.episode_limit = int(episode_limit)
        self._counts = [self._number_of_actions(name) for name in self.agents]
        self._shown = {name: self._observed(space) for name, space in self._all.observation_spaces.items()}
        self._size = max(self._spaces.flatdim(space) for space in self._shown.values())
        self._whole = env.full_observation_spec_unbatched.get("state", None)
        if hasattr(self._whole, "keys"):
            self._whole = None  # a position of a game, which is no vector
        self._masked = {name for name, space in self._all.observation_spaces.items() if self._has_mask(space)}
        self._td: Any = None
        self._steps = 0
        self._found: dict[str, Any] | None = None
        self._legal: list[list[int]] | None = None
        """What is observed, and what is legal, in the data of now, once somebody has asked."""

    @property
    def _spaces(self) -> Any:
        return need("gymnasium.spaces", "marlenv.to_pymarl")

    def _number_of_actions(self, name: str) -> int:
        space = self._all.action_spaces[name]
        if type(space).__name__ != "Discrete":
            raise SpecError(
                f"to_pymarl: PyMARL numbers actions, and entry '{name}/action' is {space}; "
                f"scenarios have numbered actions with continuous_actions=False"
            )
        return int(space.n)

    def _observed(self, space: Any) -> Any:
        """What an agent observes without its legal actions, which PyMARL asks for apart."""
        if not isinstance(space, self._spaces.Dict):
            return space
        return self._spaces.Dict({name: one for name, one in space.items() if name != "action_mask"})

    # --- what runners call -----------------------------------------------------------------------

    def reset(self) -> Any:
        """Starts an episode; what all agents observe, and the state."""
        self._start(None)
        return self.get_obs(), self.get_state()

    def _start(self, seed: int | None, options: dict[str, Any] | None = None) -> None:
        self._found = self._legal = None
        self._td, self._steps = self._all.reset(seed, options), 0

    def step(self, actions: Sequence[int]) -> Any:
        """Plays an action of every agent; the reward, whether the episode is over, and infos.

        ``info["episode_limit"]`` is True where the episode is cut off, so that the last state is worth something.
        """
        reward, terminated, truncated = self._play(actions)
        return reward, terminated or truncated, {"episode_limit": True} if truncated else {}

    def _play(self, actions: Sequence[int]) -> tuple[Any, bool, bool]:
        td = self._data("step")
        if len(actions) != self.n_agents:
            raise ShapeError(f"to_pymarl: expected {self.n_agents} actions, one for each agent, got {len(actions)}")
        chosen = [_number(name, action) for name, action in zip(self.agents, actions, strict=True)]
        for name, action, row in zip(self.agents, chosen, self._allowed(), strict=True):
            if not 0 <= action < len(row) or not row[action]:
                raise IllegalAction(
                    f"to_pymarl: {name!r} cannot play action {action}; get_avail_actions() allows {np.flatnonzero(row)}"
                )
        acting = self._all.acting(td)
        played = {name: action for name, action in zip(self.agents, chosen, strict=True) if acting[name]}
        self._found = self._legal = None
        self._td = self._all.step(td, played)
        self._steps += 1
        rewards = [float(value) for value in self._all.column(self._td, "reward", 0.0).values()]
        ends, cuts, dones = (self._all.column(self._td, name, False) for name in ("terminated", "truncated", "done"))
        over = all(dones.values())
        terminated = over and not cut_off(ends, cuts)
        return (sum(rewards) if self.common_reward else rewards), terminated, not terminated and self._late(over)

    def _late(self, over: bool) -> bool:
        """Whether the episode is cut off, by the env or by the limit."""
        return over or self._steps >= self.episode_limit

    def _data(self, verb: str) -> Any:
        if self._td is None:
            raise NeedsReset.before("to_pymarl", verb)
        return self._td

    def get_obs(self) -> list[NDArray[np.float32]]:
        """What every agent observes, float32 ``[obs_shape]``."""
        found = self._observations(self._data("get_obs"))
        return [self._vector(name, found[name]) for name in self.agents]

    def _observations(self, td: Any) -> dict[str, Any]:
        """What all agents observe, as values of their spaces; not to be written to."""
        if self._found is None:
            self._found = self._all.observations(td)
        return self._found

    def _vector(self, name: str, observed: Any) -> NDArray[np.float32]:
        space = self._shown[name]
        if isinstance(observed, dict):
            observed = {key: observed[key] for key in space}
        flat = np.asarray(self._spaces.flatten(space, observed), dtype=np.float32)
        return np.pad(flat, (0, self._size - len(flat)))

    def get_obs_agent(self, agent_id: int) -> NDArray[np.float32]:
        """What one agent observes."""
        return self.get_obs()[agent_id]

    def get_obs_size(self) -> int:
        """How many numbers an agent observes."""
        return int(self._size)

    def get_state(self) -> NDArray[np.float32]:
        """What is known of the whole env, float32 ``[state_shape]``."""
        td = self._data("get_state")
        if self._whole is not None:
            return np.asarray(self._whole.to_numpy(lone(td).get("state")), dtype=np.float32).reshape(-1)
        return np.concatenate(self.get_obs())

    def get_state_size(self) -> int:
        """How many numbers the state has."""
        return int(self._whole.shape.numel() if self._whole is not None else self.n_agents * self._size)

    def get_avail_actions(self) -> list[list[int]]:
        """Which actions are legal, 0 or 1 for each, ``[n_agents, n_actions]``."""
        return [list(row) for row in self._allowed()]

    def _allowed(self) -> list[list[int]]:
        """What :meth:`get_avail_actions` returns; not to be written to."""
        td, most = self._data("get_avail_actions"), max(self._counts)
        if self._legal is None:
            found, acting, rows = self._observations(td) if self._masked else {}, self._all.acting(td), []
            for name, count in zip(self.agents, self._counts, strict=True):
                mask = found[name]["action_mask"].tolist() if name in self._masked else [1] * count
                rows.append([int(x) for x in mask] + [0] * (most - count) if acting[name] else [1] + [0] * (most - 1))
            self._legal = rows
        return self._legal

    def _has_mask(self, space: Any) -> bool:
        return isinstance(space, self._spaces.Dict) and "action_mask" in space.spaces

    def get_avail_agent_actions(self, agent_id: int) -> list[int]:
        """Which actions of one agent are legal."""
        return self.get_avail_actions()[agent_id]

    def get_total_actions(self) -> int:
        """How many actions an agent has; the most, where they differ."""
        return max(self._counts)

    def get_env_info(self) -> dict[str, int]:
        """The sizes that networks and buffers are made from."""
        return {
            "state_shape": self.get_state_size(),
            "obs_shape": self.get_obs_size(),
            "n_actions": self.get_total_actions(),
            "n_agents": self.n_agents,
            "episode_limit": self.episode_limit,
        }

    def get_stats(self) -> dict[str, Any]:
        """Statistics of all episodes, which SMAC alone has."""
        return {}

    def seed(self, seed: int) -> None:
        """Seeds the next episodes."""
        self.inner.set_seed(int(seed))

    def render(self) -> Any:
        """A picture of a scenario, uint8 ``[H, W, 3]``.

        Raises:
            Unsupported: the env draws nothing.
        """
        if not hasattr(self.inner, "render"):
            raise Unsupported(f"to_pymarl: {type(self.inner).__name__} draws nothing")
        env: Any = self.inner
        return env.render()

    def save_replay(self) -> None:
        """What SMAC has alone.

        Raises:
            Unsupported: always; ``VideoRecorder`` films an env.
        """
        raise Unsupported("to_pymarl: there are no replays to save; VideoRecorder films an env")

    def close(self) -> None:
        """Closes the env."""
        self.inner.close(raise_if_closed=False)


def _number(name: str, action: Any) -> int:
    """An agent's action as the number that it is."""
    try:
        if float(action).is_integer():
            return int(action)
    except (TypeError, ValueError):
        pass
    raise DtypeError(f"to_pymarl: the action of {name!r} must be a whole number, got {action}")


class EPyMARLEnv(PyMARLEnv):
    """An env of ours behind EPyMARL's interface; made by :func:`to_pymarl`."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts an episode, with options of the env's reset; what all agents observe, and infos."""
        self._start(seed, options)
        return self.get_obs(), {}

    def step(self, actions: Sequence[int]) -> Any:
        """Plays an action of every agent; observations, reward, terminated, truncated and infos."""
        reward, terminated, truncated = self._play(actions)
        return self.get_obs(), reward, terminated, truncated, {"episode_limit": True} if truncated else {}
