"""Gym's and gymnasium's envs, one or a vector of them, for users of ``GymEnv`` and ``GymWrapper``."""

from marlenv.wrappers.gym.env import GymEnv, GymWrapper
from marlenv.wrappers.gym.mo_env import MOGymEnv, MOGymWrapper

__all__ = ["GymEnv", "GymWrapper", "MOGymEnv", "MOGymWrapper"]
