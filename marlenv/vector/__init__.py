"""Many envs at once: several envs of one kind as one env with a batch dimension."""

from marlenv.vector.asynchronous import AsyncEnvPool
from marlenv.vector.backends import ProcessorAsyncEnvPool, ThreadingAsyncEnvPool
from marlenv.vector.creator import EnvCreator, env_creator, get_env_metadata
from marlenv.vector.parallel import ParallelEnv
from marlenv.vector.serial import SerialEnv

__all__ = [
    "AsyncEnvPool",
    "EnvCreator",
    "ParallelEnv",
    "ProcessorAsyncEnvPool",
    "SerialEnv",
    "ThreadingAsyncEnvPool",
    "env_creator",
    "get_env_metadata",
]
