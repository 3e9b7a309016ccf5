"""Pgx's games (https://github.com/sotetsuk/pgx, arXiv:2303.17503, tested with 2.6.0 on jax 0.10.2)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import torch

from marlenv.errors import SpecError, UnknownName, nearest
from marlenv.groups import MarlGroupMapType
from marlenv.groups.maps import GroupMap
from marlenv.optional import need
from marlenv.options import check_options
from marlenv.specs import Binary, Categorical, Composite, OneHot, Unbounded
from marlenv.wrappers._agent import AgentSpecs
from marlenv.wrappers._base import option_names
from marlenv.wrappers._jax_agents import JaxAgentsEnv
from marlenv.wrappers._jax_rows import FAR, Functions, Layouts, Memory, by_agent, laid_out, over_rows, strong
from marlenv.wrappers._spaces import torch_dtype

WHO = "PgxWrapper"


class PgxWrapper(JaxAgentsEnv):
    """A game of Pgx, compiled, and batched with ``jax.vmap``: board games, cards, dice, and MinAtar's for one.

    Per group of ``A`` players, one group ``"agents"`` unless ``group_map`` says otherwise:

    | key | shape | meaning |
    |---|---|---|
    | `observation` | `[B, A, *obs]` | the position from each player's seat; planes are bool where Pgx's are |
    | `action` | `[B, A]` or `[B, A, n]` | read where `mask` is True; an illegal one loses the game, as Pgx has it |
    | `action_mask` | bool `[B, A, n]` | legal actions; all True for those who do not act |
    | `alive`, `mask` | bool `[B, A]` | the game goes on; it is this player's turn |
    | `reward` | float32 `[B, A, 1]` | what the step brought each player, whoever moved |
    | `done`, `terminated`, `truncated` | bool `[B, A, 1]` | as at the root |

    At the root `current_player` int32 `[B]`, the number of the player who moves (-1 once the game is over), and the
    flags `[B, 1]`. Which player has which colour is drawn in every game. A game that nothing but a limit of moves ends
    (512 in chess and shogi, 256 in Gardner's chess and animal shogi, twice the points of a board of Go, a time in
    Freeway) is truncated, with the rewards that Pgx pays; ``max_steps`` truncates, too. Chance is drawn from the row's
    own key.

    Args:
        env: a ``pgx.Env``.
        num_envs: how many rows.
        batch_size: the same as ``[num_envs]``.
        **options: ``group_map``; ``categorical_actions`` (False: one-hot); ``max_steps``; ``seed``; ``device``.

    Source: Koyamada et al., "Pgx: Hardware-Accelerated Parallel Game Simulators for Reinforcement Learning", 2023.
    """

    libname: ClassVar[str] = "pgx"
    git_url: ClassVar[str] = "https://github.com/sotetsuk/pgx"

    @classmethod
    def _task_names(cls) -> list[str]:
        return sorted(need("pgx", "PgxEnv").available_envs())

    def _build_env(self, env: Any = None) -> Any:
        if not isinstance(env, need("pgx", type(self).__name__).Env):
            raise SpecError(f"{type(self).__name__}: expected a pgx.Env, got {type(env).__name__}; PgxEnv takes names")
        return env

    def agent_specs(self) -> dict[str, AgentSpecs]:
        jax = need("jax", type(self).__name__)
        state = jax.eval_shape(self._env.init, jax.random.PRNGKey(0))
        seen, (n,) = state.observation, state.legal_action_mask.shape
        dtype = torch_dtype(seen.dtype)
        spec = Binary(shape=seen.shape, dtype=dtype) if dtype == torch.bool else Unbounded(seen.shape, dtype=dtype)
        action = Categorical(n) if self.categorical_actions else OneHot(n, dtype=torch.int64)
        one = AgentSpecs(Composite(observation=spec), action, n)
        return {f"player_{i}": one for i in range(self._env.num_players)}

    def default_groups(self, names: Sequence[str]) -> GroupMap:
        return MarlGroupMapType.ALL_IN_ONE_GROUP.get_group_map(names)

    def root_specs(self) -> Composite:
        return Composite(current_player=Unbounded((), dtype=torch.int32))

    def _compiled(self) -> Functions:
        return over_rows(Game(self._env, self._groups, tuple(self.agent_names), self.max_steps or FAR))

    @property
    def sim_state(self) -> Any:
        """Pgx's own state of all rows, which it can draw: ``env.sim_state.save_svg("games.svg")``."""
        self._check_began("sim_state")
        return self._memory["state"]


