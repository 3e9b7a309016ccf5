"""What the libraries of others set for the whole process, put back."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _algorithms() -> Iterator[None]:
    """RLlib allows only deterministic algorithms where it is given a seed, and PyTorch then refuses some."""
    before = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(before)
