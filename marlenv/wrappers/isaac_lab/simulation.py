"""``Simulation``: an env of Isaac Lab's, and which of its rows have started anew by themselves.

Written for ``ManagerBasedRLEnv`` and ``DirectRLEnv`` of 2.3.2, which were read; not run against the simulator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import SpecTypeError
from marlenv.wrappers.isaac_lab.histories import of_rows, untouched
from marlenv.wrappers.isaac_lab.scene import start_in

SURFACE = ("num_envs", "single_observation_space", "single_action_space", "step", "reset", "_reset_idx", "device")


def check(who: str, env: Any) -> None:
    """Raises where something is no env of Isaac Lab's with one agent."""
    inner = getattr(env, "unwrapped", env)
    if hasattr(inner, "possible_agents"):
        raise SpecTypeError(f"{who}: {type(inner).__name__} has several agents; only envs with one are wrapped")
    if lacks := [name for name in SURFACE if not hasattr(inner, name)]:
        raise SpecTypeError(
            f"{who}: env must be an env of Isaac Lab, got {type(inner).__name__}, which has no {lacks[0]!r}"
        )


class Simulation:
    """An env of Isaac Lab's.

    Args:
        env: as ``gymnasium.make`` made it.
        copied: what makes data of observations, in memory of their own.
        draws: whether a camera is read, which must draw after a reset.
    """

    def __init__(self, env: Any, copied: Callable[[Any], Any], *, draws: bool) -> None:
        self.env, self.inner, self.copied, self.draws = env, env.unwrapped, copied, draws
        self.seen: Any = None
        """What all rows observe."""
        self.started = torch.zeros(int(self.inner.num_envs), dtype=torch.bool)
        """Rows that have started anew by themselves, in the last step."""

    def reset(self, seed: int | None) -> None:
        """Starts all rows."""
        self.seen, _ = self.env.reset() if seed is None else self.env.reset(seed=seed)
        self.started.zero_()

    def reset_rows(self, where: Tensor) -> None:
        """Starts some rows, but for those of them that have started by themselves."""
        asked = where & ~self.started
        self.started &= ~where
        if not bool(asked.any()):
            return
        with untouched(self.inner, ~asked):
            seen = self._began_anew(self._ids(asked))
        self.seen = of_rows(asked, seen, self.seen)

    def _began_anew(self, ids: Tensor) -> Any:
        """Starts some rows; returns what all rows observe."""
        inner = self.inner
        if "env_ids" in inspect.signature(inner.reset).parameters:
            return inner.reset(env_ids=ids)[0]
        inner._reset_idx(ids)  # what DirectRLEnv has instead
        inner.scene.write_data_to_sim()
        inner.sim.forward()
        if self.draws:
            for _ in range(int(getattr(inner.cfg, "num_rerenders_on_reset", 0))):
                inner.sim.render()
        return inner._get_observations()

    def start_in(self, who: str, scene: Any, where: Tensor, *, is_relative: bool, seed: int | None) -> None:
        """Starts some rows in a scene."""
        self.started &= ~where
        if bool(where.any()):
            options = {"is_relative": is_relative, "seed": seed}
            with untouched(self.inner, ~where):
                seen = start_in(who, self.inner, scene, self._ids(where), options)
            self.seen = seen if self.seen is None else of_rows(where, seen, self.seen)

    def step(self, action: Tensor) -> tuple[Any, Tensor, Tensor, Tensor]:
        """Plays actions; returns the last data of rows that end (None: none does), reward, terminated, truncated."""
        with self._last_kept() as last:
            self.seen, reward, terminated, truncated, _ = self.env.step(action.to(self.inner.device))
        self.started = (terminated | truncated).cpu().clone()
        return (last[0] if last else None), reward, terminated, truncated

    def _ids(self, where: Tensor) -> Tensor:
        return where.nonzero().flatten().to(self.inner.device)

    @contextmanager
    def _last_kept(self) -> Iterator[list[Any]]:
        """What is observed at the moment in which Isaac Lab starts rows anew, if it does so in the block."""
        inner = self.inner
        last: list[Any] = []
        start, manager = inner._reset_idx, getattr(inner, "observation_manager", None)

        def keep_and_start(env_ids: Any) -> None:
            if not last:
                with untouched(inner, torch.ones_like(self.started)):
                    last.append(self.copied(inner._get_observations() if manager is None else manager.compute()))
            start(env_ids)

        before = vars(inner).get("_reset_idx")
        inner._reset_idx = keep_and_start
        try:
            yield last
        finally:
            if before is None:
                del inner._reset_idx
            else:
                inner._reset_idx = before
