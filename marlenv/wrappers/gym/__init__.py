"""Gym's and gymnasium's envs, one or a vector of them, for users of ``GymEnv`` and ``GymWrapper``."""

from marlenv.wrappers.gym.env import GymEnv
from marlenv.wrappers.gym.habitat import HabitatEnv
from marlenv.wrappers.gym.mo_env import MOGymEnv, MOGymWrapper
from marlenv.wrappers.gym.robohive import RoboHiveEnv
from marlenv.wrappers.gym.wrapper import GymWrapper

__all__ = ["GymEnv", "GymWrapper", "HabitatEnv", "MOGymEnv", "MOGymWrapper", "RoboHiveEnv"]
