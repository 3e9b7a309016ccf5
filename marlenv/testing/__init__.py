"""The contract of envs as tests that anybody can run, and what tests are made of."""

from marlenv.testing.contract import CHECKS, EnvContract, Result, run_contract
from marlenv.testing.counting import CheapEnv, count_calls
from marlenv.testing.mocks import CountingEnv, GroupedEnv, MaskedEnv, UnevenEnv

__all__ = ["CHECKS", "CheapEnv", "CountingEnv", "EnvContract", "GroupedEnv", "MaskedEnv", "Result", "UnevenEnv", "count_calls", "run_contract"]
