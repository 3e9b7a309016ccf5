"""A world in the plane, many rows at once: the engine under the native scenarios.

A scenario describes a :class:`World` of :class:`Agent` and :class:`Landmark`; :class:`Simulation` makes of it pure
functions of a state, a dict of tensors with the rows last; ``marlenv.physics.env.ScenarioEnv`` an environment.
"""

from marlenv.physics.laws.bodies import Bodies, Body
from marlenv.physics.laws.dynamics import (
    DiffDrive,
    Drone,
    Dynamics,
    Forward,
    Holonomic,
    HolonomicWithRotation,
    KinematicBicycle,
    Rotation,
    Static,
    tilted,
)
from marlenv.physics.laws.entities import COLORS, Agent, Entity, Landmark
from marlenv.physics.laws.joints import Joint
from marlenv.physics.laws.shapes import Box, Line, Shape, Sphere
from marlenv.physics.laws.state import State, merge
from marlenv.physics.maths.geometry import heading, shorten
from marlenv.physics.maths.rowwise import alike
from marlenv.physics.maths.views import join, norm, others, rows_first, rows_last, total
from marlenv.physics.simulation import SHARED, Simulation
from marlenv.physics.task.controllers import VelocityController
from marlenv.physics.task.heuristic import Heuristic
from marlenv.physics.task.picture import Picture, View
from marlenv.physics.task.relations import distance, gap, offset, overlap
from marlenv.physics.task.scenario import Scenario
from marlenv.physics.task.sensors import Edges, Lidar, Near, Neighbours
from marlenv.physics.task.world import World

__all__ = [
    "COLORS",
    "SHARED",
    "Agent",
    "Bodies",
    "Body",
    "Box",
    "DiffDrive",
    "Drone",
    "Dynamics",
    "Edges",
    "Entity",
    "Forward",
    "Heuristic",
    "Holonomic",
    "HolonomicWithRotation",
    "Joint",
    "KinematicBicycle",
    "Landmark",
    "Lidar",
    "Line",
    "Near",
    "Neighbours",
    "Picture",
    "Rotation",
    "Scenario",
    "Shape",
    "Simulation",
    "Sphere",
    "State",
    "Static",
    "VelocityController",
    "View",
    "World",
    "alike",
    "distance",
    "gap",
    "heading",
    "join",
    "merge",
    "norm",
    "offset",
    "others",
    "overlap",
    "rows_first",
    "rows_last",
    "shorten",
    "tilted",
    "total",
]
