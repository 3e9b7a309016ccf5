"""Isaac Lab's scenes as tensordicts: where all bodies and joints are.

Written for ``InteractiveScene.get_state`` and ``ManagerBasedEnv.reset_to`` of 2.3.2; not run against the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.errors import DtypeError, KeyMissing, ShapeError, SpecError, Unsupported


def scene_of(who: str, env: Any) -> TensorDict:
    """Where everything in the scene is, ``[B]``; entries by kind, name and quantity, as Isaac Lab calls them."""
    if not hasattr(getattr(env, "scene", None), "get_state"):
        raise Unsupported(f"{who}: {type(env).__name__} has no scene that gives its state away")
    return TensorDict(env.scene.get_state(), [int(env.num_envs)])


def check_asked(who: str, set_state: bool, scene: Any) -> None:
    """Raises where a reset is to start in a scene and has none, or has one and is not to."""
    if set_state != (scene is not None):
        raise SpecError(
            f"{who}.reset: set_state=True and scene_state=, which env.get_state() gives, go together, got "
            f"set_state={set_state} and scene_state of type {type(scene).__name__}"
        )


def start_in(who: str, env: Any, scene: Any, ids: Tensor, options: dict[str, Any]) -> Any:
    """Starts episodes of some rows of a manager-based env in a scene; returns what all rows observe."""
    if not isinstance(scene, (Mapping, TensorDictBase)):
        raise DtypeError(f"{who}: the scene must be as env.get_state() gives it, got {type(scene).__name__}")
    rows = int(env.num_envs)
    now = scene_of(who, env)
    given = scene if isinstance(scene, TensorDictBase) else _td(who, scene, rows)
    if tuple(given.batch_size[:1]) != (rows,):
        raise ShapeError(f"{who}: the scene must be that of {rows} rows, got batch_size {list(given.batch_size)}")
    if lacks := [key for key in now.keys(True, True) if key not in given.keys(True, True)]:
        raise KeyMissing(f"{who}: the scene has no {lacks[0]!r}; it must be of the same task")
    chosen = given.to(env.device)[ids]
    return env.reset_to(chosen.to_dict(), ids, **options)[0]


def _td(who: str, scene: Mapping[str, Any], rows: int) -> TensorDict:
    try:
        return TensorDict(dict(scene), [rows])
    except RuntimeError as error:
        raise ShapeError(f"{who}: every entry of the scene must be of {rows} rows: {error}") from error
