"""Unity's builds by their names."""

from __future__ import annotations

import socket
from typing import Any

from marlenv.errors import SpecError, UnknownName, nearest
from marlenv.wrappers._base import own_options
from marlenv.wrappers.unity_mlagents.steps import module
from marlenv.wrappers.unity_mlagents.wrapper import UnityMLAgentsWrapper


class UnityMLAgentsEnv(UnityMLAgentsWrapper):
    """A Unity build by its file, one of Unity's by its name, or the editor.

    Args:
        file_name: the build; Unity's editor, which must be started by hand, when neither is given.
        registered_name: a name of :attr:`available_envs`, which is fetched from the network.
        **options: those of :class:`UnityMLAgentsWrapper`; all others go to ``UnityEnvironment``, such as ``seed``,
            ``no_graphics``, ``worker_id`` and ``side_channels``. A build speaks to us over a port of its own, unless
            ``worker_id`` or ``base_port`` say which; the editor's is 5004.

    Raises:
        SpecError: both names are given.
        UnknownName: nothing is registered under that name; names the nearest.

    >>> UnityMLAgentsEnv.libname  # UnityMLAgentsEnv("builds/3DBall.x86_64", no_graphics=True)
    'unity_mlagents'

    Source: mlagents-envs 1.1.0.
    """

    def __init__(self, file_name: str | None = None, registered_name: str | None = None, **options: Any) -> None:
        who, ours = type(self).__name__, own_options(type(self), options)
        if file_name is not None and registered_name is not None:
            raise SpecError(f"{who}: file_name and registered_name are two builds, got both; leave one out")
        if (file_name or registered_name) is not None and not {"worker_id", "base_port"} & options.keys():
            options["base_port"] = _free_port()
        if registered_name is None:
            env = module("environment", who).UnityEnvironment(file_name=file_name, **options)
        else:
            known = self._task_names()
            if registered_name not in known:
                raise UnknownName(
                    f"{who}: nothing is registered as {registered_name!r}; {nearest(registered_name, known)}"
                )
            env = module("registry", who).default_registry[registered_name].make(**options)
        super().__init__(env, **ours)


def _free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return int(one.getsockname()[1])
