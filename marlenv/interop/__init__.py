"""Us for other libraries: our envs, specs and keys in their terms, theirs in ours. Imported on use."""

from marlenv.interop.alf import from_alf, to_alf
from marlenv.interop.benchmarl import to_benchmarl
from marlenv.interop.gymnasium import register_gym, to_gymnasium, to_gymnasium_vector
from marlenv.interop.jax import from_jax, to_jax
from marlenv.interop.pettingzoo import to_pettingzoo_aec, to_pettingzoo_parallel
from marlenv.interop.pufferlib import to_pufferlib
from marlenv.interop.pymarl import to_pymarl
from marlenv.interop.rllib import to_rllib
from marlenv.interop.sb3 import to_sb3_vec_env
from marlenv.interop.torchrl import from_torchrl, group_keys, to_torchrl

__all__ = [
    "from_alf",
    "from_jax",
    "from_torchrl",
    "group_keys",
    "register_gym",
    "to_alf",
    "to_benchmarl",
    "to_gymnasium",
    "to_gymnasium_vector",
    "to_jax",
    "to_pettingzoo_aec",
    "to_pettingzoo_parallel",
    "to_pufferlib",
    "to_pymarl",
    "to_rllib",
    "to_sb3_vec_env",
    "to_torchrl",
]
