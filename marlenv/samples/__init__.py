"""Sample envs with TorchRL's names, keys and numbers: a pendulum, a trader, and text that is identified by its hash."""

from marlenv.samples.hashing import SipHash
from marlenv.samples.llm import LLMHashingEnv
from marlenv.samples.pendulum import PendulumEnv
from marlenv.samples.stateless import StatelessEnv
from marlenv.samples.trading import FinancialRegimeEnv

__all__ = ["FinancialRegimeEnv", "LLMHashingEnv", "PendulumEnv", "SipHash", "StatelessEnv"]
