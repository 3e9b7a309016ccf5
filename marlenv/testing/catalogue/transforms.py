"""Every transform with arguments, and the envs of the catalogue that it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torch import Tensor, nn
from torch.distributions import Independent, Normal

import marlenv.transforms as t
from marlenv.envs import DreamerEnv, EnvBase
from marlenv.errors import KeyMissing
from marlenv.specs import Unbounded
from marlenv.testing.mocks import CountingEnv, GroupedEnv, MaskedEnv
from marlenv.transforms import ChessActions, ChessPlanes, Compose, InitTracker, RewardSum, StepCounter, Transform
from marlenv.transforms.networks import ViT

ENVS: tuple[type, ...] = (t.TransformedEnv, t.AutoResetEnv)
"""Public classes of the room that are envs, and stand in that list."""
ABSTRACT: tuple[type, ...] = (t.ObservationTransform,)
"""Public classes of which there are no instances."""


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


def plain(env: EnvBase) -> bool:
    """Whether it is the counting env of three rows."""
    return type(env) is CountingEnv and env.batch_size == (3,)


def single(env: EnvBase) -> bool:
    """Whether it is the counting env of one row."""
    return type(env) is CountingEnv and not env.batch_size


def grouped(env: EnvBase) -> bool:
    """Whether it is an env of groups of two rows."""
    return type(env) is GroupedEnv and env.batch_size == (2,)


def either(env: EnvBase) -> bool:
    """Whether it is the counting env of three rows, or one of groups of two."""
    return plain(env) or grouped(env)


def pictures(env: EnvBase) -> bool:
    """Whether there are pixels."""
    return "pixels" in env.observation_keys


def masked(env: EnvBase) -> bool:
    """Whether it is the masked env of two rows."""
    return type(env) is MaskedEnv and env.batch_size == (2,)


OBSERVATION = ["observation"]
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
    Example("auto reset", t.AutoResetTransform, lambda env: isinstance(env, t.AutoResetEnv)),
    Example("action mask", t.ActionMask, has_action_mask),
    Example("chess actions", ChessActions, is_chess),
    Example("chess planes", ChessPlanes, is_chess),
    Example("decoder", t.DreamerDecoder, lambda env: isinstance(env, DreamerEnv) and env.obs_decoder is not None),
    Example("chain", lambda: Compose(RewardSum(), StepCounter(3), InitTracker()), without("step_count")),
    Example("chain of chains", lambda: Compose(Compose(InitTracker()), Compose())),
    # values and shapes
    Example("clipped", lambda: t.ClipTransform(OBSERVATION, low=0.5), plain),
    Example("signs", lambda: t.SignTransform(OBSERVATION), plain),
    Example("doubles", lambda: t.DTypeCastTransform(torch.float32, torch.float64), either),
    Example("no doubles", t.DoubleToFloat, either),
    Example("finite numbers", t.FiniteTensorDictCheck, either),
    Example("one dimension more", lambda: t.UnsqueezeTransform(-1, in_keys=OBSERVATION), plain),
    Example("one dimension less", lambda: t.SqueezeTransform(-1, in_keys=OBSERVATION), plain),
    Example("dimensions turned", lambda: t.PermuteTransform((-1, -3, -2), in_keys=["pixels"]), pictures),
    Example("flat pictures", lambda: t.FlattenObservation(-3, -1), pictures),
    Example("a vector of vectors", t.CatTensors, plain),
    Example("a stack", lambda: t.Stack(OBSERVATION, "stack", dim=-1), plain),
    # pixels and frames
    Example("images", t.ToTensorImage, pictures),
    Example("grey images", lambda: Compose(t.ToTensorImage(), t.GrayScale()), pictures),
    Example("small images", lambda: Compose(t.ToTensorImage(), t.Resize(2, 3)), pictures),
    Example("cut images", lambda: Compose(t.ToTensorImage(), t.Crop(2, 5, 1, 1)), pictures),
    Example("middles of images", lambda: Compose(t.ToTensorImage(), t.CenterCrop(2, 8)), pictures),
    Example("frames", lambda: t.CatFrames(2, -1, OBSERVATION), plain),
    Example(
        "frames of all agents",
        lambda: t.CatFrames(2, -1, [("agents", "observation")]),
        lambda env: grouped(env) and "agents" in env.group_map,
    ),
    Example(
        "frames that are scaled later",
        lambda: Compose(t.CatFrames(2, -1, OBSERVATION), t.ObservationNorm(0.0, 2.0, OBSERVATION)),
        plain,
    ),
    Example("greatest of two", lambda: t.TimeMaxPool(OBSERVATION, T=2), plain),
    Example("every second frame", lambda: t.FrameSkipTransform(2), either),
    Example("idle steps", lambda: t.NoopResetEnv(2), lambda env: single(env) or plain(env)),
    # actions
    Example("intervals", lambda: t.ActionDiscretizer(3), plain),
    Example(
        "intervals at random",
        lambda: t.ActionDiscretizer(3, sampling=t.ActionDiscretizer.SamplingStrategy.RANDOM),
        plain,
    ),
    Example("scaled actions", t.ActionScaling, plain),
    Example("several actions", t.MultiAction, plain),
    # rewards and episodes
    Example("clipped rewards", lambda: t.RewardClipping(-0.5, 0.5), either),
    Example("scaled rewards", lambda: t.RewardScaling(1.0, 2.0), either),
    Example("rewards of two kinds", t.BinarizeReward, either),
    Example("one reward", lambda: t.LineariseRewards(None), either),
    Example("return that is asked for", lambda: t.TargetReturn(9.0), either),
    Example(
        "near another policy",
        lambda: Compose(
            t.TensorDictPrimer(sample_log_prob=Unbounded(()), expand_specs=True), t.KLRewardTransform(_actor())
        ),
        plain,
    ),
    Example("limit", lambda: t.TimeLimit(2), either),
    Example("numbers of episodes", t.TrajCounter, plain),
    Example("random limits", lambda: Compose(StepCounter(), t.RandomTruncationTransform(1, 3, prob=0.5)), either),
    Example("lives", lambda: t.EndOfLifeTransform(eol_attribute="max_steps"), plain),
    Example("finished episodes", t.RecordEpisodeStats, either),
    # keys
    Example("renamed", lambda: t.RenameTransform(OBSERVATION, ["seen"], ["action"], ["move"]), plain),
    Example("left out", lambda: t.ExcludeTransform("observation"), masked),
    Example("chosen", lambda: t.SelectTransform("action_mask"), masked),
    Example("no empty groups", t.RemoveEmptySpecs, either),
    # statistics and primers
    Example("normalised", lambda: t.ObservationNorm(1.0, 2.0), either),
    Example("running statistics", t.VecNorm, either),
    Example("moving averages", t.VecNormV2, either),
    Example("moving averages of a row", lambda: t.VecNormV2(stateful=False), either),
    Example("hidden state", lambda: t.TensorDictPrimer(hidden=Unbounded((2,)), expand_specs=True, random=True), either),
    Example("noise", lambda: t.gSDENoise(2, 1), single),
    # control, device, text
    Example("skipped steps", lambda: t.ConditionalSkip(_every_third), plain),
    Example("an opponent", lambda: t.ConditionalPolicySwitch(_still, _every_third), plain),
    Example(
        "a grid of rows",
        lambda: t.BatchSizeTransform(reshape_fn=_grid),
        lambda env: type(env) is CountingEnv and env.batch_size == (2, 2),
    ),
    Example("vectorised gym", t.VecGymEnvTransform, plain),
    Example("another device", lambda: t.DeviceCastTransform("cpu"), either),
    Example("pinned", t.PinMemoryTransform, plain),
    Example("times", t.Timer, either),
    Example("a function", lambda: t.UnaryTransform(OBSERVATION, ["twice"], fn=_twice), plain),
    Example("hashes", lambda: t.Hash(OBSERVATION, ["hash"]), single),
    # agents
    Example(
        "other groups",
        lambda: t.RegroupTransform({"first": ["a"], "others": ["c", "b"]}),
        lambda env: grouped(env) and "g" in env.group_map,
    ),
    Example("reward of the team", lambda: t.TeamReward("mean", per="team"), grouped),
    Example("which agent", t.AgentIndex, grouped),
    Example("what all see", t.SharedObservation, grouped),
    Example("late actions", lambda: t.ActionDelay(2), either),
    Example("late observations", lambda: t.ObservationDelay(2), either),
    Example("lost messages", lambda: t.DropMessages(0.5, "last", flag_name="arrived"), either),
]


def _every_third(td: TensorDictBase) -> Tensor:
    return (td["observation"] % 3 == 1).squeeze(-1)


def _still(td: TensorDictBase) -> TensorDictBase:
    return td.set("action", torch.zeros(*td.batch_size, 1))


def _twice(value: Tensor) -> Tensor:
    return value * 2


def _grid(td: Any) -> Any:
    return td.reshape(4)


def _actor() -> Any:
    net = TensorDictModule(nn.Identity(), in_keys=["observation"], out_keys=["loc"])
    spread = TensorDictModule(torch.ones_like, in_keys=["loc"], out_keys=["scale"])
    draw = ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=_Normal, return_log_prob=True)
    return ProbabilisticTensorDictSequential(net, spread, draw)


class _Normal(Independent):  # type: ignore[type-arg]  # older versions of torch know no Independent[...]
    """A diagonal Gaussian."""

    def __init__(self, loc: Tensor, scale: Tensor) -> None:
        super().__init__(Normal(loc, scale, validate_args=False), 1, validate_args=False)


STORED: list[Callable[[], Transform]] = [
    lambda: t.BurnInTransform([], 1),
    lambda: t.RandomCropTensorDict(2),
    t.Reward2GoTransform,
    lambda: t.DiscreteActionProjection(2, 4),
    lambda: t.R3MTransform("resnet18"),
    t.VIPTransform,
    t.VIPRewardTransform,
    lambda: t.VC1Transform(["pixels"], ["vec"], ViT(12, 1, 3, 32)),
    lambda: t.Tokenizer(["text"], ["tokens"], tokenizer=len),
]
"""Transforms of stored data, and others that no env of the catalogue is for."""
