"""What scenario files of VMAS draw, in whatever way: by the laws of chance, from the env alone, row by row."""

import itertools
import math
import random

import numpy as np
import pytest
import torch

from marlenv.physics.vmas_compat import load
from marlenv.physics.vmas_compat.draws import Draws

FILE = """import random
import numpy as np, torch
from torch import distributions as D, nn
from torch.nn import functional as F
from vmas.simulator.core import Agent, World
from vmas.simulator.scenario import BaseScenario
class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        world = World(batch_dim, device)
        for i in range(3): world.add_agent(Agent(f"agent_{i}"))
        self.x = torch.zeros(batch_dim, 1)
        return world
    def reset_world_at(self, env_index=None):
        B, pos, i = self.world.batch_dim, self.world.agents[0].state.pos, env_index
        RESET
    def observation(self, agent):
        B, pos = self.world.batch_dim, agent.state.pos
        STEP
        return torch.cat([agent.state.pos, self.x], -1)
    def reward(self, agent): return agent.state.pos.sum(-1)
"""
BY_ROW = {
    "beta": "D.Beta(torch.full((B, 1), 2.0), 3.0).sample()",
    "gamma": "D.Gamma(torch.full((B, 1), 0.5), 3.0).sample()",
    "dirichlet": "D.Dirichlet(torch.full((B, 2), 2.0)).sample()[:, :1]",
    "poisson": "torch.poisson(torch.full((B, 1), 2.0))",
    "binomial": "torch.binomial(torch.full((B, 1), 5.0), torch.full((B, 1), 0.5))",
    "log_normal": "torch.empty(B, 1).log_normal_()",
    "cauchy": "torch.empty(pos.shape[0], 1).cauchy_()",
    "geometric": "torch.empty(pos.size(0), 1).geometric_(0.3)",
    "dropout": "F.dropout(torch.ones(B, 1))",
    "Dropout": "nn.Dropout()(torch.ones_like(pos))[:, :1]",
    "gumbel_softmax": "F.gumbel_softmax(torch.zeros(B, 2))[:, :1]",
    "init": "nn.init.normal_(torch.empty(B, 1))",
    "out": "torch.rand(B, 1, out=torch.empty(B, 1))",
    "normal": "D.Normal(pos, 1.0).sample()[:, :1]",
}
SHARED = {
    "Linear": "nn.Linear(2, 1)(pos + 1).detach()",
    "Embedding": "nn.Embedding(B, 1).weight.detach()",
    "alpha_dropout": "F.alpha_dropout(torch.ones(B, 1), 0.5, True)",
    "default_rng": "torch.as_tensor(np.random.default_rng().random((B, 1)), dtype=torch.float32)",
    "Generator": "torch.as_tensor(np.random.Generator(np.random.PCG64()).random((B, 1)), dtype=torch.float32)",
    "Random": "torch.full((B, 1), random.Random().random())",
}


def global_states():
    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()


def env(folder, rows=4, step="pass", reset="pass", **options):
    file = folder / f"task{len(list(folder.iterdir()))}.py"
    file.write_text(FILE.replace("RESET", reset).replace("STEP", step))
    return load(file, rows, seed=3, compile="none", **options)


def lives(made, steps=4):
    return made.rollout(steps)["agents", "observation"][..., 2]


@pytest.mark.parametrize("randomness", ["rows", "vmas"])
@pytest.mark.parametrize("drawn", [*BY_ROW.values(), *SHARED.values()], ids=[*BY_ROW, *SHARED])
def test_draws_come_from_the_env_alone(drawn, randomness, tmp_path):
    found = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        before = global_states()
        found.append(lives(env(tmp_path, step=f"self.x = {drawn}", randomness=randomness)))
        assert global_states() == before
    assert torch.equal(*found)
    assert len(found[0].unique()) > 1


@pytest.mark.parametrize("drawn", BY_ROW.values(), ids=BY_ROW)
def test_rows_draw_from_their_own_streams(drawn, tmp_path):
    few, many = (lives(env(tmp_path, rows, step=f"self.x = {drawn}")) for rows in (3, 7))
    assert torch.equal(few, many[:3])


def ours(draw, rows=3):
    with Draws("rows", rows, "cpu", 1).govern():
        return draw().double()


