"""JaxMARL's transition, compiled for ``JaxMARLWrapper``: reset, masked reset and step of all rows.

Rows do not know of each other: row ``i`` draws from the key of ``(seed, i)``, however many rows there are.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

from marlenv.optional import need
from marlenv.wrappers.jaxmarl.transition import WHO, GroupLayout, Memory, Transition

FAR = 1 << 30  # steps; more than anybody plays


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


def can_mask(sim: Any, state: Any) -> bool:
    """Whether the simulator says which actions are legal."""
    try:
        need("jax", WHO).eval_shape(sim.get_avail_actions, state)
    except NotImplementedError:
        return False
    return True


@lru_cache(maxsize=64)
def compiled(
    sim: Any, groups: tuple[GroupLayout, ...], names: tuple[str, ...], masked: bool, max_steps: int | None
) -> Functions:
    """The functions of a simulator, compiled once for each way of grouping its agents."""
    jax, jnp = need("jax", WHO), need("jax.numpy", WHO)
    transition = Transition(sim, groups, names, masked, max_steps or FAR)

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
