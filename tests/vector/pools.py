"""Envs that pools are tested with, and comparing what pools give."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time

import torch
from tensordict import TensorDict

import marlenv
from marlenv import Composite, EnvBase, Unbounded
from marlenv.errors import Unsupported
from marlenv.testing import CountingEnv, GroupedEnv, MaskedEnv, UnevenEnv

KINDS = {
    "counting": lambda: [(CountingEnv, {"max_steps": n}) for n in (2, 3, 9, 4)],
    "rows": lambda: [(CountingEnv, {"max_steps": n, "batch_size": [2]}) for n in (2, 3, 9, 4)],
    "groups": lambda: [
        (GroupedEnv, {"group_map": {"g": ["a", "b"], "h": ["c"]}, "terminate": {"a": n}, "truncate": {"c": 3}})
        for n in (2, 4, 3, 9)
    ],
    "groups without a root": lambda: [
        (GroupedEnv, {"group_map": {"g": ["a", "b"], "h": ["c"]}, "terminate": {"a": n, "b": n}, "root_flags": False})
        for n in (2, 4, 3, 9)
    ],
    "masked": lambda: [(MaskedEnv, {"max_steps": n}) for n in (2, 6, 3, 9)],
    "uneven agents": lambda: [(UnevenEnv, {"max_steps": n}) for n in (2, 4, 3, 9)],
    "scenario": lambda: [(native, {"name": "simple_spread", "max_steps": n}) for n in (3, 5, 9, 4)],
    "game": lambda: [(native, {"name": "tic_tac_toe"})] * 4,
    "pettingzoo": lambda: [(native, {"name": "pettingzoo/simple_tag_v3", "max_cycles": n}) for n in (3, 5, 9, 4)],
    "gymnasium": lambda: [(native, {"name": "gym/CartPole-v1", "max_episode_steps": n}) for n in (3, 5, 9, 4)],
    "turns": lambda: [(native, {"name": "pettingzoo/tictactoe_v3"})] * 4,
    "transformed": lambda: [(transformed, {"max_steps": n}) for n in (2, 3, 9, 4)],
}
"""Four envs of each kind: what makes them and how."""


def native(name, **options):
    """An env by its name; of one row where it has rows."""
    env = marlenv.make(name, **options)
    return env if not env.batch_size else marlenv.make(name, 1, **options)


def transformed(max_steps):
    """An env whose transforms keep what they remember in the data."""
    chain = marlenv.Compose(marlenv.StepCounter(5), marlenv.RewardSum())
    return marlenv.TransformedEnv(CountingEnv(max_steps=max_steps), chain)


class Stateless(CountingEnv):
    """An env that gives no state away, and has a method that refuses."""

    def _get_state(self, tensordict):
        raise Unsupported("Stateless: no states")

    def refuse(self, word):
        """Always."""
        raise KeyError(word)


def refusals(env):
    """What a pool answers to questions that its children refuse, and what they count in the step after."""
    td, said = env.rand_step(env.reset()), []
    misspelt = {"list_of_kwargs": [{}, {"sed": 1}]}
    for ask in (env.get_state, lambda: env.refuse("word"), lambda: env.refuse(1, 2), lambda: env.reset(**misspelt)):
        try:
            ask()
        except Exception as error:
            said.append((type(error), str(error)))
    counts = env.rand_step(env.step_mdp(td))["next", "observation"].flatten().tolist()
    env.close()
    return said, counts


def pool(cls, kind, **options):
    """A pool of the envs of a kind."""
    makers, kwargs = zip(*KINDS[kind](), strict=True)
    return cls(len(makers), list(makers), create_env_kwargs=list(kwargs), **options)


@contextlib.contextmanager
def interrupted(seconds):
    """Somebody presses Ctrl-C after a while; heard even where this process was started in the background, which leaves
    interrupts ignored.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)


def as_list(td, key):
    """An entry; that of each member, where members of a lazy stack have it in different shapes."""
    try:
        return [td.get(key)]
    except RuntimeError:
        return td.get(key, as_list=True)


