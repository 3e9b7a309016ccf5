"""Many envs at once: Gymnasium's cart-pole behind every library's own wrapper, and two worlds of PettingZoo's: one
whose own step takes long, and rock-paper-scissors, whose step is next to nothing, so that what the libraries add shows.

All sides get their actions made, step and start anew what is done. TorchRL is given its best form for few processes
too: a ``ParallelEnv`` of ``SerialEnv``s. PufferLib's ``Multiprocessing`` is there where it is installed.
"""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Any

from marlenv.cli.benches.timing import Figure, chosen, interleaved
from marlenv.cli.text import number
from marlenv.optional import need
from marlenv.text_table import table
from marlenv.vector import ParallelEnv, SerialEnv
from marlenv.vector.protocol import Command

STEPS = 60
WORKERS = 2
WHO = "marlenv bench vector"


def make_pole(library: str) -> Any:
    """Gymnasium's cart-pole over one of the libraries, ``"marlenv"`` or ``"torchrl"``."""
    if library == "torchrl":
        return need("torchrl.envs", WHO).GymEnv("CartPole-v1")
    from marlenv.wrappers import GymEnv

    return GymEnv("CartPole-v1")


def spread_world() -> Any:
    """PettingZoo's simple_spread."""
    return need("mpe2.simple_spread_v3", WHO).parallel_env(max_cycles=25)


def rps_world() -> Any:
    """PettingZoo's rock-paper-scissors, both players at once; the game itself, without the checks around it."""
    game = need("pettingzoo.classic.rps.rps", WHO).raw_env(max_cycles=25)
    return need("pettingzoo.utils.conversions", WHO).aec_to_parallel(game)


def make_zoo(library: str, world: Callable[[], Any] = spread_world) -> Any:
    """A world of PettingZoo's over one of the libraries."""
    if library == "torchrl":
        with warnings.catch_warnings():  # it was tested with another version, it says
            warnings.simplefilter("ignore")
            return need("torchrl.envs", WHO).PettingZooWrapper(world())
    from marlenv.wrappers import PettingZooWrapper

    return PettingZooWrapper(world())


def series_of_torchrl(make: Callable[[str], Any], count: int) -> Any:
    """TorchRL's envs one after the other."""
    return need("torchrl.envs", WHO).SerialEnv(count, partial(make, "torchrl"))


def stepping(env: Any) -> Callable[[], int]:
    """Steps and resets with actions that were drawn before."""
    actions = [env.rand_action().select(*env.action_keys) for _ in range(8)]
    state = [env.reset()]

    def play() -> int:
        td = state[0]
        for i in range(STEPS):
            _, td = env.step_and_maybe_reset(td.update(actions[i % 8]))
        state[0] = td
        return STEPS * env.batch_size[0]

    return play


def gymnastic(kind: str, count: int) -> tuple[Callable[[], int], Callable[[], None]]:
    """The same with a vector of Gymnasium's; and what ends it."""
    gym = need("gymnasium", WHO)
    makers = [partial(gym.make, "CartPole-v1")] * count
    env = gym.vector.AsyncVectorEnv(makers, shared_memory=True) if kind == "async" else gym.vector.SyncVectorEnv(makers)
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(8)]

    def play() -> int:
        for i in range(STEPS):
            env.step(actions[i % 8])
        return STEPS * count

    return play, env.close


def puffered(count: int) -> tuple[Callable[[], int], Callable[[], None]]:
    """The same with PufferLib's processes. They wait busily, as does what calls them: each has a core of its own where
    there are so many, and they are stopped while the other sides play.
    """
    workers = max(1, min(WORKERS, (os.cpu_count() or 1) - 1))
    gym, vector = need("gymnasium", WHO), need("pufferlib.vector", WHO)
    pole = need("pufferlib.emulation", WHO).GymnasiumPufferEnv
    env = vector.make(
        partial(pole, env_creator=partial(gym.make, "CartPole-v1")),
        backend=vector.Multiprocessing, num_envs=count, num_workers=workers, overwork=True,
    )  # fmt: skip
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(8)]

    def tell(what: signal.Signals) -> None:
        for worker in env.processes:
            os.kill(worker.pid, what)

    def play() -> int:
        tell(signal.SIGCONT)
        for i in range(STEPS):
            env.step(actions[i % 8])
        tell(signal.SIGSTOP)
        return STEPS * count

    def close() -> None:
        tell(signal.SIGCONT)
        env.close()

    return play, close


def worlds_alone(count: int, make: Callable[[], Any]) -> Callable[[], int]:
    """The worlds without any library: what no side can be faster than."""
    worlds = [make() for _ in range(count)]
    for world in worlds:
        world.reset(seed=0)
    actions = [{agent: world.action_space(agent).sample() for agent in world.agents} for world in worlds]

    def play() -> int:
        for _ in range(STEPS):
            for world, acted in zip(worlds, actions, strict=True):
                world.step(acted)
                if not world.agents:
                    world.reset()
        return STEPS * count

    return play


