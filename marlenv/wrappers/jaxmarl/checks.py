"""What of JaxMARL's can be wrapped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marlenv.errors import SpecError, UnknownName, Unsupported, nearest
from marlenv.optional import need

WRAPPER = "jaxmarl.wrappers.baselines.JaxMARLWrapper"
"""What JaxMARL's wrappers are subclasses of."""


def check_sim(who: str, env: Any) -> None:
    """Raises if an env is none of JaxMARL's, or hides the last observations or the state of one."""
    if not all(hasattr(env, name) for name in ("step_env", "reset", "observation_space", "action_space")):
        raise SpecError(f"{who}: expected a JaxMARL env, got {type(env).__name__}")
    who = f"{who}: {type(env).__name__}"
    if any(f"{cls.__module__}.{cls.__name__}" == WRAPPER for cls in type(env).__mro__):
        raise Unsupported(f"{who} is a wrapper of JaxMARL's, with states of its own; pass the env inside (env._env)")
    if getattr(env, "auto_reset", False):
        raise Unsupported(
            f"{who} resets itself, so that its last observations would be lost; make it with auto_reset=False"
        )


def check_observations(who: str, sim: Any, observations: Any) -> None:
    """Raises if a reset does not give an array for each agent by its name, as envs of JaxMARL's older API do not."""
    named = isinstance(observations, Mapping) and all(isinstance(a, str) and a in observations for a in sim.agents)
    if not named or any(not hasattr(observations[a], "shape") for a in sim.agents):
        got = sorted(map(str, observations)) if isinstance(observations, Mapping) else type(observations).__name__
        raise Unsupported(
            f"{who}: a reset must give a dict with an array for each of the agents {list(sim.agents)}, which must be "
            f"names, got {got} from {type(sim).__name__}; this env is not made as JaxMARL's MultiAgentEnv says"
        )


def scenario_of(who: str, name: str) -> Any:
    """SMAX's scenario of a name; raises UnknownName if there is none."""
    maps = need("jaxmarl.environments.smax.smax_env", who).MAP_NAME_TO_SCENARIO
    if name not in maps:
        raise UnknownName(f"{who}: SMAX has no scenario {name!r}; {nearest(name, maps)}")
    return maps[name]
