"""Many envs at once: several envs of one kind as one env with a batch dimension."""

from marlenv.vector.serial import SerialEnv

__all__ = ["SerialEnv"]
