"""Transforms of numbers without a dimension, in an env of batch size []: as those of shape [1]."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from marlenv import Bounded, Composite, EnvBase, FiniteTensorDictCheck, TransformedEnv, Unbounded, VecNorm, VecNormV2
from marlenv.errors import NotFinite


class Numbers(EnvBase):
    """Observes 1, 4, 9, ...; then a NaN, if asked for."""

    def __init__(self, shape, bad=None):
        super().__init__()
        self.observation_spec = Composite(x=Unbounded(shape))
        self.action_spec, self.reward_spec = Bounded(-1, 1, (1,)), Unbounded((1,))
        self.wide, self.n, self.bad = shape, 0, bad

    def _look(self):
        self.n += 1
        return torch.full(self.wide, torch.nan if self.n == self.bad else float(self.n**2))

    def _reset(self, tensordict):
        return TensorDict({"x": self._look()}, [])

    def _step(self, tensordict):
        return TensorDict({"x": self._look(), "reward": torch.ones(1), "done": torch.zeros(1, dtype=torch.bool)}, [])

    def _set_seed(self, seed):
        pass


@pytest.mark.parametrize("make", [VecNorm, VecNormV2])
@pytest.mark.parametrize("keys", [["x"], None], ids=["named", "all"])
def test_statistics_are_those_of_one_number_in_a_row(make, keys):
    alone, wide = (TransformedEnv(Numbers(shape), make(keys)).rollout(6) for shape in ((), (1,)))
    assert alone["next", "x"].shape == (6,)
    assert torch.equal(alone["next", "x"], wide["next", "x"].squeeze(-1))
    assert torch.equal(alone["x"], wide["x"].squeeze(-1))


def test_vecnorm_is_mean_and_deviation_of_all_that_was_seen():
    seen = torch.arange(1, 8, dtype=torch.float64).pow(2)
    expected = []
    for n in range(2, 8):
        weight = 0.9 ** torch.arange(n - 1, -1, -1, dtype=torch.float64)
        mean, square = ((weight * x).sum() / weight.sum() for x in (seen[:n], seen[:n] ** 2))
        expected.append(((seen[n - 1] - mean) / (square - mean**2).sqrt()).item())
    made = TransformedEnv(Numbers(()), VecNorm(["x"], decay=0.9)).rollout(6)["next", "x"]
    assert made.tolist() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("bad", [1, 3])
def test_a_number_that_is_not_finite_is_named(bad):
    env = TransformedEnv(Numbers((), bad), FiniteTensorDictCheck())
    with pytest.raises(NotFinite, match=r"'x' is nan"):
        env.rollout(6)
