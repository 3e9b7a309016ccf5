"""Every transform with arguments, and the envs of the catalogue that it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from marlenv.envs import DreamerEnv, EnvBase
from marlenv.errors import KeyMissing
from marlenv.transforms import (
    ActionMask,
    ChessActions,
    ChessPlanes,
    Compose,
    DreamerDecoder,
    InitTracker,
    RewardSum,
    StepCounter,
    Transform,
    TransformedEnv,
)

ENVS: tuple[type, ...] = (TransformedEnv,)
"""Public classes of the room that are envs, and stand in that list."""


class Example(NamedTuple):
    """A transform with a name, and the envs that it is for.

    >>> TRANSFORMS[0].make()
    Transform()
    """

    name: str
    make: Callable[[], Transform]
    suits: Callable[[EnvBase], bool] = lambda env: True


def has_action_mask(env: EnvBase) -> bool:
    """Whether the env emits a mask beside its only action."""
    try:
        return env.action_key == "action" and "action_mask" in env.observation_keys
    except KeyMissing:
        return False


def without(name: str) -> Callable[[EnvBase], bool]:
    """Whether the env gives no entry of this name."""
    return lambda env: not any(name in str(key) for key in (*env.observation_keys, *env.reward_keys, *env.done_keys))


def is_chess(env: EnvBase) -> bool:
    """Whether the env is chess with a group per player."""
    return hasattr(getattr(env, "rules", None), "numbering")


TRANSFORMS = [
    Example("nothing", Transform),
    Example("reward sum", RewardSum, without("episode")),
    Example("reward sum among the rewards", lambda: RewardSum(reward_spec=True), without("episode")),
    Example("step counter", StepCounter, without("step_count")),
    Example("time limit", lambda: StepCounter(max_steps=2), without("step_count")),
    Example(
        "time limit of another name",
        lambda: StepCounter(2, truncated_key="cut", step_count_key="n"),
        without("step_count"),
    ),
    Example("first steps", InitTracker),
    Example("first steps of another name", lambda: InitTracker("starts")),
    Example("action mask", ActionMask, has_action_mask),
    Example("chess actions", ChessActions, is_chess),
    Example("chess planes", ChessPlanes, is_chess),
    Example("decoder", DreamerDecoder, lambda env: isinstance(env, DreamerEnv) and env.obs_decoder is not None),
    Example("chain", lambda: Compose(RewardSum(), StepCounter(3), InitTracker()), without("step_count")),
    Example("chain of chains", lambda: Compose(Compose(InitTracker()), Compose())),
]
