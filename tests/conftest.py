"""One thread, and hypothesis without a clock: the tensors here are small, and the machines that run this are shared."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("house", deadline=None, derandomize=True, database=None)
settings.load_profile("house")
