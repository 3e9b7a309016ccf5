"""VMAS's ``controllers``: from the velocity that an action asks for to a force."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import SpecError
from marlenv.physics.vmas_compat.states import emptied


class VelocityController:
    """A PID controller of an agent's velocity; see :class:`marlenv.physics.VelocityController`, which is for groups."""

    def __init__(self, agent: Any, world: Any, ctrl_params: Any = (1, 0, 0), pid_form: str = "standard") -> None:
        gain, integral, derivative = ctrl_params
        if pid_form not in ("standard", "parallel"):
            raise SpecError(f"VelocityController: pid_form must be 'standard' or 'parallel', got {pid_form!r}")
        if pid_form == "parallel":
            integral, derivative = gain / integral if integral else 0.0, derivative / gain
        self.agent, self.world, self.dt = agent, world, world.dt
        self.ctrl_gain, self.integralTs, self.derivativeTs = gain, integral, derivative
        self.use_integrator = integral != 0
        self.integrator_windup_cutoff: float | None = None
        limits = [f for f in (agent.max_f, agent.f_range) if f is not None]
        if self.use_integrator and limits:
            self.integrator_windup_cutoff = 0.5 * min(limits) * integral / (self.dt * gain)
        elif self.use_integrator:
            warnings.warn(
                f"VelocityController: {agent} has no f_range or max_f: its integral may wind up", stacklevel=2
            )
        self.reset()

    def reset(self, index: int | None = None) -> None:
        """Forgets past errors, in one row or in all."""
        if index is None:
            rows = self.world.batch_dim, self.world.dim_p
            self.accum_errs = torch.zeros(rows, device=self.world.device)
            self.prev_err = torch.zeros(rows, device=self.world.device)
        else:
            self.accum_errs, self.prev_err = emptied(self.accum_errs, index), emptied(self.prev_err, index)

    def integralError(self, err: Tensor) -> Any:  # noqa: N802
        """What the integral adds."""
        if not self.use_integrator:
            return 0
        gathered, most = self.accum_errs + self.dt * err, self.integrator_windup_cutoff
        self.accum_errs = gathered if most is None else gathered.clamp(-most, most)
        return (1.0 / self.integralTs) * self.accum_errs

    def rateError(self, err: Tensor) -> Tensor:  # noqa: N802
        """What the derivative adds."""
        rate = self.derivativeTs * (err - self.prev_err) / self.dt
        self.prev_err = err
        return rate

    def process_force(self) -> None:
        """Turns the velocity in ``action.u`` into a force."""
        self.accum_errs, self.prev_err = self.accum_errs.to(self.world.device), self.prev_err.to(self.world.device)
        err = self.agent.action.u - self.agent.state.vel
        if not self.use_integrator and not self.derivativeTs:
            self.prev_err = err
            self.agent.action.u = self.ctrl_gain * err * self.agent.mass
            return
        self.agent.action.u = self.ctrl_gain * (err + self.integralError(err) + self.rateError(err)) * self.agent.mass
