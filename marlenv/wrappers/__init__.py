"""Other people's simulators as envs, one file each; a simulator is imported when its wrapper is made."""

from marlenv.wrappers._base import EnvWrapper
from marlenv.wrappers._gymlike import BaseInfoDictReader, GymLikeEnv, default_info_dict_reader
from marlenv.wrappers._spaces import register_gym_spec_conversion
from marlenv.wrappers.pettingzoo import PettingZooEnv, PettingZooWrapper

__all__ = [
    "BaseInfoDictReader",
    "EnvWrapper",
    "GymLikeEnv",
    "PettingZooEnv",
    "PettingZooWrapper",
    "default_info_dict_reader",
    "register_gym_spec_conversion",
]
