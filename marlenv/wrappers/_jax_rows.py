"""Simulators in JAX that are pure functions of one row: mapped over rows, compiled, and laid out by groups.

What a row remembers is a tree of arrays, with its random key among them. Rows do not know of each other: row ``i``
draws from the key of ``(seed, i)``, however many rows there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from marlenv.keys import Path
from marlenv.optional import need
from marlenv.wrappers._jax_arrays import WHO

FAR = 1 << 30  # steps; more than anybody plays
Memory = dict[str, Any]


class GroupLayout(NamedTuple):
    """A group of agents and whether its data are stacked lazily."""

    path: Path
    agents: tuple[str, ...]
    lazy: bool


Layouts = tuple[GroupLayout, ...]


class RowTransition(Protocol):
    """What a simulator does in one row, as pure functions; data are :func:`laid_out`."""

    def start(self, key: Any) -> Any:
        """A random key -> memory, with the next key as ``"key"``, and data."""

    def step(self, memory: Memory, actions: Any) -> Any:
        """Memory, and actions by group -> memory, data."""

    def look(self, memory: Memory) -> Any:
        """Memory -> data."""


class Functions(NamedTuple):
    """The functions of a transition, compiled; memories and data have rows in front."""

    start: Any
    restart: Any
    """Memory, mask -> memory, data; rows that the mask leaves out keep their memory."""
    step: Any
    look: Any


def over_rows(transition: RowTransition) -> Functions:
    """A transition for all rows at once, compiled when it is first used."""
    jax, jnp = need("jax", WHO), need("jax.numpy", WHO)
    start, step, look = (jax.vmap(f) for f in (transition.start, transition.step, transition.look))

    def restart(memory: Memory, mask: Any) -> Any:
        fresh, data = start(memory["key"])
        pick = partial(jax.vmap(jnp.where), mask)
        return jax.tree.map(pick, fresh, memory), data

    return Functions(*(jax.jit(function) for function in (start, restart, step, look)))


def by_agent(groups: Layouts, actions: Sequence[Any]) -> dict[str, Any]:
    """Agent -> its action, out of the actions of a row by group."""
    found: dict[str, Any] = {}
    for group, action in zip(groups, actions, strict=True):
        found |= {agent: action[i] for i, agent in enumerate(group.agents)}
    return found


def laid_out(groups: Layouts, agents: Mapping[str, Mapping[str, Any]], root: dict[str, Any]) -> Any:
    """A row's data as they are handed over: the root's, and the groups' side by side."""
    stack, stacked = need("jax.numpy", WHO).stack, []
    for _, names, lazily in groups:
        entries = [agents[name] for name in names]
        stacked.append(entries if lazily else {key: stack([one[key] for one in entries]) for key in entries[0]})
    return root, stacked


def strong(memory: Memory) -> Memory:
    """The same without weak types, with which the next step would be compiled once more."""
    jax, jnp = need("jax", WHO), need("jax.numpy", WHO)
    return jax.tree.map(lambda x: jnp.asarray(x, dtype=jnp.asarray(x).dtype), memory)


def keys_of(seed: int, rows: int) -> Any:
    """A random key per row, committed to a device as actions are; else the second step would be compiled again."""
    jax, jnp = need("jax", WHO), need("jax.numpy", WHO)
    keys = jax.vmap(partial(jax.random.fold_in, jax.random.PRNGKey(seed % (1 << 32))))(jnp.arange(rows))
    return jax.device_put(keys, keys.device)