def compared(name: str, count: int, world: Callable[[], Any] | None, rounds: int) -> list[Figure]:
    """The figures of ``count`` envs: of a world of PettingZoo's, or of cart-poles."""
    make = make_pole if world is None else partial(make_zoo, world=world)
    peers = need("torchrl.envs", WHO)
    theirs = partial(make, "torchrl")
    pools = {
        "parallel": ParallelEnv(count, partial(make, "marlenv"), num_processes=WORKERS),
        "serial": SerialEnv(count, partial(make, "marlenv")),
        "torchrl parallel": peers.ParallelEnv(count, theirs),
        "torchrl 2 workers": peers.ParallelEnv(WORKERS, partial(series_of_torchrl, make, count // WORKERS)),
        "torchrl serial": peers.SerialEnv(count, theirs),
    }
    sides = {side: _flat(env) if side == "torchrl 2 workers" else stepping(env) for side, env in pools.items()}
    closing: list[Callable[[], Any]] = [env.close for env in pools.values()]
    if world is not None:
        sides["the worlds alone"] = worlds_alone(count, world)
    for kind in ("async", "sync") if world is None else ():
        sides[f"gymnasium {kind}"], close = gymnastic(kind, count)
        closing.append(close)
    if world is None and find_spec("pufferlib"):
        sides["pufferlib"], close = puffered(count)
        closing.append(close)
    try:
        got = interleaved(sides, rounds)
    finally:
        for close in closing:
            with suppress(Exception):  # nothing that follows needs them
                close()
    pairs = [
        ("parallel", "torchrl parallel"), ("parallel", "torchrl 2 workers"), ("serial", "torchrl serial"),
        ("parallel", "gymnasium async"), ("parallel", "pufferlib"), ("serial", "gymnasium sync"),
        ("serial", "the worlds alone"),
    ]  # fmt: skip
    return [Figure(f"{count} {name}, {a}", got[a], got[b], b, "us/env step") for a, b in pairs if b in got]


def _flat(env: Any) -> Callable[[], int]:
    """:func:`stepping` for a pool of pools."""
    play = stepping(env)
    return lambda: play() * env.batch_size[1]


def parts(count: int) -> str:
    """Where the time of a step goes, as a table: microseconds for all envs of a pool."""
    pool = ParallelEnv(count, partial(make_pole, "marlenv"), num_processes=WORKERS)
    block = SerialEnv(count // WORKERS, partial(make_pole, "marlenv"))
    td = pool.rand_action(pool.reset())
    few = block.rand_action(block.reset())
    sims: list[Any] = [child._env for child in block.children_envs]
    layout: Any = pool._layout

    def signal() -> None:
        pool._command(Command.NONE, "nothing", pool._workers)

    took = {
        "env: the simulators of one worker": _timed(lambda: [(sim.reset(), sim.step(0)) for sim in sims])
        - _timed(lambda: [sim.reset() for sim in sims]),
        "pack: the worker's tensordicts around them": _timed(lambda: block._step(few)),
        "signal: waking all workers and hearing of them": _timed(signal),
        "merge: writing to the blocks and copying from them": _timed(
            lambda: (pool._send(layout, td, {}, layout.needed), pool._received(layout, "following", pool._workers))
        ),
        "the whole step": _timed(lambda: pool._step(td)),
    }
    took["pack: the worker's tensordicts around them"] -= took["env: the simulators of one worker"]
    pool.close()
    return table(
        [[what, number(us)] for what, us in took.items()], [f"{count} envs in {WORKERS} workers", "us"], right=[1]
    )


def _timed(run: Callable[[], Any], times: int = 100) -> float:
    """Microseconds, median."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        taken.append((time.perf_counter() - start) * 1e6)
    return sorted(taken)[times // 2]


def measure(rounds: int, *, only: str = "") -> list[Figure]:
    """Times all sides.

    Args:
        rounds: how often each side is timed.
        only: measure only what has this in its name: ``"8 cart-poles"``, ``"32 cart-poles"``, ``"8 simple_spread"``,
            ``"8 rock-paper-scissors"``, ``"parts"``.
    """
    figures = []
    worlds = {
        "8 cart-poles": None,
        "32 cart-poles": None,
        "8 simple_spread": spread_world,
        "8 rock-paper-scissors": rps_world,
    }
    for name in chosen("vector", [*worlds, "parts"], only):
        if name == "parts":
            print(parts(8))
        else:
            count, task = name.split()
            figures += compared(task, int(count), worlds[name], rounds)
    return figures
