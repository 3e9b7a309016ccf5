"""Unity's ML-Agents, for users of ``UnityMLAgentsEnv`` and ``UnityMLAgentsWrapper``."""

from marlenv.wrappers.unity_mlagents.env import UnityMLAgentsEnv
from marlenv.wrappers.unity_mlagents.wrapper import UnityMLAgentsWrapper

__all__ = ["UnityMLAgentsEnv", "UnityMLAgentsWrapper"]
