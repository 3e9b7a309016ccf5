"""Worlds of spheres are bit for bit those of VMAS."""

import pytest
import torch
import twins

BALL = {"radius": 0.1}
WORLDS = {
    "plain": ({}, [BALL] * 4, []),
    "substeps": ({"substeps": 5, "collision_force": 500}, [BALL] * 4, []),
    "margin": ({"contact_margin": 6e-3}, [BALL] * 4, []),
    "sizes": ({}, [{"radius": 0.05}, {"radius": 0.1}, {"radius": 0.2}], [{"radius": 0.3, "movable": True}]),
    "masses": (
        {},
        [{"radius": 0.1, "mass": 1.5}, {"radius": 0.1, "mass": 7.0}],
        [{"radius": 0.1, "mass": 0.3, "movable": True}],
    ),
    "obstacles": ({}, [BALL] * 3, [{"radius": 0.2}] * 2),
    "no contacts": ({}, [{"radius": 0.1, "collide": False}] * 3, []),
    "drag": ({"drag": 0.1}, [{"radius": 0.1, "drag": 0.5}, BALL], []),
    "walls": ({"x_semidim": 0.2, "y_semidim": 0.35}, [BALL] * 3, [{"radius": 0.1}]),
    "one wall": ({"y_semidim": 0.2}, [BALL] * 3, []),
    "gravity": ({"gravity": (0.1, -0.5)}, [BALL, {"radius": 0.1, "mass": 2.0}], []),
    "speed": ({}, [{"radius": 0.1, "max_speed": 0.3}, {"radius": 0.1, "v_range": 0.2}, BALL], []),
    "force": ({}, [{"radius": 0.1, "f_range": 0.4}, {"radius": 0.1, "max_f": 0.5}, BALL], []),
    "friction": ({"linear_friction": 0.1, "drag": 0.0}, [BALL, {"radius": 0.1, "linear_friction": 0.02}], []),
    "gravities": (
        {},
        [{"radius": 0.1, "gravity": (0.2, 0.0)}, BALL],
        [{"radius": 0.2, "movable": True, "gravity": (0.0, -1.0)}],
    ),
    "held": ({}, [{"radius": 0.1, "movable": False}, BALL, {"radius": 0.1, "rotatable": False}], []),
}


@pytest.mark.reference
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("gate", [True, False])
def test_a_sphere_world_is_vmas_bit_for_bit(name, gate, monkeypatch):
    if not gate:
        monkeypatch.setattr(twins.core.World, "collides", twins.without_gate)
    pair = twins.Twins(*WORLDS[name])
    g = torch.Generator().manual_seed(1)
    agents = len(WORLDS[name][1])
    for t in range(100):
        pos = pair.state["pos"][:, :agents].permute(2, 1, 0)
        u = torch.rand(64, agents, 2, generator=g) * 2 - 1 if t % 2 else (-3 * pos).clamp(-1, 1)
        pair.step(u)
        assert pair.difference() == 0, f"after {t + 1} steps"


def test_spheres_in_contact_push_each_other_apart_with_opposite_forces():
    pair = twins.Twins({"drag": 0.0}, [{"radius": 0.1, "mass": 1.0}, {"radius": 0.1, "mass": 3.0}], rows=1)
    pair.state |= {"pos": torch.tensor([[[0.0], [0.15]], [[0.0], [0.0]]]), "vel": torch.zeros(2, 2, 1)}
    state, *_ = pair.sim.transition(pair.state, {"agents": torch.zeros(1, 2, 2)})
    (left, right), (up, down) = state["vel"][:, :, 0]
    assert left.item() == pytest.approx(-100 * 0.05 * 0.1, rel=1e-6)  # stiffness, depth, seconds
    assert left.item() == pytest.approx(-3 * right.item(), rel=1e-6)
    assert (up.item(), down.item()) == (0.0, 0.0)


def test_bodies_at_the_same_place_do_not_push():
    pair = twins.Twins({}, [BALL] * 2, rows=1)
    pair.state |= {"pos": torch.zeros(2, 2, 1), "vel": torch.zeros(2, 2, 1)}
    state, *_ = pair.sim.transition(pair.state, {"agents": torch.zeros(1, 2, 2)})
    assert state["pos"].abs().max().item() == 0


def test_friction_stops_a_body_and_does_not_turn_it_round():
    pair = twins.Twins({"linear_friction": 0.1, "drag": 0.0}, [BALL], rows=2)
    pair.state |= {"vel": torch.tensor([[[0.005, 1.0]], [[0.0, 0.0]]]), "pos": torch.zeros(2, 1, 2)}
    state, *_ = pair.sim.transition(pair.state, {"agents": torch.zeros(2, 1, 2)})
    assert state["vel"][0, 0].tolist() == pytest.approx([0.0, 1.0 - 0.1 * 0.1], abs=1e-7)
