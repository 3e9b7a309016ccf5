"""The pendulum of TorchRL's tutorial (https://pytorch.org/rl/tutorials/pendulum.html): Gymnasium's Pendulum-v1 in
tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.rng import RowRNG
from marlenv.samples.stateless import StatelessEnv
from marlenv.specs import Bounded, Composite, Unbounded


class PendulumEnv(StatelessEnv):
    """Swing a pendulum up and hold it there. Keys, numbers and methods are TorchRL's; any batch size is taken.

    | key | shape | meaning |
    |---|---|---|
    | `th` | `[*B]` | angle from upright, radians, in [-pi, pi) |
    | `thdot` | `[*B]` | radians per second, at most ``max_speed`` |
    | `params` | `[*B]` each | `max_speed, max_torque, dt, g, m, l`; may differ between rows |
    | `rng` | int64 `[*B, 2]` | what the next reset draws from; TorchRL keeps a generator in the env instead |
    | `action` | `[*B, 1]` | torque, cut to ``max_torque`` |
    | `reward` | `[*B, 1]` | `-(th**2 + 0.1 thdot**2 + 0.001 torque**2)`, of the state before the step |

    An episode never ends. Gradients pass through steps.

    Args:
        td_params: parameters of rows that bring none, as :meth:`gen_params` makes them.
        seed: of the rows that bring no ``"rng"``.
        device: where the data live.

    >>> env = PendulumEnv(seed=0)
    >>> td = TensorDict(th=torch.zeros(2), thdot=torch.tensor([0.0, 1.0]), batch_size=[2])
    >>> td = env.reset(td, set_state=True).set("action", torch.zeros(2, 1))
    >>> env.step(td)["next", "reward"].flatten()
    tensor([-0.0000, -0.1000])

    Source: torchrl 0.14.1 ``PendulumEnv``; gymnasium ``Pendulum-v1``.
    """

    DEFAULT_X: ClassVar[float] = torch.pi
    DEFAULT_Y: ClassVar[float] = 1.0
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["human", "rgb_array"], "render_fps": 30}

    def __init__(
        self,
        td_params: TensorDictBase | None = None,
        seed: int | None = None,
        device: torch.device | str | int | None = None,
    ) -> None:
        super().__init__(td_params, seed, device)

    @staticmethod
    def gen_params(
        g: float = 10.0, batch_size: Sequence[int] | None = None, device: torch.device | str | None = None
    ) -> TensorDictBase:
        """Parameters under ``"params"``: seconds, metres, kilograms, newton metres.

        Args:
            g: acceleration of gravity, metres per second squared.
            batch_size: how many rows.
            device: where they live.

        >>> PendulumEnv.gen_params(batch_size=[2])["params", "dt"]
        tensor([0.0500, 0.0500])
        """
        values = {"max_speed": 8.0, "max_torque": 2.0, "dt": 0.05, "g": g, "m": 1.0, "l": 1.0}
        params = TensorDict({"params": TensorDict(values, [])}, [], device=device)
        return params.expand(tuple(batch_size)).contiguous() if batch_size else params

    @staticmethod
    def angle_normalize(x: Tensor) -> Tensor:
        """The same angles in [-pi, pi); radians."""
        return ((x + torch.pi) % (2 * torch.pi)) - torch.pi

    def _make_spec(self, params: TensorDictBase) -> None:
        speed, torque = params["max_speed"], params["max_torque"]
        self.observation_spec = Composite(
            th=Bounded(-torch.pi, torch.pi, shape=()), thdot=Bounded(-speed, speed, shape=())
        )
        self.action_spec = Bounded(-torque, torque, shape=(1,))
        self.reward_spec = Unbounded((1,))

    def fresh(self, params: TensorDictBase, rng: RowRNG) -> dict[str, Tensor]:
        """Any angle, and up to ``DEFAULT_Y`` radians per second either way."""
        x, y = self.DEFAULT_X, self.DEFAULT_Y
        return {"th": rng.uniform(-x, x), "thdot": rng.uniform(-y, y)}

    def advance(self, tensordict: TensorDictBase, rng: RowRNG) -> dict[str, Tensor]:
        """State and reward one step of ``dt`` seconds later (semi-implicit Euler)."""
        th, thdot, params = tensordict["th"], tensordict["thdot"], tensordict["params"]
        g, m, length, dt = (params[name] for name in ("g", "m", "l", "dt"))
        u = tensordict["action"].squeeze(-1).clamp(-params["max_torque"], params["max_torque"])
        cost = self.angle_normalize(th) ** 2 + 0.1 * thdot**2 + 0.001 * u**2
        pull = 3 * g / (2 * length) * th.sin() + 3.0 / (m * length**2) * u
        speed = (thdot + pull * dt).clamp(-params["max_speed"], params["max_speed"])
        reward = -cost.unsqueeze(-1)
        done = torch.zeros_like(reward, dtype=torch.bool)
        return {"th": self.angle_normalize(th + speed * dt), "thdot": speed, "reward": reward, "done": done}
