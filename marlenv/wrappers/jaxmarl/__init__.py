"""JaxMARL's envs, for users of ``JaxMARLEnv`` and ``JaxMARLWrapper``."""

from marlenv.wrappers.jaxmarl.env import JaxMARLEnv, JaxMARLWrapper

__all__ = ["JaxMARLEnv", "JaxMARLWrapper"]
