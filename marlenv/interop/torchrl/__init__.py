"""TorchRL: our envs, specs and transforms as its own, its envs and specs as ours, and the keys that its losses read.

Tested with torchrl 0.14.1 (https://github.com/pytorch/rl), which is imported on use.
"""

from __future__ import annotations

from typing import Any

from marlenv.envs import EnvBase
from marlenv.errors import SpecTypeError
from marlenv.interop.torchrl.from_env import FromTorchRLEnv
from marlenv.interop.torchrl.keys import group_keys
from marlenv.interop.torchrl.specs import spec_from_torchrl, spec_to_torchrl
from marlenv.optional import need
from marlenv.specs import TensorSpec
from marlenv.transforms import Transform

__all__ = ["from_torchrl", "group_keys", "to_torchrl"]


def to_torchrl(what: Any) -> Any:
    """Our env, spec or transform as one of TorchRL's: for its collectors, pools, modules, losses and replay buffers.

    An env keeps its keys, its data and its seeds; nothing is copied. Where an episode is over, the flags of every group
    say so, also of those who would have gone on. Random actions are legal and follow the env's
    seed, for collectors without a policy too. A transform is one of stored data: a replay buffer calls its ``inv`` when
    data are stored, and ``forward`` when they are read.

    Args:
        what: an env, a spec or a transform of ours; what :func:`from_torchrl` made is unwrapped.

    Raises:
        SpecTypeError: it is none of them.
        SpecError: TorchRL cannot express one of the specs; the text says which entry, and why.
        MissingExtra: torchrl is not installed.

    >>> env = to_torchrl(marlenv.make("simple_spread", num_envs=4))
    >>> env.rollout(3)["next", "agents", "reward"].shape
    torch.Size([4, 3, 3, 1])
    """
    if isinstance(what, FromTorchRLEnv):
        return what.inner
    if isinstance(what, EnvBase):
        from marlenv.interop.torchrl.to_env import TorchRLEnv

        return TorchRLEnv(what)
    if isinstance(what, TensorSpec):
        return spec_to_torchrl(what)
    if isinstance(what, Transform):
        from marlenv.interop.torchrl.transform import TorchRLTransform

        return TorchRLTransform(what)
    theirs = type(what).__module__.startswith("torchrl")
    hint = "it is TorchRL's already" if theirs else "call it first" if callable(what) else "pass marlenv.make(...)"
    raise SpecTypeError(
        f"to_torchrl: expected an env or a spec or a transform of marlenv, got {type(what).__name__}; {hint}"
    )


def from_torchrl(what: Any) -> Any:
    """An env or a spec of TorchRL as one of ours: for our transforms, checks, pools and tournaments.

    Args:
        what: TorchRL's env or spec; what :func:`to_torchrl` made is unwrapped.

    Raises:
        SpecTypeError: it is neither.
        SpecError: one of its specs cannot be expressed; the text says which entry, and why.
        MissingExtra: torchrl is not installed.

    >>> from torchrl.envs import PendulumEnv
    >>> from_torchrl(PendulumEnv()).rollout(3)["next", "reward"].shape
    torch.Size([3, 1])
    """
    envs = need("torchrl.envs", "marlenv.from_torchrl")
    if isinstance(what, (envs.EnvBase, envs.Transform)):
        inner = what.__dict__.get("_modules", {}).get("inner")
        if isinstance(inner, (EnvBase, Transform)):
            return inner
    if isinstance(what, envs.EnvBase):
        return FromTorchRLEnv(what)
    if isinstance(what, need("torchrl.data", "marlenv.from_torchrl").TensorSpec):
        return spec_from_torchrl(what)
    ours = isinstance(what, (EnvBase, TensorSpec))
    hint = "it is marlenv's already" if ours else "call it first" if callable(what) else "pass torchrl.envs.GymEnv(...)"
    raise SpecTypeError(f"from_torchrl: expected an env or a spec of TorchRL, got {type(what).__name__}; {hint}")
