"""The kinds of asynchronous pools: of threads, of processes, and of Ray's actors."""

from __future__ import annotations

import queue
from typing import Any

from marlenv.vector.asynchronous import AsyncEnvPool
from marlenv.vector.channels import Channel, Making, ProcessChannel, ThreadChannel
from marlenv.vector.process import start_method
from marlenv.vector.ray import RayChannel
from marlenv.vector.worker import Recipe


class ThreadingAsyncEnvPool(AsyncEnvPool, backend="threading"):
    """An :class:`AsyncEnvPool` of threads, one for each env; for envs that wait, or compute outside Python.

    >>> pool = AsyncEnvPool([marlenv.testing.CountingEnv] * 2, backend="threading")
    >>> type(pool).__name__, pool.rollout(2)["next", "observation"].flatten().tolist()
    ('ThreadingAsyncEnvPool', [1.0, 2.0, 1.0, 2.0])
    >>> pool.close()
    """

    channel = ThreadChannel
    _of_workers = ("_finalizer", "_answers", "_making")

    def _launch(self) -> None:
        self._answers, self._making = queue.SimpleQueue[Any](), Making()
        super()._launch()

    def _opened(self, number: int, recipes: list[Recipe]) -> Channel:
        return ThreadChannel(recipes, self._answers, self._making)


class ProcessorAsyncEnvPool(AsyncEnvPool, backend="multiprocessing"):
    """An :class:`AsyncEnvPool` of processes, each with ``envs_per_worker`` envs.

    >>> pool = AsyncEnvPool([marlenv.testing.CountingEnv] * 2, backend="multiprocessing")
    >>> type(pool).__name__, pool.rollout(2)["next", "observation"].flatten().tolist()
    ('ProcessorAsyncEnvPool', [1.0, 2.0, 1.0, 2.0])
    >>> pool.close()
    """

    channel = ProcessChannel
    in_processes = True

    def _opened(self, number: int, recipes: list[Recipe]) -> Channel:
        return ProcessChannel(recipes, start_method(self.mp_start_method), self._affinity[number])


class RayAsyncEnvPool(AsyncEnvPool, backend="ray"):
    """An :class:`AsyncEnvPool` of actors of Ray, each with ``envs_per_worker`` envs, on one machine or many.

    Ray is started on this machine where nobody has started it. ``backend_options`` are those of the actors, such as
    ``{"num_cpus": 1}``.

    >>> RayAsyncEnvPool.channel.__name__
    'RayChannel'
    """

    channel = RayChannel
    in_processes = True

    def _opened(self, number: int, recipes: list[Recipe]) -> Channel:
        return RayChannel(recipes, self.backend_options)
