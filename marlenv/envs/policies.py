"""Policies: the random one, and any callable as something that reads and writes a tensordict."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensordict import TensorDictBase, is_tensor_collection
from tensordict.nn import TensorDictModule, TensorDictModuleBase
from torch import nn

from marlenv.envs.modules import call
from marlenv.errors import SpecError
from marlenv.keys import NestedKey, last
from marlenv.specs import Composite, TensorSpec

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase

Policy = Callable[[TensorDictBase], TensorDictBase]
READS_TENSORDICT = {"tensordict", "td", "data"}


class RandomPolicy:
    """A policy that draws actions from a spec, whatever it sees.

    Args:
        action_spec: the spec of the actions; a composite names their keys itself. When left out, that of the env that
            the policy is rolled out in, or of :meth:`set_action_spec_from_env`.
        action_key: where to write the action of a spec that is not a composite.

    >>> from tensordict import TensorDict
    >>> RandomPolicy(Categorical(4, shape=(2,)))(TensorDict({}, [2]))["action"].shape
    torch.Size([2])
    """

    def __init__(self, action_spec: TensorSpec | None = None, action_key: NestedKey = "action") -> None:
        self.action_spec = action_spec
        self.action_key = action_key

    def set_action_spec_from_env(self, env: EnvBase) -> None:
        """Takes the action spec of an env, unless there is one."""
        if self.action_spec is None:
            self.action_spec = env.full_action_spec

    def __call__(self, td: TensorDictBase) -> TensorDictBase:
        if self.action_spec is None:
            raise SpecError(
                "RandomPolicy: there is no action spec; pass action_spec=..., or call set_action_spec_from_env(env)"
            )
        if isinstance(self.action_spec, Composite):
            return td.update(self.action_spec.rand(td.batch_size[: td.ndim - self.action_spec.ndim]))
        spec = self.action_spec
        lead = td.batch_size if spec.shape[: td.ndim] != td.batch_size else ()
        return td.set(self.action_key, spec.rand(lead))


def as_policy(policy: Any, env: EnvBase, trust: bool = False, *, action_keys: list[NestedKey] | None = None) -> Policy:
    """The policy as a callable from tensordict to tensordict.

    A tensordict module is called with the tensordict, and so is any callable whose argument is called ``td``,
    ``tensordict`` or ``data``, or is annotated as one. Anything else is a function of observations that returns
    actions: its arguments are matched by name with the env's observation keys, such as ``agents_observation`` (or
    ``observation``, where only one key ends so), or in their order where it takes as many as there are. A function
    whose only argument says nothing is called with the tensordict where the env has several observations; where it has
    one, with that, or with the tensordict if that fails.

    Args:
        policy: any of these.
        env: gives the observation and action keys.
        trust: take the policy as it is.
        action_keys: where a function of observations writes; the env's when left out.

    Raises:
        SpecError: it is no policy, or its arguments do not say which observations it takes.
    """
    who = f"{type(env).__name__}.rollout"
    if inspect.isclass(policy):
        raise SpecError(f"{who}: the policy is the class {policy.__name__}; make one, {policy.__name__}(...)")
    if not callable(policy):
        raise SpecError(
            f"{who}: the policy must be callable, got {type(policy).__name__}; give a function or a module, "
            f"or none for random actions"
        )
    if isinstance(policy, RandomPolicy):
        policy.set_action_spec_from_env(env)
    keys = list(env.observation_keys)
    takes = trust or isinstance(_inside(policy), (TensorDictModuleBase, RandomPolicy)) or takes_tensordict(policy, keys)
    if takes:
        return policy
    out_keys = env.action_keys if action_keys is None else action_keys
    parameters = _parameters(policy)
    names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
    needed = [p.name for p in parameters if _is_needed(p)]
    by_name = _by_name(keys)
    if needed and set(needed) <= set(by_name):
        in_keys = [by_name[name] for name in names if name in by_name]
    elif len(names) < len(parameters) or not parameters or len(needed) <= len(keys) <= len(names):
        in_keys = keys
    else:
        raise SpecError(
            f"{who}: the policy takes arguments {names}, but the env has the observation keys "
            f"{keys}; name arguments after keys ({', '.join(by_name)}), or wrap it: "
            f"TensorDictModule(policy, in_keys=[...], out_keys={out_keys})"
        )
    module = TensorDictModule(policy, in_keys=in_keys, out_keys=out_keys)
    return OneOrOther(policy, module) if takes is None else module


class OneOrOther:
    """A function whose only argument says nothing: of the observation or, where that fails at its first call, of the
    tensordict.

    Args:
        function: the function.
        module: the function of the observation as a tensordict module.
    """

    def __init__(self, function: Policy, module: TensorDictModule) -> None:
        self._function, self._module = function, module
        self._chosen: Policy | None = None

    def __call__(self, td: TensorDictBase) -> TensorDictBase:
        if self._chosen is not None:
            return call(self._chosen, td)
        try:
            out, self._chosen = self._module(td), self._module
        except Exception as error:
            out, self._chosen = self._of_tensordict(td, error), self._function
        return out

    def _of_tensordict(self, td: TensorDictBase, error: Exception) -> TensorDictBase:
        """What the function of the tensordict returns, after an error when it was given the observation."""
        try:
            out = self._function(td)
        except Exception as other:
            error.add_note(
                f"called with the tensordict it fails too: {other!r}; call the argument td to be given that at once"
            )
            raise error from None
        if out is None or is_tensor_collection(out):
            return out
        raise error  # it takes the observation, and what it answers to that does not fit


def ask(policy: Policy, td: TensorDictBase, who: str) -> TensorDictBase:
    """The data with what the policy wrote into them, or returned.

    Raises:
        TypeError: it returned something else.
    """
    out = call(policy, td)
    if out is None or out is td:
        return td
    if not is_tensor_collection(out):
        raise TypeError(
            f"{who}: the policy is given the tensordict and must return one, got {type(out).__name__}; to be given "
            f"observations, take one argument for each of them, or wrap it: TensorDictModule(policy, in_keys=[...], "
            f"out_keys=[...])"
        )
    return td.update(out)


def takes_tensordict(policy: Any, keys: list[NestedKey]) -> bool | None:
    """Whether a callable takes a tensordict, judged by its signature; None where that does not say it.

    Args:
        policy: the callable.
        keys: the env's observation keys.
    """
    parameters = _parameters(policy)
    needed = [p for p in parameters if _is_needed(p)] or parameters[:1]
    only = needed[0] if len(needed) == 1 else None
    if only is not None:
        noted = only.annotation
        if only.name in READS_TENSORDICT or (isinstance(noted, str) and "TensorDict" in noted):
            return True
        if inspect.isclass(noted) and (issubclass(noted, TensorDictBase) or is_tensor_collection(noted)):
            return True
        if noted is not only.empty or only.name in _by_name(keys):
            return False
    if isinstance(policy, nn.Module) or len(needed) > 1:
        return False
    return None if len(keys) == 1 else True


def _by_name(keys: list[NestedKey]) -> dict[str, NestedKey]:
    """The observation keys by the names that arguments can have."""
    whole = {key if isinstance(key, str) else "_".join(key): key for key in keys}
    ends = Counter(map(last, keys))
    return {last(key): key for key in keys if ends[last(key)] == 1} | whole


def _inside(policy: Any) -> Any:
    """The module that ``torch.compile`` was given; the policy itself where it was not compiled."""
    return getattr(policy, "_orig_mod", policy) if isinstance(policy, nn.Module) else policy


def _parameters(policy: Any) -> list[inspect.Parameter]:
    """What a policy can be given without names; nothing where that is not known."""
    inner = _inside(policy)
    try:
        found = inspect.signature(getattr(inner, "forward", inner)).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in found if p.kind not in (p.VAR_KEYWORD, p.KEYWORD_ONLY)]


def _is_needed(p: inspect.Parameter) -> bool:
    return p.default is p.empty and p.kind is not p.VAR_POSITIONAL
