"""One thread, and both paths where numba is installed."""

from __future__ import annotations

import pytest
import torch

from marlenv.optional import has

torch.set_num_threads(1)


@pytest.fixture(params=["torch", "numba"])
def path(request: pytest.FixtureRequest) -> str:
    if request.param == "numba" and not has("numba"):
        pytest.skip("numba is not installed")
    return request.param
