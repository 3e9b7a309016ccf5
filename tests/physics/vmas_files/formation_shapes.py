"""Helpers of formation.py, with an import of vmas's own."""

import math

import torch
from vmas.simulator.utils import TorchUtils

CIRCLE = 0.6


def targets(n, radius, device):
    turn = torch.arange(n, device=device) * (2 * math.pi / n)
    return TorchUtils.rotate_vector(torch.tensor([radius, 0.0], device=device).expand(n, 2), turn)
