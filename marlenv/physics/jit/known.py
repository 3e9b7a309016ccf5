"""Scenarios are traced once in a process: envs of the same scenario with the same options share one source.

Only marlenv's own scenarios are known again. A user's may read what nobody sees from outside (a variable of its module,
a file), so that each env of it is traced anew. Two simulations are the same where all that can be reached from them is:
numbers, texts and tensors by value, classes and functions by identity, what functions enclose likewise.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

import torch
from torch import Tensor

from marlenv.physics.jit.graph import TooLarge
from marlenv.physics.jit.source import Draw, Source
from marlenv.physics.jit.watch import OURS, ours
from marlenv.physics.simulation import Simulation

MOST = 64  # sources that are kept
HIDDEN = ("__builtins__", "__spec__", "__loader__")


class _Fingerprint(pickle.Pickler):
    """Writes objects so that equal ones give equal bytes."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.kept: list[Any] = []
        """What is known by its identity, which must not be given to another object."""

    def persistent_id(self, obj: Any) -> Any:
        """What stands for an object that is not written out."""
        if isinstance(obj, Tensor):
            return "tensor", str(obj.dtype), str(obj.device), tuple(obj.shape), obj.detach().cpu().numpy().tobytes()
        if isinstance(obj, (type, ModuleType, CodeType, BuiltinFunctionType)):
            self.kept.append(obj)
            return "identity", id(obj)
        return None

    def reducer_override(self, obj: Any) -> Any:
        """How simulations, scenarios and functions are written: with all that they hold."""
        if isinstance(obj, FunctionType):
            cells = tuple(cell.cell_contents for cell in obj.__closure__ or ())
            return tuple, ((obj.__code__, obj.__defaults__, obj.__kwdefaults__, cells),)
        if isinstance(obj, MappingProxyType):
            return dict, (dict(obj),)
        if type(obj).__module__.startswith(OURS) and hasattr(obj, "__dict__") and not isinstance(obj, type):
            return object, (), (type(obj), dict(vars(obj)))
        return NotImplemented


def fingerprint(simulation: Simulation, *others: Any) -> tuple[bytes, list[Any]] | None:
    """The bytes that equal simulations share, and what must live as long as they are known.

    None where something of it cannot be compared, or where the scenario is not one of marlenv's own.
    """
    if not ours(simulation.scenario):
        return None
    kinds = [kind for kind in type(simulation.scenario).__mro__ if kind.__module__.startswith(OURS)]
    file = io.BytesIO()
    writer = _Fingerprint(file)
    try:
        writer.dump((simulation, [_methods(kind) for kind in kinds], others))
    except Exception:  # whatever it is, what cannot be written is not known again
        return None
    return hashlib.sha256(file.getvalue()).digest(), writer.kept


def _methods(kind: type) -> dict[str, Any]:
    """What a class and its module say by themselves: somebody may have put other functions or numbers there."""
    there = {**vars(sys.modules[kind.__module__]), **vars(kind)}
    plain = {name: getattr(value, "__func__", value) for name, value in there.items() if name not in HIDDEN}
    plain |= {name: (value.fget, value.fset) for name, value in plain.items() if isinstance(value, property)}
    return {name: x for name, x in plain.items() if isinstance(x, (FunctionType, tuple, int, float, str, Mapping))}


_sources: OrderedDict[bytes, tuple[Source | TooLarge, list[Any]]] = OrderedDict()
_lock = threading.Lock()


def source_of(simulation: Simulation, draw: Draw | None, draws: int, *, wide: bool, largest: int) -> Source:
    """The source of a simulation: the one that is known, or a new one.

    Args:
        simulation: what is compiled.
        draw: how random actions are made, if they are.
        draws: from how many numbers per row.
        wide: whether from float64 ones.
        largest: how many expressions there may be.

    Raises:
        TooLarge: there are more; told at once where that is known.

    """
    with torch.no_grad():
        found = fingerprint(simulation, draw, draws, wide, largest)
    if found is not None:
        with _lock:
            if found[0] in _sources:
                _sources.move_to_end(found[0])
                known = _sources[found[0]][0]
                if isinstance(known, TooLarge):
                    raise TooLarge(*known.args)
                return known
    try:
        made: Source | TooLarge = Source(simulation, draw, draws, wide=wide, largest=largest)
    except TooLarge as error:
        made = error.with_traceback(None)
    if found is not None:
        with _lock:
            _sources[found[0]] = made, found[1]
            while len(_sources) > MOST:
                _sources.popitem(last=False)
    if isinstance(made, TooLarge):
        raise made
    return made


__all__ = ["fingerprint", "source_of"]
