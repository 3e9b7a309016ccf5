"""Distances, angles, shaping, collisions and goals, as scenarios of VMAS and MPE compute them."""

import math

import torch
import torch.nn.functional as F

from marlenv.physics import distance, norm, offset, others, overlap, total

from .base import piece


@piece()
def distances_to_goals(self):
    return torch.linalg.vector_norm(self.agents.pos.unsqueeze(2) - self.goals.pos.unsqueeze(1), dim=-1)


@piece()
def manhattan_distances(self):
    return (self.agents.pos[:, :, None] - self.goals.pos[:, None]).norm(p=1, dim=-1)


@piece()
def largest_coordinate_distance(self):
    return torch.linalg.vector_norm(self.agents.pos[:, :3] - self.goals.pos[:, :3], ord=float("inf"), dim=-1)


@piece()
def cdist_to_goals(self):
    return torch.cdist(self.agents.pos, self.goals.pos)


@piece()
def nearest_goal(self):
    return torch.cdist(self.agents.pos, self.goals.pos).min(dim=2).values


@piece()
def which_goal_is_nearest(self):
    return torch.cdist(self.agents.pos, self.goals.pos).min(dim=-1)[1]


@piece()
def position_of_the_nearest_goal(self):
    at = distance(self.agents, self.goals).argmin(-1)
    return self.goals.pos.gather(1, at.unsqueeze(-1).expand(-1, -1, 2))


@piece()
def mean_field(self):
    return self.agents.pos.mean(dim=1, keepdim=True) - self.agents.pos


@piece()
def spread_of_the_team(self):
    return torch.cat([self.agents.pos.std(dim=1), self.agents.pos.var(dim=1, unbiased=False)], dim=-1)


@piece()
def bearing(self):
    way = offset(self.agents, self.goals)
    x, y = self.goals.pos[:, None, :, 0] - self.agents.pos[:, :, None, 0], way.flatten(2)[..., 1::2]
    return torch.atan2(y, x)


@piece()
def wrapped_angle(self):
    angle = torch.atan2(self.agents.pos[..., 1], self.agents.pos[..., 0]) * 5
    return torch.stack(
        (angle % (2 * math.pi), (angle + math.pi) % (2 * math.pi) - math.pi, torch.remainder(angle, -1.5)), -1
    )


@piece()
def unit_vectors(self):
    return F.normalize(self.goals.pos[:, :3] - self.agents.pos, dim=-1)


@piece()
def safe_unit_vectors(self):
    way = self.goals.pos[:, :3] - self.agents.pos
    return way / way.norm(dim=-1, keepdim=True).clamp(min=1e-6)


@piece()
def cosine_of_the_course(self):
    return F.cosine_similarity(self.agents.vel + 0.1, self.goals.pos[:, :3] - self.agents.pos, dim=-1)


@piece()
def dot_products(self):
    return torch.einsum("bad,bad->ba", self.agents.pos, self.agents.vel)


@piece()
def all_dot_products(self):
    return torch.einsum("bad,bgd->bag", self.agents.pos, self.goals.pos)


@piece()
def rotated_by_a_constant(self):
    turn = torch.tensor([[math.cos(0.3), -math.sin(0.3)], [math.sin(0.3), math.cos(0.3)]])
    return self.agents.pos @ turn.T


@piece()
def rotated_by_its_own_angle(self):
    angle = self.agents.pos[..., 0]
    turn = torch.stack((angle.cos(), -angle.sin(), angle.sin(), angle.cos()), -1).unflatten(-1, (2, 2))
    return (turn @ self.agents.pos.unsqueeze(-1)).squeeze(-1)


@piece()
def cross_products(self):
    p, q = self.agents.pos[:, 0], self.goals.pos[:, 0]
    return p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0]


@piece()
def in_a_triangle(self):
    a, b, c = self.goals.pos[:, :3].unbind(1)
    p = self.agents.pos[:, 0]

    def side(u, v):
        return (p[:, 0] - v[:, 0]) * (u[:, 1] - v[:, 1]) - (u[:, 0] - v[:, 0]) * (p[:, 1] - v[:, 1])

    signs = torch.stack((side(a, b), side(b, c), side(c, a)), -1)
    return (signs > 0).all(-1) | (signs < 0).all(-1)


@piece()
def soft_nearest(self):
    return torch.softmax(-3 * torch.cdist(self.agents.pos, self.goals.pos), dim=-1)


@piece()
def soft_minimum(self):
    return -torch.logsumexp(-5 * distance(self.agents, self.goals), dim=-1) / 5


@piece()
def bumps(self):
    return overlap(self.agents, self.agents).sum((1, 2)) * -0.5


@piece()
def bumps_by_hand(self):
    far = torch.cdist(self.agents.pos, self.agents.pos) + 10 * torch.eye(3)
    return (far < 0.2).any(-1).float() * -1.0


@piece()
def covered_goals(self):
    return (torch.cdist(self.agents.pos, self.goals.pos) < 0.5).any(dim=1).sum(-1)


@piece()
def all_on_goal(self):
    return (norm(self.agents.pos - self.goals.pos[:, :3]) < 1.0).all(-1)


@piece(last=torch.zeros(3))
def shaping(self):
    far = norm(self.agents.pos - self.goals.pos[:, :3])
    gain, self.memory.last = self.memory.last - far, far
    return gain * 2.5


@piece()
def reward_by_where(self):
    far = distance(self.agents, self.goals)[:, :, 0]
    return torch.where(far < 0.3, 1.0, torch.where(far > 1.2, -far, far * far * -0.1))


@piece()
def boundary_penalty(self):
    x = self.agents.pos.abs()
    penalty = torch.where(
        x < 0.9, torch.zeros_like(x), torch.where(x < 1.0, (x - 0.9) * 10, (2 * x - 2).exp().clamp(max=10))
    )
    return -penalty.sum(-1)


@piece()
def shared_by_all(self):
    return total(distance(self.agents, self.goals).amin(1)).unsqueeze(1).expand(-1, 3)


@piece()
def relative_to_the_others(self):
    return others(offset(self.agents, self.agents))


@piece()
def pairs_of_agents(self):
    pos = self.agents.pos
    return torch.stack([(pos[:, i] - pos[:, j]).norm(dim=-1) for i in range(3) for j in range(i + 1, 3)], dim=-1)


@piece()
def energy(self):
    return (self.agents.vel**2).sum(-1) * 0.5 + 9.81 * self.agents.pos[..., 1].clamp(min=0)


@piece()
def gaussian_field(self):
    away = self.agents.pos[:, :, None] - self.goals.pos[:, None]
    return torch.exp(-0.5 * away.pow(2).sum(-1) / 0.3**2).sum(-1)


@piece()
def polar(self):
    return torch.stack(
        (torch.hypot(*self.agents.pos.unbind(-1)), torch.atan2(*self.agents.pos.flip(-1).unbind(-1))), -1
    )


@piece()
def within_a_cone(self):
    heading = torch.tensor([0.6, 0.8])
    way = F.normalize(self.goals.pos[:, None] - self.agents.pos[:, :, None], dim=-1)
    return (way * heading).sum(-1).clamp(-1, 1).acos() < math.pi / 4
