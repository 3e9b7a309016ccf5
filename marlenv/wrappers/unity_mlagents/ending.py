"""The end of a Unity environment: nothing of ML-Agents' gRPC server is left that Python would wait for.

A thread of the server waits for our answer to every message of a build. ML-Agents (1.1.0) tells the build to stop when
it closes, and does not see to its threads; of an environment that is left open, Python waits for them for ever when it
ends. Tested on ML-Agents' own protocol, with a stand-in player at the other end.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import Any
from weakref import WeakSet

SECONDS = 5.0
"""How long the server may take to stop."""
_open: WeakSet[Any] = WeakSet()
_asked = [False]


def watch(env: Any) -> None:
    """Closes an environment at the end of Python, before it waits for threads, if it is open then."""
    _open.add(env)
    before_threads = getattr(threading, "_register_atexit", None)  # what concurrent.futures uses itself
    if not _asked[0] and before_threads is not None:
        before_threads(close_all)
        _asked[0] = True


def close_all() -> None:
    """Closes what is open."""
    for env in list(_open):
        with suppress(Exception):  # at the end of Python there is nobody to tell
            close(env)


def close(env: Any) -> None:
    """Closes an environment, if it is open, and ends the threads that wait for an answer of ours."""
    _open.discard(env)
    try:
        if getattr(env, "_loaded", True):
            env.close()
    finally:
        _end_threads(getattr(env, "_communicator", None))


def _end_threads(communicator: Any) -> None:
    pipe, server = (getattr(communicator, name, None) for name in ("unity_to_external", "server"))
    for end in (getattr(pipe, "parent_conn", None), getattr(pipe, "child_conn", None)):
        if end is not None and not end.closed:
            with suppress(OSError), socket.socket(fileno=os.dup(end.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)  # wakes who waits at it, which closing does not
    if server is not None:
        server.stop(None).wait(SECONDS)
