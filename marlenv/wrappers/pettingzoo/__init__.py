"""PettingZoo's envs, parallel and turn-based, for users of ``PettingZooEnv`` and ``PettingZooWrapper``."""

from marlenv.wrappers.pettingzoo.env import PettingZooEnv, PettingZooWrapper

__all__ = ["PettingZooEnv", "PettingZooWrapper"]
