"""New episodes in some rows of data, in place: only those rows are computed, and nothing is merged afterwards.

What :mod:`marlenv.envs.resetting` does for any env by making whole new data and choosing row by row; here the kept
values go into the reset, for the groups of the world and masks at the root.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.physics.env.layout import FLAGS, Layout
from marlenv.physics.env.simulation_env import SimulationEnv
from marlenv.physics.jit.tiers import MachineCode
from marlenv.physics.simulation import leaves
from marlenv.tensordicts import anything, put, raw, rows

CPU = torch.device("cpu")


def restart(env: SimulationEnv, layout: Layout, td: TensorDictBase, mask: Tensor) -> bool:
    """Starts new episodes in the rows ``mask`` (bool ``[B, 1]``) and writes what follows into ``td``.

    Returns:
        False, and nothing has happened, where the data are not the plain ones.

    """
    if not _plain(env, td):
        return False
    held, flags = layout.read(td), layout.read_flags(td)
    if held is None or flags is None or any(raw(node) is None for node, _ in flags):
        return False
    where, goes_on = rows(mask, 1), None
    pairs = list(zip(layout.observations, held, strict=True))
    with env.gradients():
        kept = {entry.field.name: x.reshape(x.shape[: 1 + len(entry.field.shape)]) for entry, (_, x) in pairs}
        observations, infos = env.begin(where, kept)
    fresh = leaves(observations, infos)
    for entry, (node, x) in pairs:
        put(node, entry.name, fresh[entry.field.name].reshape(x.shape))
    for node, of_level in flags:
        for name, flag in zip(FLAGS, of_level, strict=True):
            if env.device != CPU or anything(flag):  # elsewhere a look would wait
                goes_on = ~where if goes_on is None else goes_on
                put(node, name, flag & goes_on.reshape(-1, *(1,) * (flag.ndim - 1)))
    return True


def _plain(env: SimulationEnv, td: TensorDictBase) -> bool:
    """Whether nothing special is asked for; separate operations compute all rows anyway elsewhere than on the CPU."""
    return (
        env.last_state is not None
        and (env.device == CPU or isinstance(env.engine, MachineCode))
        and raw(td) is not None
        and td.batch_size == env.batch_size
        and not (env.grad_enabled and torch.is_grad_enabled())
    )
