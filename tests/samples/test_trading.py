"""The trading env: TorchRL's numbers for every kind of trade, the law of prices, batches, and the contract."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from tensordict import TensorDict

from marlenv.samples import FinancialRegimeEnv
from marlenv.testing import run_contract


def theirs() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchrl.envs import FinancialRegimeEnv as Peer

        return Peer(seed=0)


@pytest.mark.reference
@pytest.mark.parametrize("seed", range(5))
def test_torchrl_trades_the_same(seed: int) -> None:
    """Chance is taken out (volatility 0), and put into the drift of each day."""
    peer, env = theirs(), FinancialRegimeEnv(seed=seed)
    generator = torch.Generator().manual_seed(seed)
    ours = env.reset()
    ours["params", "volatility"] = torch.tensor(0.0)
    other = peer.reset()
    other.update(ours.exclude("rng").clone())
    for t in range(260):
        action = torch.randint(0, 3, (1,), generator=generator)
        drift = 10 * torch.randn((), generator=generator)
        for td in (ours, other):
            td["action"], td["params", "drift"] = action, drift
        ours, other = env.step(ours), peer.step(other)
        for key in peer.observation_keys + peer.reward_keys + peer.done_keys:
            assert torch.equal(ours["next", key], other["next", key]), (t, key)
        if bool(ours["next", "done"]):
            break
        ours, other = env.step_mdp(ours), peer.step_mdp(other)
    assert t == 251


@pytest.mark.reference
def test_the_specs_are_torchrls_and_the_stream() -> None:
    peer, env = theirs(), FinancialRegimeEnv()
    for family in ("observation", "reward", "done", "action", "state"):
        want = {k: (s.shape, s.dtype) for k, s in getattr(peer, f"full_{family}_spec").items(True, True)}
        have = {k: (s.shape, s.dtype) for k, s in getattr(env, f"full_{family}_spec").items(True, True)}
        assert {k: v for k, v in have.items() if k != "rng"} == want


def test_prices_are_a_geometric_brownian_motion() -> None:
    env = FinancialRegimeEnv(seed=2)
    td = env.reset(env.gen_params(volatility=0.3, drift=0.5, batch_size=[20_000]))
    logs = (td["price_history"] / 100).log()
    days = logs.diff(dim=-1)
    assert float(days.std()) == pytest.approx(0.3 * math.sqrt(1 / 252), rel=0.01)
    assert float(days.mean()) == pytest.approx(0.0, abs=1e-4)
    assert float(logs[:, 0].std()) == pytest.approx(0.3 * math.sqrt(1 / 252), rel=0.02)
    td = env.step(env.rand_action(td))
    step = (td["next", "price_history"][:, -1] / td["price_history"][:, -1]).log()
    assert float(step.mean()) == pytest.approx(0.5 / 252, abs=6e-4)  # four standard errors
    assert float(step.std()) == pytest.approx(0.3 * math.sqrt(1 / 252), rel=0.02)
    assert torch.equal(td["next", "price_history"][:, :-1], td["price_history"][:, 1:])
    both = torch.stack((step, days[:, -1]))
    assert abs(float(both.corrcoef()[0, 1])) < 0.03


def test_prices_of_a_row_do_not_depend_on_the_others() -> None:
    data = [
        FinancialRegimeEnv(seed=4).rollout(
            5, auto_reset=False, tensordict=FinancialRegimeEnv(seed=4).reset(TensorDict(batch_size=[n]))
        )
        for n in (1, 7)
    ]
    assert torch.equal(data[0]["next", "price_history"][0], data[1]["next", "price_history"][0])


def test_rows_may_have_markets_and_limits_of_their_own() -> None:
    env = FinancialRegimeEnv(seed=0)
    params = env.gen_params(batch_size=[2])
    params["params", "max_steps"] = torch.tensor([2, 5])
    data = env.rollout(6, auto_reset=False, tensordict=env.reset(params), break_when_any_done=False)
    assert data["next", "truncated"].squeeze(-1).tolist() == [
        [False, True, False, True, False, True],
        [False] * 4 + [True, False],
    ]
    assert data["params", "max_steps"].unique(dim=1).tolist() == [[2], [5]]
    assert not bool(data["next", "terminated"].any())


def test_the_contract_holds() -> None:
    assert not [r for r in run_contract(lambda: FinancialRegimeEnv(seed=1, window_size=5)) if r.verdict == "broken"]
