"""What changes an env's words: its observations, actions, rewards and flags."""

from marlenv.transforms.actions import ActionDiscretizer, ActionMask, ActionScaling, DiscreteActionProjection
from marlenv.transforms.auto_reset import AutoResetEnv, AutoResetTransform
from marlenv.transforms.backbones import R3MTransform, VC1Transform, VIPRewardTransform, VIPTransform
from marlenv.transforms.base import ObservationTransform, Transform
from marlenv.transforms.buffers import BurnInTransform, RandomCropTensorDict, Reward2GoTransform
from marlenv.transforms.chess import ChessActions, ChessPlanes
from marlenv.transforms.compose import Compose
from marlenv.transforms.control import BatchSizeTransform, ConditionalPolicySwitch, ConditionalSkip, VecGymEnvTransform
from marlenv.transforms.delays import ActionDelay, DropMessages, ObservationDelay
from marlenv.transforms.device import DeviceCastTransform, PinMemoryTransform, Timer
from marlenv.transforms.dreamer import DreamerDecoder
from marlenv.transforms.env import TransformedEnv
from marlenv.transforms.episodes import InitTracker, StepCounter
from marlenv.transforms.frames import CatFrames, FrameSkipTransform, NoopResetEnv, TimeMaxPool
from marlenv.transforms.groups import AgentIndex, RegroupTransform, SharedObservation, TeamReward
from marlenv.transforms.horizons import (
    EndOfLifeTransform,
    RandomTruncationTransform,
    RecordEpisodeStats,
    TimeLimit,
    TrajCounter,
)
from marlenv.transforms.keys import ExcludeTransform, RemoveEmptySpecs, RenameTransform, SelectTransform
from marlenv.transforms.kl import KLRewardTransform
from marlenv.transforms.multi_action import MultiAction
from marlenv.transforms.norm import ObservationNorm
from marlenv.transforms.pixels import CenterCrop, Crop, GrayScale, Resize, ToTensorImage
from marlenv.transforms.primer import TensorDictPrimer, gSDENoise
from marlenv.transforms.rewards import (
    BinarizeReward,
    LineariseRewards,
    RewardClipping,
    RewardScaling,
    RewardSum,
    TargetReturn,
)
from marlenv.transforms.shapes import (
    CatTensors,
    FlattenObservation,
    PermuteTransform,
    SqueezeTransform,
    Stack,
    UnsqueezeTransform,
)
from marlenv.transforms.text import Hash, Tokenizer, UnaryTransform
from marlenv.transforms.values import (
    ClipTransform,
    DoubleToFloat,
    DTypeCastTransform,
    FiniteTensorDictCheck,
    SignTransform,
    apply_to_inputs,
    apply_to_outputs,
)
from marlenv.transforms.vecnorm import VecNorm, VecNormV2

_apply_to_composite, _apply_to_composite_inv = apply_to_outputs, apply_to_inputs  # as TorchRL names them

__all__ = [
    "ActionDelay",
    "ActionDiscretizer",
    "ActionMask",
    "ActionScaling",
    "AgentIndex",
    "AutoResetEnv",
    "AutoResetTransform",
    "BatchSizeTransform",
    "BinarizeReward",
    "BurnInTransform",
    "CatFrames",
    "CatTensors",
    "CenterCrop",
    "ChessActions",
    "ChessPlanes",
    "ClipTransform",
    "Compose",
    "ConditionalPolicySwitch",
    "ConditionalSkip",
    "Crop",
    "DTypeCastTransform",
    "DeviceCastTransform",
    "DiscreteActionProjection",
    "DoubleToFloat",
    "DreamerDecoder",
    "DropMessages",
    "EndOfLifeTransform",
    "ExcludeTransform",
    "FiniteTensorDictCheck",
    "FlattenObservation",
    "FrameSkipTransform",
    "GrayScale",
    "Hash",
    "InitTracker",
    "KLRewardTransform",
    "LineariseRewards",
    "MultiAction",
    "NoopResetEnv",
    "ObservationDelay",
    "ObservationNorm",
    "ObservationTransform",
    "PermuteTransform",
    "PinMemoryTransform",
    "R3MTransform",
    "RandomCropTensorDict",
    "RandomTruncationTransform",
    "RecordEpisodeStats",
    "RegroupTransform",
    "RemoveEmptySpecs",
    "RenameTransform",
    "Resize",
    "Reward2GoTransform",
    "RewardClipping",
    "RewardScaling",
    "RewardSum",
    "SelectTransform",
    "SharedObservation",
    "SignTransform",
    "SqueezeTransform",
    "Stack",
    "StepCounter",
    "TargetReturn",
    "TeamReward",
    "TensorDictPrimer",
    "TimeLimit",
    "TimeMaxPool",
    "Timer",
    "ToTensorImage",
    "Tokenizer",
    "TrajCounter",
    "Transform",
    "TransformedEnv",
    "UnaryTransform",
    "UnsqueezeTransform",
    "VC1Transform",
    "VIPRewardTransform",
    "VIPTransform",
    "VecGymEnvTransform",
    "VecNorm",
    "VecNormV2",
    "gSDENoise",
]
