"""simple_spread against VMAS's."""

import warnings

import pytest
import torch
from marlenv.scenarios.mpe.simple_spread import SimpleSpread

from marlenv.physics import Simulation
from marlenv.rng import RowRNG

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import vmas


@pytest.mark.reference
@pytest.mark.parametrize("options", [{}, {"n_agents": 5}, {"obs_agents": False}])
def test_200_steps_from_the_same_start_are_those_of_vmas(options):
    env = vmas.make_env("simple_spread", num_envs=64, seed=0, **options)
    env.reset()
    sim = Simulation(SimpleSpread(**options))
    state, *_ = sim.reset(sim.start(RowRNG(rows=[64])))
    bodies = [*env.world.agents, *env.world.landmarks]
    state["pos"] = torch.stack([b.state.pos.T for b in bodies], 1)
    for t in range(200):
        actions = [(-3 * a.state.pos).clamp(-1, 1) for a in env.agents] if t % 2 else env.get_random_actions()
        seen, rewards, dones, _ = env.step([a.clone() for a in actions])
        state, observations, ours, over, _ = sim.transition(state, {"agents": torch.stack(actions, 1)})
        assert torch.equal(observations["agents"], torch.stack(seen, 1))
        torch.testing.assert_close(ours["agents"], torch.stack(rewards, 1), rtol=1e-6, atol=1e-5)
        assert torch.equal(over, dones)
