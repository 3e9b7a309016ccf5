"""PettingZoo: our envs in its two interfaces, for its users and for what is built on it.

Tested with PettingZoo 1.27 (https://pettingzoo.farama.org), which is imported on use.
"""

from __future__ import annotations

from typing import Any

from marlenv.envs import EnvBase

__all__ = ["to_pettingzoo_aec", "to_pettingzoo_parallel"]


def to_pettingzoo_parallel(env: EnvBase, render_mode: str | None = None) -> Any:
    """Our env as one of PettingZoo's in which all agents act at once.

    Agents that are dead or done are no longer among ``agents``; a seat that the env's ``opponent`` plays never is.
    Where actions are masked, observations are dicts with ``"observation"`` and ``"action_mask"``. One-hot values are
    numbers. Who is not to act, such as a player whose turn it is not, may give None.

    Args:
        env: an env with groups and one row.
        render_mode: of scenarios, ``"rgb_array"`` for pictures, ``"human"`` for a window.

    Raises:
        SpecTypeError: ``env`` is no env of ours, or has no groups.
        Unsupported: it has several rows.
        SpecError: PettingZoo cannot express a spec, or a reward is several numbers; the text says which entry.
        KeyMissing: none of several rewards is called ``"reward"``.
        MissingExtra: PettingZoo is not installed.

    >>> zoo = to_pettingzoo_parallel(marlenv.make("simple_tag", max_steps=25))
    >>> observations, infos = zoo.reset(seed=0)
    >>> zoo.possible_agents
    ['adversary_0', 'adversary_1', 'adversary_2', 'agent_0']
    """
    from marlenv.interop.pettingzoo.parallel import ParallelZoo

    return ParallelZoo(env, render_mode)


def to_pettingzoo_aec(env: EnvBase, render_mode: str | None = None) -> Any:
    """Our env as one of PettingZoo's in which agents act one after the other.

    In games the one whose turn it is; in other envs all who are to act, before the world moves. A seat that the env's
    ``opponent`` plays is no agent.

    Args:
        env: an env with groups and one row.
        render_mode: of games, ``"ansi"`` for boards as text, ``"human"`` to print them; of scenarios, as there.

    Raises:
        SpecTypeError: ``env`` is no env of ours, or has no groups.
        Unsupported: it has several rows.
        SpecError: PettingZoo cannot express a spec, or a reward is several numbers; the text says which entry.
        KeyMissing: none of several rewards is called ``"reward"``.
        MissingExtra: PettingZoo is not installed.

    >>> zoo = to_pettingzoo_aec(marlenv.make("tic_tac_toe"))
    >>> zoo.reset(seed=0)
    >>> zoo.agent_selection, zoo.last()[0]["action_mask"]
    ('x', array([1, 1, 1, 1, 1, 1, 1, 1, 1], dtype=int8))
    """
    from marlenv.interop.pettingzoo.turns import aec

    return aec(env, render_mode)