class Game:
    """A game of Pgx's in one row: pure functions of what it remembers.

    Args:
        sim: a ``pgx.Env``.
        groups: how the data are laid out.
        names: the players, by their numbers.
        max_steps: cut off after so many.
    """

    def __init__(self, sim: Any, groups: Layouts, names: tuple[str, ...], max_steps: int) -> None:
        self.sim, self.groups, self.names, self.max_steps = sim, groups, names, max_steps
        self.jax, self.jnp = need("jax", WHO), need("jax.numpy", WHO)

    def start(self, key: Any) -> Any:
        """A new game."""
        key, drawn = self.jax.random.split(key)
        over = self.jnp.zeros(2, dtype=bool)
        memory = strong({"key": key, "state": self.sim.init(drawn), "steps": self.jnp.int32(0), "over": over})
        return memory, self._data(memory, paid=False)

    def step(self, memory: Memory, actions: Any) -> Any:
        """The move of whose turn it is; nothing happens once the game is over."""
        jnp, before, steps = self.jnp, memory["state"], memory["steps"] + 1
        key, drawn = self.jax.random.split(memory["key"])
        chosen = by_agent(self.groups, actions)
        action = jnp.stack([chosen[name] for name in self.names])[before.current_player]
        state = self.sim.step(before, action, drawn)
        late, past = self._only_late(before, state, action, drawn), memory["over"].any()
        still = before.replace(rewards=jnp.zeros_like(before.rewards))
        state = self.jax.tree.map(partial(jnp.where, past), still, state)
        won = state.terminated & ~late
        over = jnp.stack([won, late | state.truncated | ((steps >= self.max_steps) & ~won)])
        over = jnp.where(past, memory["over"], over)
        memory = strong({"key": key, "state": state, "steps": steps, "over": over})
        return memory, self._data(memory, paid=True)

    def look(self, memory: Memory) -> Any:
        """The position as it is."""
        return self._data(memory, paid=False)

    def _only_late(self, before: Any, after: Any, action: Any, key: Any) -> Any:
        """Whether nothing but a limit of moves ended the game; XLA plays no more of the second step than that needs."""
        game: Any = getattr(self.sim, "game", getattr(self.sim, "_game", None))
        board: Any = getattr(after, "_x", None)
        legal = before.legal_action_mask[action]
        if hasattr(game, "is_terminal") and hasattr(board, "step_count"):
            early = board._replace(step_count=board.step_count % 2)
            return legal & game.is_terminal(board) & ~game.is_terminal(early)
        early = {"_step_count": self.jnp.maximum(before._step_count - 1, 0)}  # animal shogi writes where it points to
        if hasattr(before, "_terminate_timer"):
            early["_terminate_timer"] = self.jnp.full_like(before._terminate_timer, FAR)
        return after.terminated & ~self.sim.step(before.replace(**early), action, key).terminated

    def _data(self, memory: Memory, *, paid: bool) -> Any:
        jnp, state, over = self.jnp, memory["state"], memory["over"]
        done, flags = over.any(), {"terminated": over[:1], "truncated": over[1:], "done": over.any()[None]}
        agents = {}
        for i, name in enumerate(self.names):
            acts = ~done & (state.current_player == i)
            with warnings.catch_warnings():  # at whose place an observation is looked at is to go in some later version
                warnings.simplefilter("ignore", DeprecationWarning)
                seen = self.sim.observe(state, jnp.int32(i))
            agents[name] = {"observation": seen, "action_mask": state.legal_action_mask | ~acts, **flags}
            agents[name] |= {"alive": ~done, "mask": acts}
            if paid:
                agents[name]["reward"] = jnp.asarray(state.rewards[i], dtype=jnp.float32)[None]
        mover = jnp.where(done, -1, state.current_player).astype(jnp.int32)
        return laid_out(self.groups, agents, {**flags, "current_player": mover})


class PgxEnv(PgxWrapper):
    """A game of Pgx by its name: ``"go_9x9"``, ``"shogi"``, ``"sparrow_mahjong"``, ``"minatar-breakout"`` and others.

    Pgx makes games by their names alone. One with options of its own is made of its class, for :class:`PgxWrapper`:
    ``PgxWrapper(pgx.go.Go(size=5, komi=0.5), num_envs=32)``.

    Args:
        env_id: its name in ``pgx.available_envs()``.
        **options: those of :class:`PgxWrapper`.

    Raises:
        UnknownName: there is no such game; names the nearest.
        TypeError: there is no such option.

    >>> PgxEnv.libname  # PgxEnv("go_9x9", num_envs=32)
    'pgx'
    """

    def __init__(self, env_id: str, **options: Any) -> None:
        library, known = need("pgx", "PgxEnv"), self._task_names()
        if env_id not in known:
            raise UnknownName(f"PgxEnv: Pgx has no game {env_id!r}; {nearest(env_id, known)}")
        more = "; pgx.make takes no options: PgxWrapper(env) takes a game that was made of its class with options"
        check_options("PgxEnv", options, sorted(option_names(type(self))), more=more)
        self.env_id = env_id
        super().__init__(library.make(env_id), **options)


__all__ = ["PgxEnv", "PgxWrapper"]
