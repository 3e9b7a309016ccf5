"""ALF: our envs as its batched environments, its batched environments as ours, and how it makes them.

ALF (https://github.com/HorizonRobotics/alf) is on no package registry; what is here follows its chapter "Environments
and wrappers", name by name.
"""

from __future__ import annotations

from typing import Any

from marlenv.envs import EnvBase
from marlenv.errors import SpecTypeError, Unsupported
from marlenv.interop.alf.env import AlfEnvironment
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
    does not read its action. A time limit leaves ``discount`` at 1. Tensors stay where they are.

    Args:
        env: an env with rows.

    Raises:
        SpecTypeError: ``env`` is no env of ours, or has several groups.
        Unsupported: it has no rows.
        SpecError: ALF cannot express one of the specs; the text says which entry.

    >>> alf = to_alf(marlenv.make("simple_spread", num_envs=4, max_steps=25))
    >>> time_step = alf.reset()
    >>> time_step.step_type, time_step.observation.shape
    (tensor([0, 0, 0, 0], dtype=torch.int32), torch.Size([4, 3, 14]))
    """
    return AlfEnvironment(env)


def from_alf(env: Any) -> EnvBase:
    """A batched environment of ALF as an env of ours, ``[B]`` rows: ``observation``, ``action``, ``reward`` and flags.

    ALF's have one row each, for their rows start anew by themselves; those of :func:`to_alf` have any number. ``LAST``
    with ``discount`` 0 has terminated, ``LAST`` with 1 is truncated.

    Args:
        env: of ALF, or what :func:`to_alf` made.

    Raises:
        SpecTypeError: it lacks something that ALF's batched environments have; the text says what.
        Unsupported: it has several rows that cannot be reset one by one.
        MissingExtra: Gymnasium is not installed, over whose vectors the way goes.

    >>> env = from_alf(to_alf(marlenv.make("simple_spread", num_envs=4, max_steps=25)))
    >>> env.rollout(30, break_when_any_done=False)["next", "truncated"].sum().item()
    4
    """
    if lacking := [name for name in NEEDED if not hasattr(env, name)]:
        raise SpecTypeError(
            f"from_alf: expected a batched environment of ALF, got {type(env).__name__} without {lacking}"
        )
    if int(env.batch_size) > 1 and not hasattr(env, "reset_rows"):
        raise Unsupported(
            f"from_alf: the {env.batch_size} rows of {type(env).__name__} cannot be reset one by one; make "
            f"SerialEnv(n, lambda: from_alf(make())) of ones with batch_size=1"
        )
    from marlenv.interop.alf.from_env import VectorOfAlf
    from marlenv.wrappers import GymWrapper

    return GymWrapper(VectorOfAlf(env))
