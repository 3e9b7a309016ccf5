"""The scenarios that have a name in :func:`marlenv.make`."""

from __future__ import annotations

from marlenv.envs.registry import Entry


def _entry(name: str, where: str, summary: str) -> Entry:
    return Entry(
        name,
        "scenario",
        "marlenv.physics.env:make_scenario",
        options={"scenario": f"marlenv.scenarios.{where}"},
        batched=True,
        summary=summary,
    )


ENTRIES: list[Entry] = [
    _entry("balance", "balance:Balance", "Agents under a line carry a package on it to its goal."),
    _entry("ball_passage", "ball_passage:BallPassage", "Two agents push a ball through a gap in a wall, to its goal."),
    _entry("dispersion", "dispersion:Dispersion", "Agents spread out from the middle to eat food."),
    _entry("discovery", "discovery:Discovery", "Agents look for targets that need several of them at once."),
    _entry("flocking", "flocking:Flocking", "Agents flock around a moving target between obstacles."),
    _entry("give_way", "give_way:GiveWay", "Two agents swap places through a corridor with a bay."),
    _entry("joint_passage", "joint_passage:JointPassage", "Two agents carry a rod through a gap that is narrower."),
    _entry("navigation", "navigation:Navigation", "Agents go to their goals without bumping into each other."),
    _entry("reverse_transport", "reverse_transport:ReverseTransport", "Agents inside a hollow package push it."),
    _entry("sampling", "sampling:Sampling", "Agents gather samples from a field, each cell of it once."),
    _entry("transport", "transport:Transport", "Agents push packages, too heavy for one alone, to a goal."),
    _entry("wheel", "wheel:Wheel", "Agents turn a heavy line about its centre, at a given speed."),
    _entry("wind_flocking", "wind_flocking:WindFlocking", "Two agents fly against the wind, one behind the other."),
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
    _entry("drone", "debug.drone:DroneScenario", "Drones seen from above."),
    _entry("kinematic_bicycle", "debug.kinematic_bicycle:KinematicBicycleScenario", "A bicycle among boxes."),
    _entry("waterfall", "debug.waterfall:Waterfall", "A chain of agents falls over boxes: all contacts, and joints."),
]
"""One per scenario, read by :mod:`marlenv.envs.registry`."""
