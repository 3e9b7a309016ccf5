"""What a subclass of an env may also say under TorchRL's private names."""

from __future__ import annotations

from typing import Any

PRIVATE = ("batch_locked", "supports_set_state")  # with an underscore before them in TorchRL


def _same_as(name: str) -> property:
    """A property that reads and writes the attribute of that name."""
    return property(lambda env: getattr(env, name), lambda env, value: setattr(env, name, value))


class PrivateNames:
    """Facts about an env; a class or an instance may write them with an underscore before them, too."""

    batch_locked: bool = True
    """Whether inputs must have the env's batch size; else any batch size is taken."""
    supports_set_state: bool = False
    """Whether ``reset(td, set_state=True)`` starts from the state in ``td``."""

    _batch_locked = _same_as("batch_locked")
    _supports_set_state = _same_as("supports_set_state")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in PRIVATE:
            if isinstance(own := cls.__dict__.get(f"_{name}"), bool):
                setattr(cls, name, own)
                delattr(cls, f"_{name}")
