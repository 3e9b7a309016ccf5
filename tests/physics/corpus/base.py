"""The world in which the pieces live, and the list of them."""

import torch

from marlenv.physics import Agent, Landmark, Scenario, Sphere, World, join

PIECES = {}
MISTAKES = {}
MEMORY = {}
A, G, D = 3, 4, 2  # agents, goals, numbers of a position


def piece(**memory):
    """Makes a function of the scenario a piece: it gives a tensor ``[B, ...]``; what it remembers is declared here."""

    def keep(f):
        assert f.__name__ not in PIECES, f.__name__
        PIECES[f.__name__], MEMORY[f.__name__] = f, memory
        return f

    return keep


def mistake(says, **memory):
    """Makes a function a mistake, which machine code refuses with these words."""

    def keep(f):
        assert f.__name__ not in MISTAKES, f.__name__
        MISTAKES[f.__name__], MEMORY[f.__name__] = (f, says), memory
        return f

    return keep


class Pieces(Scenario):
    """Three agents that talk, four goals and two runners; what the pieces give stands in the infos."""

    may_overlap = True
    pieces = ()

    def build(self):
        world = World(channels=2)
        self.agents = world.add("agents", [Agent(Sphere(0.1), silent=False)] * A)
        self.runners = world.add("runners", [Agent(Sphere(0.05))] * 2)
        self.goals = world.add("goals", [Landmark(collide=False)] * G)
        self.table = torch.linspace(-1, 1, 12).reshape(G, 3)
        self.weights = torch.linspace(-0.5, 0.5, 20).reshape(5, 4)
        self.calls, self.history, self.before = 0, [], None
        for f in self.pieces:
            world.remember(**MEMORY[f.__name__])
        return world

    def spawn(self):
        self.agents.pos = self.uniform(-1, 1, A, D)
        self.goals.pos = self.uniform(-1, 1, G, D)
        self.runners.pos = self.uniform(-1, 1, 2, D)

    def observe(self):
        return {"agents": join(self.agents.pos, self.agents.vel), "runners": self.runners.pos}

    def rewards(self):
        return {"agents": self.zeros(A), "runners": self.zeros(2)}

    def shared_info(self):
        return {f.__name__: f(self) for f in self.pieces}


def scenario_of(*pieces):
    """A scenario of some pieces."""
    return type("Corpus", (Pieces,), {"pieces": pieces})()
