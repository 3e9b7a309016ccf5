"""The generators that all of a process share: lent to what a scenario's file draws by ways that nobody takes over."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.random.mtrand import get_bit_generator, set_bit_generator

_ONE_AT_A_TIME = threading.RLock()


def of_torch(device: torch.device) -> list[torch.Generator]:
    """PyTorch's own: that of the host, and that of the device if it has another."""
    if device.type != "cuda":
        return [torch.default_generator]
    place = torch.cuda.current_device() if device.index is None else device.index
    torch.cuda.init()
    return [torch.default_generator, torch.cuda.default_generators[place]]


@contextmanager
def lent(device: torch.device) -> Iterator[None]:
    """Within it they may be moved: they are as they were afterwards. Threads wait for each other."""
    with _ONE_AT_A_TIME:
        torchs = of_torch(device)
        states, python, bits = [one.get_state() for one in torchs], random.getstate(), get_bit_generator()
        try:
            yield
        finally:
            for one, state in zip(torchs, states, strict=True):
                one.set_state(state)
            random.setstate(python)
            set_bit_generator(bits)


def sow(number: int, device: torch.device) -> None:
    """Starts all of them anew; within :func:`lent` only."""
    for one in of_torch(device):
        one.manual_seed(number)
    random.seed(number)
    set_bit_generator(np.random.MT19937(number))
