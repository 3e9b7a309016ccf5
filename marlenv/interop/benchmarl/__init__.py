"""BenchMARL: our envs as its tasks.

Tested with BenchMARL 1.5.2 (https://github.com/facebookresearch/BenchMARL), which is imported on use, beside torchrl
0.11.1 and tensordict 0.11.0; it runs with no later ones.
"""

from __future__ import annotations

from typing import Any

__all__ = ["to_benchmarl"]


def to_benchmarl(name: str, max_steps: int, **options: Any) -> Any:
    """A task of BenchMARL that is one of our envs, for ``Experiment(task=...)``.

    Args:
        name: what ``marlenv list`` names.
        max_steps: how long an episode is at most, which BenchMARL asks for.
        **options: of :func:`marlenv.make`.

    Raises:
        UnknownName: there is no such env; the text names the nearest.
        SpecError: ``max_steps`` is no whole number above 0.
        MissingExtra: BenchMARL is not installed.
    """
    from marlenv.interop.benchmarl.task import MarlenvTask

    return MarlenvTask(name, {"max_steps": max_steps, **options})
