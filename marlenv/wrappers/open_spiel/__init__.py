"""OpenSpiel's games, for users of ``OpenSpielEnv`` and ``OpenSpielWrapper``."""

from marlenv.wrappers.open_spiel.env import OpenSpielEnv, OpenSpielWrapper

__all__ = ["OpenSpielEnv", "OpenSpielWrapper"]
