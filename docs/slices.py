"""Which numbers of a scenario's observation are what: found by playing it and comparing each part with the world.

Parts are what a scenario hands to ``join``. A part gets a name where, in every row and for every agent, it equals what
the name says: positions, velocities, places seen from others, ..., or one of :mod:`quantities`; what equals nothing is
an error.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from types import FrameType
from typing import Any, NamedTuple
from unittest import mock

import torch
from quantities import QUANTITIES as QUANTITIES_OF
from torch import Tensor

import marlenv
from marlenv.physics import Agent, Lidar, Scenario
from marlenv.physics.laws.bodies import Bodies, Body
from marlenv.physics.maths.views import join, others

ROWS, STEPS, NEAR = 64, 4, 1e-5
QUIET = {"obs_noise": 0.0, "is_add_noise": False}
"""Noise equals nothing."""
UNITS = {"position": "m", "velocity": "m/s", "rotation": "rad", "angular velocity": "rad/s"}
QUANTITIES = {"position": "pos", "velocity": "vel", "rotation": "rot", "angular velocity": "ang_vel"}


class Slice(NamedTuple):
    """A run of numbers of an observation."""

    begin: int
    end: int
    what: str
    unit: str


def slices(name: str, seed: int = 0, steps: int = STEPS) -> dict[tuple[str, ...], list[Slice]]:
    """The slices of every group's observation, with the default options but for noise."""
    quiet = {option: x for option, x in QUIET.items() if option in vars(marlenv.make(name).scenario)}
    env = marlenv.make(name, ROWS, seed=seed, compile="none", **quiet)
    env.rollout(steps, break_when_any_done=False, auto_reset=True)
    bodies: dict[str, Bodies] = {}
    for key, some in bodies_of(vars(env.scenario)):
        if all(some.entities != other.entities for other in bodies.values()):  # some have two names
            bodies[key] = some
    home = sys.modules[type(env.scenario).__module__]
    more: list[tuple[str, Tensor, str]] = []
    by_join: list[tuple[Tensor, dict[str, list[Slice]]]] = []
    whole: dict[str, dict[str, list[Slice]]] = {}

    def recorded(*parts: Tensor) -> Tensor:
        out = join(*parts)
        source = sources(sys._getframe(1))
        said = {key: list(named(parts, source, key, bodies, more)) for key, own in bodies.items() if fits(own, out)}
        by_join.append((out, said))
        return out

    def observed(scenario: Any) -> Any:
        """What it was, and what it is in words: the world can be read only here."""
        more[:] = [(q.what, q.value(scenario), q.unit) for q in QUANTITIES_OF.get(name, [])]
        more.extend(("how far each ray of the lidar goes", x.measure(), "m") for x in lidars_of(vars(scenario)))
        found = observe(scenario)
        for group, x in found.items():
            said = {k: list(named((x,), [], k, bodies, more)) for k, own in bodies.items() if fits(own, x)}
            whole[group] = said
        return found

    kind = type(env.scenario)
    observe = kind.observe
    join_of = mock.patch.object(home, "join", recorded) if hasattr(home, "join") else nullcontext()
    with join_of, mock.patch.object(kind, "observe", observed):
        data = env.set_state(env.get_state())
    found = {}
    for group in env.tree.groups:
        agents, value = list(env.tree.groups[group]), data[(*group, "observation")]
        own = next(key for key, some in bodies.items() if [entity.name for entity in some.entities] == agents)
        found[group] = whole[env.grouping.whole[group]][own]
        alive = data.get((*group, "alive"), torch.ones(value.shape[:2], dtype=torch.bool)).unsqueeze(-1)
        for out, said in by_join:
            if own in said and out.shape == value.shape and torch.allclose(out * alive, value):
                found[group] = said[own]
    return found


def bodies_of(found: Mapping[str, Any]) -> Iterator[tuple[str, Bodies]]:
    """The bodies that a scenario keeps, by the name that it has for them."""
    for key, value in found.items():
        if isinstance(value, Bodies):
            yield key, value
        elif isinstance(value, Body):
            yield key, value.alone
        elif isinstance(value, Scenario):
            continue  # that of a part which knows its whole
        elif isinstance(value, dict) and any(isinstance(inner, dict) for inner in value.values()):
            kinds = [one for inner in value.values() if isinstance(inner, dict) for one in inner.values()]
            yield from bodies_of({_name(one, i): one for i, one in enumerate(kinds)})  # of teams with kinds alike
        elif isinstance(value, dict):
            yield from bodies_of(value)
        elif type(value).__module__.startswith("marlenv.scenarios") and hasattr(value, "__dict__"):  # a wall, a rod
            yield from bodies_of(vars(value))
        elif isinstance(value, list):
            yield from bodies_of({_name(one, i): one for i, one in enumerate(value)})


def _name(one: Any, index: int) -> str:
    """That of the group, of bodies in a list."""
    return one.entities[0].group if isinstance(one, Bodies) else getattr(one, "name", str(index))


def lidars_of(found: Mapping[str, Any]) -> Iterator[Lidar]:
    """The lidars that a scenario keeps."""
    for value in found.values():
        yield from (x for x in (value if isinstance(value, list) else [value]) if isinstance(x, Lidar))


