"""VMAS's scenarios, for users of ``VmasEnv`` and ``VmasWrapper``."""

from marlenv.wrappers.vmas.env import VmasEnv, VmasWrapper

__all__ = ["VmasEnv", "VmasWrapper"]
