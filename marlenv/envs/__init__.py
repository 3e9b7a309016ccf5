"""What an environment is: a base class, stepping, resetting, rollouts, seeds, checks and a registry."""

from marlenv.envs.check import check_env_specs
from marlenv.envs.env import EnvBase
from marlenv.envs.exploration import (
    ExplorationType,
    InteractionType,
    exploration_mode,
    exploration_type,
    interaction_type,
    set_exploration_mode,
    set_exploration_type,
    set_interaction_type,
)
from marlenv.envs.infer import make_composite_from_td
from marlenv.envs.metadata import EnvMetaData
from marlenv.envs.model_based import DreamerEnv, ModelBasedEnvBase
from marlenv.envs.policies import RandomPolicy
from marlenv.envs.registry import get_available_libraries
from marlenv.envs.stepping import step_mdp
from marlenv.envs.trajectories import split_trajectories, terminated_or_truncated

__all__ = [
    "DreamerEnv",
    "EnvBase",
    "EnvMetaData",
    "ExplorationType",
    "InteractionType",
    "ModelBasedEnvBase",
    "RandomPolicy",
    "check_env_specs",
    "exploration_mode",
    "exploration_type",
    "get_available_libraries",
    "interaction_type",
    "make_composite_from_td",
    "set_exploration_mode",
    "set_exploration_type",
    "set_interaction_type",
    "split_trajectories",
    "step_mdp",
    "terminated_or_truncated",
]
