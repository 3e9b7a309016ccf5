"""What changes an env's words: its observations, actions, rewards and flags."""

from marlenv.transforms.actions import ActionMask
from marlenv.transforms.base import Transform
from marlenv.transforms.chess import ChessActions, ChessPlanes
from marlenv.transforms.compose import Compose
from marlenv.transforms.dreamer import DreamerDecoder
from marlenv.transforms.env import TransformedEnv
from marlenv.transforms.episodes import InitTracker, StepCounter
from marlenv.transforms.rewards import RewardSum

__all__ = [
    "ActionMask",
    "ChessActions",
    "ChessPlanes",
    "Compose",
    "DreamerDecoder",
    "InitTracker",
    "RewardSum",
    "StepCounter",
    "Transform",
    "TransformedEnv",
]
