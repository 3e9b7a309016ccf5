"""What another process needs to know about an env before the env exists there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Size

from marlenv.keys import NestedKey, Path, nested
from marlenv.specs import Composite
from marlenv.specs.dtypes import usable_device
from marlenv.specs.shapes import varargs
from marlenv.tensordicts import entries, is_nested, parts

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase


@dataclass
class EnvMetaData:
    """An env's example data, specs and batch size; can be sent to other processes and reshaped.

    Args:
        tensordict: zeros in the shape of a step's data.
        specs: ``input_spec`` and ``output_spec``.
        batch_size: of the env.
        env_str: the env as text.
        device: where its data live.
        batch_locked: whether it takes its own batch size only.
        device_map: the device of every entry.
        supports_set_state: whether it starts from a given state.

    >>> meta = EnvMetaData.metadata_from_env(marlenv.testing.CountingEnv())
    >>> meta.expand(4).specs.shape
    torch.Size([4])
    """

    tensordict: TensorDictBase
    specs: Composite
    batch_size: Size
    env_str: str
    device: torch.device | None
    batch_locked: bool
    device_map: dict[NestedKey, torch.device]
    supports_set_state: bool = False

    @staticmethod
    def metadata_from_env(env: EnvBase) -> EnvMetaData:
        """Reads the data off an env."""
        example = env.fake_tensordict().clone()
        devices = _devices(example, ())
        specs = env.specs.to("cpu")
        what = (env.batch_size, str(env), env.device, env.batch_locked, devices, env.supports_set_state)
        return EnvMetaData(example.to("cpu"), specs, *what)

    def expand(self, *size: Any) -> EnvMetaData:
        """The same for several envs."""
        want = varargs(size)
        if len(want) == 1 and self.batch_size:
            want = Size((*want, *self.batch_size))
        example, specs = self.tensordict.expand(want).clone(), self.specs.expand(*want)
        return replace(self, tensordict=example, specs=specs, batch_size=want)

    def to(self, device: torch.device | str | None) -> EnvMetaData:
        """The same for an env on another device."""
        if device is None:
            return self
        target = usable_device("EnvMetaData.to", device)
        devices = dict.fromkeys(self.device_map, target)
        return replace(
            self, tensordict=self.tensordict.to(target), specs=self.specs.to(target), device=target, device_map=devices
        )

    def clone(self) -> EnvMetaData:
        """A copy that shares no memory."""
        return replace(
            self, tensordict=self.tensordict.clone(), specs=self.specs.clone(), device_map=dict(self.device_map)
        )

    def __getitem__(self, item: Any) -> EnvMetaData:
        example = self.tensordict[item]
        return replace(self, tensordict=example, specs=self.specs[item], batch_size=example.batch_size)


def _devices(td: TensorDictBase, prefix: Path) -> dict[NestedKey, torch.device]:
    """The device of every entry, those of unequal agents too."""
    found: dict[NestedKey, torch.device] = {}
    for agent in parts(td) or ():
        found |= _devices(agent, prefix)
    for name, value in () if found else entries(td):
        if is_nested(value):
            found |= _devices(value, (*prefix, name))
        elif isinstance(value, torch.Tensor):
            found[nested((*prefix, name))] = value.device
    return found
