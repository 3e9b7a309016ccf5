"""JaxMARL (https://github.com/FLAIROx/JaxMARL, arXiv:2311.10090, tested with 0.2.0 on jax 0.10.2): MPE and SMAX."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.envs.seeding import fresh_seed
from marlenv.errors import ShapeError, UnknownName, Unsupported, nearest
from marlenv.optional import need
from marlenv.options import naming_options
from marlenv.specs import Composite, Unbounded
from marlenv.tensordicts import lazy, new
from marlenv.wrappers._agent import AgentSpecs
from marlenv.wrappers._base import option_names, own_options
from marlenv.wrappers._batched import BatchedAgentsEnv
from marlenv.wrappers._jax_arrays import td_to_tree, to_jax, to_wider, tree_to_td
from marlenv.wrappers._jax_compiled import CompiledEnv
from marlenv.wrappers._rows import rows_of
from marlenv.wrappers._spaces import spec_of, torch_dtype
from marlenv.wrappers._used_options import check_used
from marlenv.wrappers.jaxmarl.checks import check_observations, check_sim, scenario_of
from marlenv.wrappers.jaxmarl.functions import Functions, compiled, keys_of, legal_of
from marlenv.wrappers.jaxmarl.transition import GroupLayout


class JaxMARLWrapper(CompiledEnv, BatchedAgentsEnv):
    """A JaxMARL env, compiled, and batched with ``jax.vmap``. Tensors and JAX's arrays share memory.

    Per group of ``A`` agents; by name prefix (``"ally_0"``, ``"ally_1"`` -> ``"ally"``) unless ``group_map`` says
    otherwise:

    | key | shape | meaning |
    |---|---|---|
    | `observation` | `[B, A, *obs]` | |
    | `action` | `[B, A, *act]` | numbers, one-hot, or forces |
    | `action_mask` | `[B, A, n]` | legal actions, where the env says them; all True for the dead |
    | `alive`, `mask` | `[B, A]` | the agent lives |
    | `reward`, `done`, `terminated`, `truncated` | `[B, A, 1]` | a dead agent has terminated |

    At the root `done`, `terminated`, `truncated` `[B, 1]`, and `state` where the env gives a ``world_state``. JaxMARL's
    own time limit, which is its ``max_steps`` or Brax's, and ``max_steps`` truncate; limits that an env counts
    otherwise (``coin_game``) terminate. Final observations are kept, because the functional step is used and not the
    one that resets. The infos are left out. Rows draw from keys of their own; :meth:`get_state` gives everything away.

    Args:
        env: a JaxMARL ``MultiAgentEnv``.
        num_envs: how many rows.
        batch_size: the same as ``[num_envs]``.
        **options: ``group_map``; ``categorical_actions`` (False: one-hot); ``max_steps``; ``seed``; ``device``.
    """

    libname: ClassVar[str] = "jaxmarl"
    git_url: ClassVar[str] = "https://github.com/FLAIROx/JaxMARL"
    rows_are_chosen: ClassVar[bool] = True
    agents_end = True
    counts_steps: ClassVar[bool] = True

    def __init__(
        self,
        env: Any = None,
        *,
        num_envs: int | None = None,
        batch_size: Sequence[int] | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        who = type(self).__name__
        asked = rows_of(who, batch_size, num_envs)
        batch = Size([1]) if asked is None else asked
        if len(batch) != 1 or batch[0] < 1:
            raise ShapeError(f"{who}: batch_size must be [num_envs], with a row or more, got {list(batch)}")
        super().__init__(env=env, batch_size=batch, seed=fresh_seed() if seed is None else seed, **options)

    @classmethod
    def _task_names(cls) -> list[str]:
        return sorted(need("jaxmarl", "JaxMARLEnv").registered_envs)

    def _build_env(self, env: Any = None) -> Any:
        check_sim(type(self).__name__, env)
        return env

    def agent_specs(self) -> dict[str, AgentSpecs]:
        sim, jax = self._env, need("jax", type(self).__name__)
        self._shapes, state = jax.eval_shape(sim.reset, jax.random.PRNGKey(0))
        check_observations(type(self).__name__, sim, self._shapes)
        self._legal, found = legal_of(sim, state), {}
        for agent in sim.agents:
            shape, acted = self._shapes[agent], sim.action_space(agent)
            observed = Composite(observation=Unbounded(shape.shape, dtype=torch_dtype(shape.dtype)))
            action = spec_of(acted, categorical=self.categorical_actions)
            found[agent] = AgentSpecs(observed, action, None if self._legal is None else int(acted.n))
        return found

    def root_specs(self) -> Composite:
        world = self._shapes.get("world_state")
        return Composite() if world is None else Composite(state=Unbounded(world.shape, dtype=torch_dtype(world.dtype)))

    def _init_env(self) -> None:
        self._groups = tuple(GroupLayout(path, agents, self._lazy[path]) for path, agents in self.tree.groups.items())
        self._memory: Any = None
        super()._init_env()

    def _compiled(self) -> Functions:
        return compiled(self._env, self._groups, tuple(self.agent_names), self._legal, self.max_steps)

    def __getstate__(self) -> dict[str, Any]:
        try:
            copy(self._env)
        except Exception as error:
            raise Unsupported.to_copy(type(self).__name__, f"a {type(self._env).__name__}") from error
        return super().__getstate__()

    # --- stepping --------------------------------------------------------------------------------

    def sim_reset(self, where: Tensor | None) -> TensorDict:
        if self._memory is None or where is None:
            keys = self._keys if self._memory is None else self._memory["key"]
            self._memory, data = self._functions.start(keys)
        else:
            self._memory, data = self._functions.restart(self._memory, to_jax(where))
        return self._read(data)

    def sim_step(self, tensordict: TensorDictBase) -> TensorDict:
        actions = [
            [to_jax(x) for x in a] if isinstance(a, list) else to_jax(a)
            for a in self.group_actions(tensordict).values()
        ]
        self._memory, data = self._functions.step(self._memory, actions)
        return self._read(data)

    def _read(self, data: Any) -> TensorDict:
        root, stacked = need("jax.tree", type(self).__name__).map(to_wider, data)
        groups = {}
        for (path, agents, lazily), entries in zip(self._groups, stacked, strict=True):
            lead = torch.Size((*self.batch_size, len(agents)))
            groups[path] = lazy([new(x, self.batch_size) for x in entries], 1) if lazily else new(entries, lead)
        return self.rooted(dict(root), groups)

    # --- randomness and state --------------------------------------------------------------------

    def _set_seed(self, seed: int | None) -> None:
        self._keys = keys_of(fresh_seed() if seed is None else seed, self.batch_size[0])
        if self._memory is not None:
            self._memory = {**self._memory, "key": self._keys}

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        self._check_began("get_state")
        return tree_to_td(self._memory, self.batch_size[0], held=True)

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        like = self._functions.start(self._keys)[0] if self._memory is None else self._memory
        self._memory, self._began = td_to_tree(state, like), True
        return self._read(self._functions.look(self._memory))


class JaxMARLEnv(JaxMARLWrapper):
    """A JaxMARL env by its name: MPE (``"MPE_simple_spread_v3"``), ``"SMAX"`` and ``"HeuristicEnemySMAX"``.

    Args:
        task: its name in ``jaxmarl.registered_envs``; others than MPE and SMAX may run, and are not tested.
        **options: those of :class:`JaxMARLWrapper`, and those of the env: ``num_agents=5``, ``scenario="3m"``, which is
            JaxMARL's name of a map or an object of its ``map_name_to_scenario``.

    Raises:
        UnknownName: there is no such env; names the nearest.
        TypeError: there is no such option; names the nearest.
    """

    def __init__(self, task: str, **options: Any) -> None:
        library, known = need("jaxmarl", "JaxMARLEnv"), self.available_envs
        if task not in known:
            raise UnknownName(f"JaxMARLEnv: no env is called {task!r}; {nearest(task, known)}")
        who, self.task_name, ours = type(self).__name__, task, own_options(type(self), options)
        if isinstance(options.get("scenario"), str):
            options["scenario"] = scenario_of(who, options["scenario"])
        with naming_options(who, options, option_names(type(self))):
            sim = library.make(task, **options)
        check_used(who, sim, options, option_names(type(self)))
        super().__init__(sim, **ours)
