"""Every reduction, sorting, small networks, and other ways to shape numbers."""

import torch
import torch.nn.functional as F

from marlenv.physics import distance

from .base import piece


def _far(self):
    return distance(self.agents, self.goals)


@piece()
def sums(self):
    return torch.stack(
        (_far(self).sum((1, 2)), _far(self).mean((1, 2)), _far(self).flatten(1).prod(1), _far(self).flatten(1).amax(1)),
        -1,
    )


@piece()
def norms(self):
    return torch.stack([_far(self).flatten(1).norm(p=p, dim=1) for p in (1, 2, 3, float("inf"), 0)], -1)


@piece()
def spreads(self):
    return torch.cat(
        (_far(self).var(1), _far(self).std(2), _far(self).std((1, 2), unbiased=False, keepdim=True).squeeze(2)), -1
    )


@piece()
def medians(self):
    return torch.cat((_far(self).median(1)[0], _far(self).median(2, keepdim=True).values.squeeze(2)), -1)


@piece()
def quantile_by_sorting(self):
    return _far(self).flatten(1).sort(dim=1).values[:, [0, 3, 6, 9, 11]]


@piece()
def sorted_both_ways(self):
    return torch.cat((_far(self).sort(dim=-1)[0], _far(self).sort(dim=-1, descending=True)[0]), -1)


@piece()
def ranks(self):
    return _far(self).argsort(dim=1).argsort(dim=1)


@piece()
def two_nearest(self):
    return _far(self).topk(2, dim=-1, largest=False).values


@piece()
def two_nearest_positions(self):
    at = _far(self).topk(2, dim=-1, largest=False).indices
    return torch.take_along_dim(self.goals.pos.unsqueeze(1), at.unsqueeze(-1), dim=2)


@piece()
def goals_by_distance(self):
    at = torch.cdist(self.agents.pos[:, :1], self.goals.pos).squeeze(1).argsort(-1)
    return self.goals.pos.gather(1, at.unsqueeze(-1).expand(-1, -1, 2))


@piece()
def running_totals(self):
    return torch.cat((_far(self).cumsum(2), _far(self).cumprod(2), _far(self).cummax(2)[0]), 2)


@piece()
def counts(self):
    near = _far(self) < 1.0
    return torch.stack(
        (near.sum((1, 2)), near.any(1).sum(1), near.all(2).long().sum(1), torch.count_nonzero(near, dim=(1, 2))), -1
    )


@piece()
def best_and_where(self):
    best, at = _far(self).max(dim=1)
    return torch.cat((best, at.float(), _far(self).argmax(1).float(), _far(self).argmin(2).float()), -1)


@piece()
def largest_of_two(self):
    return torch.maximum(_far(self)[:, 0], _far(self)[:, 1]) - torch.min(_far(self)[:, 0], _far(self)[:, 2])


@piece()
def limits_per_agent(self):
    return torch.clamp(self.agents.pos, min=-torch.tensor([0.5, 0.25]), max=torch.tensor([0.5, 0.75]))


@piece()
def rounded(self):
    return torch.cat(
        (
            torch.round(self.agents.pos, decimals=1),
            self.agents.pos.round(),
            (self.agents.pos * 4).floor(),
            self.agents.pos.trunc(),
        ),
        -1,
    )


@piece()
def grid_cells(self):
    cell = ((self.agents.pos + 1) * 5).long().clamp(0, 9)
    return cell[..., 0] * 10 + cell[..., 1]


