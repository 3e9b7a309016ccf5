"""EnvPool's envs, which are stepped by threads in C++.

https://github.com/sail-sg/envpool, tested with 1.2.5.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.errors import GroupError, Unsupported
from marlenv.groups import MarlGroupMapType
from marlenv.groups.maps import GroupMap
from marlenv.specs import Binary, Composite, TensorSpec, Unbounded
from marlenv.wrappers._choices import check_choices
from marlenv.wrappers._roster import AgentsWrapper
from marlenv.wrappers.envpool.players import Arrays, Players
from marlenv.wrappers.envpool.rows import FIXED, check_pool, check_rows, ids_of
from marlenv.wrappers.envpool.specs import Observed, acted


class MultiThreadedEnvWrapper(AgentsWrapper):
    """A pool of EnvPool's, all of whose envs step at once.

    | key | shape | meaning |
    |---|---|---|
    | `observation` | `[B, ...]` | as the pool gives it; entries of its own where that is a dict |
    | `action` | `[B]` or `[B, n]` | one-hot too, unless ``categorical_action_encoding`` |
    | `reward` | float32 `[B, 1]` | |
    | `done`, `terminated`, `truncated` | bool `[B, 1]` | |

    A task for several players (``max_num_players``) has them in groups: ``player_0``, ``player_1``, ... in one group
    ``agents``, unless ``group_map`` says otherwise:

    | key | shape | meaning |
    |---|---|---|
    | `(group, "observation")` | `[B, A, ...]` | |
    | `(group, "action")` | `[B, A]`; one-hot `[B, A, n]` | read where `mask` is True |
    | `(group, "action_mask")` | bool `[B, A, n]` | legal actions, where the task says so; all of those who wait |
    | `(group, "reward")` | float32 `[B, A, 1]` | |
    | `(group, "alive")`, `(group, "mask")` | bool `[B, A]` | not done; whose turn it is |
    | `(group, "done")`, ... | bool `[B, A, 1]` | those of the row |

    EnvPool starts anew by itself at the step after the last one; here rows that are done are reset as those of any env,
    so that no step is spent on it. Its seeds are given when a pool is made: ``set_seed`` makes that of a
    ``MultiThreadedEnv`` anew, and refuses for others.

    Args:
        env: what ``envpool.make(..., env_type="gymnasium")`` made, with ``batch_size`` equal to ``num_envs``.
        categorical_action_encoding: actions as numbers of choices, rather than one-hot.
        group_map: group -> players, for tasks with several.
        **options: ``device``, ``allow_done_after_reset``, ``run_type_checks``.

    >>> MultiThreadedEnvWrapper.libname
    'envpool'

    Source: EnvPool 1.2.5.
    """

    libname: ClassVar[str] = "envpool"
    git_url: ClassVar[str] = "https://github.com/sail-sg/envpool"
    can_be_seeded: ClassVar[bool] = False
    skips_frames = False
    handles_partial_steps = True

    def __init__(
        self,
        env: Any = None,
        *,
        categorical_action_encoding: bool = False,
        group_map: GroupMap | MarlGroupMapType | str | None = None,
        **options: Any,
    ) -> None:
        self.categorical_action_encoding, self._asked_groups = categorical_action_encoding, group_map
        super().__init__(**options, **({} if env is None else {"env": env}))

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        check_pool(type(self).__name__, kwargs.get("env"))

    def _build_env(self, env: Any = None) -> Any:
        return env

    def _make_specs(self, env: Any) -> None:
        who, config = type(self).__name__, env.config
        check_rows(who, env)
        self.num_workers = config["num_envs"]
        self.batch_size = (self.num_workers,)
        several, categorical = config.get("max_num_players", 1) > 1, self.categorical_action_encoding
        self._players = Players(who, env, self._asked_groups, categorical=categorical) if several else None
        self._one_hot = hasattr(env.spec.action_space, "n") and not categorical
        flag = Binary(shape=(1,), dtype=torch.bool)
        done = Composite(done=flag, terminated=flag.clone(), truncated=flag.clone())
        if self._players is not None:
            columns = self._players.columns
            self.agent_names, self.group_map, self.tree = columns.names, columns.group_map, columns.tree
            self.full_observation_spec = self._expanded(self._players.observations())
            self.full_action_spec = self._expanded(self._players.actions())
            self.full_reward_spec = self._expanded(columns.rewards())
            self.full_done_spec = self._expanded(columns.flags().update(done))
            return
        if self._asked_groups is not None:
            raise GroupError(f"{who}: the task has one player, got group_map=; leave it out")
        self._observed = Observed(env.spec.observation_space)
        self.full_observation_spec = self._expanded(self._observed.spec)
        self.full_action_spec = self._expanded(Composite(action=acted(env.spec.action_space, categorical=categorical)))
        self.full_reward_spec = self._expanded(Composite(reward=Unbounded((1,))))
        self.full_done_spec = self._expanded(done)

    def _expanded(self, spec: TensorSpec) -> Any:
        return spec.expand(self.num_workers, *spec.shape).to(self.device)

    # --- an episode ------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is None or bool(mask.all()) or not self._began:
            seen, info = self._env.reset()
            order = ids_of(info).argsort()
            self._seen, self._began = {name: x[order] for name, x in self._read(seen, info).items()}, True
        elif bool(mask.any()):
            rows = mask.reshape(self.num_workers).nonzero().flatten().cpu()
            self._write(*self._env.reset(rows.numpy().astype(np.int32)))
        data: Arrays = {}
        if self._players is not None:
            goes_on = torch.zeros(self.num_workers, dtype=torch.bool)
            data = {"done": goes_on, "discount": torch.ones(self.num_workers, self._players.count)}
        return self._written(data, None)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._check_began("step")
        mask = tensordict.get("_step", None)
        rows = torch.arange(self.num_workers) if mask is None else mask.reshape(-1).nonzero().flatten().cpu()
        if self._players is None:
            action = tensordict.get("action")
            acting = None if mask is None else mask.reshape(-1)
            check_choices(type(self).__name__, self.full_action_spec["action"], action, acting)
            action = self.full_action_spec["action"].to_categorical(action) if self._one_hot else action
            actions = action.cpu().numpy().astype(self._env.spec.action_space.dtype)[rows.numpy()]
            told: tuple[Any, ...] = (actions, rows.numpy().astype(np.int32))
        else:
            told = (self._players.told(tensordict, rows, self._seen["acting"]),)
        seen, reward, terminated, truncated, info = self._env.step(*told)
        self._write(seen, info)
        rows = ids_of(info)
        ends = {
            name: self._placed(rows, np.asarray(x))
            for name, x in (("terminated", terminated), ("truncated", truncated))
        }
        over = ends["terminated"] | ends["truncated"]
        if self._players is None:
            columns = {**ends, "done": over, "reward": self._placed(rows, reward.astype(np.float32))}
            return self._written({name: column.unsqueeze(-1) for name, column in columns.items()}, None)
        discount = (~ends["terminated"]).float().unsqueeze(-1).repeat(1, self._players.count)
        rewards = self._placed(rows, self._players.rewards(reward, info).numpy())
        return self._written({"done": over, "discount": discount, "reward": rewards}, tensordict)

    def _written(self, data: Arrays, before: TensorDictBase | None) -> TensorDictBase:
        held = {name: value.clone() for name, value in self._seen.items()}
        out = TensorDict({**held, **data}, self.batch_size)
        out = out if self._players is None else self._players.columns.sort(out, before)
        return out if self.device is None else out.to(self.device)

    def _read(self, seen: Any, info: dict[str, Any]) -> Arrays:
        return self._observed.read(seen) if self._players is None else self._players.read(seen, info)

    def _write(self, seen: Any, info: dict[str, Any]) -> None:
        rows, new = ids_of(info), self._read(seen, info)
        self._seen = {name: old.index_copy(0, rows, new[name]) for name, old in self._seen.items()}

    def _placed(self, rows: Tensor, values: Any) -> Tensor:
        """Values of some rows among zeros of the others."""
        column = torch.from_numpy(np.ascontiguousarray(values))
        return column.new_zeros(self.num_workers, *column.shape[1:]).index_copy(0, rows, column)

    def __getstate__(self) -> dict[str, Any]:
        raise Unsupported.to_copy(type(self).__name__, "a pool")

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            raise Unsupported(f"{type(self).__name__}.set_seed: {FIXED}")
