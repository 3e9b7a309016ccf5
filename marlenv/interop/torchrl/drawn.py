"""Specs of actions that are drawn by the env they belong to. Imported when the first env goes to TorchRL."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from marlenv.interop.torchrl.stacks import Place
from marlenv.optional import need


class Drawer:
    """The env that draws for its specs; a copy is of nobody until a copy of the env, made at the same time, takes it.

    So the specs that TorchRL keeps in envs around ours draw from that env wherever both go together.
    """

    env: Any = None
    """It draws by its ``_drawn_action``."""

    def __init__(self) -> None:
        self.legal: dict[Place, Any] = {}
        """Per action: the mask that the env stands before."""
        self.moves = 0
        """How often the env has moved on."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Drawer, ()


class Drawn:
    """What a leaf spec of TorchRL becomes: its draws are the env's, so that they are legal and follow the env's seed.

    A clone of it, such as a random policy keeps, draws and is masked as the env moves, too. A mask that a caller gives,
    other than the env's, holds until the env moves on; actions within it are drawn as the plain spec does. So are those
    of a spec that was pickled without its env, and of what is made of it by changing its shape: those of TorchRL's
    pools, which make them of an env that they do not step.
    """

    _drawer: Drawer | None = None
    _place = Place("")
    _given: int | None = None
    """The move of the env at which a caller gave the mask."""
    _plain: type

    @property
    def mask(self) -> Any:
        """What is legal: the mask that a caller gave, or the env's."""
        drawer = self._drawer
        if drawer is not None and self._given != drawer.moves and self._place in drawer.legal:
            return drawer.legal[self._place]
        try:
            return self.__dict__["mask"]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no mask") from None

    @mask.setter
    def mask(self, mask: Any) -> None:
        self.__dict__["mask"] = mask
        drawer = self._drawer
        if drawer is not None:
            self._given = None if _same(mask, drawer.legal.get(self._place)) else drawer.moves

    def follow(self, mask: Any) -> None:
        """Takes the mask that the env stands before, for every clone."""
        self.update_mask(mask)  # type: ignore[attr-defined]
        if self._drawer is not None:
            self._drawer.legal[self._place], self._given = self.__dict__["mask"], None

    def rand(self, shape: Any = None) -> Any:
        """What the env draws; from TorchRL's spec where more is asked for than one action per row, or another mask."""
        drawer = None if shape else self._drawer
        if drawer is not None and drawer.env is not None and self._given != drawer.moves:
            return drawer.env._drawn_action(self._place)
        return super().rand(shape)  # type: ignore[misc]

    def sample(self, shape: Any = None) -> Any:
        """The same."""
        return self.rand(shape)

    def clone(self) -> Any:
        """A spec whose draws are the env's, too."""
        out = drawn(self.plain(), self._drawer, self._place)
        out._given = self._given
        return out

    def _encode_eager(self, *args: Any, **kwargs: Any) -> Any:
        return self.plain()._encode_eager(*args, **kwargs)

    def plain(self) -> Any:
        """TorchRL's own spec."""
        out: Any = object.__new__(self._plain)
        out.__dict__.update({name: value for name, value in self.__dict__.items() if name not in OWN})
        out.encode = out._encode_eager
        if "mask" in out.__dict__:
            out.mask = self.mask
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return drawn, (self.plain(), self._drawer, self._place)

    def __eq__(self, other: object) -> bool:
        return bool(self.plain() == (other.plain() if isinstance(other, Drawn) else other))

    __hash__ = None  # type: ignore[assignment]


OWN = ("_drawer", "_place", "_given")
"""What a drawn spec has besides what TorchRL's has."""


def _same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return one is other or (one.device == other.device and torch.equal(one, other))


@cache
def _kind(plain: type) -> type:
    """The class of drawn specs of a class of TorchRL, for TorchRL's losses the same action space."""
    kind = type(f"Drawn{plain.__name__}", (Drawn, plain), {"_plain": plain, "__hash__": None, "__module__": __name__})
    spaces = need("torchrl.data.utils", "marlenv.to_torchrl").ACTION_SPACE_MAP
    if plain in spaces:
        spaces[kind] = spaces[plain]
    return kind


def drawn(spec: Any, drawer: Drawer | None, place: Place) -> Any:
    """A leaf spec of TorchRL whose draws are those of an env for the action at a place; changed in place."""
    plain: Any = type(spec)
    spec.__class__ = _kind(plain)
    spec._drawer, spec._place = drawer, place
    spec.encode = spec._encode_eager
    return spec
