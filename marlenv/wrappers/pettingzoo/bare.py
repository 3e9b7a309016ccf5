"""What PettingZoo's turn-based envs tell by attributes, read where it stands rather than through every wrapper."""

from __future__ import annotations

from typing import Any

from marlenv.optional import need

NAMES = ("agents", "rewards", "terminations", "truncations", "infos", "agent_selection")


class Bare:
    """The env inside of PettingZoo's own wrappers, for its attributes alone.

    Each of those wrappers hands an attribute on in three calls or four, and a step reads a dozen. A wrapper that has
    one of them itself, or another way to hand them on, is not looked through.

    Args:
        sim: a ``pettingzoo.AECEnv``.
    """

    def __init__(self, sim: Any) -> None:
        self._sim = sim
        wrappers = need("pettingzoo.utils.wrappers", "PettingZooWrapper")
        self._plain: tuple[Any, ...] = (wrappers.BaseWrapper.__getattr__, wrappers.OrderEnforcingWrapper.__getattr__)
        self._through: list[tuple[Any, Any, int]] = []
        self._inside: Any = None

    def __call__(self) -> Any:
        """The env that has the attributes now."""
        for wrapper, inside, size in self._through:
            if wrapper.env is not inside or len(wrapper.__dict__) != size:
                break  # somebody has changed it
        else:
            if self._inside is not None:
                return self._inside
        self._through, one = [], self._sim
        while self._hands_on(one):
            self._through.append((one, one.env, len(one.__dict__)))
            one = one.env
        self._inside = one
        return one

    def _hands_on(self, wrapper: Any) -> bool:
        kind = type(wrapper)
        reads: Any = kind.__getattribute__
        plain = getattr(kind, "__getattr__", None) in self._plain and reads is object.__getattribute__
        return plain and not any(name in wrapper.__dict__ or hasattr(kind, name) for name in NAMES)
