"""What adapters cannot take, over all of them: the errors say who, which entry, and what to do.

What is special about one adapter is in its own file; BenchMARL's, which runs apart, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from marlenv.groups import group_specs

import marlenv
from marlenv import Bounded, Categorical, Choice, Composite, NonTensor, Unbounded
from marlenv.errors import DtypeError, EnvClosed, GroupError, ShapeError, SpecError, SpecTypeError, Unsupported
from marlenv.testing.mocks import GroupedEnv

pytestmark = pytest.mark.filterwarnings("ignore")
pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
WAY = Choice([Bounded(0, 1, (2,)), Bounded(2, 3, (2,))])
AGENTS = ["agent_0", "agent_1", "agent_2"]


class Adapter(NamedTuple):
    """An adapter, and what is asked of it here."""

    make: Callable[[Any], Any]
    rows: bool
    """Whether it takes envs with rows."""
    one: bool
    """Whether it takes one group alone."""
    step: Callable[..., Any]
    """Plays zeros, or another number, with three agents of simple_spread."""
    library: str
    alike: bool = False
    """Whether the agents of a group must be alike, or else of one shape."""


def array(*shape: int) -> Any:
    return lambda env, action=0: env.step(np.full(shape, action))


def by_agent(env: Any, action: float = 0) -> Any:
    return env.step(dict.fromkeys(AGENTS, action))


def by_group(env: Any, action: float = 0) -> Any:
    return env.step({"agents": [action] * 3})


def in_turn(env: Any, action: float = 0) -> None:
    for _ in AGENTS:
        env.step(action)


ADAPTERS = {
    "to_gymnasium": Adapter(marlenv.to_gymnasium, False, True, array(3), "gymnasium"),
    "to_gymnasium_vector": Adapter(marlenv.to_gymnasium_vector, True, True, array(2, 3), "gymnasium"),
    "to_sb3_vec_env": Adapter(marlenv.to_sb3_vec_env, True, True, array(6), "stable_baselines3", True),
    "to_pufferlib": Adapter(marlenv.to_pufferlib, True, True, array(6), "pufferlib", True),
    "to_alf": Adapter(marlenv.to_alf, True, True, lambda env, action=0: env.step(torch.full((2, 3), action)), "torch"),
    "to_pettingzoo_parallel": Adapter(marlenv.to_pettingzoo_parallel, False, False, by_agent, "pettingzoo"),
    "to_pettingzoo_aec": Adapter(marlenv.to_pettingzoo_aec, False, False, in_turn, "pettingzoo"),
    "to_rllib": Adapter(marlenv.to_rllib, False, False, by_agent, "ray"),
    "to_rllib, groups": Adapter(partial(marlenv.to_rllib, agents="groups"), False, False, by_group, "ray"),
    "to_pymarl": Adapter(partial(marlenv.to_pymarl, episode_limit=9), False, False, array(3), "gymnasium"),
    "to_torchrl": Adapter(marlenv.to_torchrl, True, False, lambda env: env.rollout(2), "torchrl"),
}  # fmt: skip
OF_ONE = [name for name, one in ADAPTERS.items() if one.one]
AS_ONE = [*OF_ONE, "to_rllib, groups"]


def adapter(name: str) -> Adapter:
    one = ADAPTERS[name]
    if find_spec(one.library) is None:
        pytest.skip(f"needs {one.library}: VENV=.venv tests/simulators.sh")
    return one


def spread(one: Adapter, **options: Any) -> Any:
    rows = 2 if one.rows else None
    return marlenv.make("simple_spread", num_envs=rows, compile="none", continuous_actions=False, **options)


class Unlike(GroupedEnv):
    """Two agents of one group, whose observations and actions differ in length, or in their bounds alone."""

    def __init__(self, lengths: tuple[int, int], rows: bool) -> None:
        super().__init__({"sheep": ["s0", "s1"]}, batch_size=[2] if rows else [])
        agents = list(self.tree.agents)
        own = {
            name: Composite(observation=Unbounded((n,)), action=Bounded(-1 - i, 1 + i, (n,)))
            for i, (name, n) in enumerate(zip(agents, lengths, strict=True))
        }
        for kind in ("observation", "action"):
            specs = {name: Composite({kind: spec[kind]}) for name, spec in own.items()}
            setattr(self, f"{kind}_spec", group_specs(self.tree, specs, batch_size=self.batch_size))


class With(GroupedEnv):
    """One group that observes something more."""

    def __init__(self, name: str, spec: Any, rows: bool) -> None:
        super().__init__({"sheep": ["s0", "s1"]}, batch_size=[2] if rows else [])
        whole = self.observation_spec.clone()
        whole["sheep", name] = spec.expand(*self.batch_size, 2, *spec.shape)
        self.observation_spec = whole
        self.action_spec = group_specs(
            self.tree,
            {agent: Composite(action=Categorical(3)) for agent in self.tree.agents},
            batch_size=self.batch_size,
        )


@pytest.mark.parametrize("name", ADAPTERS)
def test_what_is_no_env_is_refused(name: str) -> None:
    with pytest.raises(SpecTypeError, match=rf"^{name.partition(',')[0]}: expected an env .*of marlenv.*, got int"):
        adapter(name).make(3)


@pytest.mark.parametrize("name", OF_ONE)
def test_several_groups_are_refused_where_one_is_taken(name: str) -> None:
    one = adapter(name)
    env = marlenv.make("simple_tag", num_envs=2 if one.rows else None, compile="none")
    with pytest.raises(SpecTypeError, match=rf"^{name}: .*one group, acts, got actions .*'adversary', 'action'"):
        one.make(env)


@pytest.mark.parametrize("name", AS_ONE)
def test_a_group_of_unlike_agents_is_refused_where_it_is_one(name: str) -> None:
    one = adapter(name)
    says = rf"^{name.partition(',')[0]}: the .*agents of (group|entry) 'sheep.* differ.*groups of their own, or pad"
    with pytest.raises(GroupError, match=says):
        one.make(Unlike((2, 3), one.rows))
    if one.alike:
        with pytest.raises(GroupError, match=says.replace("agents", "actions of the agents")):
            one.make(Unlike((2, 2), one.rows))
    else:
        one.make(Unlike((2, 2), one.rows))


@pytest.mark.parametrize("name", [name for name in ADAPTERS if name != "to_torchrl"])
@pytest.mark.parametrize(
    ("entry", "spec"), [("text", NonTensor((), example_data="e4")), ("size", Unbounded((-1,))), ("way", WAY)]
)
def test_an_entry_that_the_library_does_not_know_is_named(name: str, entry: str, spec: Any) -> None:
    one = adapter(name)
    place = rf"(sheep|s0)/{entry}"
    with pytest.raises(
        SpecError, match=rf"^{name.partition(',')[0]}: entry '{place}' is .*no (space|spec) of such val"
    ):
        one.make(With(entry, spec, one.rows))


def test_torchrl_has_no_choice_per_row() -> None:
    adapter("to_torchrl")
    env = With("way", WAY, True)
    with pytest.raises(
        SpecError, match=r"^to_torchrl: TorchRL cannot express .* under \('sheep', 'way'\): its Choice cho"
    ):
        marlenv.to_torchrl(env)


@pytest.mark.parametrize("name", [name for name in ADAPTERS if name != "to_torchrl"])
@pytest.mark.parametrize("options", [{}, {"categorical_actions": False}], ids=["numbers", "one-hot"])
def test_a_fraction_is_no_number_of_an_action_and_the_env_goes_on(name: str, options: dict[str, Any]) -> None:
    one = adapter(name)
    env = one.make(spread(one, **options))
    env.reset()
    for action in (0.5, float("nan"), float("-inf")):
        with pytest.raises(DtypeError, match=rf"whole numbers?\b.*, got \[?{action}"):
            one.step(env, action)
    one.step(env)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("to_gymnasium", [(3, 2), (1, 3, 2)], [(2, 3), (6,), (4, 2), (3, 1), ()]),
        ("to_gymnasium_vector", [(2, 3, 2), (2, 1, 3, 2)], [(2, 2, 3), (3, 2, 2), (12,), (6, 2), (1, 3, 2)]),
        ("to_sb3_vec_env", [(6, 2)], [(6, 1), (6, 3), (2, 6), (12,), (6,)]),
        ("to_pufferlib", [(6, 2)], [(6, 1), (6, 3), (2, 6), (12,), (6,)]),
        ("to_rllib, groups", [(6,), (3, 2)], [(5,), (2, 3), ()]),
    ],
)
def test_actions_of_another_shape_are_refused_and_the_env_goes_on(name: str, right: Any, wrong: Any) -> None:
    """However the right numbers are given, they do the same."""
    one, who, seen = adapter(name), name.partition(",")[0], []
    numbers = np.linspace(-1, 1, 12 if one.rows else 6, dtype=np.float32)
    for shape in right:
        env = marlenv.make("simple_spread", num_envs=2 if one.rows else None, compile="none", seed=0)
        made = one.make(env)
        made.reset()
        for other in wrong:
            action = np.resize(numbers, other)
            with pytest.raises(ShapeError, match=rf"^{who}: (actions must have shape|expected 6 actions).* got"):
                made.step({"agents": action} if "groups" in name else action)
        action = numbers.reshape(shape)
        seen.append(made.step({"agents": action} if "groups" in name else action)[0])
    assert all(str(one) == str(seen[0]) for one in seen)


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize("when", ["before", "after", "while it plays"])
def test_a_closed_env_says_so(name: str, when: str) -> None:
    """Closed by its owner before it was adapted, before its first reset, or in an episode."""
    one = adapter(name)
    env = spread(one)

    def play() -> None:
        if when == "before":
            env.close()
        made = one.make(env)
        if when == "after":
            env.close()
        made.reset()
        env.close()
        one.step(made)

    with pytest.raises(EnvClosed, match="ScenarioEnv: the env is closed; make a new one"):
        play()


@pytest.mark.parametrize("name", ADAPTERS)
def test_closing_the_adapter_closes_the_env_once(name: str) -> None:
    one = adapter(name)
    env = spread(one)
    made = one.make(env)
    made.reset()
    made.close()
    assert env.is_closed
    if name != "to_torchrl":
        made.close()


@pytest.mark.parametrize("name", ["to_pettingzoo_parallel", "to_pettingzoo_aec", "to_rllib"])
def test_agents_that_are_born_again_are_named(name: str) -> None:
    """Where agents are names, one that is done may not come back."""
    env = adapter(name).make(marlenv.make("predator_prey", compile="none", birth=1.0, reach=0.6, hunger=0.0))
    env.reset(seed=0)

    def play() -> None:
        for _ in range(400):
            if name == "to_pettingzoo_aec":
                agent = env.agent_selection
                over = env.terminations[agent] or env.truncations[agent]
                env.step(None if over else env.action_space(agent).sample())
            else:
                of = env.get_action_space if name == "to_rllib" else env.action_space
                env.step({agent: np.zeros_like(of(agent).sample()) for agent in env.agents})

    with pytest.raises(Unsupported, match=r"were done and are born again.*predator_prey with birth=0"):
        play()
