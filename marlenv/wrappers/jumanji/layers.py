"""What may be wrapped: an env of Jumanji's, without rows and resets of its own."""

from __future__ import annotations

from typing import Any

from marlenv.errors import SpecTypeError, Unsupported
from marlenv.optional import need


def check(who: str, env: Any) -> None:
    """Raises where something is no env of Jumanji's, or is a batch, or resets itself."""
    if not isinstance(env, need("jumanji.env", who).Environment):
        raise SpecTypeError(f"{who}: env must be an env of Jumanji's, got {type(env).__name__}; JumanjiEnv takes names")
    wrappers, layer = need("jumanji.wrappers", who), env
    while isinstance(layer, wrappers.Wrapper):
        if isinstance(layer, (wrappers.AutoResetWrapper, wrappers.VmapWrapper, wrappers.VmapAutoResetWrapper)):
            raise Unsupported(
                f"{who}: env has a {type(layer).__name__} around it; rows and resets are this wrapper's: pass the env "
                f"inside"
            )
        layer = layer._env
