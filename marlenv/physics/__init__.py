"""A world in the plane, many rows at once: the engine under the native scenarios.

A scenario describes a :class:`World` of :class:`Agent` and :class:`Landmark`; :class:`Simulation` makes of it pure
functions of a state, a dict of tensors with the rows last.
"""

from marlenv.physics.dynamics import Dynamics, Holonomic, HolonomicWithRotation, Rotation, Static
from marlenv.physics.entities import COLORS, Agent, Entity, Landmark
from marlenv.physics.relations import distance, offset, overlap
from marlenv.physics.scenario import Scenario
from marlenv.physics.shapes import Box, Line, Shape, Sphere
from marlenv.physics.simulation import SHARED, Simulation
from marlenv.physics.state import Bodies, Body, State, merge
from marlenv.physics.views import join, others, rows_first, rows_last, total
from marlenv.physics.world import World

__all__ = [
    "COLORS",
    "SHARED",
    "Agent",
    "Bodies",
    "Body",
    "Box",
    "Dynamics",
    "Entity",
    "Holonomic",
    "HolonomicWithRotation",
    "Landmark",
    "Line",
    "Rotation",
    "Scenario",
    "Shape",
    "Simulation",
    "Sphere",
    "State",
    "Static",
    "World",
    "distance",
    "join",
    "merge",
    "offset",
    "others",
    "overlap",
    "rows_first",
    "rows_last",
    "total",
]
