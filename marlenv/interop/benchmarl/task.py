"""A task of BenchMARL that is one of our envs. Imported when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from inspect import isclass
from typing import Any

from marlenv.errors import GroupError, whole
from marlenv.interop.torchrl import to_torchrl
from marlenv.optional import need
from marlenv.options import takes
from marlenv.physics import Scenario
from marlenv.registration import factory_of, find, make
from marlenv.specs import Binary, Categorical, MultiCategorical, MultiOneHot, OneHot

common: Any = need("benchmarl.environments.common", "marlenv.to_benchmarl")

CHOICES = (Binary, Categorical, MultiCategorical, MultiOneHot, OneHot)


class MarlenvTask(common.TaskClass):
    """A task of BenchMARL that is one of our envs.

    Args:
        name: what ``marlenv list`` names.
        config: ``max_steps`` and other options of ``marlenv.make``.
    """

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        whole("to_benchmarl", "max_steps", config["max_steps"], 1)
        entry = find(name)
        maker, _ = factory_of(name)
        made = entry.load()
        scenario = entry.kind == "scenario" or (isclass(made) and issubclass(made, Scenario))
        self._chooses = scenario or takes(maker, "continuous_actions")
        """Whether the env has actions of either kind, as it is told."""
        super().__init__(name=name, config=config)

    def get_env_fun(self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any) -> Callable[[], Any]:
        """What makes the env, with rows."""
        options = dict(self.config)
        if self._chooses:
            options["continuous_actions"] = continuous_actions
        return lambda: to_torchrl(make(self.name, num_envs=num_envs, seed=seed, device=device, **options))

    def supports_continuous_actions(self) -> bool:
        """Whether actions may be numbers: of what takes ``continuous_actions``, unless the task says otherwise."""
        return bool(self.config.get("continuous_actions", True)) if self._chooses else self._continuous

    def supports_discrete_actions(self) -> bool:
        """Whether actions may be choices: of what takes ``continuous_actions``, unless the task says otherwise."""
        return not (self.config.get("continuous_actions", False) if self._chooses else self._continuous)

    @cached_property
    def _continuous(self) -> bool:
        """Whether an env that is made once has actions that are no choices."""
        env = make(self.name, **self.config)
        specs = [env.full_action_spec_unbatched[key] for key in env.action_keys]
        env.close()
        return any(spec.dtype.is_floating_point and not isinstance(spec, CHOICES) for spec in specs)

    def has_render(self, env: Any) -> bool:
        """Whether it draws pictures."""
        return callable(getattr(env, "render", None))

    def max_steps(self, env: Any) -> int:
        """How long an episode is at most."""
        return int(self.config["max_steps"])

    def group_map(self, env: Any) -> dict[str, list[str]]:
        """Which agents learn together."""
        if deep := [name for name, agents in env.group_map.items() if isinstance(agents, Mapping)]:
            raise GroupError(
                f"to_benchmarl: BenchMARL knows no groups of groups, such as {deep[0]!r}; give a flat group_map, as "
                f"group_map='one_group_per_agent'"
            )
        return {name: list(agents) for name, agents in env.group_map.items()}

    def state_spec(self, env: Any) -> Any:
        """The state of the whole env, which it does not have."""
        return None

    def observation_spec(self, env: Any) -> Any:
        """What groups observe."""
        return self._of_groups(env, lambda name: name == "observation")

    def action_mask_spec(self, env: Any) -> Any:
        """Legal actions, where there are such."""
        return self._of_groups(env, lambda name: name == "action_mask")

    def info_spec(self, env: Any) -> Any:
        """What is known besides, where there is something."""
        return self._of_groups(env, lambda name: name == "info")

    def action_spec(self, env: Any) -> Any:
        """What groups do."""
        return env.full_action_spec_unbatched

    def _of_groups(self, env: Any, wanted: Callable[[str], bool]) -> Any:
        """The specs of groups alone, and of some entries of them; None where there are none."""
        spec = env.full_observation_spec_unbatched.clone()
        for name in list(spec.keys()):
            if name not in env.group_map:
                del spec[name]
                continue
            for entry in list(spec[name].keys()):
                if not wanted(entry):
                    del spec[name, entry]
        return spec if any(len(list(spec[name].keys())) for name in spec.keys()) else None

    @staticmethod
    def env_name() -> str:
        """The name of the family."""
        return "marlenv"
