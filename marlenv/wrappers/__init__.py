"""Other people's simulators as envs: a file per simulator, a folder where it needs several.

A simulator is imported when its wrapper is made. The files that begin with an underscore are shared by all wrappers.
"""

from marlenv.wrappers._backend import gym_backend, implement_for, set_gym_backend
from marlenv.wrappers._base import EnvWrapper
from marlenv.wrappers._gymlike import GymLikeEnv
from marlenv.wrappers._info_dicts import BaseInfoDictReader, default_info_dict_reader
from marlenv.wrappers._spaces import register_gym_spec_conversion
from marlenv.wrappers.dm_control import DMControlEnv, DMControlWrapper, DMSoccerEnv, DMTeamsWrapper
from marlenv.wrappers.envpool import MultiThreadedEnv, MultiThreadedEnvWrapper
from marlenv.wrappers.gym import GymEnv, GymWrapper, MOGymEnv, MOGymWrapper
from marlenv.wrappers.jaxmarl import JaxMARLEnv, JaxMARLWrapper
from marlenv.wrappers.meltingpot import MeltingpotEnv, MeltingpotWrapper
from marlenv.wrappers.open_spiel import OpenSpielEnv, OpenSpielWrapper
from marlenv.wrappers.pettingzoo import PettingZooEnv, PettingZooWrapper
from marlenv.wrappers.smacv2 import SMACv2Env, SMACv2Wrapper
from marlenv.wrappers.vmas import VmasEnv, VmasWrapper

__all__ = [
    "BaseInfoDictReader",
    "DMControlEnv",
    "DMControlWrapper",
    "DMSoccerEnv",
    "DMTeamsWrapper",
    "EnvWrapper",
    "GymEnv",
    "GymLikeEnv",
    "GymWrapper",
    "JaxMARLEnv",
    "JaxMARLWrapper",
    "MOGymEnv",
    "MOGymWrapper",
    "MeltingpotEnv",
    "MeltingpotWrapper",
    "MultiThreadedEnv",
    "MultiThreadedEnvWrapper",
    "OpenSpielEnv",
    "OpenSpielWrapper",
    "PettingZooEnv",
    "PettingZooWrapper",
    "SMACv2Env",
    "SMACv2Wrapper",
    "VmasEnv",
    "VmasWrapper",
    "default_info_dict_reader",
    "gym_backend",
    "implement_for",
    "register_gym_spec_conversion",
    "set_gym_backend",
]
