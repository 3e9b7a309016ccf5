"""The names of the wrappers' envs."""

from __future__ import annotations

from marlenv.envs.registry import Entry

ENTRIES = [
    Entry(
        "pettingzoo",
        "wrapper",
        "marlenv.wrappers.pettingzoo:PettingZooEnv",
        needs="pettingzoo",
        summary="PettingZoo tasks by name: pettingzoo/pistonball_v6, pettingzoo/simple_spread_v3",
    ),
]
