"""What an environment is: a base class, stepping, resetting, rollouts, seeds, checks and a registry."""

from marlenv.envs.check import check_env_specs
from marlenv.envs.ends import split_trajectories, terminated_or_truncated
from marlenv.envs.env import EnvBase
from marlenv.envs.exploration import (
    ExplorationType,
    exploration_mode,
    exploration_type,
    set_exploration_mode,
    set_exploration_type,
)
from marlenv.envs.infer import make_composite_from_td
from marlenv.envs.metadata import EnvMetaData
from marlenv.envs.model_based import DreamerEnv, ModelBasedEnvBase
from marlenv.envs.policies import RandomPolicy
from marlenv.envs.registry import available, get_available_libraries, register, unregister
from marlenv.envs.stepping import step_mdp

__all__ = [
    "DreamerEnv",
    "EnvBase",
    "EnvMetaData",
    "ExplorationType",
    "ModelBasedEnvBase",
    "RandomPolicy",
    "available",
    "check_env_specs",
    "exploration_mode",
    "exploration_type",
    "get_available_libraries",
    "make_composite_from_td",
    "register",
    "set_exploration_mode",
    "set_exploration_type",
    "split_trajectories",
    "step_mdp",
    "terminated_or_truncated",
    "unregister",
]
