"""Indices, random numbers, what is said, and what is remembered."""

import torch
import torch.nn.functional as F

from marlenv.physics import distance

from .base import A, G, piece


@piece(counter=torch.tensor(0))
def a_counter(self):
    self.memory.counter = self.memory.counter + 1
    return self.memory.counter % 5


@piece(timer=torch.zeros(A))
def a_timer_per_agent(self):
    near = distance(self.agents, self.goals).amin(-1) < 0.5
    self.memory.timer = torch.where(near, self.memory.timer + 1.0, torch.zeros_like(self.memory.timer))
    return self.memory.timer


@piece(visited=torch.zeros(G, dtype=torch.bool))
def visited_goals(self):
    self.memory.visited = self.memory.visited | (distance(self.agents, self.goals) < 0.4).any(1)
    return self.memory.visited.sum(-1)


@piece(closest=torch.tensor(float("inf")))
def the_closest_ever(self):
    self.memory.closest = torch.minimum(self.memory.closest, distance(self.agents, self.goals).amin((1, 2)))
    return self.memory.closest


@piece(track=torch.zeros(4, A, 2))
def the_last_positions(self):
    self.memory.track = torch.cat((self.memory.track[:, 1:], self.agents.pos.unsqueeze(1)), 1)
    return self.memory.track.mean(1)


@piece(ring=torch.zeros(5, 2), head=torch.tensor(0))
def a_ring_buffer(self):
    at = self.memory.head.clamp(0, 4)
    here = (torch.arange(5) == at.unsqueeze(-1)).float()
    self.memory.ring = torch.where(here.unsqueeze(-1) > 0, self.agents.pos[:, :1], self.memory.ring)
    self.memory.head = (self.memory.head + 1) % 5
    return self.memory.ring.sum(1)


@piece(smooth=torch.zeros(A, 2))
def a_moving_average(self):
    self.memory.smooth = 0.9 * self.memory.smooth + 0.1 * self.agents.vel
    return self.memory.smooth


@piece(phase=torch.tensor(0))
def phases(self):
    done = distance(self.agents, self.goals)[:, 0, 0] < 1.0
    self.memory.phase = torch.where(done & (self.memory.phase < 3), self.memory.phase + 1, self.memory.phase)
    return (self.memory.phase.unsqueeze(-1) == torch.arange(4)).float()


@piece(target=torch.tensor(0))
def a_target_by_number(self):
    at = self.memory.target.clamp(0, G - 1)
    self.memory.target = (self.memory.target + 1) % G
    return self.goals.pos.gather(1, at.reshape(-1, 1, 1).expand(-1, 1, 2)).squeeze(1)


@piece()
def the_goal_of_a_row(self):
    at = self.randint(0, G)
    return self.goals.pos[torch.arange(self.rows), at]


@piece()
def goals_in_random_order(self):
    order = self.permutation(G)
    return self.goals.pos.gather(1, order.unsqueeze(-1).expand(-1, -1, 2))


@piece()
def a_table_by_data(self):
    return self.table[self.randint(0, G, A)]


@piece()
def a_table_by_two_numbers(self):
    at = ((self.agents.pos + 1) * 2).long().clamp(0, 2)
    return self.table[at[..., 0], at[..., 1]]


@piece()
def an_embedding(self):
    return F.embedding(distance(self.agents, self.goals).argmin(-1), self.table)


@piece()
def noise(self):
    return self.agents.pos + 0.1 * self.normal(A, 2) + self.uniform(-0.1, 0.1, A, 2)


@piece()
def a_coin_per_row(self):
    return torch.where(self.uniform() < 0.3, 1.0, -1.0)


@piece()
def dropped_sensors(self):
    return torch.where(self.uniform(0, 1, A, 1) < 0.25, torch.zeros_like(self.agents.pos), self.agents.pos)


@piece()
def what_is_said(self):
    return self.agents.said.flatten(1)


@piece()
def the_loudest_word(self):
    return self.agents.said.argmax(-1)


@piece()
def heard_from_the_others(self):
    near = torch.cdist(self.agents.pos, self.agents.pos) < 1.0
    return (near.unsqueeze(-1) * self.agents.said.unsqueeze(1)).sum(2)


@piece()
def by_constant_indices(self):
    return torch.cat((self.agents.pos[:, [2, 0]], self.goals.pos[:, torch.tensor([1, 3])]), -1)


@piece()
def by_a_constant_mask(self):
    return self.goals.pos[:, torch.tensor([True, False, True, True])]


@piece()
def added_into_slots(self):
    return torch.zeros(self.rows, G, 2).index_add(1, torch.tensor([0, 2, 2]), self.agents.pos, alpha=0.5)


@piece()
def scattered_by_data(self):
    at = distance(self.agents, self.goals).argmin(-1)
    return self.zeros(G).scatter_add(1, at, self.agents.pos[..., 0])


@piece()
def the_largest_in_each_slot(self):
    at = distance(self.agents, self.goals).argmin(-1)
    return self.zeros(G).scatter_reduce(1, at, self.agents.pos[..., 0], reduce="amax", include_self=False)


@piece()
def claimed_by_the_first(self):
    at = distance(self.agents, self.goals).argmin(-1)
    claimed = torch.stack([(at[:, :i] == at[:, i : i + 1]).any(-1) for i in range(A)], -1)
    return torch.where(claimed, 0.0, 1.0)


@piece()
def one_agent_another_rule(self):
    reward = torch.stack([self.agents.pos[:, i, 0] if i else -self.agents.pos[:, i, 1] for i in range(A)], 1)
    return reward - reward.mean(1, keepdim=True)


@piece()
def after_some_steps(self):
    return torch.where(self.steps > 3, self.agents.pos[:, 0, 0], torch.zeros(self.rows))


@piece()
def every_other_step(self):
    return (self.steps % 2 == 0).float() * self.agents.pos[:, :, 0].sum(-1)


@piece()
def discounted(self):
    return 0.9 ** self.steps.float()
