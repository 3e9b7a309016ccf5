"""A simulation as an env: where each entry of its data lies, and the ways through a step, a reset, a rollout."""

from marlenv.physics.env.scenario_env import ScenarioEnv, make_scenario

__all__ = ["ScenarioEnv", "make_scenario"]
