"""The CUDA C++ of a simulation: the functions that machine code for CPUs is made of, on one row per thread of a GPU.

Two kernels: ``run``, steps of all rows with new episodes where some end, and ``begin``, new episodes in some. Their
parameters are the number of rows and other numbers, and where the data are.
"""

from __future__ import annotations

from collections.abc import Sequence

from marlenv.errors import Unsupported
from marlenv.physics.jit.codegen import CARE
from marlenv.physics.jit.cpp import CTYPE, ENTRY
from marlenv.physics.jit.source import Field, Source, runtime

THREADS = 128
"""Per block; the kernels (``runtime/grid.h``) are compiled for as many."""
PARAMETERS = 500  # that a kernel may have: 4 kB of pointers, which any driver takes


def cuda_source(source: Source) -> str:
    """The CUDA C++ of a simulation.

    Args:
        source: its functions, and the order of its data.

    Raises:
        Unsupported: there are more entries than a kernel takes parameters.

    """
    names = [field.name[0] for field in source.state]
    most = len(source.state) + len(source.actions) + len(source.outs) + len(source.observations) + 12
    if most > PARAMETERS:
        raise Unsupported(f"its state, actions and results have {most} entries; a CUDA kernel takes {PARAMETERS}")
    numbers = {
        "NSLOTS": source.top,
        "NHELD": source.held_slots,
        "CARE": CARE,
        "OVER": source.held[names.index("over")],
        "STEPS": source.held[names.index("steps")],
        "KEY": source.key,
        "DRAWS": source.draws,
    }
    state = dict(zip(names, _listed("st", source.state, source.held), strict=True))
    outs = _listed("out", source.outs, source.out_slots)
    lists = {
        "STATE": list(state.values()),
        "CHANGED": _changed(source),
        "STREAMS": [state["rng"]],
        "ACTS": _listed("act", source.actions, source.action_slots),
        "OUTS": outs,
        "FRESH": _listed("st", source.state, source.fresh_slots),
        "FIRST": _listed("out", source.observations, source.first_slots),
        "SEEN": _listed("before", source.observations, source.out_slots[: len(source.observations)]),
        "RESTART": _restarted(source),
    }
    parameters = {
        "STATE": _parameters("st", source.state),
        "ACTS": _parameters("act", source.actions) + ", " * bool(source.actions),
        "OUTS": _parameters("out", source.outs),
        "SEEN": _more("out", source.observations),
        "BEFORE": _more("before", source.observations),
    }
    return "\n".join((
        runtime("scalar.h"),
        *(f"#define {name} {value}" for name, value in numbers.items()),
        *source.parts,
        source.settling,
        *(f"#define {name}(DO) {' '.join(f'DO({one})' for one in fields)}" for name, fields in lists.items()),
        *(f"#define {name}_PARAMETERS {text}" for name, text in parameters.items()),
        runtime("grid.h"),
    ))  # fmt: skip


def _listed(name: str, fields: Sequence[Field], slots: Sequence[int]) -> list[str]:
    """What a list says of each field: the type of its numbers, how many a row has, their slot, the parameter."""
    return [
        f"{CTYPE[field.kind]}, {field.numbers}, {slot}, {name}{k}"
        for k, (field, slot) in enumerate(zip(fields, slots, strict=True))
    ]


def _changed(source: Source) -> list[str]:
    """The same of the numbers of the state that a step changes, those side by side together."""
    return [
        f"{CTYPE[kind]}, {many}, {slot}, st{entry} + {first} * rows"
        for entry, first, kind, slot, many in source.changed
    ]


def _restarted(source: Source) -> list[str]:
    """The same of what a new episode takes the place of, in the state and in what a step gave."""
    shown = source.out_slots[: len(source.observations)]
    places = [*(f"st + {slot}" for slot in source.held), *(f"s + {slot}" for slot in shown)]
    fields, slots = [*source.state, *source.observations], [*source.fresh_slots, *source.first_slots]
    return [
        f"{CTYPE[field.kind]}, {field.numbers}, {slot}, {place}"
        for field, slot, place in zip(fields, slots, places, strict=True)
    ]


def _parameters(name: str, fields: Sequence[Field]) -> str:
    """Pointers of a kernel to the data of each field."""
    return ", ".join(f"{_entry(field)} *{name}{k}" for k, field in enumerate(fields))


def _more(name: str, fields: Sequence[Field]) -> str:
    """The same behind others."""
    return f", {_parameters(name, fields)}" if fields else ""


def _entry(field: Field) -> str:
    return "uint8_t" if field.kind == "b" else ENTRY[field.kind]


__all__ = ["THREADS", "cuda_source"]
