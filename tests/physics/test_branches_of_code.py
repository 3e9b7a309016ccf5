"""Branches of machine code around what most rows skip: branches that need each other, and branches within branches."""

import pytest
import torch
from operations import ROWS, Library

from marlenv.physics import shorten
from marlenv.physics.jit import cache

pytestmark = pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")


def long(z):
    """So much that it is worth a branch."""
    for i in range(9):
        z = (z * 0.5).clamp(-9, 9) + i
    return z


def both_ways(x, m, n):
    p, q = torch.where(m, long(x[:, 2]), 0.0), torch.where(n, long(x[:, 3]), 0.0)
    both = long(0.01 * p * q) * m * n
    return torch.stack((both, torch.where(n, long(p + 7), 0.0), torch.where(m, long(0.1 * q), 0.0)), -1)


def each_needs_the_other(x):
    """What is zero where one mask is False needs a part of what is zero where another is, and that a part of it."""
    return both_ways(x, x[:, 0] > 0, x[:, 1] > 0)


def each_needs_the_other_within_a_branch(x):
    some = x[:, 2] > -1
    return torch.where(some.unsqueeze(-1), both_ways(x, (x[:, 0] > 0) & some, (x[:, 1] > 0) & some), 0.0)


def needed_before_its_branch_ends(x):
    """The first number of a force is needed by what comes before the second, in a branch within a branch."""
    finite, turn = (x > 0.2) * 2.0 - (x < 0.3) * 1.5, (x[:, 2] > 0.1) * 1.0
    alive = finite[:, 0] > 0
    force = torch.where(alive, torch.where(alive, finite[:, 1], 0.0), 0.0)
    return torch.stack(shorten(force * turn.cos(), force * turn.sin(), 1.5), -1)


FUNCTIONS = {
    f.__name__: f for f in (each_needs_the_other, each_needs_the_other_within_a_branch, needed_before_its_branch_ends)
}


@pytest.fixture(scope="module")
def library():
    return Library({name: (f, [((4,), torch.float32)]) for name, f in FUNCTIONS.items()})


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("closed", [(), (0,), (1,), (0, 1)])
def test_the_same_numbers_whichever_branches_are_taken(library, name, closed):
    x = torch.randint(-12, 13, (ROWS, 4), generator=torch.Generator().manual_seed(0)) / 4
    for i in closed:
        x[:, i] = -1.0
    torch.testing.assert_close(library(name, x)[0], FUNCTIONS[name](x))
