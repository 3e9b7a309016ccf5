"""SMACv2's battles, for users of ``SMACv2Env`` and ``SMACv2Wrapper``."""

from marlenv.wrappers.smacv2.env import SMACv2Env, SMACv2Wrapper

__all__ = ["SMACv2Env", "SMACv2Wrapper"]
