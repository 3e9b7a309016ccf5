"""A scenario that uses a little of everything, for tests."""

from dataclasses import dataclass

import torch

from marlenv.physics import Agent, Landmark, Scenario, Sphere, World


@dataclass(eq=False)
class Fetch(Scenario):
    """Agents of two kinds; one follows a script; noise, speech and memory."""

    speed: float = 1.0

    def build(self):
        world = World(channels=2, drag=0.1, substeps=2)
        self.ball = world.add("ball", Landmark(Sphere(0.1), movable=True))
        self.target = world.add("target", [Agent(Sphere(0.05), scripted=True, collide=False)])
        self.runners = world.add("runners", [Agent(Sphere(0.1), u_noise=0.1, max_speed=self.speed, silent=False)] * 3)
        self.keeper = world.add("keeper", [Agent(Sphere(0.2), u_multiplier=0.5)])
        world.remember(steps=torch.tensor(0), near=torch.zeros(3, dtype=torch.bool))
        return world

    def spawn(self):
        self.ball.pos = self.uniform(-1, 1, 2)
        self.runners.pos = self.uniform(-0.5, 0.5, 3, 2)
        self.keeper.pos = (0.0, 0.5)
        self.memory.near = self.uniform(0, 1, 3) < 0.5

    def before_step(self):
        self.memory.steps = self.memory.steps + 1
        t = self.memory.steps / 30
        self.target.u = torch.stack((torch.cos(t), torch.sin(t)), -1).unsqueeze(1)

    def observe(self):
        noise = 0.01 * self.normal(3, 2)
        return {"runners": self.runners.pos + noise, "keeper": self.keeper.vel}

    def rewards(self):
        self.memory.near = (self.runners.pos - self.ball.pos.unsqueeze(1)).abs().amax(-1) < 0.3
        return {"runners": self.memory.near.float(), "keeper": self.keeper.u.sum(-1)}

    def over(self):
        return self.memory.steps > 40

    def info(self):
        return {"runners": {"said": self.runners.said}}
