"""Left to itself, our simulation drifts from VMAS no further than VMAS from itself when it starts one bit away."""

import warnings

import harness
import pytest
import torch
from sizes import some

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import vmas

OPTIONS = {
    "ball_passage": {"fixed_passage": True},
    "discovery": {"targets_respawn": False},
    "het_mass": {"mass_noise": 0},
    "reverse_transport": {"package_mass": 5},
    "transport": {"package_mass": 5},
    "wheel": {"line_mass": 3},
}
"""Where more than the defaults makes bodies meet, and drift; and where targets would respawn at random."""


class Left(harness.Pair):
    """A pair that is together at the start, and then left to itself."""

    def follow(self):
        if not hasattr(self, "errors"):
            super().follow()


def drift(name, options, rows, steps):
    """How far ours and a twin one bit away are from VMAS after every step; ``[steps, rows]`` each."""
    pair = Left(name, options, rows)
    twin = vmas.make_env(name, num_envs=rows, seed=0, **options)
    pair.luck.given_to_vmas(twin)
    twin.reset()
    for (_, body), copy in zip(pair.bodies, twin.world.entities, strict=True):
        for at in ("vel", "rot", "ang_vel"):
            setattr(copy.state, at, getattr(body.state, at).clone())
        copy.state.pos = torch.nextafter(body.state.pos, torch.tensor(9.0)) if copy.movable else body.state.pos.clone()
    place, ours, twins = pair.sim.stepper.plan.place, torch.zeros(steps, rows), torch.zeros(steps, rows)
    bodies = zip(pair.bodies, twin.world.entities, strict=True)
    moving = [(ours_and_theirs, copy) for ours_and_theirs, copy in bodies if copy.movable or copy.rotatable]
    for t in range(steps):
        actions = pair.aimed(t)
        for env in (pair.theirs, twin):
            env.step([action.clone() for action in actions])
        named = dict(zip(pair.agents_acting(), actions, strict=True))
        acts = {group: torch.stack([named[n] for n in names], 1) for group, names in pair.groups.items()}
        pair.state, *_ = pair.sim.transition(pair.state, acts)
        for (entity, body), copy in moving:
            at = place[entity.name]
            mine = torch.cat((pair.state["pos"][:, at].T, pair.state["rot"][at, :, None]), 1)
            real, twins_own = (torch.cat((one.state.pos, one.state.rot), 1) for one in (body, copy))
            ours[t] = torch.maximum(ours[t], (mine - real).norm(dim=1))
            twins[t] = torch.maximum(twins[t], (twins_own - real).norm(dim=1))
    return ours, twins


def compare(name, rows, steps, monkeypatch):
    monkeypatch.setattr(harness.core.World, "collides", harness.without_gate)
    with torch.no_grad():
        ours, twin = drift(name, OPTIONS.get(name, {}), rows, steps)
    if not ours.any():
        return  # not a bit apart
    assert twin.max() > 0
    for measure in (torch.mean, torch.median, torch.max):
        assert measure(ours[-1]) <= measure(twin[-1]), (name, measure(ours[-1]).item(), measure(twin[-1]).item())


@pytest.mark.reference
@pytest.mark.parametrize("name", ["simple_tag", "wheel"])
def test_a_short_free_run_stays_nearer_than_a_twin(name, monkeypatch):
    compare(name, 8, 25, monkeypatch)


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.filterwarnings("ignore:Force limits not specified")
@pytest.mark.parametrize("name", some(harness.IN_VMAS, 5))
def test_a_free_run_stays_nearer_than_a_twin(name, sized, monkeypatch):
    compare(name, 64, sized(30, 100), monkeypatch)
