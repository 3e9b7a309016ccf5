"""Scenario files of VMAS on our engine.

https://github.com/proroklab/VectorizedMultiAgentSimulator, tested with 1.5.2.
"""

from marlenv.physics.vmas_compat.env import VmasFileEnv
from marlenv.physics.vmas_compat.loader import load

__all__ = ["VmasFileEnv", "load"]
