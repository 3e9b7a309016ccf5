"""Transforms of actions."""

from __future__ import annotations

from tensordict import TensorDictBase

from marlenv.errors import KeyMissing, SpecError
from marlenv.groups import open_rows
from marlenv.keys import NestedKey
from marlenv.specs import Composite
from marlenv.specs.discrete import Discrete
from marlenv.transforms.base import Kind, Transform


class ActionMask(Transform):
    """Keeps the mask of the action spec up to date with the mask that the env emits.

    ``env.rand_action`` reads emitted masks by itself; this is for policies and scripts that draw from
    ``env.action_spec``.

    Args:
        action_key: a discrete action.
        mask_key: the mask of its legal values, bool ``[*B, ..., n]``.

    >>> env = TransformedEnv(marlenv.testing.MaskedEnv(), ActionMask())
    >>> td = env.reset()
    >>> bool(td["action_mask"].gather(-1, env.action_spec.rand().unsqueeze(-1)).all())
    True
    """

    def __init__(self, action_key: NestedKey = "action", mask_key: NestedKey = "action_mask") -> None:
        super().__init__(in_keys=[action_key, mask_key], out_keys=[action_key, mask_key])
        self.action_key, self.mask_key = action_key, mask_key

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Checks that there is a discrete action and a mask."""
        for key, kind in ((self.action_key, "action"), (self.mask_key, "observation")):
            if key not in specs[kind]:  # type: ignore[index]
                known = list(specs[kind].keys(True, True))  # type: ignore[index]
                raise KeyMissing(f"ActionMask: no {kind} entry {key!r}; the env has {known}")
        spec = specs["action"][self.action_key]
        if not isinstance(spec, Discrete) or "mask" not in spec.params:
            raise SpecError(f"ActionMask: the action must be discrete with a mask, got {spec!r}")

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        self._on_reset(next_tensordict)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return tensordict_reset  # the mask is read when kept and reset rows are merged

    def _on_reset(self, tensordict: TensorDictBase) -> None:
        mask = tensordict.get(self.mask_key).bool()
        self.container.full_action_spec[self.action_key].update_mask(open_rows(mask))
