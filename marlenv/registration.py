"""Envs by their names: :func:`marlenv.make`, and the table of names that it looks into."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import torch

from marlenv.envs import EnvBase
from marlenv.envs.registry import Kind, Registration, load
from marlenv.errors import SpecError, UnknownName, nearest, whole
from marlenv.games.index import GAMES
from marlenv.optional import need
from marlenv.options import check_options, names_of, needs, takes
from marlenv.scenarios.index import SCENARIOS
from marlenv.specs.dtypes import usable_device
from marlenv.transforms import StepCounter, TransformedEnv
from marlenv.vector import SerialEnv
from marlenv.wrappers.index import WRAPPERS

_TABLE: dict[str, Registration] = {entry.name: entry for entry in (*SCENARIOS, *GAMES, *WRAPPERS)}
KINDS: tuple[Kind, ...] = get_args(Kind)
TASKS = frozenset(("scenario", "rules"))
"""Options that say what is made."""


def make(
    name: str,
    num_envs: int | None = None,
    *,
    device: torch.device | str | int | None = None,
    seed: int | None = None,
    max_steps: int | None = None,
    **options: Any,
) -> EnvBase:
    """An env by its name: a native scenario, a game, a simulator's task, what was registered, or what a callable makes.

    Args:
        name: one of :func:`marlenv.available`; ``"family/task"`` such as ``"pettingzoo/pistonball_v6"``; or
            ``"module:callable"``, which may be anything that :func:`marlenv.register` takes.
        num_envs: how many at once; scenarios and games are batched, others are stepped in series.
        device: where the data live.
        seed: of the env and its random actions.
        max_steps: cut episodes off (``truncated``) after so many steps.
        **options: those of the env, such as ``group_map``, ``n_agents`` or ``max_cycles``.

    Raises:
        UnknownName: nothing has that name; names the nearest.
        SpecError: the name is that of a family, without a task; the callable does not make an env; or what is said in
            two ways, such as the task by the name and by an option, differs.
        TypeError: the env has no such option; names the nearest.
        MissingExtra: the simulator is not installed; says how to install it.

    >>> make("tic_tac_toe", num_envs=8).batch_size
    torch.Size([8])
    """
    entry = find(name)
    if num_envs is not None:
        num_envs = whole(f"make({name!r})", "num_envs", num_envs, 1)
    factory, batched = _factory(entry)
    given = {**entry.options, **options}
    if name not in _TABLE and entry.task_option is not None:  # the name says the task
        _check_agrees(name, "the name", entry.task_option, entry.options[entry.task_option], options)
    for option in TASKS & entry.options.keys():
        _check_agrees(name, "the name", option, entry.options[option], options)
    if needs(factory, entry.task_option) and entry.task_option not in given:
        raise SpecError(
            f"make: {name!r} is a family of tasks; name one, '{name}/TASK'; marlenv.available({name!r}), or "
            f"`marlenv list {name}`, lists them"
        )
    if device is not None:
        device = usable_device(f"make({name!r})", device)
        if takes(factory, "device", unsure=batched):
            given["device"] = device
    if max_steps is not None and takes(factory, "max_steps", unsure=batched):
        given["max_steps"], max_steps = max_steps, None
    if batched and num_envs is not None:
        _check_agrees(name, "num_envs", entry.count_option, num_envs, options)
        given[entry.count_option] = num_envs
    elif batched:  # one where a factory has to be told
        given.setdefault(entry.count_option, 1 if needs(factory, entry.count_option) else None)
    _check_options(factory, given)
    env = _build(name, factory, None if batched else num_envs, given)
    if device is not None and env.device != device:
        env = env.to(device)
    if max_steps is not None:
        env = TransformedEnv(env, StepCounter(max_steps))
    if seed is not None:
        env.set_seed(seed)
    return env


def register(
    name: str,
    factory: str | Callable[..., Any],
    *,
    kind: Kind = "custom",
    options: dict[str, Any] | None = None,
    needs: str | None = None,
    batched: bool | None = None,
    summary: str = "",
) -> None:
    """Gives an env a name, for :func:`marlenv.make` and the command line.

    Args:
        name: must be new.
        factory: what makes the env: a function, the class of an env, of a :class:`~marlenv.Scenario` or of the
            :class:`~marlenv.Rules` of a game; or where it is, ``"module:name"``.
        kind: ``"custom"`` for envs of one's own.
        options: keyword arguments that the factory gets first.
        needs: the module that must be installed.
        batched: whether the factory takes ``num_envs`` (and ``max_steps``) itself; else several envs are stepped in
            series. Scenarios and games do; of others the signature says it when left out.
        summary: one line for ``marlenv list``.

    Raises:
        SpecError: the name is taken, or the factory can make nothing.

    >>> register("my_count", "marlenv.testing:CountingEnv")
    >>> make("my_count").batch_size
    torch.Size([])
    >>> unregister("my_count")
    """
    if name in _TABLE:
        raise SpecError(f"register: the name {name!r} is taken by {_TABLE[name].factory!r}")
    if kind not in KINDS:
        raise SpecError(f"register: kind must be one of {list(KINDS)}, got {kind!r}")
    if not isinstance(factory, str):
        _check_factory(f"register({name!r})", factory)
    _TABLE[name] = Registration(name, kind, factory, options or {}, needs, batched, summary, task_option="task")


def unregister(name: str) -> None:
    """Takes a name back."""
    del _TABLE[find(name).name]


def find(name: str) -> Registration:
    """The entry of a name.

    ``"family/task"`` finds the entry of the family, with the task as its option; ``"module:callable"`` makes one.

    Raises:
        UnknownName: names the nearest.
    """
    if name in _TABLE:
        return _TABLE[name]
    family, slash, task = name.partition("/")
    entry = _TABLE.get(family)
    if slash and entry is not None and entry.task_option is not None:
        return replace(entry, name=name, options={**entry.options, entry.task_option: task})
    if ":" in name:
        return Registration(name, "custom", load(name), batched=None)
    hint = nearest(family, _TABLE)
    own = ", and an env of your own is 'module:callable'" if "." in name else ""
    raise UnknownName(
        f"no env is called {name!r}; {hint if '?' in hint else f'`marlenv list` shows all that are{own}'}"
    )


def available(kind: Kind | str | None = None) -> list[str]:
    """The names of all registered envs, of those of one kind, or of the tasks of a family.

    Args:
        kind: ``"scenario"``, ``"game"``, ``"wrapper"`` or ``"custom"``; or a family, such as ``"pettingzoo"``.

    Raises:
        UnknownName: it is neither; names the nearest.
        MissingExtra: the simulator of the family is not installed; says how to install it.

    >>> "simple_spread" in available("scenario")
    True
    """
    if kind is None or kind in KINDS:
        return sorted(name for name, entry in _TABLE.items() if kind in (None, entry.kind))
    families = [name for name, entry in _TABLE.items() if entry.lists_tasks]
    if kind not in families:
        raise UnknownName(f"no kind or family of envs is called {kind!r}; {nearest(kind, [*KINDS, *families])}")
    entry = _TABLE[kind]
    factory: Any = _factory(entry)[0]
    tasks = factory.available_envs if entry.tasks is None else load(entry.tasks)
    return [f"{kind}/{task}" for task in (tasks() if callable(tasks) else tasks)]


def is_family(name: str) -> bool:
    """Whether a name alone makes no env, but only with a task: ``"family/task"``."""
    entry = find(name)
    return entry.task_option not in entry.options and needs(_factory(entry)[0], entry.task_option)


def factory_of(name: str) -> tuple[Callable[..., Any], bool]:
    """What makes the env of a name, and whether it takes ``num_envs`` itself."""
    return _factory(find(name))


def _factory(entry: Registration) -> tuple[Callable[..., Any], bool]:
    """What makes an entry's env, and whether it takes the number of envs itself."""
    if not entry.installed and entry.needs is not None:
        need(entry.needs, f"env {entry.name!r}")
    found = entry.load()
    _check_factory(f"make({entry.name!r})", found)
    if inspect.isclass(found) and not issubclass(found, EnvBase):
        from marlenv.games import Rules
        from marlenv.games.env.make import make_game
        from marlenv.physics import Scenario
        from marlenv.physics.env import make_scenario

        makers: tuple[tuple[type, Callable[..., Any]], ...] = ((Scenario, make_scenario), (Rules, make_game))
        for task, maker in makers:
            if issubclass(found, task):
                return partial(maker, found), True
    return found, takes(found, "num_envs") if entry.batched is None else entry.batched


