"""ALF: our envs as its batched environments, its batched environments as ours, and how it makes them.

ALF (https://github.com/HorizonRobotics/alf) is on no package registry; what is here follows its chapter "Environments
and wrappers", name by name.
"""

from __future__ import annotations

from typing import Any

from marlenv.envs import EnvBase
from marlenv.errors import SpecTypeError
from marlenv.interop.alf.env import AlfEnvironment
from marlenv.interop.alf.nests import KeepUntransformed
from marlenv.interop.alf.suites import (
    ParallelAlfEnvironment,
    ThreadEnvironment,
    create_environment,
    create_eval_environment,
    load,
    suite,
)
from marlenv.interop.alf.time_step import AlfSpec, StepType, TimeStep

__all__ = [
    "AlfEnvironment",
    "AlfSpec",
    "KeepUntransformed",
    "ParallelAlfEnvironment",
    "StepType",
    "ThreadEnvironment",
    "TimeStep",
    "create_environment",
    "create_eval_environment",
    "from_alf",
    "load",
    "suite",
    "to_alf",
]

NEEDED = ("batch_size", "observation_spec", "action_spec", "reset", "step")


def to_alf(env: EnvBase) -> AlfEnvironment:
    """Our env with many rows as a batched environment of ALF: an env with one agent, or with one group.

    An episode's last step is a time step of its own, ``LAST``; the step after it starts the next one, ``FIRST``, and
    does not read its action. A time limit leaves ``discount`` at 1. Tensors stay where they are. ``env_info`` has the
    env's infos. ``untransformed`` is ``()``, as ALF's environments leave it; behind
    :class:`marlenv.interop.alf.KeepUntransformed`, the first of the env's transforms, it is the time step before the
    others.

    Args:
        env: an env with rows.

    Raises:
        SpecTypeError: ``env`` is no env of ours, or has several groups.
        GroupError: the agents of its group differ in shape.
        Unsupported: it has no rows.
        SpecError: ALF cannot express a spec, or a reward is several numbers; the text says which entry.
        KeyMissing: none of several rewards is called ``"reward"``.

    >>> alf = to_alf(marlenv.make("simple_spread", num_envs=4, max_steps=25))
    >>> time_step = alf.reset()
    >>> time_step.step_type, time_step.observation.shape
    (tensor([0, 0, 0, 0], dtype=torch.int32), torch.Size([4, 3, 14]))
    """
    return AlfEnvironment(env)


def from_alf(env: Any) -> EnvBase:
    """A batched environment of ALF as an env of ours, ``[B]`` rows: ``observation``, ``action``, ``reward`` and flags.

    ``LAST`` with ``discount`` 0 has terminated, ``LAST`` with 1 is truncated; ``env_info`` is ``info``. The rows of
    ALF's batched environments start anew by themselves, in the step after their last one. A row that is reset keeps
    its last observation until then, and ``mask`` ``[B, 1]`` is False: its action is not read, and the step is no part
    of an episode. Environments with one row, and those of :func:`to_alf`, start anew at once.

    Args:
        env: of ALF, or what :func:`to_alf` made.

    Raises:
        SpecTypeError: it lacks something that ALF's batched environments have; the text says what.
        SpecError: one of its specs is no dict of specs of tensors; the text says which.

    >>> env = from_alf(to_alf(marlenv.make("simple_spread", num_envs=4, max_steps=25)))
    >>> env.rollout(30, break_when_any_done=False)["next", "truncated"].sum().item()
    4
    """
    if lacking := [name for name in NEEDED if not hasattr(env, name)]:
        raise SpecTypeError(
            f"from_alf: expected a batched environment of ALF, got {type(env).__name__} without {lacking}"
        )
    from marlenv.interop.alf.from_env import EnvOfAlf

    return EnvOfAlf(env)
