"""Isaac Lab's envs, for users of ``IsaacLabWrapper``."""

from marlenv.wrappers.isaac_lab.env import IsaacLabWrapper

__all__ = ["IsaacLabWrapper"]
