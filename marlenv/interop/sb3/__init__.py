"""Stable-Baselines3: every agent of every row of our env as one of its vectorized envs.

Tested with Stable-Baselines3 2.9.2 and sb3-contrib 2.9.2 (https://stable-baselines3.readthedocs.io), imported on use.
"""

from __future__ import annotations

from typing import Any

from marlenv.envs import EnvBase

__all__ = ["to_sb3_vec_env"]


def to_sb3_vec_env(env: EnvBase, render_mode: str | None = None) -> Any:
    """Our env as a ``VecEnv`` of Stable-Baselines3: every agent of every row is one env, so that all share a policy.

    Envs are in the order of rows, and in a row in that of its agents. Rows that are done start anew at once: the last
    observation is ``infos[i]["terminal_observation"]``. ``action_mask`` is no observation, but what MaskablePPO asks
    ``env_method("action_masks")`` for. An agent that is done before its row is done then, and once more with its
    row; in between, and before it is born, its ``infos[i]["alive"]`` is False, and its action is not read.

    Args:
        env: an env with one agent, or with one group of equal agents. Any batch size.
        render_mode: ``"rgb_array"`` for pictures of scenarios.

    Raises:
        SpecTypeError: ``env`` is no env of ours, or has several groups.
        GroupError: the agents of its group differ.
        SpecError: Stable-Baselines3 cannot express a spec, or a reward is several numbers; the text says which entry.
        KeyMissing: none of several rewards is called ``"reward"``.
        MissingExtra: Stable-Baselines3 is not installed.

    >>> vec = to_sb3_vec_env(marlenv.make("simple_spread", num_envs=4, max_steps=25))
    >>> vec.num_envs, vec.reset().shape
    (12, (12, 14))
    """
    from marlenv.interop.sb3.vec_env import RowsAndAgents

    return RowsAndAgents(env, render_mode)
