"""Small envs whose every number is known in advance, for tests and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.envs import EnvBase
from marlenv.groups import Flags, GroupTree, Packer, aggregate, group_specs
from marlenv.keys import nested
from marlenv.rng import RowRNG
from marlenv.specs import Binary, Bounded, Categorical, Composite, Unbounded


def flag(*shape: int) -> Binary:
    """The spec of a done flag."""
    return Binary(shape=(*shape, 1), dtype=torch.bool)


def go_on(count: Tensor, tensordict: TensorDictBase) -> Tensor:
    """The counters one step later, where ``"_step"`` says so; ``[*B, 1]``."""
    where = tensordict.get("_step", None)
    return count + 1 if where is None else count + where.reshape(count.shape)


class CountingEnv(EnvBase):
    """Counts its steps: observation and reward are known, and the episode terminates after ``max_steps``.

    - observation float32 ``[*B, 1]``: how many steps the episode has; 0 after a reset.
    - action float32 ``[*B, 1]`` in [-1, 1]: not read.
    - reward float32 ``[*B, 1]``: always 1.

    Args:
        max_steps: length of an episode; row ``i`` of a batch ends ``i`` steps later.
        batch_size: how many rows.

    >>> CountingEnv(max_steps=2).rollout(5)["next", "observation"].squeeze(-1)
    tensor([1., 2.])
    """

    handles_partial_steps = True

    def __init__(self, max_steps: int = 5, batch_size: Sequence[int] = (), device: Any = None, **options: Any) -> None:
        super().__init__(batch_size=batch_size, device=device, **options)
        shape = (*self.batch_size, 1)
        self.max_steps = max_steps
        self.observation_spec = Composite(observation=Unbounded(shape), shape=self.batch_size)
        self.action_spec = Bounded(-1, 1, shape)
        self.reward_spec = Unbounded(shape)
        self.done_spec = flag(*self.batch_size)
        self.count = torch.zeros(shape, device=self.device)
        rows = torch.arange(max(1, self.batch_size.numel()), device=self.device).reshape(shape)
        self.limit = rows + max_steps

    def _on_move(self) -> None:
        self.count, self.limit = self.count.to(self.device), self.limit.to(self.device)

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        where = None if tensordict is None else tensordict.get("_reset", None)
        self.count = torch.zeros_like(self.count) if where is None else torch.where(where, 0.0, self.count)
        return TensorDict({"observation": self.count.clone()}, self.batch_size, device=self.device)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.count = go_on(self.count, tensordict)
        data = {
            "observation": self.count.clone(),
            "reward": torch.ones_like(self.count),
            "done": self.count >= self.limit,
        }
        return TensorDict(data, self.batch_size, device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        pass

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        return TensorDict({"count": self.count.clone()}, self.batch_size)

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        self.count = state["count"].clone()
        return TensorDict({"observation": self.count.clone()}, self.batch_size)


class MaskedEnv(EnvBase):
    """Only the actions of the current colour are legal: even ones, then odd ones, in turn.

    - action int64 ``[*B]`` in ``0 .. n - 1``; ``action_mask`` bool ``[*B, n]``.
    - reward: 1 for a legal action, -1 for an illegal one; the episode terminates after ``max_steps``.

    >>> MaskedEnv(n=3).rollout(3)["action_mask"].int()
    tensor([[1, 0, 1],
            [0, 1, 0],
            [1, 0, 1]], dtype=torch.int32)
    """

    handles_partial_steps = True

    def __init__(self, n: int = 4, max_steps: int = 6, batch_size: Sequence[int] = ()) -> None:
        super().__init__(batch_size=batch_size)
        self.n, self.max_steps = n, max_steps
        shape = self.batch_size
        self.observation_spec = Composite(
            observation=Unbounded((*shape, 1)), action_mask=Binary(shape=(*shape, n), dtype=torch.bool), shape=shape
        )
        self.action_spec = Categorical(n, shape)
        self.reward_spec = Unbounded((*shape, 1))
        self.done_spec = flag(*shape)
        self.count = torch.zeros((*shape, 1))

    def _on_move(self) -> None:
        self.count = self.count.to(self.device)

    def _observed(self) -> dict[str, Tensor]:
        legal = (torch.arange(self.n, device=self.count.device) % 2) == (self.count % 2)
        return {"observation": self.count.clone(), "action_mask": legal}

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        where = None if tensordict is None else tensordict.get("_reset", None)
        self.count = torch.zeros_like(self.count) if where is None else torch.where(where, 0.0, self.count)
        return TensorDict(self._observed(), self.batch_size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        legal = self._observed()["action_mask"].gather(-1, tensordict["action"].unsqueeze(-1))
        self.count = go_on(self.count, tensordict)
        data = {**self._observed(), "reward": torch.where(legal, 1.0, -1.0), "terminated": self.count >= self.max_steps}
        return TensorDict(data, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        pass


class GroupedEnv(EnvBase):
    """Agents in groups, each ending at its own step, by termination or truncation, as the arguments say.

    Per group: ``observation`` float32 ``[*B, A, 3]`` (row, agent, steps so far), ``action`` float32 ``[*B, A, 2]``,
    ``reward`` ``[*B, A, 1]`` (the sum of the agent's action), done flags ``[*B, A, 1]``; ``alive`` and ``mask``. At the
    root ``noise`` ``[*B, 1]`` from the env's own generator, and the flags that follow from ``rule``.

    Args:
        group_map: group -> agents.
        terminate: agent -> step at which it terminates.
        truncate: agent -> step at which it is truncated.
        rule: how the root follows from the agents.
        batch_size: how many rows.
        root_flags: whether there are flags at the root; else each group is reset by itself.

    >>> env = GroupedEnv({"wolves": ["w0", "w1"], "sheep": ["s0"]}, terminate={"s0": 2})
    >>> env.rollout(9)["next", "sheep", "terminated"].flatten()
    tensor([False,  True])
    """

    handles_partial_steps = True

    def __init__(
        self,
        group_map: Mapping[str, Any] | None = None,
        *,
        terminate: Mapping[str, int] | None = None,
        truncate: Mapping[str, int] | None = None,
        rule: Literal["any", "all"] = "any",
        batch_size: Sequence[int] = (),
        root_flags: bool = True,
        device: Any = None,
    ) -> None:
        super().__init__(batch_size=batch_size, device=device)
        self.tree = GroupTree(group_map or {"agents": ["agent_0", "agent_1", "agent_2"]})
        self.group_map = self.tree.group_map
        never = 10**6
        late, cut = (
            {
                path: torch.tensor([(source or {}).get(a, never) for a in agents], device=self.device)
                for path, agents in self.tree.groups.items()
            }
            for source in (terminate, truncate)
        )
        self.ends = {path: (late[path], cut[path]) for path in self.tree.groups}
        self.rule: Literal["any", "all"] = rule
        self.root_flags = root_flags
        one = {a: Composite(observation=Unbounded((3,)), alive=flag_1(), mask=flag_1()) for a in self.tree.agents}
        batch = self.batch_size
        self.observation_spec = group_specs(self.tree, one, batch_size=batch)
        self.observation_spec["noise"] = Unbounded((*batch, 1))
        acts = {a: Composite(action=Bounded(-1, 1, (2,))) for a in self.tree.agents}
        self.action_spec = group_specs(self.tree, acts, batch_size=batch)
        self.reward_spec = group_specs(
            self.tree, {a: Composite(reward=Unbounded((1,))) for a in self.tree.agents}, batch_size=batch
        )
        names = ("done", "terminated", "truncated")
        done = group_specs(
            self.tree, {a: Composite({n: flag() for n in names}) for a in self.tree.agents}, batch_size=batch
        )
        if root_flags:
            for name in names:
                done[name] = flag(*batch)
        self.full_done_spec = done
        self.rng = RowRNG(0, batch, self.device)
        self.count = {
            p: torch.zeros((*batch, len(a)), dtype=torch.int64, device=self.device) for p, a in self.tree.groups.items()
        }

    def _on_move(self) -> None:
        assert self.device is not None
        self.rng = self.rng.to(self.device)
        self.count = {path: count.to(self.device) for path, count in self.count.items()}
        self.ends = {path: (late.to(self.device), cut.to(self.device)) for path, (late, cut) in self.ends.items()}

    def _data(self, *, with_flags: bool) -> TensorDict:
        batch = self.batch_size
        out = TensorDict({"noise": self.rng.uniform(shape=(1,))}, batch, device=self.device)
        ended = []
        for path, agents in self.tree.groups.items():
            count = self.count[path]
            rows = torch.arange(max(1, batch.numel()), device=self.device).reshape(*batch, 1).expand(count.shape)
            number = torch.arange(len(agents), device=self.device).expand(count.shape)
            observations = torch.stack((rows, number, count), -1).float()
            late, cut = self.ends[path]
            over = Flags(count >= late, (count >= cut) & ~(count >= late))
            alive = ~over.done if with_flags else torch.ones_like(over.done)
            entries = {"observation": observations, "alive": alive, "mask": alive.clone()}
            if with_flags:
                entries |= {
                    n: f.unsqueeze(-1)
                    for n, f in zip(("terminated", "truncated", "done"), (*over, over.done), strict=True)
                }
            out[nested(path)] = TensorDict(entries, Size((*batch, len(agents))), device=self.device)
            ended.append(over)
        if with_flags and self.root_flags:
            together = aggregate(Flags(*(torch.cat(column, -1) for column in zip(*ended, strict=True))), self.rule)
            out.update({"terminated": together.terminated.unsqueeze(-1), "truncated": together.truncated.unsqueeze(-1)})
            out["done"] = together.done.unsqueeze(-1)
        return out

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        root = None if tensordict is None else tensordict.get("_reset", None)
        started, drawn = torch.zeros_like(self.rng.counter, dtype=torch.bool), self.rng.counter
        for path, count in self.count.items():
            mask = root if self.root_flags or tensordict is None else tensordict.get(nested((*path, "_reset")), None)
            where = (
                torch.ones_like(count, dtype=torch.bool)
                if mask is None
                else mask
                if mask.ndim == count.ndim
                else mask.squeeze(-1)
            )
            self.count[path] = torch.where(where, 0, count)
            started |= where.any(-1)
        out = self._data(with_flags=False)
        self.rng.counter = torch.where(started, self.rng.counter, drawn)  # other rows draw nothing
        return out

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.count = {path: go_on_rows(count, tensordict) for path, count in self.count.items()}
        drawn, where = self.rng.counter, tensordict.get("_step", None)
        out = self._data(with_flags=True)
        if where is not None:
            self.rng.counter = torch.where(where.reshape(drawn.shape), self.rng.counter, drawn)
        for path in self.tree.groups:
            out[nested((*path, "reward"))] = tensordict[nested((*path, "action"))].sum(-1, keepdim=True)
        return out

    def _set_seed(self, seed: int | None) -> None:
        self.rng = RowRNG(seed or 0, self.batch_size, self.device)


def go_on_rows(count: Tensor, tensordict: TensorDictBase) -> Tensor:
    """The counters of a group one step later, in the rows that ``"_step"`` marks; ``[*B, A]``."""
    where = tensordict.get("_step", None)
    return count + 1 if where is None else count + where.reshape(*count.shape[:-1], 1)


class UnevenEnv(EnvBase):
    """Two agents of one group that see and do things of different sizes, as a simulator would give them.

    Agent ``"small"`` sees 2 numbers and does 1, agent ``"large"`` sees 3 and does 2; they see how many steps there
    were, and are rewarded with the sum of their actions. The episode terminates after ``max_steps``.

    Args:
        unequal: ``"stack"`` for lazily stacked agents, ``"pad"`` for dense tensors with a ``pad_mask``.
        max_steps: length of an episode.

    >>> UnevenEnv("pad").reset()["agents", "pad_mask", "observation"]
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """

    SIZES: Mapping[str, tuple[int, int]] = {"small": (2, 1), "large": (3, 2)}

    def __init__(self, unequal: Literal["stack", "pad"] = "stack", max_steps: int = 4) -> None:
        super().__init__()
        self.tree = GroupTree({"agents": list(self.SIZES)})
        self.group_map = self.tree.group_map
        self.max_steps, self.count = max_steps, 0
        sees = {a: Composite(observation=Unbounded((n,))) for a, (n, _) in self.SIZES.items()}
        does = {a: Composite(action=Bounded(-1, 1, (n,))) for a, (_, n) in self.SIZES.items()}
        gets = {a: Composite(reward=Unbounded((1,))) for a in self.SIZES}
        self.observations = Packer(self.tree, sees, unequal=unequal)
        self.done_by = Packer(self.tree, does, unequal=unequal, masks={})  # flags of padding are things to see
        self.rewards = Packer(self.tree, gets, unequal=unequal)
        self.observation_spec, self.action_spec = self.observations.spec, self.done_by.spec
        self.reward_spec, self.done_spec = self.rewards.spec, flag()

    def _observe(self) -> TensorDict:
        return self.observations.pack({a: {"observation": [float(self.count)] * n} for a, (n, _) in self.SIZES.items()})

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        self.count = 0
        return self._observe()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.count += 1
        actions = self.done_by.unpack(tensordict)
        rewards = self.rewards.pack({a: {"reward": float(does["action"].sum())} for a, does in actions.items()})
        out = self._observe()
        if isinstance(out["agents"], LazyStackedTensorDict):
            for row, more in zip(out["agents"].tensordicts, rewards["agents"].unbind(0), strict=True):
                row.update(more)
        else:
            out["agents"].update(rewards["agents"])
        out["terminated"] = torch.tensor([self.count >= self.max_steps])
        return out

    def _set_seed(self, seed: int | None) -> None:
        pass


def flag_1() -> Binary:
    """The spec of a mask of one agent."""
    return Binary(shape=(), dtype=torch.bool)
