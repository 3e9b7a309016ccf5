"""Other people's simulators as envs: a file per simulator, a folder where it needs several.

A simulator is imported when its wrapper is made. The files that begin with an underscore are shared by all wrappers.
"""

from marlenv.wrappers._agent import AgentSpecs, AgentStep
from marlenv.wrappers._agents import AgentsEnv
from marlenv.wrappers._backend import gym_backend, implement_for, set_gym_backend
from marlenv.wrappers._base import EnvWrapper
from marlenv.wrappers._batched import BatchedAgentsEnv
from marlenv.wrappers._conversions import register_gym_spec_conversion
from marlenv.wrappers._gymlike import GymLikeEnv
from marlenv.wrappers._info_dicts import BaseInfoDictReader, default_info_dict_reader
from marlenv.wrappers._parallel import ParallelSimEnv
from marlenv.wrappers._turns import TurnSimEnv
from marlenv.wrappers.brax import BraxEnv, BraxWrapper
from marlenv.wrappers.dm_control import DMControlEnv, DMControlWrapper, DMSoccerEnv, DMTeamsWrapper
from marlenv.wrappers.envpool import MultiThreadedEnv, MultiThreadedEnvWrapper
from marlenv.wrappers.gym import GymEnv, GymWrapper, HabitatEnv, MOGymEnv, MOGymWrapper, RoboHiveEnv
from marlenv.wrappers.isaac_lab import IsaacLabWrapper
from marlenv.wrappers.isaacgym import IsaacGymEnv, IsaacGymWrapper
from marlenv.wrappers.jaxmarl import JaxMARLEnv, JaxMARLWrapper
from marlenv.wrappers.jumanji import JumanjiEnv, JumanjiWrapper
from marlenv.wrappers.meltingpot import MeltingpotEnv, MeltingpotWrapper
from marlenv.wrappers.open_spiel import OpenSpielEnv, OpenSpielWrapper
from marlenv.wrappers.openml import OpenMLEnv
from marlenv.wrappers.pettingzoo import PettingZooEnv, PettingZooWrapper
from marlenv.wrappers.pgx import PgxEnv, PgxWrapper
from marlenv.wrappers.procgen import ProcgenEnv, ProcgenWrapper
from marlenv.wrappers.smacv2 import SMACv2Env, SMACv2Wrapper
from marlenv.wrappers.unity_mlagents import UnityMLAgentsEnv, UnityMLAgentsWrapper
from marlenv.wrappers.vmas import VmasEnv, VmasWrapper

__all__ = [
    "AgentSpecs",
    "AgentStep",
    "AgentsEnv",
    "BaseInfoDictReader",
    "BatchedAgentsEnv",
    "BraxEnv",
    "BraxWrapper",
    "DMControlEnv",
    "DMControlWrapper",
    "DMSoccerEnv",
    "DMTeamsWrapper",
    "EnvWrapper",
    "GymEnv",
    "GymLikeEnv",
    "GymWrapper",
    "HabitatEnv",
    "IsaacGymEnv",
    "IsaacGymWrapper",
    "IsaacLabWrapper",
    "JaxMARLEnv",
    "JaxMARLWrapper",
    "JumanjiEnv",
    "JumanjiWrapper",
    "MOGymEnv",
    "MOGymWrapper",
    "MeltingpotEnv",
    "MeltingpotWrapper",
    "MultiThreadedEnv",
    "MultiThreadedEnvWrapper",
    "OpenMLEnv",
    "OpenSpielEnv",
    "OpenSpielWrapper",
    "ParallelSimEnv",
    "PettingZooEnv",
    "PettingZooWrapper",
    "PgxEnv",
    "PgxWrapper",
    "ProcgenEnv",
    "ProcgenWrapper",
    "RoboHiveEnv",
    "SMACv2Env",
    "SMACv2Wrapper",
    "TurnSimEnv",
    "UnityMLAgentsEnv",
    "UnityMLAgentsWrapper",
    "VmasEnv",
    "VmasWrapper",
    "default_info_dict_reader",
    "gym_backend",
    "implement_for",
    "register_gym_spec_conversion",
    "set_gym_backend",
]
