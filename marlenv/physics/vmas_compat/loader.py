"""Runs an unmodified scenario file of VMAS on our engine."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from marlenv.envs.seeding import fresh_seed
from marlenv.errors import SpecError, UnknownName, whole
from marlenv.physics.vmas_compat.draws import Draws, Way
from marlenv.physics.vmas_compat.env import VmasFileEnv
from marlenv.physics.vmas_compat.modules import SCENARIOS, Importer, new_module, run
from marlenv.physics.vmas_compat.scenario import BaseScenario

QUIET = {
    "torch", "math", "typing", "vmas", "numpy", "os", "pathlib", "dataclasses", "abc", "collections", "functools",
    "itertools", "enum", "copy", "time", "xml", "warnings", "__future__",
}  # fmt: skip
"""Modules that draw no random numbers, but for what :data:`DRAWS` names."""
DRAWS = {
    "uniform", "normal", "bernoulli", "exponential", "multinomial", "poisson", "dropout", "distributions", "geometric",
    "cauchy", "log_normal", "random", "nn", "shuffle", "sample", "choice", "choices", "exec", "eval", "getattr",
    "importlib", "import_module", "__import__", "globals", "vars", "binomial", "gumbel_softmax", "rrelu",
    "alpha_dropout", "quasirandom", "seed", "manual_seed", "default_rng", "make_world", "reset_world_at",
    "env_reset_world_at",
}  # fmt: skip
"""The names by which a scenario could draw, with or without an underscore at their end."""
STARTS = ("rand", "spawn", "find_random_pos")
"""What further such names begin with."""
OUTSIDE = {
    "print", "open", "input", "time", "perf_counter", "monotonic", "now", "environ", "getenv", "id", "hash", "warn",
    "setattr", "delattr", "__dict__", "__class__", "locals", "next", "iter",
}  # fmt: skip
"""Names by which a file could read what is outside, or do something there that would be done once only."""
RESETS = {"make_world", "reset_world_at", "__init__"}


def load(
    path_or_module: str | Path | ModuleType,
    num_envs: int = 1,
    *,
    device: torch.device | str | int | None = None,
    seed: int | None = None,
    randomness: Way = "rows",
    **options: Any,
) -> VmasFileEnv:
    """An env of a scenario file that was written for VMAS, as it is: a class ``Scenario(BaseScenario)`` with functions
    of single agents. VMAS need not be installed.

    What the file imports from ``vmas`` are marlenv's classes of the same names; worlds move by marlenv's engine. The
    file is executed anew for every env, and no module of Python's is touched.

    Args:
        path_or_module: the file, a module, or a module's dotted name.
        num_envs: how many rows, ``B``.
        device: where they live.
        seed: of all that is random.
        randomness: ``"rows"``: what the file draws belongs to the rows; ``"vmas"``: one generator for all, with the
            numbers of VMAS's for the same seed (:mod:`marlenv.physics.vmas_compat.draws`).
        **options: those of :class:`VmasFileEnv`; all others are the scenario's.

    Raises:
        UnknownName: there is no such file, or it has no class ``Scenario``.
        ImportError: the file imports what marlenv has not; it says what there is.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "still.py"
    >>> _ = file.write_text('''
    ... from vmas.simulator.core import Agent, World
    ... from vmas.simulator.scenario import BaseScenario
    ... class Scenario(BaseScenario):
    ...     def make_world(self, batch_dim, device, **kwargs):
    ...         world = World(batch_dim, device)
    ...         world.add_agent(Agent(name="agent_0"))
    ...         return world
    ...     def reset_world_at(self, env_index=None): ...
    ...     def observation(self, agent): return agent.state.pos
    ...     def reward(self, agent): return -agent.state.pos.norm(dim=-1)
    ... ''')
    >>> load(file, num_envs=3).rollout(4)["next", "agents", "reward"].shape
    torch.Size([3, 4, 1, 1])

    """
    path = _path(path_or_module)
    _check_is_scenario(path)
    rows = whole("load", "num_envs", num_envs, 1)
    seed = fresh_seed() if seed is None else seed
    draws = Draws(randomness, rows, torch.device("cpu" if device is None else device), seed)
    module = new_module(path)
    with draws.current(), draws.govern():
        run(path, module, Importer(draws, path.parent))
    kind = getattr(module, "Scenario", None)
    if not (isinstance(kind, type) and issubclass(kind, BaseScenario)):
        others = sorted(n for n, x in vars(module).items() if isinstance(x, type) and issubclass(x, BaseScenario))
        hint = f"; it has {[n for n in others if n != 'BaseScenario']}" if others else ""
        raise UnknownName(f"load: {path.name} has no class Scenario(BaseScenario){hint}")
    with draws.current(), draws.govern():
        scenario = kind()
    quiet = draws_nothing(path)
    return VmasFileEnv(
        scenario, num_envs, draws=draws, device=device, seed=seed, quiet=quiet, closed=quiet and stays_inside(path),
        **options,
    )  # fmt: skip


def _path(where: str | Path | ModuleType) -> Path:
    """The file that is meant."""
    if isinstance(where, ModuleType):
        found = inspect.getsourcefile(where)
        if found is None:
            raise UnknownName(f"load: the module {where.__name__} has no source file")
        return Path(found)
    if not isinstance(where, (str, Path)):
        raise SpecError(f"load: expected a path, a module or its dotted name, got {type(where).__name__}")
    path = Path(where)
    if path.suffix == ".py" or path.exists():
        if not path.is_file():
            raise UnknownName(f"load: there is no file {str(path)!r} (from {Path.cwd()})")
        return path
    try:
        spec = importlib.util.find_spec(str(where))
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise UnknownName(f"load: there is no file and no module {str(where)!r}; give a path that ends in .py")
    if Path(spec.origin).suffix != ".py":  # built in, or compiled
        raise UnknownName(
            f"load: the module {str(where)!r} is not made of a file of Python; its origin is {spec.origin}"
        )
    return Path(spec.origin)


def _check_is_scenario(path: Path) -> None:
    """Raises where the text of a file shows that no scenario comes of it: it is not executed then."""
    text = path.read_bytes()
    if not any(word in text for word in (b"Scenario", b"vmas", b"import *")):
        raise UnknownName(
            f"load: expected the file of a scenario for VMAS, with a class Scenario(BaseScenario); {path} has none, "
            f"nor does it import vmas; give the path of such a file. Other envs are made by marlenv.make(name), those "
            f"of your own by marlenv.make('module:callable')"
        )


def draws_nothing(path: Path) -> bool:
    """Whether the text of a file shows that its steps draw no random numbers: then nobody needs to watch them."""
    return not any(_may_draw(node) for node in _played(ast.parse(path.read_bytes())))


def stays_inside(path: Path) -> bool:
    """Whether the text of a file shows that it reads nothing outside of Python, and changes no variable of a module."""
    played = _played(ast.parse(path.read_bytes()))
    names = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in played}
    return not OUTSIDE & names and not any(isinstance(node, (ast.Global, ast.Nonlocal)) for node in played)


def _played(tree: ast.AST) -> list[ast.AST]:
    """All that a step could run: everything but a scenario's methods that make and reset worlds, and policies."""
    out, queue = [], [tree]
    while queue:
        node = queue.pop()
        if isinstance(node, ast.ClassDef) and any("HeuristicPolicy" in ast.dump(base) for base in node.bases):
            continue
        if isinstance(node, ast.If) and "__main__" in ast.dump(node.test):
            continue
        out.append(node)
        scenario = isinstance(node, ast.ClassDef) and any("Scenario" in ast.dump(base) for base in node.bases)
        queue += [
            below
            for below in ast.iter_child_nodes(node)
            if not (scenario and isinstance(below, ast.FunctionDef) and below.name in RESETS)
        ]
    return out


def _may_draw(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom) and node.level:
        return True
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        if any(name.partition(".")[0] not in QUIET or name.startswith(("torch.", SCENARIOS)) for name in modules):
            return True
        if modules == ["vmas"] and any(a.name in ("scenarios", "*") for a in node.names):
            return True
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    name = node.name.rpartition(".")[2] if isinstance(node, ast.alias) else name
    return name.rstrip("_") in DRAWS or name in DRAWS or name.startswith(STARTS)


__all__ = ["load"]
