"""Left to itself, our simulation drifts from VMAS no further than VMAS from itself when it starts one bit away."""

import warnings

import harness
import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import vmas

WORLDS = {
    "balance": {},
    "ball_passage": {"fixed_passage": True},
    "reverse_transport": {"package_mass": 5},
    "simple_tag": {},
    "transport": {"package_mass": 5},
    "wheel": {"line_mass": 3},
}


class Left(harness.Pair):
    """A pair that is together at the start, and then left to itself."""

    def follow(self):
        if not hasattr(self, "errors"):
            super().follow()


def drift(name, options, rows, steps):
    """How far ours and a twin one bit away are from VMAS after every step; ``[steps, rows]`` each."""
    pair = Left(name, options, rows)
    twin = vmas.make_env(name, num_envs=rows, seed=0, **options)
    twin.reset()
    for (_, body), copy in zip(pair.bodies, twin.world.entities, strict=True):
        for at in ("vel", "rot", "ang_vel"):
            setattr(copy.state, at, getattr(body.state, at).clone())
        copy.state.pos = torch.nextafter(body.state.pos, torch.tensor(9.0)) if copy.movable else body.state.pos.clone()
    place, ours, twins = pair.sim.stepper.plan.place, [], []
    for t in range(steps):
        actions = pair.aimed(t)
        for env in (pair.theirs, twin):
            env.step([action.clone() for action in actions])
        named = dict(zip(pair.agents_acting(), actions, strict=True))
        acts = {group: torch.stack([named[n] for n in names], 1) for group, names in pair.groups.items()}
        pair.state, *_ = pair.sim.transition(pair.state, acts)
        both = list(zip(pair.bodies, twin.world.entities, strict=True))
        ours.append(
            torch.stack([(pair.state["pos"][:, place[e.name]].T - b.state.pos).norm(dim=1) for (e, b), _ in both]).amax(
                0
            )
        )
        twins.append(torch.stack([(copy.state.pos - b.state.pos).norm(dim=1) for (_, b), copy in both]).amax(0))
    return torch.stack(ours), torch.stack(twins)


def compare(name, rows, steps, monkeypatch):
    monkeypatch.setattr(harness.core.World, "collides", harness.without_gate)
    with torch.no_grad():
        ours, twin = drift(name, WORLDS[name], rows, steps)
    assert twin.max() > 0
    for measure in (torch.mean, torch.median, torch.max):
        assert measure(ours[-1]) <= measure(twin[-1]), (name, measure(ours[-1]).item(), measure(twin[-1]).item())


@pytest.mark.reference
@pytest.mark.parametrize("name", ["simple_tag", "wheel"])
def test_a_short_free_run_stays_nearer_than_a_twin(name, monkeypatch):
    compare(name, 8, 25, monkeypatch)


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("name", WORLDS)
def test_a_free_run_stays_nearer_than_a_twin(name, monkeypatch):
    compare(name, 64, 100, monkeypatch)
