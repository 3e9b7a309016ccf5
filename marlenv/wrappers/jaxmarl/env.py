"""JaxMARL (https://github.com/FLAIROx/JaxMARL, arXiv:2311.10090, tested with 0.2.0 on jax 0.10.2): MPE and SMAX."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar

from marlenv.errors import UnknownName, Unsupported, nearest
from marlenv.optional import need
from marlenv.options import naming_options
from marlenv.specs import Composite, Unbounded
from marlenv.wrappers._agent import AgentSpecs
from marlenv.wrappers._base import option_names, own_options
from marlenv.wrappers._jax_agents import JaxAgentsEnv
from marlenv.wrappers._jax_rows import Functions
from marlenv.wrappers._spaces import spec_of, torch_dtype
from marlenv.wrappers._used_options import check_used
from marlenv.wrappers.jaxmarl.checks import check_observations, check_sim, scenario_of
from marlenv.wrappers.jaxmarl.functions import compiled, legal_of


class JaxMARLWrapper(JaxAgentsEnv):
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
    one that resets; once an episode is over, its flags stay and nobody is paid. The infos are left out. Rows draw from
    keys of their own; :meth:`get_state` gives everything away.

    Args:
        env: a JaxMARL ``MultiAgentEnv``.
        num_envs: how many rows.
        batch_size: the same as ``[num_envs]``.
        **options: ``group_map``; ``categorical_actions`` (False: one-hot); ``max_steps``; ``seed``; ``device``.
    """

    libname: ClassVar[str] = "jaxmarl"
    git_url: ClassVar[str] = "https://github.com/FLAIROx/JaxMARL"

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

    def _compiled(self) -> Functions:
        return compiled(self._env, self._groups, tuple(self.agent_names), self._legal, self.max_steps)

    def __getstate__(self) -> dict[str, Any]:
        try:
            copy(self._env)
        except Exception as error:
            raise Unsupported.to_copy(type(self).__name__, f"a {type(self._env).__name__}") from error
        return super().__getstate__()


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
