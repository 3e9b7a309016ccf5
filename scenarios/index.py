"""The scenarios that have a name in :func:`marlenv.make`."""

from __future__ import annotations

from marlenv.envs.registry import Registration


def _entry(name: str, where: str, summary: str) -> Registration:
    return Registration(
        name,
        "scenario",
        "marlenv.physics.env:make_scenario",
        options={"scenario": f"marlenv.scenarios.{where}"},
        batched=True,
        summary=summary,
    )


SCENARIOS: list[Registration] = [
    _entry("balance", "balance:Balance", "Agents under a line carry a package on it to its goal."),
    _entry("ball_passage", "ball_passage:BallPassage", "Two agents push a ball through a gap in a wall, to its goal."),
    _entry("ball_trajectory", "ball_trajectory:BallTrajectory", "Two agents drive a ball around a circle."),
    _entry("buzz_wire", "buzz_wire:BuzzWire", "Two agents lead a ball along a corridor and touch no wall."),
    _entry("commons", "commons:Commons", "Agents harvest what regrows, and may harvest too much."),
    _entry("dispersion", "dispersion:Dispersion", "Agents spread out from the middle to eat food."),
    _entry("discovery", "discovery:Discovery", "Agents look for targets that need several of them at once."),
    _entry("dropout", "dropout:Dropout", "One agent goes to the goal; each that moves costs energy."),
    _entry("flocking", "flocking:Flocking", "Agents flock around a moving target between obstacles."),
    _entry("football", "football.scenario:Football", "Two teams play football; scripted players may be one."),
    _entry("give_way", "give_way:GiveWay", "Two agents swap places through a corridor with a bay."),
    _entry("joint_passage", "joint_passage:JointPassage", "Two agents carry a rod through a gap that is narrower."),
    _entry("joint_passage_size", "joint_passage_size:JointPassageSize", "The same with agents and gaps of two sizes."),
    _entry("multi_give_way", "multi_give_way:MultiGiveWay", "Four agents cross where two corridors meet."),
    _entry("navigation", "navigation:Navigation", "Agents go to their goals without bumping into each other."),
    _entry("passage", "passage:Passage", "Five agents pass through gaps in a wall."),
    _entry("predator_prey", "predator_prey:PredatorPrey", "Predators catch prey or starve; both have young."),
    _entry("rescue", "rescue:Rescue", "Agents look for victims behind walls, in sight of each other or not."),
    _entry("reverse_transport", "reverse_transport:ReverseTransport", "Agents inside a hollow package push it."),
    _entry("road_traffic", "road_traffic.scenario:RoadTraffic", "Cars drive through a town, each on its own route."),
    _entry("sampling", "sampling:Sampling", "Agents gather samples from a field, each cell of it once."),
    _entry("skirmish", "skirmish:Skirmish", "Two teams of fighters, archers and healers fight."),
    _entry("territory", "territory:Territory", "Three teams of scouts and guards claim the cells of a floor."),
    _entry("transport", "transport:Transport", "Agents push packages, too heavy for one alone, to a goal."),
    _entry("wheel", "wheel:Wheel", "Agents turn a heavy line about its centre, at a given speed."),
    _entry("wind_flocking", "wind_flocking:WindFlocking", "Two agents fly against the wind, one behind the other."),
    _entry("simple", "mpe.simple:Simple", "One agent goes to a landmark."),
    _entry("simple_adversary", "mpe.simple_adversary:SimpleAdversary", "Agents cover a goal that adversaries guess."),
    _entry("simple_crypto", "mpe.simple_crypto:SimpleCrypto", "Alice sends Bob a secret that Eve must not understand."),
    _entry("simple_push", "mpe.simple_push:SimplePush", "An adversary keeps an agent away from its goal."),
    _entry("simple_reference", "mpe.simple_reference:SimpleReference", "Two agents tell each other where to go."),
    _entry(
        "simple_speaker_listener", "mpe.simple_speaker_listener:SimpleSpeakerListener", "One tells another where to go."
    ),
    _entry(
        "simple_spread", "mpe.simple_spread:SimpleSpread", "Agents cover landmarks without bumping into each other."
    ),
    _entry("simple_tag", "mpe.simple_tag:SimpleTag", "Slow adversaries chase faster agents around obstacles."),
    _entry(
        "simple_world_comm",
        "mpe.simple_world_comm:SimpleWorldComm",
        "Adversaries with a leader that speaks chase agents.",
    ),
    _entry("asym_joint", "debug.asym_joint:AsymJoint", "Two agents turn a rod with a weight on it upright."),
    _entry("circle_trajectory", "debug.circle_trajectory:CircleTrajectory", "An agent runs around a circle."),
    _entry("diff_drive", "debug.diff_drive:DiffDriveScenario", "A robot with two wheels, and agents that are pushed."),
    _entry("goal", "debug.goal:Goal", "An agent goes to a goal, by velocities."),
    _entry("het_mass", "debug.het_mass:HetMass", "Two agents of unknown masses run along a line."),
    _entry("line_trajectory", "debug.line_trajectory:LineTrajectory", "An agent runs along a line."),
    _entry("pollock", "debug.pollock:Pollock", "Agents, lines and boxes in a small room: all contacts."),
    _entry("vel_control", "debug.vel_control:VelControl", "Three velocity controllers with different limits."),
    _entry("drone", "debug.drone:DroneScenario", "Drones seen from above."),
    _entry("kinematic_bicycle", "debug.kinematic_bicycle:KinematicBicycleScenario", "A bicycle among boxes."),
    _entry("waterfall", "debug.waterfall:Waterfall", "A chain of agents falls over boxes: all contacts, and joints."),
]
"""One per scenario, read by :mod:`marlenv.registration`."""
