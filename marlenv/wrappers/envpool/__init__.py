"""EnvPool's envs, with one player or several, for users of ``MultiThreadedEnv`` and ``MultiThreadedEnvWrapper``."""

from marlenv.wrappers.envpool.env import MultiThreadedEnv
from marlenv.wrappers.envpool.wrapper import MultiThreadedEnvWrapper

__all__ = ["MultiThreadedEnv", "MultiThreadedEnvWrapper"]
