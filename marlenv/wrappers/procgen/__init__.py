"""Procgen's games, for users of ``ProcgenEnv`` and ``ProcgenWrapper``."""

from marlenv.wrappers.procgen.env import ProcgenEnv
from marlenv.wrappers.procgen.wrapper import ProcgenWrapper

__all__ = ["ProcgenEnv", "ProcgenWrapper"]
