"""PufferLib: every agent of every row of our env as an agent of its native envs.

Tested with PufferLib 2.0.2 (https://puffer.ai), which is imported on use; its 3.0 cannot be installed from the registry
alone, since its setup fetches other programs.
"""

from __future__ import annotations

from typing import Any

from marlenv.envs import EnvBase

__all__ = ["to_pufferlib"]


def to_pufferlib(env: EnvBase, buf: Any = None) -> Any:
    """Our env as a native ``PufferEnv`` of PufferLib: every agent of every row is one of its agents.

    Agents are in the order of rows, and in a row in that of its agents. Rows that are done start anew at once, and
    ``infos`` then have ``episode_return`` and ``episode_length`` of each of their agents; the last observation of an
    episode is not given, as in all of PufferLib's native envs. Where there is more to observe than ``"observation"``,
    such as ``action_mask``, an observation is a vector of all, as PufferLib's emulation makes it. ``masks`` is False
    for an agent that is done before its row, or not born yet.

    Args:
        env: an env with one agent, or with one group of equal agents. Any batch size.
        buf: PufferLib's memory for what is observed, which its pools of processes hand over.

    Raises:
        SpecTypeError: ``env`` is no env of ours, or has several groups.
        GroupError: the agents of its group differ.
        SpecError: PufferLib cannot express a spec, or a reward is several numbers; the text says which entry.
        KeyMissing: none of several rewards is called ``"reward"``.
        MissingExtra: PufferLib is not installed.

    >>> puffer = to_pufferlib(marlenv.make("simple_spread", num_envs=4, max_steps=25))
    >>> puffer.num_agents, puffer.reset(seed=0)[0].shape
    (12, (12, 14))
    """
    from marlenv.interop.pufferlib.env import AgentsOfPuffer

    return AgentsOfPuffer(env, buf)
