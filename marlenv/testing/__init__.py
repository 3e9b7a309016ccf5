"""The contract of envs as tests that anybody can run, and what tests are made of."""

from marlenv.testing.mocks import CountingEnv, GroupedEnv, MaskedEnv

__all__ = ["CountingEnv", "GroupedEnv", "MaskedEnv"]
