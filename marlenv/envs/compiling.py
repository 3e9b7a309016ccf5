"""What ``torch.compile`` says of envs whose steps are no graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Hook = TypeVar("Hook", bound=Callable[..., Any])


def outside_graphs(instead: str) -> Callable[[Hook], Hook]:
    """Marks a hook as one that no graph can hold.

    ``torch.compile(env.step)`` breaks its graph there; with ``fullgraph=True`` the error says what to do ``instead``.
    The marks are those of ``torch.compiler.disable``, without the function that it puts around every call.
    """

    def marked(hook: Hook) -> Hook:
        hook._torchdynamo_disable = True  # type: ignore[attr-defined]
        hook._torchdynamo_disable_msg = instead  # type: ignore[attr-defined]
        return hook

    return marked