N = 20_000


def farthest(sample, below):
    """How far the shares of a sample are from a law (Kolmogorov and Smirnov): 1.63 / sqrt(N) in one case of 100."""
    points = sample.sort().values
    return (below(points) - torch.arange(1, N + 1) / N).abs().max().item()


@pytest.mark.parametrize("a", [0.4, 1.0, 7.5])
def test_gamma_numbers_obey_their_law(a):
    sample = ours(lambda: torch.distributions.Gamma(torch.full((N,), a), 1.0).sample())
    assert farthest(sample, lambda x: torch.special.gammainc(torch.tensor(a).double(), x)) < 1.63 / math.sqrt(N)


def test_beta_numbers_obey_their_law():
    sample = ours(lambda: torch.distributions.Beta(torch.full((N,), 2.0), 3.0).sample())
    law = lambda x: 6 * x**2 - 8 * x**3 + 3 * x**4  # noqa: E731 - the integral of 12 x (1 - x)^2
    assert farthest(sample, law) < 1.63 / math.sqrt(N)


def test_cauchy_and_log_normal_numbers_obey_their_laws():
    cauchy = ours(lambda: torch.empty(N).cauchy_(1.0, 2.0))
    assert farthest(cauchy, lambda x: 0.5 + torch.atan((x - 1) / 2) / math.pi) < 1.63 / math.sqrt(N)
    log_normal = ours(lambda: torch.empty(N).log_normal_(0.5, 2.0))
    assert farthest(log_normal, lambda x: torch.special.ndtr((x.log() - 0.5) / 2)) < 1.63 / math.sqrt(N)


@pytest.mark.parametrize("rate", [0.3, 4.0, 60.0])
def test_poisson_numbers_obey_their_law(rate):
    sample = ours(lambda: torch.poisson(torch.full((N,), rate)))
    for k in range(int(rate) + 3):
        chance = math.exp(k * math.log(rate) - rate - math.lgamma(k + 1))
        assert abs((sample == k).double().mean() - chance) < 4.5 * math.sqrt(chance / N) + 1 / N


def test_binomial_and_geometric_numbers_obey_their_laws():
    binomial = ours(lambda: torch.binomial(torch.full((N,), 70.0), torch.full((N,), 0.3)))
    geometric = ours(lambda: torch.empty(N).geometric_(0.3))
    for k in (15, 18, 21, 24):
        chance = math.comb(70, k) * 0.3**k * 0.7 ** (70 - k)
        assert abs((binomial == k).double().mean() - chance) < 4 * math.sqrt(chance / N)
    for k in (1, 2, 5):
        chance = 0.7 ** (k - 1) * 0.3
        assert abs((geometric == k).double().mean() - chance) < 4 * math.sqrt(chance / N)


def test_gumbel_softmax_and_dropout_obey_their_laws():
    logits = torch.tensor([1.0, 2.0, 5.0]).log()
    picked = ours(lambda: torch.nn.functional.gumbel_softmax(logits.expand(N, 3), hard=True)).mean(0)
    torch.testing.assert_close(picked, torch.tensor([0.125, 0.25, 0.625]).double(), rtol=0, atol=0.015)
    kept = ours(lambda: torch.nn.functional.dropout(torch.ones(N), 0.2))
    assert set(kept.unique().tolist()) == {0.0, 1.25}
    assert abs((kept > 0).double().mean() - 0.8) < 0.012


def test_gradients_follow_gamma_numbers():
    """As in PyTorch: how a number moves with its parameter, if its share of the law stays."""
    a = torch.full((5,), 1.5, requires_grad=True)
    with Draws("rows", 3, "cpu", 1).govern():
        x = torch.distributions.Gamma(a, 1.0).rsample()
    x.sum().backward()
    torch.testing.assert_close(a.grad, torch._standard_gamma_grad(a.detach(), x.detach()))