def assert_equal(one, two, where=""):
    """The same keys, shapes, dtypes and values."""
    assert set(one.keys(True, True)) == set(two.keys(True, True)), where
    for key in one.keys(True, True):
        for x, y in zip(as_list(one, key), as_list(two, key), strict=True):
            assert x.dtype == y.dtype, (where, key)
            assert torch.equal(x, y), (where, key, x, y)


class Mumbled(Exception):
    """An error that does not say what it is."""

    def __str__(self):
        raise RuntimeError("no words")


class Fragile(EnvBase):
    """Counts, and fails in the way and at the step that it is told.

    Args:
        fails_at: the step, or the reset.
        how: ``"raise"``, ``"kill"``, ``"hang"``, ``"lie"`` (a shape that its spec does not have), ``"exit"`` and
            ``"interrupt"`` (as if the program were to end), ``"mumble"`` (an error that cannot be printed).
        once: a file: it fails only where that is there, and removes it.
        where: ``"step"``, ``"reset"`` or ``"close"``.
        size: how many numbers it observes.
    """

    def __init__(self, fails_at=10**9, how="raise", once=None, where="step", size=1):
        super().__init__()
        self.observation_spec = Composite(observation=Unbounded((size,)), noise=Unbounded((1,)))
        self.action_spec = Unbounded((1,))
        self.reward_spec = Unbounded((1,))
        self.fails_at, self.how, self.once, self.where, self.size = fails_at, how, once, where, size
        self.count = self.resets = 0
        self.rng = torch.Generator()

    def _seen(self, *, lies):
        noise = torch.rand(1, generator=self.rng)
        return {"observation": torch.full((self.size + lies,), float(self.count)), "noise": noise}

    def _reset(self, tensordict, **_):
        self.count = 0
        self.resets += 1
        return TensorDict(self._seen(lies=self.fails("reset", self.resets)), [])

    def _step(self, tensordict):
        self.count += 1
        lies = self.fails("step", self.count)
        return TensorDict({**self._seen(lies=lies), "reward": torch.ones(1), "done": torch.zeros(1, dtype=bool)}, [])

    def close(self, *, raise_if_closed=True):
        self.fails("close", self.fails_at)
        super().close(raise_if_closed=raise_if_closed)

    def fails(self, where, count):
        """Fails, if it is to; says whether the data are to lie."""
        if where != self.where or count < self.fails_at or not (self.once is None or os.path.exists(self.once)):
            return False
        if self.once:
            os.remove(self.once)
        self.fail()
        return self.how == "lie"

    def fail(self):
        """Fails."""
        if self.how == "raise":
            raise ValueError(f"broken at step {self.count}")
        if self.how == "exit":
            sys.exit("license expired")
        if self.how == "interrupt":
            raise KeyboardInterrupt("not from the keyboard")
        if self.how == "mumble":
            raise Mumbled
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "hang":
            time.sleep(600)

    def _set_seed(self, seed):
        self.rng.manual_seed(seed)


def left_behind():
    """The worker processes; and what this process still holds of shared memory and bells."""
    held = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            held.append(os.readlink(f"/proc/self/fd/{fd}"))
    with open("/proc/self/maps") as maps:
        mapped = [line for line in maps if "memfd:marlenv" in line]
    memory = [*mapped, *(name for name in held if "memfd:marlenv" in name or "[eventfd]" in name)]
    names = [name for name in os.listdir("/dev/shm") if "marlenv" in name]
    ours = [p for p in multiprocessing.active_children() if p.name.startswith("marlenv") and p.pid not in OTHERS]
    return ours, memory + names


OTHERS: set[int | None] = set()
"""Worker processes of envs that tests of other files keep."""


@contextlib.contextmanager
def nothing_left_behind():
    """Fails if what is done within leaves a process, shared memory, a bell, or an entry of ``/dev/shm``."""
    gc.collect()
    OTHERS.update(p.pid for p in left_behind()[0])
    before, entries = left_behind()[1], set(os.listdir("/dev/shm"))
    yield
    gc.collect()
    processes, names = left_behind()
    assert processes == []
    assert names == before
    assert {name for name in os.listdir("/dev/shm") if name not in entries and str(os.getpid()) in name} == set()
