"""``JaxStateEnv``: the base of wrappers of simulators that are pure functions of their state, in JAX."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.envs.seeding import fresh_seed
from marlenv.errors import NeedsReset
from marlenv.keys import DONE_NAMES
from marlenv.optional import need
from marlenv.specs import Binary, Composite
from marlenv.tensordicts import get, rows
from marlenv.wrappers._jax_arrays import check_rewards, on_host, row_keys, spec_of_tree, td_to_tree, to_jax, tree_to_td
from marlenv.wrappers._jax_compiled import CompiledEnv
from marlenv.wrappers._rows import rows_of

Row = dict[str, Any]
"""What is handed out of one row: arrays by name, dicts for nested entries."""


class JaxStateEnv(CompiledEnv):
    """An env around a simulator of JAX, whose state travels in the data under ``"state"``. Abstract.

    A step starts from the state in its data, so any position can be stepped again. All rows are stepped at once. Row
    ``i`` is reset with a key made of the seed, ``i`` and how often it was reset: rows do not know of each other.

    Args:
        env: the simulator's env.
        batch_size: how many rows; one without batch dimensions when None.
        num_envs: the same as ``batch_size=[num_envs]``.
        seed: seeds the env.
        jit: compile reset and step.
        **options: see :class:`~marlenv.wrappers._base.EnvWrapper`.
    """

    def __init__(
        self,
        env: Any = None,
        *,
        batch_size: Iterable[int] | None = None,
        num_envs: int | None = None,
        jit: bool = True,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        batch_size = rows_of(type(self).__name__, batch_size, num_envs)
        self._jit, self._seed_now, self._resets = jit, fresh_seed(), torch.zeros(0, dtype=torch.int64)
        super().__init__(batch_size=batch_size, **options, **({} if env is None else {"env": env}))
        if seed is not None:
            self.set_seed(seed)

    rows_are_chosen: ClassVar[bool] = True

    # --- hooks: pure functions of one row ----------------------------------------------------------

    @abstractmethod
    def row_reset(self, key: Any) -> tuple[Any, Row]:
        """A new state, and what is observed of it."""

    @abstractmethod
    def row_step(self, state: Any, action: Any) -> tuple[Any, Row]:
        """The next state, what is observed of it, ``reward``, and all flags."""

    def actions_of(self, tensordict: TensorDictBase) -> Tensor:
        """The actions ``[*B, ...]`` as the simulator takes them, choices as numbers."""
        return tensordict.get("action")

    def write_data(self, data: TensorDict, before: TensorDictBase | None) -> TensorDict:
        """The last touch to what is handed out; ``before`` is what a step started from, None in a reset."""
        return data

    # --- specs -----------------------------------------------------------------------------------

    @property
    def jit(self) -> bool:
        """Whether reset and step are compiled; may be set at any time."""
        return self._jit

    @jit.setter
    def jit(self, value: bool) -> None:
        self._jit = value
        self._functions = self._compiled()

    def _compiled(self) -> Any:
        jax = need("jax", type(self).__name__)
        functions = jax.vmap(self.row_reset), jax.vmap(self._row_steps)
        return tuple(map(jax.jit, functions)) if self._jit else functions

    def _shapes(self) -> tuple[Any, Any]:
        """Shapes of the state and of what is observed in a reset; keeps the former to read states with."""
        jax = need("jax", type(self).__name__)
        self._like, seen = jax.eval_shape(self.row_reset, jax.random.PRNGKey(0))
        return self._like, seen

    def _expanded(self, spec: Any) -> Any:
        return spec.expand(*self.batch_size, *spec.shape).to(self.device)

    def _set_specs(self, observed: Composite, action: Any, reward: Any, done: Composite | None = None) -> None:
        """Assigns the specs of a row, which are given without batch dimensions."""
        state = spec_of_tree(self._like, held=True)
        self.full_observation_spec = self._expanded(observed.clone().update(Composite(state=state)))
        self.full_action_spec = self._expanded(action if isinstance(action, Composite) else Composite(action=action))
        self.full_reward_spec = self._expanded(reward if isinstance(reward, Composite) else Composite(reward=reward))
        self.full_state_spec = self._expanded(Composite(state=state.clone()))
        flags = Composite({name: Binary(shape=(1,), dtype=torch.bool) for name in DONE_NAMES})
        self.full_done_spec = self._expanded(flags if done is None else done.update(flags))

    # --- an episode ------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None = None) -> TensorDict:
        lead = self.batch_size if tensordict is None or self.batch_locked else tensordict.batch_size
        mask = None if tensordict is None else get(tensordict, "_reset")
        where = torch.ones(lead.numel(), dtype=torch.bool) if mask is None else rows(mask, len(lead)).reshape(-1).cpu()
        if len(self._resets) < len(where):
            self._resets = torch.cat([self._resets, self._resets.new_zeros(len(where) - len(self._resets))])
        self._resets[: len(where)] += where
        keys = self._keys_of(self._resets[: len(where)])
        state, seen = self._functions[0](keys)
        return self._read(state, seen, lead, None)

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        held = self._held_state(tensordict, "step")
        lead = tensordict.batch_size
        flat, where = on_host(held.reshape(-1) if lead else held.unsqueeze(0)), f"{type(self).__name__}.step"
        state = td_to_tree(flat, self._like, where, one_row=True)
        action = on_host(self.actions_of(tensordict))
        state, seen = self._functions[1](state, to_jax(action.reshape(lead.numel(), *action.shape[len(lead) :])))
        return self._read(state, seen, lead, tensordict)

    def _held_state(self, tensordict: TensorDictBase, verb: str) -> TensorDictBase:
        held = tensordict.get("state", None)
        if held is None:
            raise NeedsReset(
                f"{type(self).__name__}.{verb}: there is no 'state' in the data, which holds the simulator; call reset "
                f"first, and keep 'state' from step to step (step_mdp does)"
            )
        return held

    def _row_steps(self, state: Any, action: Any) -> tuple[Any, Row]:
        """Plays an action ``frame_skip`` times, or until the episode ends; rewards are added up."""
        tree, jnp = need("jax.tree", type(self).__name__), need("jax.numpy", type(self).__name__)
        state, data = self.row_step(state, action)
        for _ in range(self.frame_skip - 1):
            again, more = self.row_step(state, action)
            more = {**more, "reward": data["reward"] + more["reward"]}
            over = data["done"].any()
            pick = partial(jnp.where, over)
            state, data = tree.map(pick, (state, data), (again, more))
        return state, data

    def _read(self, state: Any, seen: Row, lead: Size, before: TensorDictBase | None) -> TensorDict:
        out = tree_to_td(seen, lead.numel(), held=False).set("state", tree_to_td(state, lead.numel(), held=True))
        check_rewards(type(self).__name__, out.get("reward", None))
        out = out.reshape(lead) if lead else out.squeeze(0)
        out = self.write_data(out, before)
        return out if self.device is None else out.to(self.device)

    # --- randomness ------------------------------------------------------------------------------

    def _set_seed(self, seed: int | None) -> None:
        self._seed_now = fresh_seed() if seed is None else seed
        self._resets = torch.zeros(0, dtype=torch.int64)

    def _keys_of(self, resets: Tensor) -> Any:
        """The random key of every row for its reset of that number."""
        return row_keys(self._seed_now, resets)
