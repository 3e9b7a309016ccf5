"""What cannot be machine code, with the words that say so."""

import random
import time

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .base import A, mistake, piece

ROWS = "takes rows apart or puts them together"


@mistake(ROWS)
def looks_at_a_number(self):
    return self.agents.pos if self.agents.pos.sum((1, 2)).unbind()[0].item() > 0 else self.agents.vel


@mistake(ROWS)
def a_condition_on_all_rows(self):
    return self.agents.pos if (self.agents.pos > 0).any() else self.agents.vel


@mistake("looks at the numbers of the data (.numpy()")
def through_numpy(self):
    return torch.from_numpy(np.tanh(self.agents.pos.numpy()))


@mistake("picks entries with a mask that is data")
def a_boolean_index(self):
    return self.agents.pos[self.agents.pos > 0]


@mistake("looks at the numbers of the data")
def where_it_holds(self):
    return (self.agents.pos > 0).nonzero()


class _Names(TorchDispatchMode):
    """Notes what is done to tensors, by its name."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **kwargs or {})


with _Names() as names:
    torch.zeros(2)[torch.ones(2, dtype=torch.bool)] = 1.0
FILLS = "index_put_.default" not in names.seen
"""Whether a number written by a mask is a fill, as it is since PyTorch 2.15, and so has machine code."""


@(piece() if FILLS else mistake("writes into a tensor"))
def a_write_by_mask(self):
    out = torch.zeros_like(self.agents.pos)
    out[self.agents.pos > 0] = 1.0
    return out


@mistake("writes into a tensor")
def a_write_into_a_column(self):
    out = self.agents.pos * 1.0
    out[:, 0] = self.agents.vel[:, 0]
    return out


@mistake("writes into a tensor")
def a_write_into_its_own_zeros(self):
    out = torch.zeros(self.rows, A)
    out[:, 0] = self.agents.pos[:, 0, 0]
    return out


@mistake("writes into a tensor")
def a_write_into_the_state(self):
    return self.agents.pos.mul_(2)


@mistake(ROWS)
def the_mean_of_the_batch(self):
    return self.agents.pos - self.agents.pos.mean()


@mistake(ROWS)
def normalised_over_the_batch(self):
    return (self.agents.pos - self.agents.pos.mean(0)) / self.agents.pos.std(0)


@mistake("takes one row")
def the_first_row(self):
    return self.agents.pos - self.agents.pos[0]


@mistake("takes some of the rows")
def half_of_the_rows(self):
    return torch.cat((self.agents.pos[:5], self.agents.pos[5:]))


@mistake("turns the rows around")
def rows_turned_around(self):
    return self.agents.pos.flip(0)


@mistake("moves numbers from row to row")
def rows_rolled(self):
    return self.agents.pos.roll(1, 0)


@mistake("pairs rows with rows")
def rows_against_rows(self):
    x = self.agents.pos[:, 0, 0]
    return (x.unsqueeze(0) - x.unsqueeze(1)).sum(1)


@mistake("mixes rows with other dimensions")
def reshaped_the_wrong_way(self):
    return self.agents.pos.reshape(A, -1, 2).movedim(1, 0)


@mistake(ROWS)
def rows_multiplied_with_rows(self):
    return self.agents.pos[:, 0] @ (self.agents.pos[:, 0].T @ self.agents.pos[:, 0])


@mistake(ROWS)
def sorted_rows(self):
    return self.agents.pos.sort(0)[0]


@mistake(ROWS)
def a_running_sum_of_rows(self):
    return self.agents.pos.cumsum(0)


@mistake("depends on the number of rows")
def the_number_of_rows(self):
    return self.agents.pos / self.agents.pos.shape[0]


@mistake("depends on the number of rows")
def the_number_of_rows_of_the_scenario(self):
    return self.agents.pos * (1 + 1 / self.rows)


@mistake("differs from row to row")
def the_row_as_a_number(self):
    return self.agents.pos[..., 0] + torch.arange(self.rows).unsqueeze(1)


@mistake("differs from row to row")
def noise_of_torch_for_all_rows(self):
    return self.agents.pos + torch.randn(self.rows, A, 2)


@mistake("draws from PyTorch's generator")
def noise_like_the_data(self):
    return self.agents.pos + torch.randn_like(self.agents.pos)


@mistake("draws from PyTorch's generator")
def coins_of_torch(self):
    return torch.bernoulli(self.agents.pos.sigmoid())


@mistake("draws from a global generator")
def noise_of_torch(self):
    return self.agents.pos + torch.randn(A, 2)


@mistake("draws from a global generator")
def noise_of_numpy(self):
    return self.agents.pos * np.random.uniform(0.5, 1.5)


@mistake("draws from a global generator")
def noise_of_python(self):
    return self.agents.pos * random.choice([0.5, 1.0, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5])


@mistake("is not the same when it runs again")
def the_clock(self):
    return self.agents.pos * (time.time() % 1000)


@mistake("is not the same when it runs again")
def the_clock_in_hours(self):
    return self.agents.pos * (int(time.time()) // 3600)


@mistake("draws from a global generator (random)")
def a_coin(self):
    return self.agents.pos if random.randint(0, 1) else self.agents.vel


@mistake("draws from a global generator (numpy.random)")
def a_coin_of_numpy(self):
    return self.agents.pos if np.random.rand() < 0.5 else self.agents.vel


@mistake("draws from a global generator (torch)")
def a_coin_of_torch(self):
    return self.agents.pos if torch.rand(()) < 0.5 else self.agents.vel


@mistake("world.remember")
def a_counter_on_self(self):
    self.calls += 1
    return self.agents.pos * self.calls


@mistake("world.remember")
def the_last_position_on_self(self):
    last, self.before = self.before, self.agents.pos
    return self.agents.pos - (self.agents.pos if last is None or last.shape != self.agents.pos.shape else last)


@mistake("world.remember")
def a_list_on_self(self):
    self.history.append(1)
    return self.agents.pos * len(self.history)


@mistake("world.remember")
def a_tensor_on_self(self):
    self.table += 1
    return self.agents.pos + self.table[0, :2]


@mistake("float16")
def half_precision(self):
    return self.agents.pos.half().float()


@mistake("view_as_complex, which is not known here")
def complex_numbers(self):
    return torch.view_as_complex(self.agents.pos.contiguous()).abs()


@mistake("divides integers by what may be 0")
def a_division_by_zero(self):
    return (self.agents.pos * 10).long() % (self.agents.vel * 10).long()


@mistake("an index that may not be one of 0 to 3")
def an_index_out_of_range(self):
    return self.goals.pos[:, :, 0].gather(1, (self.agents.pos[..., 0] * 4).long())


@mistake("view.dtype with dtype=torch.int32")
def bits_of_a_float(self):
    return self.agents.pos.view(torch.int32)


@mistake("which is not known here")
def a_decomposition(self):
    return torch.linalg.qr(self.agents.pos).R


@mistake("looks at the numbers of the data")
def distinct_numbers(self):
    return torch.unique(self.agents.pos)


@mistake("depends on the number of rows")
def as_many_rounds_as_rows(self):
    out = self.agents.pos
    for _ in range(self.rows % 7):
        out = out * 1.5
    return out
