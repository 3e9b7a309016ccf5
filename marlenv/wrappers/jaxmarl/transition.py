"""``Transition``: what a reset and a step of JaxMARL do in one row, without its auto-reset.

What a row remembers is a tree of arrays: the simulator's state, a random key, the number of steps and the flags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from marlenv.errors import KeyMissing
from marlenv.optional import need
from marlenv.wrappers._agent import check_named
from marlenv.wrappers._jax_rows import Layouts, Memory, by_agent, laid_out, strong

WHO = "JaxMARLWrapper"
NO_AGENTS = {"__all__", "world_state"}
"""What JaxMARL writes beside its agents."""
LIMIT = "truncation"
"""Where Brax's envs say in the infos that a time limit cut an episode off."""


class Transition:
    """One row: pure functions of what it remembers.

    Args:
        sim: a JaxMARL env.
        groups: how the data are laid out.
        names: the agents, in the simulator's order.
        legal: the simulator's function that says which actions are legal; None if it has none.
        max_steps: cut off after so many.
    """

    def __init__(self, sim: Any, groups: Layouts, names: tuple[str, ...], legal: str | None, max_steps: int) -> None:
        self.sim, self.groups, self.names, self.legal, self.max_steps = sim, groups, names, legal, max_steps
        self.jax, self.jnp = need("jax", WHO), need("jax.numpy", WHO)

    def start(self, key: Any) -> Any:
        key, drawn = self.jax.random.split(key)
        observations, state = self.sim.reset(drawn)
        check_agents("reset", self.names, observation=observations)
        nobody = self.jnp.zeros(len(self.names), dtype=bool)
        flags = {"terminated": nobody, "truncated": nobody, "over": self.jnp.zeros(2, dtype=bool)}
        memory = strong({"key": key, "state": state, "steps": self.jnp.int32(0), **flags})
        return memory, self._data(memory, observations, None)

    def step(self, memory: Memory, actions: Any) -> Any:
        jnp, names = self.jnp, self.names
        key, drawn = self.jax.random.split(memory["key"])
        chosen = by_agent(self.groups, actions)
        chosen = {a: chosen[a] for a in names}
        observations, state, rewards, dones, _ = self.sim.step_env(drawn, memory["state"], chosen)
        check_agents("step", self.names, observation=observations, reward=rewards, done=dones)
        steps, past = memory["steps"] + 1, memory["over"].any()
        done, left = dones["__all__"], jnp.stack([dones[a] for a in names])
        won, dead = self._ended(
            memory["state"], state, done, left, lambda now: self.sim.step_env(drawn, now, chosen)[3]
        )
        cut = (done & ~won) | ((steps >= self.max_steps) & ~(done & won))
        terminated = memory["terminated"] | dead | (done & won)
        truncated = memory["truncated"] | (cut & ~terminated)
        over = jnp.stack([done & won, cut])
        flags = {"terminated": terminated, "truncated": truncated, "over": over}
        flags = {name: jnp.where(past, memory[name], flag) for name, flag in flags.items()}
        memory = strong({"key": key, "state": state, "steps": steps, **flags})
        return memory, self._data(memory, observations, {a: jnp.where(past, 0, rewards[a]) for a in names})

    def look(self, memory: Memory) -> Any:
        observations = dict(self.sim.get_obs(memory["state"]))
        if hasattr(self.sim, "get_world_state"):
            observations["world_state"] = self.sim.get_world_state(memory["state"])
        return self._data(memory, observations, None)

    def _ended(self, before: Any, state: Any, done: Any, left: Any, played: Callable[[Any], Any]) -> tuple[Any, Any]:
        """Whether the task is over, and which agents are, time limits apart.

        Where the simulator cannot be asked, the flags of the same step at an earlier time say it; XLA plays no more of
        it than they need.

        Args:
            before: the state that the step started from.
            state: the one after it.
            done: the flag of all.
            left: the agents' own flags.
            played: the flags of the same step from another state.
        """
        jnp, inner = self.jnp, state.state if hasattr(state, "enemy_policy_state") else state
        limit, late = getattr(self.sim, "max_steps", None), jnp.zeros_like(done)
        if LIMIT in (getattr(state, "info", None) or ()):
            late = done & (state.info[LIMIT] > 0)
        elif limit is not None and hasattr(inner, "step"):
            if not hasattr(self.sim, "is_terminal"):
                flags = played(before.replace(step=jnp.full_like(before.step, -1)))
                return flags["__all__"], jnp.stack([flags[a] for a in self.names])
            said = {"done": jnp.zeros_like(inner.done)} if hasattr(inner, "done") else {}  # Overcooked asks it, too
            timeless = inner.replace(step=jnp.zeros_like(inner.step), **said)
            over = self.sim.is_terminal(timeless if inner is state else state.replace(state=timeless))
            late = done & ~over & (inner.step >= limit)
        return done & ~late, left & ~(late & left.all())

    def _data(self, memory: Memory, observations: Any, rewards: Any) -> Any:
        """Root and groups, laid out as they are handed over."""
        jnp = self.jnp
        terminated, truncated = memory["terminated"], memory["truncated"]
        alive = ~(terminated | truncated)
        legal = {} if self.legal is None else getattr(self.sim, self.legal)(memory["state"])
        agents: dict[str, dict[str, Any]] = {}
        for i, a in enumerate(self.names):
            flags = (terminated[i], truncated[i], ~alive[i])
            agents[a] = {
                "observation": observations[a],
                **{n: f[None] for n, f in zip(("terminated", "truncated", "done"), flags, strict=True)},
            }
            agents[a] |= {"alive": alive[i], "mask": alive[i]}
            if self.legal is not None:
                mask = legal[a].astype(bool)
                agents[a]["action_mask"] = mask | ~alive[i] | ~mask.any()
            if rewards is not None:
                agents[a]["reward"] = jnp.asarray(rewards[a], dtype=jnp.float32)[None]
        over = memory["over"]
        root = {"terminated": over[:1], "truncated": over[1:], "done": over.any()[None]}
        if "world_state" in observations:
            root["state"] = observations["world_state"]
        return laid_out(self.groups, agents, root)


def check_agents(verb: str, names: Sequence[str], **tables: Mapping[str, Any]) -> None:
    """Raises if a dict has an agent that the simulator never named, or lacks one that it did.

    Names do not depend on numbers: called while a step is compiled, this costs nothing afterwards.

    Args:
        verb: what was called, for the message.
        names: the agents.
        **tables: what is in a dict -> the dict.

    Raises:
        GroupError: an unknown agent.
        KeyMissing: an agent is missing.

    >>> check_agents("step", ["a", "b"], reward={"a": 1.0, "__all__": 1.0})
    Traceback (most recent call last):
    marlenv.errors.KeyMissing: JaxMARLWrapper.step: the simulator gave no 'reward' of agent 'b'
    """
    for what, table in tables.items():
        check_named(f"{WHO}.{verb}", table.keys() - NO_AGENTS, names)
        if missing := [name for name in names if name not in table]:
            raise KeyMissing(f"{WHO}.{verb}: the simulator gave no {what!r} of agent {missing[0]!r}")