@piece()
def cells_and_rest(self):
    cell = (self.agents.pos * 7).long()
    return torch.cat(
        (cell // 3, cell % 3, torch.div(cell, 2, rounding_mode="trunc"), torch.div(cell, -2, rounding_mode="floor")), -1
    )


@piece()
def discretised(self):
    return torch.bucketize(self.agents.pos.contiguous(), torch.tensor([-0.5, 0.0, 0.5]))


@piece()
def one_hot(self):
    return F.one_hot((self.agents.pos[..., 0] > 0).long(), 2)


@piece()
def bits_of_a_number(self):
    n = ((self.agents.pos[..., 0] + 1) * 100).long().clamp(0, 255)
    return torch.stack([(n >> k) & 1 for k in range(8)], -1)


@piece()
def scaled_sums(self):
    p, v = self.agents.pos, self.agents.vel
    return torch.cat(
        (
            torch.add(p, v, alpha=0.1),
            torch.sub(p, v, alpha=2),
            torch.addcmul(p, v, p, value=-0.5),
            torch.lerp(p, v, 0.25),
        ),
        -1,
    )


@piece()
def a_linear_layer(self):
    return F.linear(torch.cat((self.agents.pos, self.agents.vel), -1), self.weights)


@piece()
def a_small_network(self):
    x = torch.cat((self.agents.pos, self.agents.vel), -1)
    hidden = torch.tanh(F.linear(x, self.weights, torch.ones(5) * 0.1))
    return F.relu(F.linear(hidden, self.weights.T.contiguous()))


@piece()
def a_network_of_modules(self):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ELU(), torch.nn.Linear(6, 2), torch.nn.Softplus())
    return layers(torch.cat((self.agents.pos, self.agents.vel), -1))


@piece()
def attention(self):
    weights = torch.softmax(self.agents.pos @ self.goals.pos.transpose(1, 2) / 2**0.5, dim=-1)
    return weights @ self.goals.pos


@piece()
def batched_products(self):
    return torch.bmm(self.agents.pos.transpose(1, 2), self.agents.vel)


@piece()
def quadratic_form(self):
    return torch.einsum("bad,de,bae->ba", self.agents.pos, torch.tensor([[2.0, 0.5], [0.5, 1.0]]), self.agents.pos)


@piece()
def through_flat_rows(self):
    flat = self.agents.pos.reshape(-1, 2)
    return (flat * torch.tensor([2.0, 3.0])).reshape(-1, 3, 2)


@piece()
def flattened_and_back(self):
    return self.agents.pos.flatten(0, 1).norm(dim=-1).view(-1, 3)


@piece()
def flat_per_row(self):
    return self.agents.pos.reshape(self.agents.pos.shape[0], -1)


@piece()
def filled_with_rows(self):
    return torch.cat((self.agents.pos, torch.ones(self.agents.pos.shape[0], 3, 1), torch.zeros(self.rows, 3, 1)), -1)


@piece()
def repeated(self):
    return torch.cat((self.agents.pos.repeat(1, 2, 1), self.goals.pos[:, :3].repeat_interleave(2, dim=1)), -1)


@piece()
def neighbours_on_a_ring(self):
    return torch.cat((self.agents.pos.roll(1, dims=1), self.agents.pos.roll(-1, dims=1), self.agents.pos.flip(1)), -1)


@piece()
def differences(self):
    return torch.cat((self.goals.pos.diff(dim=1), self.goals.pos[:, 1:] - self.goals.pos[:, :-1]), -1)


@piece()
def padded(self):
    return F.pad(self.agents.pos, (0, 1, 1, 0), value=-1.0)


@piece()
def where_it_is_not_a_number(self):
    ratio = self.agents.pos[..., 0] / (self.agents.pos[..., 1].abs() * 0)
    return torch.stack(
        (torch.nan_to_num(ratio, nan=0.0, posinf=1.0, neginf=-1.0), ratio.isnan().float(), ratio.isinf().float()), -1
    )


@piece()
def infinities_in_a_mask(self):
    far = torch.where(_far(self) < 1.0, _far(self), float("inf"))
    nearest = far.amin(-1)
    return torch.where(nearest.isinf(), -1.0, nearest)


@piece()
def a_mask_times_what_may_be_infinite(self):
    inverse = 1.0 / (self.agents.vel.norm(dim=-1) * 0)
    return torch.nan_to_num((self.agents.pos[..., 0] > 0.5) * inverse, nan=-2.0, posinf=3.0)


@piece()
def wide_numbers(self):
    return (self.agents.pos.double() * 3).sum(-1).float()


@piece()
def in_place_on_its_own(self):
    out = self.agents.pos * 2
    out += 1
    out *= self.agents.vel
    return out.clamp_(-1, 1)
