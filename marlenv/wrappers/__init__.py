"""Other people's simulators as envs, one file each; a simulator is imported when its wrapper is made."""

from marlenv.wrappers._base import EnvWrapper
from marlenv.wrappers._gymlike import BaseInfoDictReader, GymLikeEnv, default_info_dict_reader
from marlenv.wrappers._spaces import register_gym_spec_conversion
from marlenv.wrappers.jaxmarl import JaxMARLEnv, JaxMARLWrapper
from marlenv.wrappers.meltingpot import MeltingpotEnv, MeltingpotWrapper
from marlenv.wrappers.open_spiel import OpenSpielEnv, OpenSpielWrapper
from marlenv.wrappers.pettingzoo import PettingZooEnv, PettingZooWrapper
from marlenv.wrappers.smacv2 import SMACv2Env, SMACv2Wrapper
from marlenv.wrappers.vmas import VmasEnv, VmasWrapper

__all__ = [
    "BaseInfoDictReader",
    "EnvWrapper",
    "GymLikeEnv",
    "JaxMARLEnv",
    "JaxMARLWrapper",
    "MeltingpotEnv",
    "MeltingpotWrapper",
    "OpenSpielEnv",
    "OpenSpielWrapper",
    "PettingZooEnv",
    "PettingZooWrapper",
    "SMACv2Env",
    "SMACv2Wrapper",
    "VmasEnv",
    "VmasWrapper",
    "default_info_dict_reader",
    "register_gym_spec_conversion",
]
