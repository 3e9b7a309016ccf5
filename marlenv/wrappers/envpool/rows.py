"""``PoolRows``: pools of one env each, used as one pool.

A pool of a task for several players (EnvPool 1.2.5) waits for ever when some of its envs are stepped or reset and
others are not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import SpecTypeError, Unsupported

FIXED = "a pool takes its seed when it is made; pass seed= to envpool.make, or let MultiThreadedEnv make it"


class PoolRows:
    """Some pools of one env each.

    Args:
        pools: of the same task; the row of each is its place in the list.
    """

    def __init__(self, pools: list[Any]) -> None:
        self.pools, self.spec = pools, pools[0].spec
        self.config = {**dict(pools[0].config), "num_envs": len(pools), "batch_size": len(pools)}

    def reset(self, env_id: Any = None) -> tuple[Any, Any]:
        """Resets some rows, all of them when None."""
        rows = list(range(len(self.pools)) if env_id is None else env_id)
        for row in rows:
            self.pools[row].async_reset()
        return self._gathered(rows, [self.pools[row].recv(reset=True) for row in rows])

    def step(self, action: dict[str, Any]) -> tuple[Any, ...]:
        """Plays the actions of the rows in ``action["env_id"]``."""
        rows, of = list(action["env_id"]), action["players.env_id"]
        for row in rows:
            own = {name: value[of == row] for name, value in action.items() if name != "env_id"}
            none = np.zeros_like(own["players.env_id"])
            self.pools[row].send({**own, "env_id": none[:1], "players.env_id": none})
        return self._gathered(rows, [self.pools[row].recv() for row in rows])

    def close(self) -> None:
        """Closes all pools."""
        for pool in self.pools:
            pool.close()

    def _gathered(self, rows: list[int], found: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        """What the pools gave, one after the other; ``env_id`` is the row."""
        out = []
        for row, one in zip(rows, found, strict=True):
            info = dict(one[-1])
            info["env_id"] = info["env_id"] + row
            info["players"] = {**info["players"], "env_id": info["players"]["env_id"] + row}
            out.append((*one[:-1], info))
        return tuple(_joined(list(parts)) for parts in zip(*out, strict=True))


def check_pool(who: str, env: Any) -> None:
    """Raises where something is no pool that answers as gymnasium's envs do."""
    got = type(env).__name__
    if not hasattr(env, "spec") or not hasattr(env, "config") or "DMEnvPool" in got:
        raise SpecTypeError(f"{who}: env must be what envpool.make(..., env_type='gymnasium') gives, got {got}")


def check_rows(who: str, env: Any) -> None:
    """Raises where the rows of a pool cannot all be stepped at once, or one of them not be reset alone."""
    want, got = env.config["num_envs"], env.config["batch_size"]
    if got != want:
        raise Unsupported(f"{who}: batch_size must be num_envs={want}, got {got}; all envs step at once")
    if env.config.get("max_num_players", 1) > 1 and want > 1 and not isinstance(env, PoolRows):
        raise Unsupported(
            f"{who}: EnvPool waits for ever if one of its envs with several players is reset alone, got num_envs="
            f"{want}; MultiThreadedEnv({want}, name) makes a pool for each"
        )


def ids_of(info: dict[str, Any]) -> Tensor:
    """The rows of what a pool gave, int64 ``[rows]``, in its order, which need not be the order of what was sent."""
    return torch.from_numpy(np.asarray(info["env_id"]).astype(np.int64))


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], dict):
        return {name: _joined([part[name] for part in parts]) for name in parts[0]}
    return np.concatenate([np.asarray(part) for part in parts])
