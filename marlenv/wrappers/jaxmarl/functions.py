"""JaxMARL's transition, compiled for ``JaxMARLWrapper``: reset, masked reset and step of all rows.

Rows do not know of each other: row ``i`` draws from the key of ``(seed, i)``, however many rows there are.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple

from marlenv.optional import need
from marlenv.wrappers.jaxmarl.transition import WHO, GroupLayout, Memory, Transition

FAR = 1 << 30  # steps; more than anybody plays
LEGAL = ("get_avail_actions", "get_legal_moves")
"""What JaxMARL's envs call the function that says which actions are legal; the second one is Hanabi's."""


class Functions(NamedTuple):
    """The compiled functions of a simulator; memories and data have rows in front."""

    start: Any
    """Keys -> memory, data."""
    restart: Any
    """Memory, mask -> memory, data; rows that the mask leaves out keep their memory."""
    step: Any
    """Memory, actions by group -> memory, data."""
    look: Any
    """Memory -> data."""


def keys_of(seed: int, rows: int) -> Any:
    """A random key per row, committed to a device as actions are; else the second step would be compiled again."""
    jax, jnp = need("jax", WHO), need("jax.numpy", WHO)
    keys = jax.vmap(partial(jax.random.fold_in, jax.random.PRNGKey(seed % (1 << 32))))(jnp.arange(rows))
    return jax.device_put(keys, keys.device)


def legal_of(sim: Any, state: Any) -> str | None:
    """The simulator's function that says which actions are legal; None where it has none, or actions are no choices."""
    if not all(hasattr(sim.action_space(agent), "n") for agent in sim.agents):
        return None
    for name in LEGAL:
        if hasattr(sim, name):
            with suppress(NotImplementedError):
                need("jax", WHO).eval_shape(getattr(sim, name), state)
                return name
    return None


@lru_cache(maxsize=64)
def compiled(
    sim: Any, groups: tuple[GroupLayout, ...], names: tuple[str, ...], legal: str | None, max_steps: int | None
) -> Functions:
    """The functions of a simulator, compiled once for each way of grouping its agents."""
    jax, jnp = need("jax", WHO), need("jax.numpy", WHO)
    transition = Transition(sim, groups, names, legal, max_steps or FAR)

    def start(keys: Any) -> Any:
        return jax.vmap(transition.start)(keys)

    def restart(memory: Memory, mask: Any) -> Any:
        fresh, data = jax.vmap(transition.start)(memory["key"])
        pick = partial(jax.vmap(jnp.where), mask)
        return jax.tree.map(pick, fresh, memory), data

    def step(memory: Memory, actions: Any) -> Any:
        return jax.vmap(transition.step)(memory, actions)

    def look(memory: Memory) -> Any:
        return jax.vmap(transition.look)(memory)

    return Functions(*(jax.jit(function) for function in (start, restart, step, look)))
