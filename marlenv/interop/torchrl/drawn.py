"""Specs of actions that are drawn by the env they belong to. Imported when the first env goes to TorchRL."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from marlenv.optional import need

Draw = Callable[[], Any]


class Drawn:
    """What a leaf spec of TorchRL becomes: its draws are the env's, so that they are legal and follow the env's seed.

    A clone of it, such as a random policy keeps, is the spec itself. Pickled, and where shapes change, it is the plain
    spec again.
    """

    _draw: Draw | None = None
    _plain: type

    def rand(self, shape: Any = None) -> Any:
        """What the env draws; from TorchRL's spec where more is asked for than one action per row."""
        if self._draw is not None and not shape:
            return self._draw()
        return super().rand(shape)  # type: ignore[misc]

    def sample(self, shape: Any = None) -> Any:
        """The same."""
        return self.rand(shape)

    def clone(self) -> Any:
        """The spec itself: what is legal now is so for every holder."""
        return self

    def plain(self) -> Any:
        """TorchRL's own spec."""
        out: Any = object.__new__(self._plain)
        out.__dict__.update({name: value for name, value in self.__dict__.items() if name != "_draw"})
        out.encode = out._encode_eager
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return _same, (self.plain(),)

    def __eq__(self, other: object) -> bool:
        return bool(self.plain() == (other.plain() if isinstance(other, Drawn) else other))

    __hash__ = None  # type: ignore[assignment]


def _same(spec: Any) -> Any:
    return spec


@cache
def _kind(plain: type) -> type:
    """The class of drawn specs of a class of TorchRL, for TorchRL's losses the same action space."""
    kind = type(f"Drawn{plain.__name__}", (Drawn, plain), {"_plain": plain, "__hash__": None, "__module__": __name__})
    spaces = need("torchrl.data.utils", "marlenv.to_torchrl").ACTION_SPACE_MAP
    if plain in spaces:
        spaces[kind] = spaces[plain]
    return kind


def drawn(spec: Any, draw: Draw) -> Any:
    """A leaf spec of TorchRL whose draws are ``draw()``, in place."""
    plain: Any = type(spec)
    spec.__class__ = _kind(plain)
    spec._draw = draw
    spec.encode = spec._encode_eager
    return spec
