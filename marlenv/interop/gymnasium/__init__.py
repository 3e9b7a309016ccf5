"""Gymnasium: our envs with one agent, or with one group, as single envs and as vectors.

Tested with Gymnasium 1.2.2 (https://gymnasium.farama.org), which is imported on use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from marlenv.envs import EnvBase
from marlenv.errors import SpecTypeError
from marlenv.optional import need

__all__ = ["register_gym", "to_gymnasium", "to_gymnasium_vector"]


def to_gymnasium(env: EnvBase, render_mode: str | None = None) -> Any:
    """Our env as one of Gymnasium's: an env with one agent, or with one group, whose agents act as one.

    A group of several agents observes and acts in tensors ``[A, ...]``; its reward is the sum over them. Where there is
    more to observe than ``"observation"``, such as masks, observations are dicts. One-hot values are numbers.

    Args:
        env: an env with one row.
        render_mode: ``"rgb_array"`` for pictures of scenarios.

    Raises:
        SpecTypeError: ``env`` is no env of ours, or has several groups.
        GroupError: the agents of its group differ in shape.
        Unsupported: it has several rows.
        SpecError: Gymnasium cannot express a spec, or a reward is several numbers; the text says which entry.
        KeyMissing: none of several rewards is called ``"reward"``.
        MissingExtra: Gymnasium is not installed.

    >>> gym = to_gymnasium(marlenv.make("navigation", n_agents=1, max_steps=20))
    >>> observation, info = gym.reset(seed=0)
    >>> gym.action_space
    Box(-1.0, 1.0, (2,), float32)
    """
    from marlenv.interop.gymnasium.single import SingleEnv

    return SingleEnv(env, render_mode)


def to_gymnasium_vector(env: EnvBase, autoreset_mode: str = "NEXT_STEP") -> Any:
    """Our env with many rows as a vector of Gymnasium's: an env with one agent, or with one group.

    Args:
        env: an env with rows.
        autoreset_mode: when rows that are done start anew: ``"NEXT_STEP"``, in which their action is not read,
            ``"SAME_STEP"``, in which ``info["final_obs"][row]`` is the last observation of a row that is done, or
            ``"DISABLED"``, where you reset with ``options={"reset_mask": ...}``.

    Raises:
        SpecTypeError: ``env`` is no env of ours, or has several groups.
        GroupError: the agents of its group differ in shape.
        Unsupported: it has no rows, or there is no such mode.
        SpecError: Gymnasium cannot express a spec, or a reward is several numbers; the text says which entry.
        KeyMissing: none of several rewards is called ``"reward"``.
        MissingExtra: Gymnasium is not installed.

    >>> vector = to_gymnasium_vector(marlenv.make("navigation", num_envs=4, n_agents=1))
    >>> vector.reset(seed=0)[0].shape
    (4, 18)
    """
    from marlenv.interop.gymnasium.vector import VectorOfRows

    return VectorOfRows(env, autoreset_mode)


def register_gym(
    id: str,
    entry_point: str | Callable[..., EnvBase],
    *,
    transform: Any = None,
    info_keys: Sequence[str] | None = None,
    reward_threshold: float | None = None,
    nondeterministic: bool = False,
    max_episode_steps: int | None = None,
    order_enforce: bool = True,
    disable_env_checker: bool = False,
    **kwargs: Any,
) -> None:
    """Gives one of our envs a name of Gymnasium's, so that ``gymnasium.make`` and ``make_vec`` make it.

    Args:
        id: such as ``"Navigation-v0"``.
        entry_point: a name of :func:`marlenv.make`, or what makes an env: a class, or a function.
        transform: for every env that is made.
        info_keys: entries that stand in the info rather than in the observation.
        reward_threshold: Gymnasium's, as are the next four; ``max_episode_steps`` truncates.
        **kwargs: of the env. They, ``transform`` and ``info_keys`` can be given to ``gymnasium.make`` too.

    Raises:
        MissingExtra: Gymnasium is not installed.
        SpecTypeError: ``entry_point`` makes no env.

    >>> import gymnasium
    >>> register_gym("marlenv/Navigation-v0", "navigation", n_agents=1, max_episode_steps=50)
    >>> gymnasium.make("marlenv/Navigation-v0").reset(seed=0)[0].shape
    (18,)
    """
    from marlenv.interop.gymnasium.registered import Registered

    if not isinstance(entry_point, str) and not callable(entry_point):
        raise SpecTypeError(
            f"register_gym: entry_point must be a name of marlenv.make, a class or a function, got {entry_point!r}"
        )

    need("gymnasium", "marlenv.register_gym").register(
        id,
        entry_point=Registered(entry_point),
        reward_threshold=reward_threshold,
        nondeterministic=nondeterministic,
        max_episode_steps=max_episode_steps,
        order_enforce=order_enforce,
        disable_env_checker=disable_env_checker,
        kwargs={"transform": transform, "info_keys": info_keys, **kwargs},
    )
