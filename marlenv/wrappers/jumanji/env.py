"""Jumanji's tasks by their names."""

from __future__ import annotations

from typing import Any

from marlenv.errors import UnknownName, nearest
from marlenv.optional import need
from marlenv.options import naming_options
from marlenv.wrappers._base import option_names, own_options
from marlenv.wrappers.jumanji.wrapper import JumanjiWrapper


class JumanjiEnv(JumanjiWrapper):
    """A task of Jumanji's by its name: ``"Snake-v1"``, ``"LevelBasedForaging-v0"``, ``"Connector-v3"`` and others.

    Args:
        env_name: as ``jumanji.registered_environments()`` has it.
        **options: those of :class:`JumanjiWrapper`; all others go to the task, such as ``time_limit``.

    Raises:
        UnknownName: there is no such task; names the nearest.

    >>> JumanjiEnv.libname  # JumanjiEnv("Snake-v1", batch_size=[32])
    'jumanji'

    Source: Jumanji 1.1.2, https://arxiv.org/abs/2306.09884.
    """

    def __init__(self, env_name: str, categorical_action_encoding: bool = True, **options: Any) -> None:
        library, known = need("jumanji", type(self).__name__), self._task_names()
        if env_name not in known:
            raise UnknownName(f"{type(self).__name__}: Jumanji has no task {env_name!r}; {nearest(env_name, known)}")
        self.env_name, ours = env_name, own_options(type(self), options)
        with naming_options(type(self).__name__, options, option_names(type(self))):
            sim = library.make(env_name, **options)
        super().__init__(sim, categorical_action_encoding, **ours)
