"""TorchRL's trading env: one asset whose price is a geometric Brownian motion, to be bought, held and sold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.rng import RowRNG
from marlenv.samples.stateless import StatelessEnv
from marlenv.specs import Binary, Categorical, Composite, Unbounded

DAY = 1.0 / 252.0  # of a trading year
HOLD, BUY, SELL = range(3)
SHAPING = 0.1  # share of a day's return that is paid for holding


class FinancialRegimeEnv(StatelessEnv):
    """Buy an asset, hold it, sell it, day by day. Keys and numbers are TorchRL's; any batch size is taken.

    | key | shape | meaning |
    |---|---|---|
    | `price_history` | `[*B, window]` | the last prices, newest last |
    | `current_holdings` | bool `[*B, 1]` | whether the asset is held |
    | `entry_price` | `[*B, 1]` | what was paid for it; 0 when it is not held |
    | `step_count` | int64 `[*B]` | days since the reset |
    | `params` | `[*B]` each | `window_size, initial_price, volatility, drift, transaction_cost, max_steps` |
    | `rng` | int64 `[*B, 2]` | what prices are drawn from; TorchRL keeps a generator in the env instead |
    | `action` | int64 `[*B, 1]` | 0 hold, 1 buy, 2 sell |
    | `reward` | `[*B, 1]` | minus the costs of trades, a sale's return, a tenth of each day's return while holding |

    Buying what is held and selling what is not does nothing. ``truncated`` after ``max_steps``; never ``terminated``.

    Args:
        td_params: parameters of rows that bring none, as :meth:`gen_params` makes them.
        seed: of the rows that bring no ``"rng"``; 0 when left out.
        device: where the data live.
        window_size: how many prices are seen; 50 when left out. Not read when there are ``td_params``.

    >>> env = FinancialRegimeEnv(seed=0, window_size=4)
    >>> data = env.rollout(300, actions=torch.full((300, 1), BUY))
    >>> data.shape, bool(data["next", "truncated"][-1]), round(float(data["next", "reward"][0]), 1)
    (torch.Size([252]), True, -0.1)

    Source: torchrl 0.14.1 ``FinancialRegimeEnv``.
    """

    DEFAULT_WINDOW_SIZE: ClassVar[int] = 50
    DEFAULT_INITIAL_PRICE: ClassVar[float] = 100.0
    DEFAULT_MAX_STEPS: ClassVar[int] = 252
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["human"], "render_fps": 1}

    def __init__(
        self,
        td_params: TensorDictBase | None = None,
        seed: int | None = None,
        device: torch.device | str | int | None = None,
        window_size: int | None = None,
    ) -> None:
        params = self.gen_params(window_size=window_size) if td_params is None else td_params
        super().__init__(params, 0 if seed is None else seed, device)

    @staticmethod
    def gen_params(
        window_size: int | None = None,
        initial_price: float = 100.0,
        volatility: float = 0.2,
        drift: float = 0.05,
        transaction_cost: float = 0.001,
        max_steps: int = 252,
        batch_size: Sequence[int] | None = None,
        device: torch.device | str | None = None,
    ) -> TensorDictBase:
        """Parameters under ``"params"``.

        Args:
            window_size: how many prices are seen; 50 when left out.
            initial_price: the price before the first of them.
            volatility: standard deviation of a year's log return.
            drift: expected log return of a year.
            transaction_cost: share of the price.
            max_steps: days in an episode.
            batch_size: how many rows.
            device: where they live.

        >>> FinancialRegimeEnv.gen_params(batch_size=[2])["params", "max_steps"]
        tensor([252, 252])
        """
        values = {
            "window_size": FinancialRegimeEnv.DEFAULT_WINDOW_SIZE if window_size is None else window_size,
            "initial_price": initial_price,
            "volatility": volatility,
            "drift": drift,
            "transaction_cost": transaction_cost,
            "max_steps": max_steps,
        }
        params = TensorDict({"params": TensorDict(values, [])}, [], device=device)
        return params.expand(tuple(batch_size)).contiguous() if batch_size else params

    def _make_spec(self, params: TensorDictBase) -> None:
        self.window = int(params["window_size"])
        self.observation_spec = Composite(
            price_history=Unbounded((self.window,)),
            current_holdings=Binary(shape=(1,), dtype=torch.bool),
            entry_price=Unbounded((1,)),
            step_count=Unbounded((), dtype=torch.int64),
        )
        flags = ("done", "terminated", "truncated")
        self.done_spec = Composite({name: Categorical(2, (1,), dtype=torch.bool) for name in flags})
        self.action_spec = Categorical(3, (1,))
        self.reward_spec = Unbounded((1,))

    def fresh(self, params: TensorDictBase, rng: RowRNG) -> dict[str, Tensor]:
        """A history without drift that begins at ``initial_price``; nothing is held."""
        shocks = rng.normal(shape=[self.window]) * params["volatility"].unsqueeze(-1) * math.sqrt(DAY)
        nothing = torch.zeros((*rng.rows, 1), device=self.device)
        return {
            "price_history": params["initial_price"].unsqueeze(-1) * shocks.cumsum(-1).exp(),
            "current_holdings": nothing.to(torch.bool),
            "entry_price": nothing,
            "step_count": torch.zeros(rng.rows, dtype=torch.int64, device=self.device),
        }

    def advance(self, tensordict: TensorDictBase, rng: RowRNG) -> dict[str, Tensor]:
        """The market and the holdings one day later."""
        params, action = tensordict["params"], tensordict["action"].squeeze(-1)
        history, entry = tensordict["price_history"], tensordict["entry_price"].squeeze(-1)
        held = tensordict["current_holdings"].squeeze(-1)
        price = history[..., -1]
        following = price * (params["drift"] * DAY + rng.normal() * params["volatility"] * math.sqrt(DAY)).exp()
        buys, sells = (action == BUY) & ~held, (action == SELL) & held
        holds = (held | buys) & ~sells
        paid = entry.clamp(min=1e-6)
        reward = torch.where(sells, (price - paid) / paid, 0.0)
        reward = reward - torch.where(buys | sells, params["transaction_cost"] * price, 0.0)
        reward = reward + torch.where(holds, (following - price) / price * SHAPING, 0.0)
        count = tensordict.get("step_count", torch.zeros_like(action)) + 1
        truncated = (count >= params["max_steps"]).unsqueeze(-1)
        return {
            "price_history": torch.cat((history[..., 1:], following.unsqueeze(-1)), -1),
            "current_holdings": holds.unsqueeze(-1),
            "entry_price": torch.where(buys, price, torch.where(sells, 0.0, entry)).unsqueeze(-1),
            "step_count": count,
            "reward": reward.unsqueeze(-1),
            "done": truncated,
            "terminated": torch.zeros_like(truncated),
            "truncated": truncated.clone(),
        }