def _check_factory(who: str, factory: Any) -> None:
    if not callable(factory) or isinstance(factory, EnvBase):
        raise SpecError(
            f"{who}: expected a class or a function that makes an env, got {type(factory).__name__} {factory!r}"
        )


def _check_agrees(name: str, said_by: str, option: str, value: object, options: dict[str, Any]) -> None:
    """Raises where an option that is said in another way already is given, with another value."""
    if option in options and str(options[option]) != str(value):
        raise SpecError(
            f"make({name!r}): {said_by} says {option}={value!r}, and {option}={options[option]!r} was given; give one"
        )


def _check_options(factory: Any, given: dict[str, Any]) -> None:
    """Raises for an option that a factory does not take, where its signature says so; classes of envs do themselves."""
    while isinstance(factory, partial):
        factory = factory.func
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:  # of C, and nobody knows
        return
    if all(p.kind is not p.VAR_KEYWORD for p in parameters):
        check_options(getattr(factory, "__name__", type(factory).__name__), given, names_of(factory))


def _build(name: str, factory: Callable[..., Any], in_series: int | None, options: dict[str, Any]) -> EnvBase:
    if in_series is not None:
        return SerialEnv(in_series, factory, create_env_kwargs=options)
    env = factory(**options)
    if not isinstance(env, EnvBase):
        raise SpecError(f"make({name!r}): made a {type(env).__name__}; expected an env (a marlenv.EnvBase)")
    return env
