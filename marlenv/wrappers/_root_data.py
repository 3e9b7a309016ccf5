"""``RootData``: what is observed of a whole simulation, checked and written at the root, for ``AgentsEnv``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Size, Tensor

from marlenv.errors import DtypeError, KeyMissing, ShapeError, SpecError, nearest
from marlenv.keys import Path, nested
from marlenv.specs import Composite, NonTensor
from marlenv.specs.dtypes import ENDS, unfit
from marlenv.specs.shapes import fits
from marlenv.tensordicts import new, put
from marlenv.wrappers._agent_data import at
from marlenv.wrappers._answers import unlike
from marlenv.wrappers._numbers import SINGLE


class RootData:
    """What is observed of the whole simulation, at the root.

    Args:
        who: the wrapper, for messages.
        specs: of the entries.
        inside: where these entries stand, if they are nested.
    """

    def __init__(self, who: str, specs: Composite, inside: Path = ()) -> None:
        self.who, self.specs, self._inside, self._names = who, specs, inside, set(specs)
        self._nodes = {n: RootData(who, s, (*inside, n)) for n, s in specs.items() if isinstance(s, Composite)}
        self._arrays = {}
        for name, spec in specs.items():
            if name in self._nodes or isinstance(spec, NonTensor) or spec.dtype in (None, torch.bfloat16):
                continue
            ends = ENDS.get(spec.dtype) if tuple(spec.shape) in SINGLE else None
            self._arrays[name] = torch.empty(0, dtype=spec.dtype).numpy().dtype, tuple(spec.shape), ends

    def write(self, td: TensorDict, values: Mapping[str, Any], *, step: int | None) -> None:
        """Writes copies of the values, because the simulator may go on writing to them; tensordicts as they are.

        Args:
            td: written to.
            values: of all entries.
            step: the number of the step; None in a reset.

        Raises:
            SpecTypeError: they are no mapping.
            KeyMissing: an entry is not there.
            SpecError: an entry that has no spec.
            ShapeError, DtypeError: a value that does not fit its spec.
        """
        if type(values) is not dict or values.keys() != self._names:
            self._check_names(values, step)
        for name, value in values.items():
            kind, node = self._arrays.get(name), self._nodes.get(name)
            if type(value) is TensorDict:
                put(td, name, value)
            elif node is not None:
                within = new({}, Size())
                node.write(within, value, step=step)
                put(td, name, within)
            elif kind is None:
                put(td, name, self.specs[name].encode(value))
            else:
                dtype, shape, ends = kind
                if type(value) is int and ends is not None and ends[0] <= value <= ends[1]:
                    put(td, name, torch.from_numpy(np.array([value] if shape else value, dtype)))
                elif type(value) is np.ndarray and value.dtype is dtype and value.shape == shape:
                    put(td, name, torch.from_numpy(np.array(value)))
                else:
                    put(td, name, self._fitted(name, value, step))

    def _fitted(self, name: str, value: Any, step: int | None) -> Tensor:
        """A value that is not plainly one of its spec's, as one; raises if it is none."""
        spec = self.specs[name]
        where, dtype, shape = f"{self._where(step)}: {self._entry(name)}", spec.dtype, tuple(spec.shape)
        try:
            given = value.detach().cpu() if isinstance(value, Tensor) else np.asanyarray(value)
        except ValueError:  # parts of unlike shapes
            given = np.asarray(None)
        if wrong := unfit(given, dtype):
            raise DtypeError(f"{where}: {wrong}")
        got = tuple(given.shape)
        same = len(got) == len(shape) and fits(Size(got), spec.shape)
        if not same and not (got in SINGLE and shape in SINGLE):
            raise ShapeError(f"{where} must have shape {list(shape)}, as in root_specs, got {list(got)}")
        own = given.to(dtype) if isinstance(given, Tensor) else torch.from_numpy(np.array(given, self._arrays[name][0]))
        return own.clone() if -1 in shape else own.reshape(shape).clone()

    def _check_names(self, values: Any, step: int | None) -> None:
        where = self._where(step)
        if not isinstance(values, Mapping):
            whose = f"{nested(self._inside)!r} of root_data" if self._inside else "root_data"
            raise unlike(f"{where}: {whose}", f"a dict of {sorted(self._names)}", values, "be")
        if missing := sorted(self._names.difference(values)):
            raise KeyMissing(
                f"{where}: root_data has no {self._entry(missing[0])}, which root_specs declares; all entries are "
                f"needed each time"
            )
        if unknown := [name for name in values if name not in self._names]:
            raise SpecError(
                f"{where}: root_data has {self._entry(unknown[0])}, which root_specs does not declare; "
                f"{nearest(unknown[0], self._names)}; declare it, or leave it out"
            )

    def _where(self, step: int | None) -> str:
        return f"{self.who}{at(step)}"

    def _entry(self, name: str) -> str:
        return f"{nested((*self._inside, name))!r}"