LEGAL = [
    "torch.rand(3, generator=None)", "torch.empty(3).normal_(generator=None)", "torch.randperm(3, generator=None)",
    "torch.bernoulli(torch.ones(3), generator=None)", "torch.multinomial(torch.ones(3), 2, generator=None)",
    "torch.multinomial(input=torch.ones(3), num_samples=2)", "torch.empty(3).random_(0, to=5)",
    "torch.empty(3).random_()", "torch.randint_like(torch.zeros(3), low=0, high=4)",
    "torch.randint_like(torch.zeros(3), high=4)", "torch.normal(0.0, 1.0, (3,), generator=None)",
    "torch.randint(0, 3, (4,), generator=None)", "torch.empty(3).exponential_(generator=None)",
    "torch.nn.init.xavier_normal_(torch.empty(3, 2))", "torch.rand_like(input=torch.zeros(3))",
    "torch.empty(3).uniform_(2, to=3)", "torch.nn.init.uniform_(torch.empty(3), a=2, b=3)",
]  # fmt: skip


@pytest.mark.parametrize("way", ["rows", "vmas"])
@pytest.mark.parametrize("call", LEGAL)
def test_all_signatures_of_pytorch_do(call, way):
    with Draws(way, 3, "cpu", 0).govern():
        x = eval(call)
    assert x.shape == eval(call).shape
    if "to=5" in call or "high" in call:
        assert ((x >= 0) & (x < 5)).all()
    if "a=2" in call or "to=3" in call:
        assert ((x >= 2) & (x < 3)).all()


PLACED = """p = torch.empty(len(self.world.agents), 2).uniform_(-1, 1)
        for k, a in enumerate(self.world.agents):
            a.set_pos(p[k] if i is not None else p[k].expand(B, 2), i)"""


@pytest.mark.parametrize(
    "drawn", ["torch.empty(3, 2).uniform_(-1, 1)", "torch.rand(3, 2)", "(torch.zeros(3, 2) + 0).uniform_()"]
)
def test_rows_that_are_as_many_as_something_else_are_independent(drawn, tmp_path):
    """Row 1 begins anew; whether row 0 did so before, and how many rows there are, is nothing to it."""
    lines, found = PLACED.replace("torch.empty(len(self.world.agents), 2).uniform_(-1, 1)", drawn), {}
    for rows, before in itertools.product((2, 3, 4), (False, True)):
        made = env(tmp_path, rows, reset=lines)
        td = made.reset()
        for row in [0, 1] if before else [1]:
            td = made.reset(td.set("_reset", (torch.arange(rows) == row).unsqueeze(-1)))
        found[rows, before] = td["agents", "observation"][1, :, :2].clone()
    for rows in (2, 3, 4):
        assert torch.equal(found[rows, False], found[rows, True])
        if "+ 0" not in drawn:  # of a tensor that was computed nobody knows what its rows are
            assert torch.equal(found[rows, False], found[2, False])


def test_what_is_shared_is_the_same_in_batches_of_any_size(tmp_path):
    """``torch.rand(3)`` are three numbers, also where there are three rows."""
    found = [lives(env(tmp_path, n, step="self.x = torch.rand(3).mean().expand(B, 1).clone()")) for n in (1, 2, 3, 4)]
    assert all(torch.equal(x[0], found[0][0]) for x in found)


@pytest.mark.parametrize(
    "drawn", ["np.random.rand()", "random.random()", "float(F.alpha_dropout(torch.ones(9), 0.5, True).sum())"]
)
def test_a_row_that_is_reset_draws_from_its_own_stream_in_every_way(drawn, tmp_path):
    found = []
    for first in ([1], [0, 2, 1]):
        made = env(tmp_path, 3, reset=f"self.x[slice(None) if i is None else i] = {drawn}")
        td = made.reset()
        for row in first:
            td = made.reset(td.set("_reset", (torch.arange(3) == row).unsqueeze(-1)))
        found.append(td["agents", "observation"][1])
    assert torch.equal(*found)


@pytest.mark.parametrize("randomness", ["rows", "vmas"])
def test_pictures_move_no_stream(randomness, tmp_path):
    found = []
    for pictures in (0, 3):
        made = env(tmp_path, 2, step="self.x = torch.rand(B, 1) + np.random.rand()", randomness=randomness)
        made.scenario.extra_render = lambda env_index=0: [torch.rand(2), np.random.rand()][:0]
        made.reset()
        for _ in range(pictures):
            made.render(1, size=(20, 20))
        found.append(lives(made))
    assert torch.equal(*found)
