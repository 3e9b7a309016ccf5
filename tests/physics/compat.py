"""A scenario file in VMAS and through ``load``, side by side, with the same random numbers."""

from __future__ import annotations

import importlib.util
import random
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from marlenv.physics.vmas_compat import load

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import vmas
    from vmas.simulator import core
    from vmas.simulator.environment import Environment

HOME = Path(vmas.__file__).parent / "scenarios"
FILES = {p.stem: p for p in sorted([*HOME.glob("*.py"), *HOME.glob("*/*.py")]) if p.stem != "__init__"}
"""All scenario files of the vmas that is installed, by name."""


def without_gate(self, a, b):
    """VMAS's ``World.collides`` without its look at the whole batch."""
    if a is b or not a.collides(b) or not b.collides(a):
        return False
    if not (a.movable or a.rotatable or b.movable or b.rotatable):
        return False
    return {type(a.shape), type(b.shape)} in self._collidable_pairs


def in_vmas(path, rows, seed, **options):
    """VMAS's own env of a file, all its generators seeded."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    Environment.vmas_random_state[:] = [torch.get_rng_state(), np.random.get_state(), random.getstate()]
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"their_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vmas.make_env(module.Scenario(), num_envs=rows, seed=seed, **options)


class Beside:
    """Both, from the same seed.

    Args:
        path: the file; ours is loaded from a copy in ``folder``.
        folder: for the copy.
        rows: how many.
        seed: of both.
        mode: options for both envs.
        tier: how fast ours is.
        stiff: how many times further off than the bounds a step may end.
        options: of the scenario.

    """

    def __init__(self, path, folder, rows=16, seed=3, mode=None, stiff=0, tier="none", **options):
        (folder / "scenarios").mkdir()
        for one in path.parent.glob(f"{path.stem}*.py"):  # with its helpers
            shutil.copy(one, folder / "scenarios" / one.name)
        if HOME in path.parents:  # maps, which road_traffic looks for beside its folder
            (folder / "scenarios_data").symlink_to(HOME.parent / "scenarios_data")
        self.stiff, self.seed, mode = stiff, seed, mode or {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.theirs = in_vmas(path, rows, seed, **mode, **options)
            self.ours = load(
                folder / "scenarios" / path.name, rows, seed=seed, randomness="vmas", compile=tier, **mode, **options
            )
        self.coin = torch.Generator().manual_seed(seed)
        self.errors = {}
        self.theirs.seed(seed)
        seen, infos = self.theirs.reset(return_info=True)
        told = self.ours.environment.reset()
        self._told(seen, None, None, infos, told)
        self._bodies()

    @property
    def pairs(self):
        return list(zip(self.ours.world.entities, self.theirs.world.entities, strict=True))

    def restart(self, row):
        """A new episode in one row of both."""
        seen, infos = self.theirs.reset_at(row, return_info=True)
        told = self.ours.environment.reset(torch.arange(self.theirs.num_envs) == row)
        self._told(seen, None, None, infos, told)
        self._bodies()

    def actions(self, t):
        """Random ones, or towards the middle, where the others are."""
        out = []
        for agent in self.theirs.agents:
            size, rows = self.theirs.get_agent_action_size(agent), self.theirs.num_envs
            if not self.theirs.continuous_actions:
                space = self.theirs.get_agent_action_space(agent)
                n = torch.as_tensor(space.nvec if hasattr(space, "nvec") else [space.n])
                out.append((torch.rand(rows, size, generator=self.coin) * n).long())
                continue
            action = torch.rand(rows, size, generator=self.coin)
            most = agent.action.u_range_tensor
            action[:, : len(most)] = (2 * action[:, : len(most)] - 1) * most
            if t // 8 % 2 and agent.movable and len(most) > 1:
                action[:, :2] = (-3 * agent.state.pos).clamp(-1, 1) * most[:2]
            out.append(action)
        return out

    def step(self, t):
        """Both take a step; raises unless they agree. Then ours stands where theirs does."""
        actions = self.actions(t)
        places = {id(agent): i for i, agent in enumerate(self.ours.environment.agents)}
        joined = [
            torch.stack([actions[places[id(agent)]] for agent in agents], 1)
            for _, agents in self.ours.environment.controls
        ]
        seen, rewards, dones, infos = self.theirs.step([action.clone() for action in actions])
        told = self.ours.environment.step(joined)
        self._told(seen, rewards, dones, infos, told)
        self._bodies()
        for ours, theirs in self.pairs:
            for name in ("pos", "vel", "rot", "ang_vel"):
                setattr(ours.state, name, getattr(theirs.state, name).clone())

    def run(self, steps=30, restarts=(9, 20)):
        for t in range(steps):
            self.step(t)
            if t in restarts:
                self.restart(t % self.theirs.num_envs)
        return self.errors

    def _told(self, seen, rewards, dones, infos, told):
        if dones is not None:
            self._compare("done", told.over, dones)
            assert told.over.dtype == dones.dtype
            for ours, theirs in zip(told.rewards, rewards, strict=True):
                self._compare("reward", ours, theirs.flatten())
        for ours, theirs in zip(told.observations, seen, strict=True):
            self._compare("observation", ours, theirs)
        for ours, theirs in zip(told.infos, infos, strict=True):
            self._compare("info", ours, theirs)

    def _bodies(self):
        for ours, theirs in self.pairs:
            assert ours.name == theirs.name
            for name in ("pos", "vel", "rot"):
                self._compare(name, getattr(ours.state, name), getattr(theirs.state, name))

    def _compare(self, what, ours, theirs):
        if isinstance(theirs, dict):
            assert set(ours) == set(theirs)
            for name in theirs:
                self._compare(what, ours[name], theirs[name])
            return
        assert ours.shape == theirs.shape, (what, ours.shape, theirs.shape)
        ours, theirs = ours.float(), theirs.float()
        assert torch.equal(ours.isnan(), theirs.isnan()), what
        ours, theirs = ours.nan_to_num(), theirs.nan_to_num()
        worst = ((ours - theirs).abs() / theirs.abs().clamp(min=1.0)).max().item() if ours.numel() else 0.0
        self.errors[what] = max(self.errors.get(what, 0.0), worst)
        most = 1e-4 if what == "observation" else 1e-5
        assert worst <= most * (1 + self.stiff), (what, worst)


__all__ = ["FILES", "Beside", "core", "without_gate"]
