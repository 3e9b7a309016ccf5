"""The other sides of ``marlenv bench physics``: VMAS stepped directly, and JaxMARL in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import torch

from marlenv.optional import need

JAX = """
import os, sys, time
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import jax, jax.numpy as jnp, jaxmarl
name, rows, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
env = jaxmarl.make(name, action_type="Continuous")
def one(key, state):
    key, act, step = jax.random.split(key, 3)
    keys = jax.random.split(act, env.num_agents)
    actions = {a: env.action_space(a).sample(k) for a, k in zip(env.agents, keys)}
    obs, state, rewards, dones, _ = env.step(step, state, actions)
    return key, state, (obs, rewards, dones)
def play(keys, states):
    def body(carry, _):
        keys, states, out = jax.vmap(one)(*carry)
        return (keys, states), out
    return jax.lax.scan(body, (keys, states), None, steps)
keys = jax.random.split(jax.random.PRNGKey(0), rows)
obs, states = jax.jit(jax.vmap(env.reset))(keys)
start = time.perf_counter()
play = jax.jit(play)
(keys, states), out = jax.block_until_ready(play(keys, states))
print("clock", time.process_time(), time.perf_counter() - start, flush=True)
for line in sys.stdin:
    (keys, states), out = jax.block_until_ready(play(keys, states))
    print("clock", time.process_time(), flush=True)
"""


class Vmas:
    """VMAS with actions drawn in advance.

    Args:
        name: of the scenario.
        rows: how many envs.
        staggered: episodes of so many steps, of which the rows are at different ones; finished rows are reset one by
            one.
        device: where.
        options: of the scenario.

    """

    def __init__(self, name: str, rows: int, staggered: int | None = None, device: str = "cpu", **options: Any) -> None:
        vmas = need("vmas", "marlenv bench physics")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.env: Any = vmas.make_env(name, num_envs=rows, seed=0, max_steps=staggered, device=device, **options)
        self.env.reset()
        self.staggered = staggered
        if staggered:
            self.env.steps[:] = torch.arange(rows) % staggered
        self.actions = self.env.get_random_actions()

    def play(self, steps: int) -> int:
        """So many steps."""
        for _ in range(steps):
            _, _, done, _ = self.env.step([action.clone() for action in self.actions])
            if self.staggered:
                for row in done.nonzero().flatten().tolist():
                    self.env.reset_at(row)
        return steps


class JaxMarl:
    """A random rollout of JaxMARL with its own resets: jit, scan and vmap, one thread.

    Args:
        name: of the env.
        rows: how many.
        steps: of a rollout.

    """

    def __init__(self, name: str, rows: int, steps: int) -> None:
        self.steps = steps
        self.process = subprocess.Popen(
            [sys.executable, "-c", JAX, name, str(rows), str(steps)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._used = 0.0
        self.compile = float(self._answer()[1])
        """Seconds that it took to compile."""

    def _answer(self) -> list[str]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            mark, *answer = line.split() or [""]
            if mark == "clock":  # imports print things of their own
                self._used = float(answer[0])
                return answer
        raise RuntimeError("marlenv bench physics: the process of JaxMARL ended; is jaxmarl installed?")

    def clock(self) -> float:
        """Seconds of CPU time that its process has used, as of its last answer."""
        return self._used

    def play(self) -> int:
        """A rollout."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self._answer()
        return self.steps

    def close(self) -> None:
        """Ends the process."""
        self.process.communicate()
