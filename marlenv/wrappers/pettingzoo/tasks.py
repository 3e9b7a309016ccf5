"""The tasks of PettingZoo and of mpe2, where its particle envs moved: names as users write them, and how to make
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from marlenv.errors import UnknownName, nearest
from marlenv.optional import has, need
from marlenv.options import blaming_options, naming_options

WHO = "PettingZooEnv"


def tasks() -> dict[str, tuple[str, ...]]:
    """Full name -> the interfaces that the task has: ``"aec"``, ``"parallel"`` or both.

    >>> tasks()["classic/tictactoe_v3"]
    ('aec',)
    """
    zoo = need("pettingzoo", WHO)
    found: dict[str, tuple[str, ...]] = {}
    for kind, registry in (("aec", zoo.aec_registry), ("parallel", zoo.parallel_registry)):
        for name in registry:
            full = re.sub(r"-v(\d+)$", r"_v\1", name)
            found[full] = (*found.get(full, ()), kind)
    if has("mpe2"):
        for name in need("mpe2.all_modules", WHO).mpe_environments:
            found[f"mpe/{name.split('/')[-1]}"] = ("aec", "parallel")
    return found


def find_task(task: str) -> str:
    """The full name of a task that may come short, without version, or as PettingZoo's registry writes it.

    >>> find_task("simple_spread"), find_task("mpe2/simple_spread_v3"), find_task("classic/tictactoe-v3")
    ('mpe/simple_spread_v3', 'mpe/simple_spread_v3', 'classic/tictactoe_v3')

    Raises:
        UnknownName: names the nearest task.
    """
    known = tasks()
    wanted = re.sub(r"-v(\d+)$", r"_v\1", task).replace("mpe2/", "mpe/")
    if wanted in known:
        return wanted
    short = {full.split("/")[-1]: full for full in known}
    if wanted in short:
        return short[wanted]
    bare = {re.sub(r"_v\d+$", "", name): full for name, full in [*short.items(), *((f, f) for f in known)]}
    if wanted in bare:
        return bare[wanted]
    if task.startswith(("mpe", "simple_")) and not has("mpe2"):
        raise UnknownName(
            f"{WHO}: no task is called {task!r}; PettingZoo's particle envs moved: pip install "
            f'"marlenv-torch[pettingzoo]"'
        )
    raise UnknownName(f"{WHO}: no task is called {task!r}; {nearest(wanted.split('/')[-1], [*short, *known])}")


def parallel_or_turns(task: str, parallel: bool | None) -> bool:
    """Whether a task is made with the parallel interface: what was asked for, or parallel where it has it."""
    return "parallel" in tasks()[find_task(task)] if parallel is None else parallel


def make_task(task: str, parallel: bool, options: dict[str, Any], ours: Collection[str] = ()) -> Any:
    """A PettingZoo env.

    Args:
        task: any name that :func:`find_task` takes.
        parallel: the parallel interface; else the turn-based one.
        options: of the task.
        ours: the names of the wrapper's options, for messages.

    Raises:
        UnknownName: there is no such task, or it lacks the interface.
        TypeError: the task has no such option; names the nearest of the wrapper's.
        SpecError: the task cannot be made with these options.
    """
    full = find_task(task)
    kind = "parallel" if parallel else "aec"
    kinds = tasks()[full]
    if kind not in kinds:
        raise UnknownName(
            f"{WHO}: task {full!r} has no {kind} interface; it has {kinds}: pass parallel={'parallel' in kinds}"
        )
    maker: Callable[..., Any]
    more = {}
    if full.startswith("mpe/"):
        module = need(f"mpe2.{full.split('/')[1]}", WHO)
        maker = module.parallel_env if parallel else module.env
    else:
        maker = partial(need("pettingzoo", WHO).make, kind, re.sub(r"_v(\d+)$", r"-v\1", full))
        if full.startswith("atari/"):
            more = {"auto_rom_install_path": _rom_folder()}
    with naming_options(WHO, options, ours), blaming_options(WHO, full, options):
        return maker(**{**more, **options})


def _rom_folder() -> str | None:
    """Where ale-py keeps the ROMs that it ships."""
    ale = need("ale_py", WHO)
    from pathlib import Path

    folder = Path(str(ale.__file__)).parent / "roms"
    return str(folder) if folder.is_dir() else None
