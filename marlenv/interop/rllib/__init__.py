"""RLlib: our envs as its ``MultiAgentEnv``, with agents or with whole groups as its agents.

Tested with Ray 2.60.0 (https://docs.ray.io/en/latest/rllib), which is imported on use.
"""

from __future__ import annotations

from typing import Any

from marlenv.envs import EnvBase

__all__ = ["to_rllib"]


def to_rllib(env: EnvBase, agents: str = "agents") -> Any:
    """Our env as a ``MultiAgentEnv`` of RLlib.

    Those who are to act observe; who dies or is done observes once more, with its flag, and does not come back. Where
    there is more to observe than ``"observation"``, such as ``action_mask``, observations are dicts. One-hot values are
    numbers. RLlib's returns lack what an agent is paid before its first observation (``"undecided"`` of
    :func:`~marlenv.compact_turns`), and all of one whose first observation is its last.

    Args:
        env: an env with groups and one row.
        agents: who is an agent of RLlib: ``"agents"``, each of ours, or ``"groups"``, each group as one, which observes
            and acts in one vector of those of its agents, and gets the sum of their rewards. A group within others is
            called by all of their names, ``"red.scouts"``.

    Raises:
        SpecTypeError: ``env`` is no env of ours, or has no groups.
        GroupError: with ``"groups"``, the agents of a group differ in shape, or two groups would have one name.
        KeyMissing: none of several rewards is called ``"reward"``.
        Unsupported: it has several rows, or there is no such ``agents``.
        SpecError: Gymnasium cannot express a spec, or a reward is several numbers; the text says which entry.
        MissingExtra: ``ray[rllib]`` is not installed.

    >>> rllib = to_rllib(marlenv.make("simple_tag", max_steps=25), agents="groups")
    >>> observations, infos = rllib.reset(seed=0)
    >>> rllib.get_action_space("adversary")
    Box(-1.0, 1.0, (6,), float32)
    """
    from marlenv.interop.rllib.env import AgentsOfRLlib

    return AgentsOfRLlib(env, agents)
