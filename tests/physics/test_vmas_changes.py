"""What a scenario file changes while it plays is heeded by its machine code, too: landmarks, and attributes."""

import pytest
import torch
from compat import in_vmas

from marlenv.physics.vmas_compat import load

FILE = """
import torch
from vmas.simulator.core import Agent, Box, Landmark, Sphere, World
from vmas.simulator.scenario import BaseScenario

class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        world = World(batch_dim, device)
        world.add_agent(Agent("agent_0", shape=Sphere(0.05)))
        self.goal, self.post = Landmark("goal", collide=False), Landmark("post", Sphere(0.2))
        self.bar = Landmark("bar", Box(1.0, 0.1))
        for one in (self.goal, self.post, self.bar):
            world.add_landmark(one)
        self.steps = torch.zeros(batch_dim)
        {start}
        return world

    def reset_world_at(self, env_index=None):
        for one, at in ((self.goal, [0.5, 0.0]), (self.post, [3.0, 0.0]), (self.bar, [0.0, 0.4])):
            one.set_pos(torch.tensor(at), batch_index=env_index)
        if env_index is None:
            self.steps = torch.zeros_like(self.steps)
        else:
            self.steps[env_index] = 0

    def post_step(self):
        self.steps = self.steps + 1
        sixth = bool((self.steps == 6).all())
        {line}

    def observation(self, agent):
        return torch.cat([self.goal.state.pos, self.post.state.pos, self.bar.state.rot, agent.state.pos], -1)

    def reward(self, agent):
        rew = agent.state.pos[:, 0] + self.goal.state.pos[:, 0]
        {reward}
        return rew
"""
MOVES = {
    "once": "if sixth: self.goal.set_pos(torch.tensor([1.5, 0.0]), None); "
    "self.post.set_pos(torch.tensor([0.1, 0.02]), None)",
    "in every step": "self.post.set_pos(torch.tensor([[0.1 if int(self.steps[0]) > 5 else 3.0, 0.02]]), None)",
    "in place": "self.post.state.pos[:, 0] -= 0.35",
    "turned": "if sixth: self.bar.set_rot(torch.tensor([1.57]), None)",
}


def written(folder, line="", start="", reward=""):
    path = folder / "moving.py"
    path.write_text(FILE.format(line=line, start=start, reward=reward))
    return path


def played(path, tier, steps=12, **options):
    """Observations and rewards of steps without any action; of the first row."""
    env = load(path, 3, seed=0, compile=tier, **options)
    td, seen = env.reset(), []
    for _ in range(steps):
        td["agents", "action"] = torch.zeros(3, 1, 2)
        step = env.step(td)
        seen.append(torch.cat((step["next", "agents", "observation"][0, 0], step["next", "agents", "reward"][0, 0])))
        td = env.step_mdp(step)
    return torch.stack(seen), env


@pytest.mark.slow
@pytest.mark.parametrize("how", MOVES)
def test_landmarks_that_a_file_moves_are_where_vmas_has_them(how, tmp_path):
    path = written(tmp_path, MOVES[how])
    theirs, expected = in_vmas(path, 3, 0), []
    theirs.reset()
    for _ in range(12):
        seen, rewards, _, _ = theirs.step([torch.zeros(3, 2)])
        expected.append(torch.cat((seen[0][0], rewards[0][:1])))
    expected = torch.stack(expected)
    assert expected[-1, 5:7].abs().max() > 0.1  # the agent was pushed
    ours, env = played(path, "auto")
    assert env.environment._compiled_results is not None
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        *(("self.goal", name) for name in ("taken", "values", "motion", "place", "turned", "version", "fast", "draws")),
        *(("self.world", name) for name in ("place", "version", "fast", "draws")),
        ("self.world.agents[0]", "turned"),
    ],
)
def test_attributes_of_the_files_own_have_any_name(owner, name, tmp_path):
    has = f"{owner}.{name}"
    path = written(
        tmp_path,
        line=f"{has} = sixth or {has}",
        start=f"{has.replace('self.world', 'world')} = False",
        reward=f"rew = rew + (10.0 if {has} else 0.0)",
    )
    seen, env = played(path, "auto", steps=8)
    assert env.environment._tries  # it was machine code before the change
    assert seen[:, -1].tolist() == pytest.approx([0.5] * 5 + [10.5] * 3)
