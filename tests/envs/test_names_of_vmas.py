"""What a script for VMAS asks of an env, and what it is told."""

from __future__ import annotations

import copy
import re

import pytest
import torch

from marlenv import make
from marlenv.physics.env.scenario_env import VMAS


@pytest.fixture
def env():
    return make("waterfall", num_envs=2, n_agents=3, compile="none")


@pytest.mark.parametrize("name", VMAS)
def test_names_of_vmas_say_what_there_is_instead(env, name):
    with pytest.raises(AttributeError, match=rf"^ScenarioEnv has no attribute '{name}', as VMAS's env has; it has `"):
        getattr(env, name)
    assert not hasattr(env, name)
    env.reset()
    named = re.match(r"`([\w.]+)", VMAS[name])[1]
    thing = env
    for part in named.split("."):
        thing = getattr(thing, part)


def test_other_names_are_not_there_as_ever(env):
    with pytest.raises(AttributeError, match="'ScenarioEnv' object has no attribute 'nothing'"):
        env.nothing  # noqa: B018
    assert (copy.deepcopy(env).rollout(2).exclude("next").batch_size) == (2, 2)


@pytest.mark.slow
@pytest.mark.reference
def test_vmas_has_these_names_and_the_rows_of_the_page_give_the_same():
    """The rows of docs/migrate.md."""
    vmas = pytest.importorskip("vmas")
    theirs = vmas.make_env("waterfall", num_envs=2, n_agents=3, seed=0)
    assert [name for name in VMAS if not hasattr(theirs, name)] == []
    ours = make("waterfall", num_envs=2, n_agents=3)
    td = ours.reset()
    assert ours.scenario.world.laws.dt == theirs.world.dt
    assert ours.agent_names == [agent.name for agent in theirs.agents]
    assert ours.action_spec.shape == (2, len(theirs.get_random_actions()), *theirs.get_random_actions()[0].shape[1:])
    assert ours.render(0).shape[-1] == 3
    td = ours.step_mdp(ours.step(ours.rand_action(td)))
    mask = torch.tensor([True, False]).unsqueeze(-1)
    td = ours.reset(td.set("_reset", mask))
    theirs.step(theirs.get_random_actions()), theirs.reset_at(0)
    assert ours.current_state["steps"].tolist() == theirs.steps.tolist() == [0, 1]