def sources(frame: FrameType) -> list[str]:
    """What is written for each part where ``join`` is called; nothing where parts are unpacked."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(frame.f_code)))
    first = frame.f_code.co_firstlineno
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "join"]
    here = [call for call in calls if call.lineno <= frame.f_lineno - first + 1 <= (call.end_lineno or call.lineno)]
    if len(here) != 1 or any(isinstance(arg, ast.Starred) for arg in here[0].args):
        return []
    return [ast.unparse(arg) for arg in here[0].args]


def fits(own: Bodies, out: Tensor) -> bool:
    """Whether a result may be what these bodies observe."""
    return len(own.entities) == out.shape[1]


def named(
    parts: tuple[Tensor, ...],
    source: list[str],
    own: str,
    bodies: dict[str, Bodies],
    more: list[tuple[str, Tensor, str]],
) -> Iterator[Slice]:
    """Each part with what it equals, or with its source."""
    begin, agents = 0, len(bodies[own].entities)
    table = list(known(own, bodies))
    special = [(what, x.expand(-1, agents, -1), unit) for what, x, unit in more if x.shape[1] in (1, agents)]
    for i, part in enumerate(parts):
        flat = part.unsqueeze(-1) if part.ndim == 2 else part.flatten(2)
        flat = flat.expand(-1, agents, -1)
        constant = bool(flat.numel()) and bool((flat == flat.flatten()[0]).all())
        candidates = special if constant else [*special, *table]  # zeros equal whatever happens to be zero
        same = ((w, u) for w, x, u in candidates if x.shape == flat.shape and torch.allclose(x, flat, atol=NEAR))
        unknown = f"always {flat.flatten()[0]:g}" if constant else f"`{source[i]}`" if source else ""
        what, unit = next(same, (unknown, ""))
        if flat.shape[-1]:
            yield Slice(begin, begin + flat.shape[-1], what, unit)
        begin += flat.shape[-1]


def known(own: str, bodies: dict[str, Bodies]) -> Iterator[tuple[str, Tensor, str]]:
    """What could be observed by the agents ``own``: in words, ``[B, A, k]``, with its unit."""
    agents = bodies[own]
    for what, name in QUANTITIES.items():
        yield f"own {what}", each(getattr(agents, name)), UNITS[what]
    for key, other in bodies.items():
        places, many = (other.pos.unsqueeze(1) - agents.pos.unsqueeze(2)), len(other.entities)
        said = key.replace("_", " ")
        speaks = all(isinstance(entity.kind, Agent) and not entity.kind.silent for entity in other.entities)
        if key == own:
            if speaks:
                yield "what the agent says itself", agents.said, ""
            if many > 1:
                yield "the other agents, seen from the agent", others(places).flatten(2), "m"
                yield "the agent, seen from the other agents", -others(places).flatten(2), "m"
                speed = agents.vel.unsqueeze(1).expand(-1, many, -1, -1)
                yield "velocities of the other agents", others(speed).flatten(2), "m/s"
            continue
        yield f"{said}, seen from the agent", places.flatten(2), "m"
        yield f"the agent, seen from {said}", -places.flatten(2), "m"
        if many == len(agents.entities):
            yield f"own one of {said}, seen from the agent", other.pos - agents.pos, "m"
            yield f"the agent, seen from its own of {said}", agents.pos - other.pos, "m"
        if speaks:
            yield f"what {said} says", other.said.flatten(1).unsqueeze(1).expand(-1, len(agents.entities), -1), ""
        heading = torch.stack((other.rot.cos(), other.rot.sin()), -1).flatten(1).unsqueeze(1)
        yield f"direction of {said}: cosine, sine", heading.expand(-1, len(agents.entities), -1), ""
        for what, name in QUANTITIES.items():
            value = each(getattr(other, name)).flatten(1).unsqueeze(1).expand(-1, len(agents.entities), -1)
            yield f"{what} of {said}", value, UNITS[what]
            if what == "rotation":
                yield f"{what} of {said}, modulo pi", value % torch.pi, UNITS[what]
        for third, last in bodies.items():
            if third not in (own, key):
                apart = (last.pos.unsqueeze(1) - other.pos.unsqueeze(2)).flatten(1).unsqueeze(1)
                yield f"{third.replace('_', ' ')}, seen from {said}", apart.expand(-1, len(agents.entities), -1), "m"


def each(value: Tensor) -> Tensor:
    """A number or a vector per body, ``[B, A, k]``."""
    return value.unsqueeze(-1) if value.ndim == 2 else value


def table(name: str) -> str:
    """The slices as a table.

    Raises:
        LookupError: nothing known equals a part; say what it is in ``quantities.py``.

    """
    rows = []
    found: dict[tuple[str, ...], Any] = slices(name)
    for group, parts in found.items():
        if unknown := [p for p in parts if not p.what or p.what.startswith("`")]:
            raise LookupError(
                f"{name}: {unknown} of {group} equals nothing known; say what it is in docs/quantities.py"
            )
        key = ", ".join(f'"{word}"' for word in (*group, "observation"))
        rows += [f"| `({key})` | `{p.begin}:{p.end}` | {p.what} | {p.unit or 'none'} |" for p in parts]
    return "\n".join(["| entry | slice | what | unit |", "|---|---|---|---|", *rows]) if rows else ""
