"""Steps of machine code as tensordicts, with as few calls as can be: every entry in memory of its own."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from marlenv.buffer_pool import LARGE, BufferPool
from marlenv.physics.env.layout import FLAGS, Layout
from marlenv.physics.env.simulation_env import SimulationEnv
from marlenv.physics.jit.tiers import MachineCode
from marlenv.physics.laws.state import State


class FastStep:
    """The steps of an env that runs as machine code.

    Args:
        env: the env.
        layout: of its data.

    """

    def __init__(self, env: SimulationEnv, layout: Layout) -> None:
        engine: MachineCode = env.engine
        self.env, self.layout, self.kernel, self.rows = env, layout, engine.kernel, env.num_envs
        entries = (*layout.observations, *layout.rewards)
        meta, by_rows = torch.device("meta"), self.kernel.by_rows
        like = [entry.shaped(entry.field.room(self.rows, meta, by_rows=by_rows)) for entry in entries]
        self._entries = [(x.shape, x.stride(), x.dtype) for x in like]
        self.pool = BufferPool() if by_rows and any(x.nbytes >= LARGE for x in like) else None
        """Where large results have their memory, which is used again once nobody holds them. A pool keeps what is of
        use for one kind of request, so that of rollouts is another.
        """
        self._actions = len(self.kernel.state)
        self._results = self._actions + len(self.kernel.actions)
        self.row_flags = self._results + len(entries) + len(self.kernel.observations)
        self._ended = torch.zeros(1, dtype=torch.uint8, device=env.device)
        self._numbers = all(field.dtype.is_floating_point for field in self.kernel.actions)
        """Whether machine code looks at the actions itself, where it can."""
        self._state: State | None = None
        self._places: Any = None

    def step(self, td: TensorDictBase) -> TensorDict:
        """One step of all rows, with the actions in data of the env."""
        env, kernel, rows = self.env, self.kernel, self.rows
        actions = env.grouping.actions(td) if self._numbers else env.taken(td)
        if env.last_state is not self._state or self._state is None:
            state = env.own_state()
            nowhere = [None] * len(kernel.actions), [None] * len(kernel.outs), [None] * len(FLAGS)
            self._state, self._places = state, kernel.bind(state, *nowhere)
        places, device = self._places, env.device
        acts = [f.read(actions[f.name[0]], by_rows=kernel.by_rows) for f in kernel.actions]
        for k, x in enumerate(acts, self._actions):
            places[k] = x.data_ptr()
        if self.pool is not None:
            values = self.pool.lend([(size, dtype) for size, _, dtype in self._entries], device)
        else:
            values = [
                torch.empty_strided(size, stride, dtype=dtype, device=device) for size, stride, dtype in self._entries
            ]
        for k, x in enumerate(values, self._results):
            places[k] = x.data_ptr()
        flags = torch.empty((3, 1 + self.layout.agents, rows), dtype=torch.bool, device=device)
        base = flags.data_ptr()
        for k in range(3):
            places[self.row_flags + k] = base + k * flags.stride(0)
        if not kernel.step(rows, places, self._ended, env.max_steps, looks=self._numbers):
            env.check_values(actions)
            kernel.step(rows, places, self._ended, env.max_steps)  # they are numbers, larger than machine code's
        flags[:, 1:] = flags[:, :1]
        return self.layout.following([*values, *self.layout.flags(flags)])


__all__ = ["FastStep"]
