"""The law of every wrapper: what it hands out is what the simulator says, entry by entry, for the same actions and
seed.

A ``Player`` steps a raw simulator by hand, in as few lines as its docs need. ``follow`` plays it beside a wrapper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from tensordict import LazyStackedTensorDict

from marlenv.envs.seeding import next_seed

Ends = dict[str, tuple[bool, bool]]


class SimStep(NamedTuple):
    """What a raw simulator says at one moment."""

    observations: Mapping[str, Mapping[Any, Any]]
    """Agent -> entry -> value, for those who are looked at; an entry may be a path."""
    ends: Ends
    """Every agent that has ended so far: terminated, truncated."""
    alive: set[str]
    acting: set[str]
    rewards: Mapping[str, float] = {}
    legal: Mapping[str, Any] = {}
    """Agent that acts -> its mask."""
    root: Mapping[str, Any] = {}


class Player(Protocol):
    def reset(self, seed: int | None) -> SimStep: ...

    def step(self, actions: dict[str, Any]) -> SimStep: ...


def groups_by(labels: Sequence[int], names: Sequence[str]) -> dict[str, Any]:
    """A group map that puts agents of one label (0, 1 or 2) side by side; the last group is nested."""
    groups: dict[str, Any] = {
        f"group_{k}": [n for n, of in zip(names, labels, strict=True) if of == k] for k in sorted(set(labels))
    }
    if "group_2" in groups:
        groups["group_2"] = {"inside": groups["group_2"]}
    return groups


class Row:
    """What one agent has in the tensordict of a moment; only the entries that are asked for are cut out."""

    def __init__(self, env: Any, td: Any, agent: str) -> None:
        path, self.i = env.tree.place[agent]
        self.group = td.get(path if len(path) > 1 else path[0])
        if isinstance(self.group, LazyStackedTensorDict):
            self.group, self.i = self.group.tensordicts[self.i], ...

    def __getitem__(self, entry: Any) -> Any:
        return self.group.get(entry)[self.i]

    def __contains__(self, entry: str) -> bool:
        return entry in self.group.keys()


def actions_of(env: Any) -> dict[str, Any]:
    """Agent -> the spec of its actions."""
    rows = {agent: env.full_action_spec[path][i] for agent, (path, i) in env.tree.place.items()}
    return {agent: row["action"] for agent, row in rows.items()}


def check(env: Any, td: Any, step: SimStep, first: bool) -> None:
    """One moment of the wrapper against one of the simulator."""
    for agent in env.agent_names:
        node = Row(env, td, agent)
        for entry, value in step.observations.get(agent, {}).items():
            if value is not None:
                got = node[entry].numpy()
                assert np.array_equal(got, np.asarray(value).reshape(got.shape).astype(got.dtype)), (
                    agent,
                    entry,
                    got,
                    value,
                )
        terminated, truncated = step.ends.get(agent, (False, False))
        flags = [bool(node[name]) for name in ("terminated", "truncated", "done")]
        assert flags == [terminated, truncated, terminated or truncated], (agent, flags, step.ends)
        if env.use_mask:
            assert bool(node["alive"]) == (agent in step.alive), (agent, step.alive)
            assert bool(node["mask"]) == (agent in step.acting), (agent, step.acting)
        if "action_mask" in node:
            legal = step.legal.get(agent)
            want = (
                np.ones(node["action_mask"].shape, bool)
                if legal is None or not np.any(legal)
                else np.asarray(legal, bool)
            )
            assert np.array_equal(node["action_mask"].numpy(), want), (agent, legal)
        if not first and not env.team_reward:
            want = np.asarray(step.rewards.get(agent, 0.0), dtype=node["reward"].numpy().dtype)
            assert float(node["reward"]) == float(want), (agent, step.rewards)
    for entry, value in step.root.items():
        got = td[entry]
        got = got.numpy() if isinstance(got, torch.Tensor) else got
        assert np.array_equal(got, np.asarray(value).reshape(np.shape(got)).astype(got.dtype)), (entry, got, value)
    check_root(env, td, step)


def check_root(env: Any, td: Any, step: SimStep) -> None:
    there = [step.ends.get(a, (False, False)) for a in env.agent_names if a in step.ends or a in step.alive]
    rule = any if env.done_on_any else all
    done = rule(t or c for t, c in there) if there else False
    terminated = rule(t for t, _ in there) and done
    truncated = done and (rule(c for _, c in there) or not terminated)
    got = [bool(td[name]) for name in ("done", "terminated", "truncated")]
    assert got == [done, terminated, truncated], (got, there)


def follow(env: Any, player: Player, seed: int | None, episodes: int, max_steps: int = 200) -> int:
    """Plays both with the same random actions; returns how many steps were compared."""
    if seed is not None:
        env.set_seed(seed)
    steps, specs = 0, actions_of(env)
    for episode in range(episodes):
        td = env.reset()
        step = player.reset(seed if episode == 0 else None)
        check(env, td, step, True)
        for _ in range(max_steps):
            td = env.rand_action(td)
            step = player.step({a: specs[a].to_numpy(Row(env, td, a)["action"]) for a in step.acting})
            td = env.step(td)
            check(env, td["next"], step, False)
            td = env.step_mdp(td)
            steps += 1
            if bool(td["done"]) or not step.acting:
                break
    return steps


class Parallel:
    """A PettingZoo parallel env, by hand."""

    def __init__(self, sim: Any) -> None:
        self.sim, self.seed = sim, None

    def reset(self, seed: int | None) -> SimStep:
        self.ends: Ends = {}
        self.seed = seed if seed is not None or self.seed is None else next_seed(self.seed)
        observations, infos = self.sim.reset(seed=None if self.seed is None else self.seed % (1 << 31))
        return self._say(observations, infos)

    def step(self, actions: dict[str, Any]) -> SimStep:
        sim, before = self.sim, set(self.sim.agents)
        starts = {a: int(getattr(sim.action_space(a), "start", 0)) for a in actions}
        played = {a: (int(x) + starts[a] if np.ndim(x) == 0 else x) for a, x in actions.items()}
        observations, rewards, terminated, truncated, infos = sim.step(played)
        for a in before - observations.keys():
            self.ends.setdefault(a, (True, False))
        for a in observations:
            if terminated[a] or truncated[a]:
                self.ends.setdefault(a, (bool(terminated[a]), bool(truncated[a])))
        return self._say(observations, infos, rewards)

    def _say(self, observations: Any, infos: Any, rewards: Any = None) -> SimStep:
        alive = set(self.sim.agents) - self.ends.keys()
        looks = {a: entries_of(o) for a, o in observations.items()}
        legal = {a: m for a in alive if (m := mask_of(observations[a], infos.get(a))) is not None}
        return SimStep(looks, dict(self.ends), alive, alive, rewards or {}, legal)


def entries_of(observation: Any) -> dict[Any, Any]:
    """An observation as the entries that the wrapper emits."""
    if isinstance(observation, Mapping):
        return {("observation", k): v for k, v in observation.items() if k != "action_mask"}
    return {"observation": observation}


def mask_of(observation: Any, info: Any) -> Any:
    if isinstance(observation, Mapping) and "action_mask" in observation:
        return observation["action_mask"]
    return (info or {}).get("action_mask")


class Turns:
    """A PettingZoo AEC env, by hand: dead steps are done; who acts next, who has appeared and who ends is looked at."""

    def __init__(self, sim: Any) -> None:
        self.sim, self.seed = sim, None

    def reset(self, seed: int | None) -> SimStep:
        self.seed = seed if seed is not None or self.seed is None else next_seed(self.seed)
        self.sim.reset(seed=None if self.seed is None else self.seed % (1 << 31))
        self.ends: Ends = {}
        return self._say({a: self.sim.observe(a) for a in self.sim.agents}, {})

    def step(self, actions: dict[str, Any]) -> SimStep:
        sim = self.sim
        ((agent, action),) = actions.items()
        before = set(sim.agents)
        start = int(getattr(sim.action_space(agent), "start", 0))
        sim.step(int(action) + start if np.ndim(action) == 0 else action)
        rewards = {a: sim.rewards.get(a, 0.0) for a in (*sim.agents, *before)}
        observations = {}
        for a in sim.agents:
            if (sim.terminations[a] or sim.truncations[a]) and a not in self.ends:
                self.ends[a] = (bool(sim.terminations[a]), bool(sim.truncations[a]))
                observations[a] = sim.observe(a)
        for a in before - set(sim.agents):
            self.ends.setdefault(a, (True, False))
        born = set(sim.agents) - before - observations.keys()
        while sim.agents and (sim.terminations[sim.agent_selection] or sim.truncations[sim.agent_selection]):
            sim.step(None)
        for a in sorted(born | {sim.agent_selection} if sim.agents else born):
            observations[a] = sim.observe(a)
        return self._say(observations, {a: r for a, r in rewards.items() if a in observations or a in sim.agents})

    def _say(self, observations: Any, rewards: Any) -> SimStep:
        sim = self.sim
        acting = {sim.agent_selection} if sim.agents else set()
        legal = {a: m for a in acting if (m := mask_of(observations[a], sim.infos.get(a))) is not None}
        return SimStep(
            {a: entries_of(o) for a, o in observations.items()},
            dict(self.ends),
            set(sim.agents) - self.ends.keys(),
            acting,
            rewards,
            legal,
        )


class Spiel:
    """A game of OpenSpiel, by hand; chance is drawn by the same function of the same generator as in the wrapper."""

    def __init__(
        self, game: Any, draw: Callable[[Any], None], entries: Mapping[str, tuple[int, ...]], actions: int
    ) -> None:
        self.game, self.draw, self.entries, self.actions = game, draw, entries, actions

    def reset(self, seed: int | None) -> SimStep:
        self.state = self.game.new_initial_state()
        self.draw(self.state)
        self.before = list(self.state.returns())
        return self._say({})

    def step(self, actions: dict[str, Any]) -> SimStep:
        chosen = {int(a.split("_")[1]): int(x) for a, x in actions.items()}
        if self.state.is_simultaneous_node():
            self.state.apply_actions([chosen.get(i, 0) for i in range(self.game.num_players())])
        else:
            self.state.apply_action(chosen[self.state.current_player()])
        self.draw(self.state)
        now = list(self.state.returns())
        rewards = {f"player_{i}": b - a for i, (a, b) in enumerate(zip(self.before, now, strict=True))}
        self.before = now
        return self._say(rewards)

    def _say(self, rewards: Any) -> SimStep:
        state, players = self.state, range(self.game.num_players())
        over = state.is_terminal()
        observations = {
            f"player_{i}": {e: np.array(getattr(state, f"{e}_tensor")(i), np.float32) for e in self.entries}
            for i in players
        }
        acting = set() if over else {i for i in players if state.legal_actions(i)}
        if not over and not state.is_simultaneous_node():
            acting = {state.current_player()}
        legal = {}
        for i in acting:
            mask = np.zeros(self.actions, bool)
            mask[state.legal_actions(i)] = True
            legal[f"player_{i}"] = mask
        names = {f"player_{i}" for i in players}
        ends = dict.fromkeys(names, (True, False)) if over else {}
        root = {"current_player": state.current_player()}
        return SimStep(
            observations, ends, set() if over else names, {f"player_{i}" for i in acting}, rewards, legal, root
        )
