"""Policies: the random one, and any callable as something that reads and writes a tensordict."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensordict import TensorDictBase, is_tensor_collection
from tensordict.nn import TensorDictModule, TensorDictModuleBase
from torch import nn

from marlenv.errors import SpecError
from marlenv.keys import NestedKey
from marlenv.specs import Composite, TensorSpec

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase

Policy = Callable[[TensorDictBase], TensorDictBase]
READS_TENSORDICT = {"tensordict", "td", "data"}


class RandomPolicy:
    """A policy that draws actions from a spec, whatever it sees.

    Args:
        action_spec: the spec of the actions; a composite names their keys itself.
        action_key: where to write the action of a spec that is not a composite.

    >>> from tensordict import TensorDict
    >>> RandomPolicy(Categorical(4, shape=(2,)))(TensorDict({}, [2]))["action"].shape
    torch.Size([2])
    """

    def __init__(self, action_spec: TensorSpec, action_key: NestedKey = "action") -> None:
        self.action_spec = action_spec
        self.action_key = action_key

    def __call__(self, td: TensorDictBase) -> TensorDictBase:
        if isinstance(self.action_spec, Composite):
            return td.update(self.action_spec.rand(td.batch_size[: td.ndim - self.action_spec.ndim]))
        spec = self.action_spec
        lead = td.batch_size if spec.shape[: td.ndim] != td.batch_size else ()
        return td.set(self.action_key, spec.rand(lead))


def as_policy(policy: Any, env: EnvBase, trust: bool = False, *, action_keys: list[NestedKey] | None = None) -> Policy:
    """The policy as a callable from tensordict to tensordict.

    A tensordict module, and any callable whose only argument is called ``td``, ``tensordict`` or ``data``, is annotated as a tensordict, or
    is not an ``nn.Module`` and takes one argument, is called with the tensordict. Anything else is a function of
    observations: its arguments are matched by name with the env's observation keys, or in their order, and what it
    returns are the actions.

    Args:
        policy: any of these.
        env: gives the observation and action keys.
        trust: take the policy as it is.
        action_keys: where a function of observations writes; the env's when left out.
    """
    if not callable(policy):
        raise SpecError(f"{type(env).__name__}.rollout: the policy must be callable, got {type(policy).__name__}")
    if trust or isinstance(policy, (TensorDictModuleBase, RandomPolicy)) or is_tensordict_policy(policy):
        return policy
    out_keys = env.action_keys if action_keys is None else action_keys
    names = _arguments(policy)
    keys = list(env.observation_keys)
    by_name = {key if isinstance(key, str) else "_".join(key): key for key in keys}
    if names and set(names) <= set(by_name):
        in_keys = [by_name[name] for name in names]
    elif len(names) <= len(keys):
        in_keys = keys[: len(names)] if names else keys
    else:
        raise SpecError(
            f"{type(env).__name__}.rollout: the policy takes arguments {names}, but the env has the observation keys "
            f"{keys}; wrap it: TensorDictModule(policy, in_keys=[...], out_keys={out_keys})"
        )
    return TensorDictModule(policy, in_keys=in_keys, out_keys=out_keys)


def ask(policy: Policy, td: TensorDictBase, who: str) -> TensorDictBase:
    """The data with what the policy wrote into them, or returned.

    Raises:
        TypeError: it returned something else.
    """
    out = policy(td)
    if out is None or out is td:
        return td
    if not is_tensor_collection(out):
        raise TypeError(f"{who}: the policy must return a tensordict, got {type(out).__name__}")
    return td.update(out)


def is_tensordict_policy(policy: Any) -> bool:
    """Whether a callable takes a tensordict, judged by its signature."""
    call = getattr(policy, "forward", policy) if isinstance(policy, nn.Module) else policy
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        return True
    needed = [
        p
        for p in parameters
        if p.default is inspect.Parameter.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    if len(needed) != 1:
        return not needed and bool(parameters)
    only = needed[0]
    noted = only.annotation
    if isinstance(noted, str):
        return "TensorDict" in noted or only.name in READS_TENSORDICT
    if noted is not inspect.Parameter.empty:
        return inspect.isclass(noted) and (issubclass(noted, TensorDictBase) or is_tensor_collection(noted))
    return only.name in READS_TENSORDICT or not isinstance(policy, nn.Module)


def _arguments(policy: Any) -> list[str]:
    call = getattr(policy, "forward", policy)
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in inspect.signature(call).parameters.values() if p.kind not in kinds]
