"""``marlenv bench train`` compares like with like: the same networks, the same amount of data, the same loss."""

from __future__ import annotations

import pytest
import torch

from marlenv.cli.benches import train
from marlenv.errors import SpecError
from marlenv.physics.jit import cache


@pytest.mark.slow
@pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")  # VMAS and TorchRL warn of their own ways
def test_both_sides_have_the_same_networks_and_learn_from_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    small = train.Settings(rows=3, epochs=1, minibatch=8, rate=1e-3, gamma=0.9)
    for name, value in {"SPEED": small, "LEARNING": small, "STEPS": 5, "THREADS": 1, "BATCHES": 1, "SEEDS": 2}.items():
        monkeypatch.setattr(train, name, value)
    with torch.random.fork_rng():
        both = train.sides(small)
        weights = [dict(side.loss.named_parameters()) for side in both.values()]
        assert list(weights[0]) == list(weights[1])
        assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
        for side in both.values():
            assert side.sample() == 15
            assert side.batch["agents", "observation"].shape == (3, 5, 4, 18)
            assert side.learn() == 15
        one, other = train.sides(small)["marlenv"], train.sides(small)["marlenv"]
        torch.manual_seed(1)
        one.sample()
        torch.manual_seed(1)
        whole, asked = other.split()
        assert 0 < asked < whole
        assert bool((one.batch == other.batch).all())
        for name, before in weights[0].items():
            assert not torch.equal(before, torch.zeros_like(before)) or "bias" in name
        figures = train.measure(1)
    vmas, alone = "TorchRL + VMAS", "the policy alone"
    peers = [vmas, alone, "the policy's calls in it", alone, vmas, vmas]
    assert [figure.peer_name for figure in figures] == peers
    assert all(figure.ours > 0 and figure.peer > 0 for figure in figures[:5])
    assert figures[5].unit == "return"


def test_a_part_that_there_is_not_is_an_error_with_those_there_are() -> None:
    with pytest.raises(SpecError, match="nothing has 'speed' in its name; there are sampling, learning, returns"):
        train.measure(1, only="speed")
