"""Envs of DeepMind Control, with one agent or with teams, for users of ``DMControlEnv`` and ``DMSoccerEnv``."""

from marlenv.wrappers.dm_control.env import DMControlEnv, DMControlWrapper
from marlenv.wrappers.dm_control.teams import DMSoccerEnv, DMTeamsWrapper

__all__ = ["DMControlEnv", "DMControlWrapper", "DMSoccerEnv", "DMTeamsWrapper"]
