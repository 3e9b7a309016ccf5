"""What a scenario file gets when it imports ``vmas``, ``random`` or ``numpy``: ours, for this file alone.

A file is executed with an ``__import__`` of its own, which holds for what its functions import later, too. It is in
``sys.modules`` under a name of its own while it is executed, for what looks modules up there, such as dataclasses, and
nothing else is put there. A vmas that is installed stays as it is; of its scenarios files are executed likewise.
"""

from __future__ import annotations

import builtins
import functools
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from marlenv.physics.vmas_compat import (
    controllers,
    dynamics,
    entities,
    joints,
    rendering,
    scenario,
    sensors,
    states,
    utils,
    world,
)
from marlenv.physics.vmas_compat.draws import Draws

Names = Mapping[str, Any]
CORE: Names = {
    "Action": states.Action, "Agent": entities.Agent, "AgentState": states.AgentState, "Box": entities.Box,
    "Entity": entities.Entity, "EntityState": states.EntityState, "Landmark": entities.Landmark,
    "Line": entities.Line, "Shape": entities.Shape, "Sphere": entities.Sphere,
    "TorchVectorizedObject": states.Vectorized, "World": world.World,
}  # fmt: skip
DYNAMICS = {
    "common": ("Dynamics",), "diff_drive": ("DiffDrive",), "drone": ("Drone",), "forward": ("Forward",),
    "holonomic": ("Holonomic",), "holonomic_with_rot": ("HolonomicWithRotation",),
    "kinematic_bicycle": ("KinematicBicycle",), "roatation": ("Rotation",), "rotation": ("Rotation",),
    "static": ("Static",),
}  # fmt: skip
SCENARIOS = "vmas.scenarios"
"""Where VMAS has the scenarios of its own."""
SEEDED = ("default_rng", "MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SeedSequence")
"""What of numpy.random takes a seed, and one of the operating system's where none is given."""
INSTEAD = {
    "make_env": "marlenv.physics.vmas_compat.load(path)",
    "render_interactively": "marlenv play, or frames of env.render()",
    "Environment": "the env that marlenv.physics.vmas_compat.load(path) returns",
    "Wrapper": "marlenv.interop",
    "Viewer": "env.render()",
}
"""Parts of vmas that run envs and not scenarios, and what does so here."""


