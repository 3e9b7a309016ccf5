"""``marlenv.make``: an env by its name."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from marlenv.envs import EnvBase
from marlenv.envs.registry import Entry, find
from marlenv.errors import whole
from marlenv.optional import need
from marlenv.transforms import StepCounter, TransformedEnv
from marlenv.vector import SerialEnv


def make(
    name: str,
    num_envs: int | None = None,
    *,
    device: torch.device | str | int | None = None,
    seed: int | None = None,
    max_steps: int | None = None,
    **options: Any,
) -> EnvBase:
    """An env by its name: a native scenario, a game, a simulator's task, or what was registered.

    Args:
        name: one of :func:`marlenv.available`, or ``"family/task"`` such as ``"pettingzoo/pistonball_v6"``.
        num_envs: how many at once; scenarios and games are batched, others are stepped in series.
        device: where the data live.
        seed: of the env and its random actions.
        max_steps: cut episodes off (``truncated``) after so many steps.
        **options: those of the env, such as ``group_map``, ``n_agents`` or ``max_cycles``.

    Raises:
        UnknownName: nothing has that name; names the nearest.
        TypeError: the env has no such option; names the nearest.
        MissingExtra: the simulator is not installed; says how to install it.

    >>> make("tic_tac_toe", num_envs=8).batch_size
    torch.Size([8])
    """
    entry = find(name)
    if not entry.installed and entry.needs is not None:
        need(entry.needs, f"env {name!r}")
    if num_envs is not None:
        num_envs = whole(f"make({name!r})", "num_envs", num_envs, 1)
    factory = entry.load()
    given = {**entry.options, **options}
    if device is not None:
        given["device"] = device
    if max_steps is not None and (entry.batched or _takes(factory, "max_steps")):
        given["max_steps"], max_steps = max_steps, None
    env = _build(entry, factory, num_envs, given)
    if max_steps is not None:
        env = TransformedEnv(env, StepCounter(max_steps))
    if seed is not None:
        env.set_seed(seed)
    return env


def _build(entry: Entry, factory: Any, num_envs: int | None, options: dict[str, Any]) -> EnvBase:
    if entry.batched:
        return factory(num_envs=num_envs, **options)
    if num_envs is None:
        return factory(**options)
    return SerialEnv(num_envs, factory, create_env_kwargs=options)


def _takes(factory: Any, option: str) -> bool:
    """Whether a factory, or a class among whose bases one does, names an option."""
    sources = factory.__mro__ if inspect.isclass(factory) else (factory,)
    for source in sources:
        call = vars(source).get("__init__") if inspect.isclass(source) else source
        if call is not None and option in inspect.signature(call).parameters:
            return True
    return False
