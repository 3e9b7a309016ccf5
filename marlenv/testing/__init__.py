"""The contract of envs as tests that anybody can run, and what tests are made of."""

from marlenv.testing.contract import CHECKS, EnvContract, Result, run_contract
from marlenv.testing.mocks import CountingEnv, GroupedEnv, MaskedEnv, UnevenEnv

__all__ = [
    "CHECKS",
    "CountingEnv",
    "EnvContract",
    "GroupedEnv",
    "MaskedEnv",
    "Result",
    "UnevenEnv",
    "run_contract",
]
