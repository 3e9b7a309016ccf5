"""Stand-ins with smacv2's public surface: smacv2 is on no package registry, and StarCraft II cannot be had here.

Two teams stand on a line. Action 0 is nothing (for the dead only), 1 stops, 2 to 5 move, 6 and up shoot at an enemy.
What is taken from smacv2: names, shapes, who may do what, when ``info`` is empty, that ``reset`` may return None, that
the game gets its seed when it is started, and that every distribution has a generator of its own that nobody seeds.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

MOVES = 6
KINDS = ("marine", "marauder", "medivac", "hydralisk", "zergling", "baneling", "stalker", "colossus", "zealot")
MAPS = ("10gen_protoss", "10gen_terran", "10gen_zerg", "3m", "3s5z")


class StarCraft2Env:
    def __init__(
        self,
        map_name: str = "10gen_terran",
        capability_config: Any = None,
        seed: int | None = None,
        n_units: int = 3,
        n_enemies: int = 3,
        episode_limit: int = 20,
        continuing_episode: bool = False,
        crash_at: int | None = None,
        cannot_reset: int = 0,
        harmless: bool = False,
    ) -> None:
        self.map_name, self.capability_config, self._seed = map_name, capability_config or {}, seed
        self.n_agents, self.n_enemies, self.n_actions = n_units, n_enemies, MOVES + n_enemies
        self.episode_limit, self.continuing_episode = episode_limit, continuing_episode
        self.crash_at, self.cannot_reset, self.harmless = crash_at, cannot_reset, harmless
        for number, kind in enumerate(KINDS, 48):
            setattr(self, f"{kind}_id", number)
        self.launched = 0
        self.force_restarts = 0
        self.agents: dict[int, Any] = {}

    def get_env_info(self) -> dict[str, Any]:
        return {
            "state_shape": self.get_state_size(),
            "obs_shape": self.get_obs_size(),
            "cap_shape": 0,
            "n_actions": self.n_actions,
            "n_agents": self.n_agents,
            "episode_limit": self.episode_limit,
        }

    def get_obs_size(self) -> int:
        return 3 + self.n_enemies

    def get_state_size(self) -> int:
        return 2 * self.n_agents + self.n_enemies

    def get_total_actions(self) -> int:
        return self.n_actions

    def reset(self, episode_config: dict[str, Any] | None = None) -> Any:
        if self.cannot_reset > 0:
            self.cannot_reset -= 1
            return None
        if not self.launched:
            self._launch()
        self.t, self.battles = 0, getattr(self, "battles", 0) + 1
        drawn = episode_config or {}
        team = drawn.get("team_gen", {}).get("ally_team", ["medivac"] + ["marine"] * (self.n_agents - 1))
        places = drawn.get("start_positions", {}).get("ally_start_positions", np.arange(self.n_agents)[:, None])
        self.agents = {
            i: SimpleNamespace(health=2.0, x=float(places[i][0]), unit_type=getattr(self, f"{team[i]}_id"))
            for i in range(self.n_agents)
        }
        self.enemies = np.full(self.n_enemies, 3.0)
        return self.get_obs(), self.get_state()

    def _launch(self) -> None:
        self.launched += 1
        self.rng = np.random.default_rng(self._seed)

    def full_restart(self) -> None:
        self._launch()
        self.force_restarts += 1
        self.agents = {}

    def step(self, actions: Any) -> tuple[float, bool, dict[str, Any]]:
        actions = [int(a) for a in actions]
        for i, action in enumerate(actions):
            assert self.get_avail_agent_actions(i)[action] == 1, f"Agent {i} cannot perform action {action}"
        self.t += 1
        if self.crash_at is not None and self.t == self.crash_at:
            self.crash_at = None
            self.full_restart()
            return 0, True, {}
        reward = 0.0
        for i, action in enumerate(actions):
            if action >= MOVES:
                self.enemies[action - MOVES] -= 1
                reward += 1.0
            elif 2 <= action < MOVES:
                self.agents[i].x += 1.0 if action % 2 else -1.0
        if not self.harmless:
            hit = int(self.rng.integers(self.n_agents))
            self.agents[hit].health = max(0.0, self.agents[hit].health - 1.0)
        dead, fallen = sum(a.health <= 0 for a in self.agents.values()), int((self.enemies <= 0).sum())
        info: dict[str, Any] = {"battle_won": False, "dead_allies": dead, "dead_enemies": fallen}
        over = dead == self.n_agents or fallen == self.n_enemies
        if over:
            info["battle_won"] = fallen == self.n_enemies
        elif self.t >= self.episode_limit:
            over = True
            if self.continuing_episode:
                info["episode_limit"] = True
        return reward, over, info

    def get_obs(self) -> list[np.ndarray]:
        return [self.get_obs_agent(i) for i in range(self.n_agents)]

    def get_obs_agent(self, agent_id: int) -> np.ndarray:
        unit = self.agents[agent_id]
        if unit.health <= 0:
            return np.zeros(self.get_obs_size(), dtype=np.float32)
        return np.array([unit.x, unit.health, self.t / 10, *self.enemies], dtype=np.float32)

    def get_state(self, capabilities_only: bool = False) -> np.ndarray:
        units = [value for u in self.agents.values() for value in (u.x, u.health)]
        return np.array([*units, *self.enemies], dtype=np.float32)

    def get_avail_agent_actions(self, agent_id: int) -> list[int]:
        if self.agents[agent_id].health <= 0:
            return [1] + [0] * (self.n_actions - 1)
        return [0, 1, 1, 1, 1, 1, *(int(e > 0) for e in self.enemies)]

    def get_avail_actions(self) -> list[list[int]]:
        return [self.get_avail_agent_actions(i) for i in range(self.n_agents)]

    def get_stats(self) -> dict[str, Any]:
        return {"battles_game": self.battles, "restarts": self.force_restarts}

    def seed(self) -> int | None:
        return self._seed

    def render(self, mode: str = "human") -> Any:
        return np.zeros((4, 4, 3), dtype=np.uint8)

    def close(self) -> None:
        self.closed = True


class WeightedTeamsDistribution:
    def __init__(self, config: dict[str, Any]) -> None:
        self.units, self.weights = list(config["unit_types"]), list(config["weights"])
        self.exceptions, self.n_units = set(config["exception_unit_types"]), config["n_units"]
        self.env_key, self.rng = config["env_key"], np.random.default_rng()

    def generate(self) -> dict[str, Any]:
        team: list[str] = []
        while not team or all(kind in self.exceptions for kind in team):
            team = [str(kind) for kind in self.rng.choice(self.units, size=self.n_units, p=self.weights)]
        return {self.env_key: {"ally_team": team, "enemy_team": team}}


class ReflectPositionDistribution:
    def __init__(self, config: dict[str, Any]) -> None:
        self.high, self.n_units, self.env_key = config["map_x"] / 2, config["n_units"], config["env_key"]
        self.rng = np.random.default_rng()

    def generate(self) -> dict[str, Any]:
        return {self.env_key: {"ally_start_positions": self.rng.uniform(0, self.high, (self.n_units, 2))}}


class SurroundedAndReflectPositionDistribution:
    def __init__(self, config: dict[str, Any]) -> None:
        self.p_threshold, self.middle = config["p"], [config["map_x"] / 2, config["map_y"] / 2]
        self.reflect_distribution = ReflectPositionDistribution(config)
        self.env_key, self.rng = config["env_key"], np.random.default_rng()

    def generate(self) -> dict[str, Any]:
        if self.p_threshold > self.rng.random():
            return {self.env_key: {"ally_start_positions": np.array([self.middle] * self.reflect_distribution.n_units)}}
        return self.reflect_distribution.generate()


DISTRIBUTIONS = {
    "weighted_teams": WeightedTeamsDistribution,
    "surrounded_and_reflect": SurroundedAndReflectPositionDistribution,
}


class StarCraftCapabilityEnvWrapper:
    """Draws a team and where it starts for every episode, and hands everything else on, as smacv2's does."""

    def __init__(self, **kwargs: Any) -> None:
        self.distribution_config = kwargs["capability_config"]
        self.env_key_to_distribution_map = {}
        sizes = {name: self.distribution_config.get(name, 3) for name in ("n_units", "n_enemies")}
        for env_key, config in self.distribution_config.items():
            if env_key not in sizes:
                config.update(sizes, env_key=env_key)  # it writes into what it was given
                self.env_key_to_distribution_map[env_key] = DISTRIBUTIONS[config["dist_type"]](config)
        self.env = StarCraft2Env(**{**kwargs, **sizes})

    def reset(self) -> Any:
        drawn: dict[str, Any] = {}
        for distribution in self.env_key_to_distribution_map.values():
            drawn |= distribution.generate()
        return self.env.reset(drawn)

    def full_restart(self) -> None:
        self.env.full_restart()

    def __getattr__(self, name: str) -> Any:
        if hasattr(self.env, name):
            return getattr(self.env, name)
        raise AttributeError(name)

    def step(self, actions: Any) -> Any:
        return self.env.step(actions)

    def get_obs(self) -> Any:
        return self.env.get_obs()

    def get_state(self) -> Any:
        return self.env.get_state()

    def get_avail_actions(self) -> Any:
        return self.env.get_avail_actions()

    def get_env_info(self) -> Any:
        return self.env.get_env_info()

    def render(self, mode: str = "human") -> Any:
        return self.env.render(mode)

    def close(self) -> None:
        self.env.close()


def installed(monkeypatch: Any) -> None:
    """Puts the stand-ins where smacv2 would be imported from."""
    envs, maps = ModuleType("smacv2.env"), ModuleType("smacv2.env.starcraft2.maps.smac_maps")
    envs.StarCraft2Env, envs.StarCraftCapabilityEnvWrapper = StarCraft2Env, StarCraftCapabilityEnvWrapper
    maps.get_smac_map_registry = lambda: dict.fromkeys(MAPS, {})
    modules = {"smacv2.env": envs, maps.__name__: maps}
    for name in ("smacv2", "smacv2.env.starcraft2", "smacv2.env.starcraft2.maps"):
        modules[name] = ModuleType(name)
    for name, module in modules.items():
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