class Refused:
    """A part of vmas that a file may import, and that says what to use instead when it is used."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"vmas.{self.name}: not part of scenarios; use {INSTEAD[self.name]} instead")

    def __repr__(self) -> str:
        return f"<vmas.{self.name}: use {INSTEAD[self.name]}>"


def _public(module: ModuleType) -> Names:
    return {name: value for name, value in vars(module).items() if not name.startswith("__")}


def _made(name: str, names: Names | None = None, **below: Any) -> ModuleType:
    module = ModuleType(name, "VMAS's names, by marlenv.")
    module.__path__ = []
    vars(module).update(names or {}, **below)
    return module


def tree() -> ModuleType:
    """``vmas`` and all that is in it, as modules of ours."""
    refused = {name: Refused(name) for name in INSTEAD}
    kinds: dict[str, Any] = {
        file: _made(f"vmas.simulator.dynamics.{file}", {name: getattr(dynamics, name) for name in names})
        for file, names in DYNAMICS.items()
    }
    policy = {name: getattr(scenario, name) for name in ("BaseHeuristicPolicy", "RandomPolicy")}
    controller = _made("vmas.simulator.controllers.velocity_controller", _public(controllers))
    simulator = _made(
        "vmas.simulator",
        core=_made("vmas.simulator.core", CORE),
        utils=_made("vmas.simulator.utils", _public(utils)),
        scenario=_made("vmas.simulator.scenario", {"BaseScenario": scenario.BaseScenario}),
        sensors=_made("vmas.simulator.sensors", {"Lidar": sensors.Lidar, "Sensor": sensors.Sensor}),
        joints=_made("vmas.simulator.joints", {"Joint": joints.Joint, "JointConstraint": joints.JointConstraint}),
        dynamics=_made("vmas.simulator.dynamics", **kinds),
        controllers=_made("vmas.simulator.controllers", velocity_controller=controller),
        heuristic_policy=_made("vmas.simulator.heuristic_policy", policy),
        rendering=_made("vmas.simulator.rendering", {**_public(rendering), "Viewer": refused["Viewer"]}),
        environment=_made("vmas.simulator.environment", {name: refused[name] for name in ("Environment", "Wrapper")}),
    )
    front = {name: refused[name] for name in ("make_env", "render_interactively", "Wrapper")}
    return _made("vmas", front, simulator=simulator, make_env=refused["make_env"])


class Importer:
    """The imports of one scenario file.

    Args:
        draws: whose ``random`` and ``numpy.random`` it gets.
        folder: where the file is; files beside it that import vmas are loaded in the same way, and so are the
            scenarios of a vmas that is installed.

    """

    def __init__(self, draws: Draws, folder: Path) -> None:
        self.folder = folder
        self._vmas = tree()
        self._beside: dict[str, ModuleType] = {}
        self._others = {"random": _random(draws), "numpy": _numpy(draws)}
        self.builtins = {**vars(builtins), "__import__": self}

    def __call__(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Sequence[str] | None = (), level: int = 0
    ) -> Any:
        top = name.partition(".")[0]
        if level == 0 and top == "vmas":
            for one in (name, *(f"{name}.{wanted}" for wanted in fromlist or ())):
                if f"{one}.".startswith(f"{SCENARIOS}."):
                    self._open_installed(one.split(".")[1:])
            return self._found(self._vmas, name, fromlist)
        if level == 0 and top in self._others:
            builtins.__import__(name)
            return self._found(self._others[top], name, fromlist)
        if (path := self._sibling(name, level)) is not None:
            return self._beside_it(name, path)
        if level:
            raise ImportError(
                f"from {'.' * level}{name} import {', '.join(fromlist or ())}: a scenario's file is executed on its "
                f"own, outside of its package; write the import with the package's name, or put the file beside it"
            )
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    def _found(self, top: ModuleType, name: str, fromlist: Sequence[str] | None) -> Any:
        module: Any = top
        for part in name.split(".")[1:]:
            module = getattr(module, part, None)
            if module is None:
                raise ImportError(f"{name}: marlenv knows no module {part!r} of {top.__name__}; {_known(top)}")
        if not fromlist:
            return top
        for wanted in fromlist:
            if wanted != "*" and not hasattr(module, wanted):
                raise ImportError(
                    f"from {name} import {wanted}: marlenv's {name} has no {wanted!r}; it has {_known(module)}"
                )
        return module

    def _sibling(self, name: str, level: int) -> Path | None:
        """The file beside the scenario that an import means, where it imports vmas itself."""
        path = self.folder / f"{name.replace('.', '/')}.py"
        if level > 1 or not name or not path.is_file() or b"vmas" not in path.read_bytes():
            return None
        return path

    def _beside_it(self, name: str, path: Path) -> ModuleType:
        if name not in self._beside:
            self._beside[name] = module = new_module(path)
            run(path, module, self)
        return self._beside[name]

    def _open_installed(self, parts: Sequence[str]) -> None:
        """Puts a scenario of the vmas that is installed into ours, by the parts of its name; leaves unknown ones."""
        path = _installed()
        at: Any = self._vmas
        if path is None:
            raise ImportError(
                f"vmas.{'.'.join(parts)}: marlenv has no scenarios of vmas's own, and no vmas is installed that has "
                f"them; copy the file (such as navigation.py) beside yours, and write 'from navigation import Scenario'"
            )
        for part in parts:
            path, file = path / part, path / f"{part}.py"
            if not hasattr(at, part) and file.is_file():
                setattr(at, part, self._beside_it(str(file), file))
            elif not hasattr(at, part) and path.is_dir():
                setattr(at, part, _made(f"{at.__name__}.{part}"))
            at = getattr(at, part, None)


def _installed() -> Path | None:
    """The folder of the vmas that is installed; None where there is none."""
    try:
        found = importlib.util.find_spec("vmas")
    except (ImportError, ValueError):
        return None
    return None if found is None or found.origin is None else Path(found.origin).parent


def run(path: Path, module: ModuleType, importer: Importer) -> None:
    """Executes a file as ``module``, with the imports of ``importer``."""
    module.__file__ = str(path)
    vars(module)["__builtins__"] = importer.builtins
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)  # not our own __future__
    sys.modules[module.__name__] = module
    try:
        exec(code, vars(module))
    finally:
        sys.modules.pop(module.__name__, None)


def new_module(path: Path) -> ModuleType:
    """An empty module for a file, with a name that no other has."""
    module = ModuleType("")
    module.__name__ = f"marlenv_vmas_{path.stem}_{id(module):x}"
    return module


def _known(module: ModuleType) -> list[str]:
    return sorted(name for name in vars(module) if not name.startswith("_"))


def _seed(draws: Draws) -> Any:
    return draws.numpy.randint(1 << 32, size=4, dtype="uint32")


def _random(draws: Draws) -> ModuleType:
    """``random`` with the functions of the env's own generator."""
    import random

    class Random(random.Random):
        """That of Python; without a seed it starts from the env's."""

        def seed(self, a: Any = None, version: int = 2) -> None:
            """Starts it anew."""
            super().seed(draws.random.getrandbits(64) if a is None else a, version)

    own = {name: getattr(draws.random, name) for name in dir(draws.random) if not name.startswith("_")}
    own["Random"] = Random
    return _made("random", {**_public(random), **{name: own[name] for name in own if name in vars(random)}})


def _numpy(draws: Draws) -> ModuleType:
    """``numpy``, whose ``numpy.random`` has the env's own generator."""
    import numpy

    class RandomState(numpy.random.RandomState):
        """That of NumPy; without a seed it starts from the env's."""

        def __init__(self, seed: Any = None) -> None:
            super().__init__(_seed(draws) if seed is None else seed)

    def seeded(make: Any) -> Any:
        """What starts a generator, from the env's where it is given no seed."""
        return functools.wraps(make)(lambda seed=None: make(_seed(draws) if seed is None else seed))

    own = {name: getattr(draws.numpy, name) for name in dir(draws.numpy) if not name.startswith("_")}
    own |= {name: seeded(getattr(numpy.random, name)) for name in SEEDED} | {"RandomState": RandomState}
    governed = _made("numpy.random", {**_public(numpy.random), **own})
    below = {name: getattr(numpy, name) for name in numpy.__all__ if hasattr(numpy, name)}
    return _made("numpy", {**_public(numpy), **below, "random": governed})


__all__ = ["SCENARIOS", "Importer", "new_module", "run", "tree"]
assert importlib.util  # vmas loads it: scenarios use it without saying so
