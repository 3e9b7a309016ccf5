"""Specs of actions that are drawn by the env they belong to. Imported when the first env goes to TorchRL."""

from __future__ import annotations

from functools import cache
from typing import Any

from marlenv.keys import NestedKey
from marlenv.optional import need


class Drawer:
    """The env that draws for its specs; a copy is of nobody until a copy of the env, made at the same time, takes it.

    So the specs that TorchRL keeps in envs around ours draw from that env wherever both go together.
    """

    env: Any = None
    """It draws by its ``_drawn_action``."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Drawer, ()


class Drawn:
    """What a leaf spec of TorchRL becomes: its draws are the env's, so that they are legal and follow the env's seed.

    A clone of it, such as a random policy keeps, is the spec itself. Pickled without its env, it draws as the plain
    spec does, and so does what is made of it by changing its shape: those of TorchRL's pools, which make them of an env
    that they do not step.
    """

    _drawer: Drawer | None = None
    _key: NestedKey = ""
    _plain: type

    def rand(self, shape: Any = None) -> Any:
        """What the env draws; from TorchRL's spec where more is asked for than one action per row."""
        env = None if self._drawer is None or shape else self._drawer.env
        if env is not None:
            return env._drawn_action(self._key)
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
        out.__dict__.update({name: value for name, value in self.__dict__.items() if name not in OWN})
        out.encode = out._encode_eager
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return drawn, (self.plain(), self._drawer, self._key)

    def __eq__(self, other: object) -> bool:
        return bool(self.plain() == (other.plain() if isinstance(other, Drawn) else other))

    __hash__ = None  # type: ignore[assignment]


OWN = ("_drawer", "_key")
"""What a drawn spec has besides what TorchRL's has."""


@cache
def _kind(plain: type) -> type:
    """The class of drawn specs of a class of TorchRL, for TorchRL's losses the same action space."""
    kind = type(f"Drawn{plain.__name__}", (Drawn, plain), {"_plain": plain, "__hash__": None, "__module__": __name__})
    spaces = need("torchrl.data.utils", "marlenv.to_torchrl").ACTION_SPACE_MAP
    if plain in spaces:
        spaces[kind] = spaces[plain]
    return kind


def drawn(spec: Any, drawer: Drawer | None, key: NestedKey) -> Any:
    """A leaf spec of TorchRL whose draws are those of an env for its action ``key``, in place."""
    plain: Any = type(spec)
    spec.__class__ = _kind(plain)
    spec._drawer, spec._key = drawer, key
    spec.encode = spec._encode_eager
    return spec
