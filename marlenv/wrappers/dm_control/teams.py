"""DeepMind Control's tasks for several agents, such as its soccer (https://arxiv.org/abs/1902.07151)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from marlenv.errors import SpecTypeError, UnknownName, nearest, whole
from marlenv.groups import MarlGroupMapType
from marlenv.optional import need
from marlenv.wrappers._agent import AgentSpecs, AgentStep
from marlenv.wrappers._parallel import ParallelSimEnv
from marlenv.wrappers._spaces import spec_of_array
from marlenv.wrappers.dm_control import time_steps


class DMTeamsWrapper(ParallelSimEnv):
    """An env of dm_env's kind whose specs are lists, with an item for each agent.

    | key | shape | meaning |
    |---|---|---|
    | `(group, ...)` | float64 `[A, ...]` | what each agent observes, by the task's names |
    | `(group, "action")` | float64 `[A, n]` | |
    | `(group, "reward")` | `[A, 1]` | |
    | `done`, `terminated`, `truncated` | bool `[1]`, in groups `[A, 1]` | as the discount of the last step says |

    Players of soccer are called ``home_0``, ``home_1``, ..., ``away_0``, ..., and their teams are the groups; agents of
    other tasks are ``agent_0``, ``agent_1``, ..., in one group. A last step terminates where its discount is 0, else it
    truncates.

    Args:
        env: the env.
        **options: those of every wrapper of several agents, such as ``group_map``, ``max_steps``, ``device``.

    >>> DMTeamsWrapper.libname
    'dm_control'

    Source: dm_control 1.0.50.
    """

    libname: ClassVar[str] = "dm_control"
    git_url: ClassVar[str] = "https://github.com/google-deepmind/dm_control"
    default_groups = MarlGroupMapType.ALL_IN_ONE_GROUP

    def __init__(self, env: Any = None, **options: Any) -> None:
        super().__init__(**options, **({} if env is None else {"env": env}))

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        env: Any = kwargs.get("env")
        if not hasattr(env, "action_spec") or not isinstance(env.action_spec(), (list, tuple)):
            raise SpecTypeError(
                f"{type(self).__name__}: env must be an env of dm_env with a list of action specs, got "
                f"{type(env).__name__}; DMControlWrapper takes those with one agent"
            )

    def _build_env(self, env: Any = None) -> Any:
        return env

    def _make_specs(self, env: Any) -> None:
        teams = _teams(env)
        self._names = [name for names in teams.values() for name in names]
        if self._asked_groups is None and len(teams) > 1:
            self._asked_groups = teams
        super()._make_specs(env)

    def agent_specs(self) -> dict[str, AgentSpecs]:
        """What each agent observes and does."""
        env, found = self._env, {}
        self._acts = env.action_spec()
        kinds = zip(self._names, env.observation_spec(), self._acts, env.reward_spec(), strict=True)
        for name, seen, acts, pays in kinds:
            who = f"{type(self).__name__}: agent {name!r}"
            action = time_steps.action_spec(who, acts, categorical=True)
            reward = spec_of_array(pays, f"{who}: the reward")
            found[name] = AgentSpecs(time_steps.entries(who, seen), action, reward=reward)
        return found

    def sim_reset(self, seed: int | None) -> Mapping[str, AgentStep]:
        """Starts an episode."""
        if seed is not None:
            time_steps.seed(type(self).__name__, self._env, seed)
        return self._read(self._env.reset())

    def sim_step(self, actions: dict[str, Any]) -> Mapping[str, AgentStep]:
        """Plays an action of every agent."""
        told = [time_steps.told(acts, actions[name]) for name, acts in zip(self._names, self._acts, strict=True)]
        return self._read(self._env.step(told))

    def _read(self, step: Any) -> dict[str, AgentStep]:
        terminated, truncated = time_steps.ends(step)
        rewards = [0.0] * len(self._names) if step.reward is None else step.reward
        return {
            name: AgentStep(time_steps.named(seen), reward, terminated=terminated, truncated=truncated)
            for name, seen, reward in zip(self._names, step.observation, rewards, strict=True)
        }


class DMSoccerEnv(DMTeamsWrapper):
    """DeepMind Control's soccer: two teams, ``home`` and ``away``, of walkers that push a ball.

    Args:
        team_size: players of each team, from 1 to 11.
        walker_type: ``"BOXHEAD"``, ``"ANT"`` or ``"HUMANOID"``.
        **options: those of :class:`DMTeamsWrapper`; all others go to ``soccer.load``, as ``time_limit``, seconds.

    >>> DMSoccerEnv.libname  # DMSoccerEnv(2, time_limit=10.0).group_map
    'dm_control'

    Source: dm_control 1.0.50; Liu et al. 2019, https://arxiv.org/abs/1902.07151.
    """

    def __init__(self, team_size: int = 2, walker_type: str = "BOXHEAD", **options: Any) -> None:
        self.team_size = whole(type(self).__name__, "team_size", team_size, 1, 11)
        self.walker_type = walker_type
        super().__init__(**options)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        known = [kind.name for kind in self._soccer().WalkerType]
        if self.walker_type not in known:
            raise UnknownName(
                f"{type(self).__name__}: there is no walker {self.walker_type!r}; {nearest(self.walker_type, known)}"
            )

    def _soccer(self) -> Any:
        return need("dm_control.locomotion.soccer", type(self).__name__)

    def _build_env(self, **task: Any) -> Any:  # type: ignore[override]
        soccer = self._soccer()
        return soccer.load(team_size=self.team_size, walker_type=soccer.WalkerType[self.walker_type], **task)


def _teams(env: Any) -> dict[str, list[str]]:
    """The agents of an env by their teams, in the env's order."""
    teams: dict[str, list[str]] = {}
    for player in getattr(getattr(env, "task", None), "players", None) or env.action_spec():
        team = player.team.name.lower() if hasattr(player, "team") else "agent"
        names = teams.setdefault(team, [])
        names.append(f"{team}_{len(names)}")
    return teams
