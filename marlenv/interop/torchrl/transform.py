"""Our transform as one of TorchRL's, for its replay buffers. Imported when it is first needed.

Source: torchrl 0.14.1, ``torchrl.envs.Transform`` and ``torchrl.data.ReplayBuffer``.
"""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase

from marlenv.errors import Unsupported
from marlenv.optional import need
from marlenv.transforms import Transform

theirs: Any = need("torchrl.envs", "marlenv.to_torchrl")


class TorchRLTransform(theirs.Transform):
    """A transform of ours behind TorchRL's interface, for stored data: ``inv`` when they are stored, ``forward`` when
    they are read.

    Args:
        transform: our transform.
    """

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform.in_keys, transform.out_keys, transform.in_keys_inv, transform.out_keys_inv)
        self.inner = transform

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """What is read from a buffer."""
        made: TensorDictBase = self.inner(tensordict)
        return made

    _call = forward

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        made: TensorDictBase = self.inner.inv(tensordict)
        return made

    def _of_env(self, *_: Any) -> Any:
        raise Unsupported(
            f"to_torchrl({type(self.inner).__name__}(...)): works on stored data, in TorchRL's replay buffers; put our "
            f"transform on our env: to_torchrl(marlenv.TransformedEnv(env, transform))"
        )

    transform_input_spec = transform_output_spec = transform_env_batch_size = _of_env
    _reset = _step = _of_env

    def __repr__(self) -> str:
        return f"to_torchrl({self.inner!r})"
