"""torchrl 0.14.1, the oracle: imported once, its own warnings apart, and never by marlenv."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torchrl.collectors.utils as collectors
    import torchrl.data as data
    import torchrl.envs as envs
    import torchrl.envs.utils as utils
    from torchrl._utils import seed_generator

__all__ = ["collectors", "data", "envs", "seed_generator", "utils"]
