"""From the action of a policy to the physical action ``u`` of an agent, and to what it says.

Continuous actions are the numbers of ``u`` in ``[-u_range, u_range]``, then one number in ``[0, 1]`` per channel.
Discrete ones choose from ``nvec`` values for each number: 0 is the middle one (stay) where there is a middle, the
others follow from the lowest to the highest; what is said is one channel. Flat discrete actions count all combinations,
the last entry fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from marlenv.errors import NotInSpec, ShapeError
from marlenv.physics.laws.entities import Agent
from marlenv.physics.laws.state import single
from marlenv.physics.laws.world_plan import PerEntity
from marlenv.rng import RowRNG

Mode: TypeAlias = Literal["continuous", "multidiscrete", "discrete"]


class Control:
    """The actions of one group.

    Args:
        group: its name, for messages.
        agents: the descriptions of its agents; they have as many actions each.
        channels: how many channels the world has.
        mode: the kind of actions.
        clamp: whether continuous actions outside their range are cut to it; otherwise they act as they are.

    """

    def __init__(self, group: str, agents: Sequence[Agent], channels: int, mode: Mode, *, clamp: bool = False) -> None:
        first = agents[0]
        self.group, self.mode, self.clamp = group, mode, clamp
        self.agents, self.size = len(agents), first.size
        self.channels = 0 if first.silent else channels
        """How many numbers it says."""
        self.nvec = tuple(first.nvec or (3,) * self.size)
        """How many choices each number of a discrete action has, without what is said."""
        self.sizes = self.choices if mode == "multidiscrete" else (math.prod(self.choices),)
        """How many choices each number of an action has, if it is discrete."""
        self.range, self.multiplier, self.noise = (
            PerEntity(
                [agent.per_action(at)[i] for i in range(self.size) for agent in agents] or [0.0],
                lead=(max(self.size, 1),),
            )
            for at in ("u_range", "u_multiplier", "u_noise")
        )
        self.c_noise = PerEntity([agent.c_noise for agent in agents])

    @property
    def choices(self) -> tuple[int, ...]:
        """The sizes of a multi-discrete action, what is said included."""
        return (*self.nvec, self.channels) if self.channels else self.nvec

    @property
    def width(self) -> int:
        """How many numbers the action of an agent has."""
        return {"continuous": self.size + self.channels, "multidiscrete": len(self.choices), "discrete": 1}[self.mode]

    def bounds(self) -> tuple[Tensor, Tensor]:
        """The lowest and the highest continuous actions; ``[A, width]`` each."""
        high = (
            self.range.on(torch.zeros((), dtype=torch.float32, device="cpu"))
            .expand(max(self.size, 1), self.agents, 1)[: self.size, :, 0]
            .t()
        )
        speech = torch.ones(self.agents, self.channels, dtype=torch.float32, device="cpu")
        return torch.cat((-high, speech * 0), -1), torch.cat((high, speech), -1)

    def check(self, action: Tensor, names: Sequence[str], where: Tensor | None = None) -> None:
        """Raises where numbers are not finite, or choices are none. It looks at data, which nothing else here does.

        Args:
            action: ``[B, A, width]``; flat discrete actions may be ``[B, A]``.
            names: of the agents.
            where: the rows that count, bool ``[B]``; all when left out.

        Raises:
            NotInSpec: with the row and the agent.

        """
        x = action.detach() if action.requires_grad else action
        if self.mode == "continuous":
            if not x.numel() or math.isfinite(x.sum().item()):
                return
            bad, allowed = ~x.isfinite(), "a finite number"
        else:
            sizes = self.sizes
            most = sizes[0] if len(sizes) == 1 else torch.tensor(sizes, device=x.device)
            bad, allowed = (x < 0) | (x >= most), f"a choice below {sizes[0] if len(sizes) == 1 else list(sizes)}"
        bad = bad if where is None else bad & where.reshape(-1, *(1,) * (bad.ndim - 1))
        if found := bad.nonzero()[:1].tolist():
            row, agent, *number = found[0]
            which = "".join(f", number {i}" for i in number)
            raise NotInSpec(
                f"actions of {self.group!r}: row {row}, agent {names[agent]!r}{which}: expected {allowed}, got "
                f"{x[tuple(found[0])].item()}"
            )

    # --- decoding --------------------------------------------------------------------------------

    def decode(self, action: Tensor, rng: RowRNG) -> tuple[Tensor, Tensor | None]:
        """The physical action ``[n, A, B]`` and what is said ``[C, A, B]``, None for silent groups.

        Args:
            action: ``[B, A, width]``; flat discrete actions may be ``[B, A]``.
            rng: where noise comes from.

        """
        if self.mode == "discrete" and action.ndim == 2:
            action = action.unsqueeze(-1)
        if action.ndim != 3 or action.shape[1:] != (self.agents, self.width):
            expected = ["B", self.agents, self.width]
            raise ShapeError(f"actions of {self.group!r}: expected {expected}, got {list(action.shape)}")
        last = action.permute(2, 1, 0)
        if self.mode == "continuous" and last.dtype != torch.float32:
            last = last.float()
        u, said = self._continuous(last) if self.mode == "continuous" else self._discrete(last)
        if self.multiplier.same != 1:
            u = u * self.multiplier.on(u)
        if self.noise.same != 0:
            u = u + rng.normal(shape=u.shape[:2], rows_last=True) * self.noise.on(u)
        if said is not None and self.c_noise.same != 0:
            said = said + rng.normal(shape=said.shape[:2], rows_last=True) * self.c_noise.on(said)
        return u, said

    def _continuous(self, action: Tensor) -> tuple[Tensor, Tensor | None]:
        u, said = action[: self.size], action[self.size :] if self.channels else None
        if self.clamp:
            most = self.range.on(u)
            u, said = u.clamp(-most, most), None if said is None else said.clamp(0.0, 1.0)
        return u, said

    def _discrete(self, action: Tensor) -> tuple[Tensor, Tensor | None]:
        index = [action[i] for i in range(self.width)]
        if self.mode == "discrete":
            flat, index = action[0], []
            for i in range(len(self.choices)):
                index.append(flat // math.prod(self.choices[i + 1 :]))
                flat = flat % math.prod(self.choices[i + 1 :])
        steps = [self._step(at, n) for at, n in zip(index, self.nvec, strict=False)]
        most = self.range.on(torch.zeros((), dtype=torch.float32, device=action.device))
        shares = torch.stack(steps) if steps else action[:0]
        u = single(shares * (2 * most) - most)
        if not self.channels:
            return u, None
        channel = torch.arange(self.channels, device=action.device).reshape(-1, 1, 1)
        return u, (index[-1] == channel).to(u.dtype)

    @staticmethod
    def _step(index: Tensor, n: int) -> Tensor:
        """Choice number ``index`` of ``n`` as a share of the range from lowest to highest, 0 being the middle."""
        if n % 2:
            low = ((index > 0) & (index <= n // 2)).to(index.dtype)
            index = torch.where(index == 0, n // 2, index - low)
        return index / (n - 1)
