"""Whose work a function does: the parts of a step that ``marlenv profile`` tells apart."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from torch import nn

from marlenv.envs import EnvBase, policies, random_actions, rollout
from marlenv.transforms import Transform, TransformedEnv
from marlenv.vector.channels import ProcessChannel, ThreadChannel
from marlenv.vector.process import Watch

ENV, TRANSFORM, PACKING, POLICY, DATA = "env", "transform", "packing", "policy", "data"
MEANING = {
    ENV: "simulator or transition",
    TRANSFORM: "transforms",
    PACKING: "tensordicts, specs, flags",
    POLICY: "choosing actions",
    DATA: "stacking, freeing",
}

ROOMS: dict[str, str | None] = {  # of modules whose names begin so; the longest counts
    "marlenv": PACKING,
    **dict.fromkeys(
        ("marlenv.rng", "marlenv.keys", "marlenv.errors", "marlenv.options", "marlenv.optional", "marlenv.cli")
    ),
    "marlenv.envs.model_based": ENV,
    **dict.fromkeys(("marlenv.wrappers.open_spiel.match", "marlenv.wrappers.open_spiel.games"), ENV),  # calls of C++
    **dict.fromkeys(("marlenv.physics", "marlenv.games", "marlenv.scenarios", "scenarios"), ENV),
    **dict.fromkeys(("marlenv.samples", "marlenv.testing"), ENV),
    **dict.fromkeys(("marlenv.physics.env", "marlenv.games.env", "marlenv.games.chess.env"), PACKING),
    **dict.fromkeys(("marlenv.games.fast.data_pool", "marlenv.games.fast.step_buffers"), PACKING),
    **dict.fromkeys(("marlenv.physics.env.rollout_buffer", "marlenv.physics.env.staging_buffer"), DATA),
    "groups": PACKING,
    "tensordict": PACKING,
    "torch": None,
    "numpy": None,
}
"""Whose work a module does; None: that of whoever calls it. Modules of others are simulators."""
HOOKS = ("step", "reset", "_step", "_reset", "_step_and_reset")
LASTING = (POLICY, DATA)
WAITING = (Watch.wait, ThreadChannel.gather, ProcessChannel.gather)
"""What pools do while their envs are at work elsewhere."""


class Parts:
    """Says which part a function belongs to, whoever wrote it.

    Args:
        env: what is played.
        policy: what plays it; random actions when None.
    """

    def __init__(self, env: EnvBase, policy: Any = None) -> None:
        self._owners: dict[int, str] = {}
        self._owned: set[CodeType] = set()  # what their methods are made of
        self._kept: list[Any] = []  # so that no number is given twice
        for one, name in transforms_of(env):
            self._own(one, f"{TRANSFORM} {name}")
        for part in policy.modules() if isinstance(policy, nn.Module) else [policy]:
            self._own(part, POLICY)
        self.names = list(dict.fromkeys([ENV, *(p for p in self._owners.values() if p != POLICY), PACKING]))
        """All parts, in the order of a table."""
        self.names += LASTING
        loop = rollout.RolloutLoop
        self._rules: dict[CodeType, str | None] = {
            **{f.__code__: POLICY for f in (loop.act, policies.ask, random_actions.rand_action)},
            **{f.__code__: DATA for f in (loop.keep, rollout.stacked, rollout.finish)},
            **{f.__code__: ENV for f in WAITING},
        }
        if hasattr(policy, "__code__"):
            self._rules[policy.__code__] = POLICY
        kinds = [type(one) for one in envs_of(env)]
        self._steps = {code for kind in kinds for code in methods(kind) if code.co_name in HOOKS}

    def _own(self, one: Any, part: str) -> None:
        self._owners[id(one)] = part
        self._owned.update(methods(type(one)))
        self._kept.append(one)

    def follow(self, before: str, frame: FrameType) -> str:
        """The part that a function works for.

        Args:
            before: the part that called it.
            frame: of the function.
        """
        code = frame.f_code
        if before in LASTING:
            return before
        if code in self._owned:  # of others nothing is read: that would hold on to what they have let go of
            owner = self._owners.get(id(frame.f_locals.get("self")))
            if owner is not None:
                return owner
        if before.startswith(TRANSFORM) and code not in self._steps:
            return before
        if code not in self._rules:
            self._rules[code] = room(frame.f_globals.get("__name__") or "")
        part = self._rules[code]
        return before if part is None else part


def room(module: str) -> str | None:
    """Whose work a module does; None: that of whoever calls it.

    >>> room("marlenv.groups.packing"), room("marlenv.games.hex"), room("torch.nn"), room("mpe2.simple_spread")
    ('packing', 'env', None, 'env')
    """
    name = module
    while name:
        if name in ROOMS:
            return ROOMS[name]
        name = name.rpartition(".")[0]
    top = module.partition(".")[0]
    return None if not top or top in sys.stdlib_module_names else ENV


def envs_of(env: EnvBase) -> Iterator[EnvBase]:
    """An env, and those that it is made of."""
    yield env
    if isinstance(env, TransformedEnv):
        yield from envs_of(env.base_env)
    for child in env.__dict__.get("children_envs", ()):
        yield from envs_of(child)


def transforms_of(env: EnvBase) -> Iterator[tuple[Transform, str]]:
    """The transforms of an env and of those that it is made of, with names that tell those of one chain apart."""
    for one in envs_of(env):
        if isinstance(one, TransformedEnv):
            count: dict[str, int] = {}
            for leaf in one.chain.leaves():
                name = type(leaf).__name__
                count[name] = count.get(name, 0) + 1
                yield leaf, name if count[name] == 1 else f"{name} {count[name]}"


def methods(kind: type) -> Iterator[CodeType]:
    """What the methods of a class are made of, and those of its bases."""
    for base in kind.__mro__:
        for value in vars(base).values():
            if hasattr(value, "__code__"):
                yield value.__code__
