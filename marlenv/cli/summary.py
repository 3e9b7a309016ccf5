"""Returns and lengths of the episodes in a stream of steps, per group."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.cli.text import number
from marlenv.envs import EnvBase
from marlenv.envs.rollout import ended_rows
from marlenv.keys import NestedKey
from marlenv.text_table import table


class Summary:
    """Adds up rewards per row and reads them off where episodes end.

    Args:
        env: gives the reward keys and the flags.
    """

    def __init__(self, env: EnvBase) -> None:
        self.env = env
        rows = max(1, env.batch_size.numel())
        self._running: dict[NestedKey, Tensor] = {}
        self._length = torch.zeros(rows, dtype=torch.int64)
        self._returns: dict[NestedKey, list[Tensor]] = {key: [] for key in env.reward_keys}
        self._lengths: list[Tensor] = []
        self.steps = self.ends = 0

    def add(self, data: TensorDictBase) -> None:
        """Takes in one step."""
        following = data["next"]
        rows = self._length.numel()
        done = ended_rows(self.env, following).reshape(-1).cpu()
        self._length += 1
        for key in self.env.reward_keys:
            reward = following.get(key).detach().cpu().double().reshape(rows, -1).nan_to_num()
            before = self._running.get(key)
            total = reward if before is None else before + reward
            if bool(done.any()):
                self._returns[key].append(total[done])
                total = torch.where(done.unsqueeze(-1), 0.0, total)
            self._running[key] = total
        if bool(done.any()):
            self._lengths.append(self._length[done].clone())
            self._length[done] = 0
        self.steps += rows
        self.ends += int(done.sum())

    def rows(self) -> list[Sequence[str]]:
        """One line per group: agents, mean return of an agent, length, fraction of rows that ended."""
        lengths = torch.cat(self._lengths).double() if self._lengths else self._length.double()
        out: list[Sequence[str]] = []
        for key in self.env.reward_keys:
            returns = torch.cat(self._returns[key]) if self._returns[key] else self._running[key]
            group = "/".join(key[:-1]) if isinstance(key, tuple) else "all"
            spread = f"{number(returns.mean().item())} ± {number(returns.std(unbiased=False).item())}"
            out.append(
                [group, str(returns.shape[-1]), spread, number(lengths.mean().item()), number(self.ends / self.steps)]
            )
        return out

    def text(self, seconds: float) -> str:
        """The summary as people read it."""
        agents = sum(int(row[1]) for row in self.rows())
        of = f"{self.ends} finished episodes" if self.ends else "unfinished episodes (none ended)"
        head = f"{self.steps:,} env-steps in {seconds:.2f} s; returns of {of}"
        rates = f"{number(self.steps / seconds)} env-steps/s, {number(self.steps * agents / seconds)} agent-steps/s"
        body = table(self.rows(), ["group", "agents", "return per agent", "length", "done per step"], right=[1, 3, 4])
        return f"{head}\n{body}\n{rates}"
