"""Jumanji's games and puzzles, simulated in JAX.

https://github.com/instadeepai/jumanji, tested with 1.1.2 and JAX 0.10.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.errors import GroupError
from marlenv.groups import MarlGroupMapType
from marlenv.groups.maps import GroupMap
from marlenv.keys import nested
from marlenv.optional import need
from marlenv.specs import Bounded, Composite, Unbounded
from marlenv.wrappers._agent_columns import AgentColumns
from marlenv.wrappers._choices import check_choices
from marlenv.wrappers._jax_arrays import on_host, td_to_tree
from marlenv.wrappers._jax_state import JaxStateEnv, Row
from marlenv.wrappers._roster import AgentsWrapper
from marlenv.wrappers.jumanji.layers import check
from marlenv.wrappers.jumanji.pixels import pictures
from marlenv.wrappers.jumanji.specs import fitted, of_agents, spec_of

SHARED = {"grid", "node_types", "adj_matrix"}
"""Entries that all agents observe, even where they happen to be as long as there are agents."""


class JumanjiWrapper(JaxStateEnv, AgentsWrapper):
    """An env of Jumanji's: a game or puzzle, or a task for several agents, which become groups.

    | key | shape | meaning |
    |---|---|---|
    | as the env calls them | `[*B, ...]` | what is observed; `observation` where it has no names |
    | `action_mask` | bool `[*B, ...]` | legal actions, where the env says so; all of them once there are none |
    | `action` | int32 `[*B]`, `[*B, n]` | several choices are several numbers; one-hot if asked for |
    | `reward` | float32 `[*B, 1]` | |
    | `done`, `terminated`, `truncated` | bool `[*B, 1]` | the last step terminates if its discount is 0, or truncates |
    | `state` | nested | Jumanji's own state, from which the next step starts |
    | `pixels` | uint8 `[*B, H, W, 3]` | what its viewer draws, with ``from_pixels`` |

    Where the env has agents (``env.num_agents``), they are ``agent_0``, ``agent_1``, ... in one group ``agents``,
    unless ``group_map`` says otherwise:

    | key | shape | meaning |
    |---|---|---|
    | `(group, ...)` | `[*B, A, ...]` | what each agent observes; what all of them do stands at the root |
    | `(group, "action")` | `[*B, A]` or `[*B, A, n]` | |
    | `(group, "reward")` | float32 `[*B, A, 1]` | `reward` at the root where the team has one reward |
    | `(group, "alive")`, `(group, "mask")` | bool `[*B, A]` | not done |
    | `(group, "done")`, ... | bool `[*B, A, 1]` | an agent whose discount is 0 has terminated, others may go on |

    Args:
        env: the env, as ``jumanji.make`` makes it.
        categorical_action_encoding: choices as numbers; else one-hot.
        batch_size: how many rows; when None, as many as the data have, such as ``reset(TensorDict(batch_size=[32]))``.
        group_map: group -> agents, for envs that have agents.
        from_pixels: draw every row after every step, which takes a good part of a second.
        pixels_only: leave out what is observed besides pixels, but for `action_mask`.
        jit: compile reset and step.
        **options: ``device``, ``frame_skip``, ``allow_done_after_reset``, ``run_type_checks``.

    Raises:
        SpecTypeError: ``env`` is none of Jumanji's.
        Unsupported: it resets itself, so that its last observations would be lost, or is a batch already.
        GroupError: there is a ``group_map`` and there are no agents.

    >>> JumanjiWrapper.libname
    'jumanji'

    Source: Jumanji 1.1.2, https://arxiv.org/abs/2306.09884.
    """

    libname: ClassVar[str] = "jumanji"
    git_url: ClassVar[str] = "https://github.com/instadeepai/jumanji"

    def __init__(
        self,
        env: Any = None,
        categorical_action_encoding: bool = True,
        jit: bool = True,
        *,
        group_map: GroupMap | MarlGroupMapType | str | None = None,
        from_pixels: bool = False,
        pixels_only: bool = False,
        **options: Any,
    ) -> None:
        self.from_pixels, self.pixels_only = from_pixels, from_pixels and pixels_only
        self.categorical_action_encoding, self._asked_groups = categorical_action_encoding, group_map
        super().__init__(env, jit=jit, **options)
        self.batch_locked = any(options.get(name) is not None for name in ("batch_size", "num_envs"))

    @classmethod
    def _task_names(cls) -> list[str]:
        return sorted(need("jumanji", cls.__name__).registered_environments())

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        check(type(self).__name__, kwargs.get("env"))

    def _build_env(self, env: Any = None) -> Any:
        return env

    def _make_specs(self, env: Any) -> None:
        who, acts, categorical = type(self).__name__, env.action_spec, self.categorical_action_encoding
        count = getattr(env, "num_agents", None)
        if count is None or tuple(acts.shape[:1]) != (count,):
            if self._asked_groups is not None:
                raise GroupError(f"{who}: {type(env).__name__} has one agent, got group_map=; leave it out")
            count = None
        own_rewards = tuple(env.reward_spec.shape) != ()
        names = None if count is None else [f"agent_{i}" for i in range(count)]
        self._agents: Any = None
        if names is not None:
            self._agents = AgentColumns(names, self._asked_groups, own_rewards=own_rewards)
        seen = spec_of(env.observation_spec)
        observed = seen if isinstance(seen, Composite) else Composite(observation=seen)
        self._shapes()
        if self.from_pixels:
            first, _ = need("jax", who).vmap(self.row_reset)(need("jax.random", who).PRNGKey(0)[None])
            drawn = pictures(who, env, first)
            observed = Composite({name: observed[name] for name in self._kept(observed.keys())})
            observed["pixels"] = Bounded(0, 255, drawn.shape[1:], dtype=torch.uint8)
        if self._agents is None:
            self._set_specs(observed, spec_of(acts, categorical=categorical), Unbounded((1,)))
            return
        columns = self._agents
        self.agent_names, self.group_map, self.tree = columns.names, columns.group_map, columns.tree
        action = columns.actions(of_agents(acts, categorical=categorical))
        own = [name for name, spec in observed.items() if name not in SHARED and spec.shape[:1] == (count,)]
        self._set_specs(columns.observations(observed, own), action, columns.rewards(), columns.flags())

    # --- an episode ------------------------------------------------------------------------------

    def row_reset(self, key: Any) -> tuple[Any, Row]:
        """A new state, and what is observed of it."""
        state, step = self._env.reset(key)
        data = self._observed(step.observation)
        return state, data if self._agents is None else {**data, **self._of_agents(step)}

    def row_step(self, state: Any, action: Any) -> tuple[Any, Row]:
        """The next state, what is observed of it, reward and flags."""
        state, step = self._env.step(state, action)
        data, reward = self._observed(step.observation), step.reward.astype("float32")
        if self._agents is not None:
            return state, {**data, "reward": reward, **self._of_agents(step)}
        done, over = step.last()[None], step.discount[None] == 0
        flags = {"done": done, "terminated": done & over, "truncated": done & ~over}
        return state, {**data, "reward": reward[None], **flags}

    def _observed(self, observation: Any) -> Row:
        seen = fitted(self._env.observation_spec, observation)
        data: Row = seen if isinstance(seen, dict) else {"observation": seen}
        if "action_mask" in data:
            legal = data["action_mask"]
            data["action_mask"] = legal | ~legal.any(-1 if self._agents is not None else None, keepdims=True)
        return {name: data[name] for name in self._kept(data)}

    def _kept(self, names: Iterable[str]) -> list[str]:
        """The names of what is observed besides pixels."""
        return [name for name in names if not self.pixels_only or name == "action_mask"]

    def _of_agents(self, step: Any) -> Row:
        """Whether the episode is over, and the discount of every agent."""
        jnp = need("jax.numpy", type(self).__name__)
        discount = jnp.broadcast_to(jnp.asarray(step.discount, dtype=jnp.float32), (self._agents.count,))
        return {"done": step.last(), "discount": discount}

    def actions_of(self, tensordict: TensorDictBase) -> Tensor:
        """The actions of all agents side by side, as Jumanji takes them."""
        spec: Any = self.full_action_spec
        found = []
        for path in [()] if self._agents is None else self._agents.columns:
            key = nested((*path, "action"))
            one, action = spec[key], tensordict.get(key)
            acting = tensordict.get(nested((*path, "mask")), None) if path else None
            check_choices(type(self).__name__, one, action, acting)
            as_it_is = self.categorical_action_encoding or not hasattr(one, "to_categorical")
            found.append(action if as_it_is else one.to_categorical(action))
        return found[0] if self._agents is None else self._agents.side_by_side(found, tensordict.ndim)

    def write_data(self, data: TensorDict, before: TensorDictBase | None) -> TensorDict:
        """Sorts what all agents got into groups, and draws."""
        if self.from_pixels:
            data["pixels"] = self.render(data)
        return data if self._agents is None else self._agents.sort(data, before)

    def render(
        self, tensordict: TensorDictBase, matplotlib_backend: str | None = None, as_numpy: bool = False
    ) -> Tensor | NDArray[np.uint8]:
        """What Jumanji draws of the states in data, uint8 ``[*B, H, W, 3]``.

        Args:
            tensordict: has a ``"state"``.
            matplotlib_backend: what draws, such as ``"agg"``; as matplotlib is set up when None.
            as_numpy: give an array.

        Raises:
            NeedsReset: there is no ``"state"``.
            Unsupported: the env draws nothing.
        """
        who = f"{type(self).__name__}.render"
        if matplotlib_backend is not None:
            need("matplotlib", who).use(matplotlib_backend)
        states = self._held_state(tensordict, "render")
        rows = on_host(states.reshape(-1) if states.ndim else states[None])
        drawn = pictures(who, self._env, td_to_tree(rows, self._like, who, one_row=True))
        drawn = drawn.reshape(*states.batch_size, *drawn.shape[1:])
        return drawn.numpy() if as_numpy else drawn
