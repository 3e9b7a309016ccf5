"""Jumanji's envs, with one agent or with groups, for users of ``JumanjiEnv`` and ``JumanjiWrapper``."""

from marlenv.wrappers.jumanji.env import JumanjiEnv
from marlenv.wrappers.jumanji.wrapper import JumanjiWrapper

__all__ = ["JumanjiEnv", "JumanjiWrapper"]
