"""How ALF makes environments: ``load`` of a suite, and ``create_environment`` on top of it, with our envs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from marlenv.envs import EnvBase
from marlenv.errors import Unsupported, whole
from marlenv.interop.alf.env import AlfEnvironment
from marlenv.registration import make
from marlenv.transforms import BatchSizeTransform, TimeLimit, TransformedEnv
from marlenv.vector import ParallelEnv, SerialEnv

Load = Callable[..., Any]
Wrapper = Callable[[EnvBase], EnvBase]


class ParallelAlfEnvironment(AlfEnvironment):
    """Many envs, each in a process of its own, as one batched environment.

    Args:
        env_constructors: a function that makes an env of ours, for each.
    """

    def __init__(self, env_constructors: Sequence[Callable[[], EnvBase]]) -> None:
        super().__init__(_rows(ParallelEnv(len(env_constructors), list(env_constructors))))


class ThreadEnvironment(AlfEnvironment):
    """One env in the main process, for evaluation and play.

    Args:
        env_constructor: a function that makes an env of ours.
    """

    def __init__(self, env_constructor: Callable[[], EnvBase]) -> None:
        super().__init__(_rows(SerialEnv(1, env_constructor)))


def _rows(pool: EnvBase) -> EnvBase:
    """A pool of envs with one row each as one env with rows; of envs without rows it is one already."""
    if len(pool.batch_size) == 1 or pool.batch_size.numel() != pool.batch_size[0]:
        return pool
    return TransformedEnv(pool, BatchSizeTransform(reshape_fn=lambda td: td.reshape(td.shape[0])))


def suite(make_env: Callable[..., EnvBase], *, batched: bool) -> Load:
    """A ``load`` like those of ALF's suites, for :func:`create_environment`.

    ``load(environment_name, batch_size=, max_episode_steps=, gym_env_wrappers=, alf_env_wrappers=, **options)`` makes
    the env, and puts the first wrappers, a time limit and the second wrappers around it; wrappers take and return envs
    of ours, such as ``lambda env: TransformedEnv(env, RewardScaling(0, 0.1))``. The limit is the env's own with
    ``max_episode_steps`` None or 0. A ``batch_size`` is for batched suites; they make one row when it is left out.

    Args:
        make_env: makes an env of ours of a name; with ``batched`` it takes ``num_envs``.
        batched: whether what it makes has rows, so that no processes are needed around it.

    >>> load = suite(marlenv.make, batched=True)
    >>> load("simple_spread", batch_size=2, max_episode_steps=25).batch_size
    2
    """

    def load(
        environment_name: str, *, batch_size: int | None = None, max_episode_steps: int | None = 0,
        gym_env_wrappers: Sequence[Wrapper] = (), alf_env_wrappers: Sequence[Wrapper] = (), **options: Any,
    ) -> Any:  # fmt: skip
        rows = 1 if batch_size is None else whole("load", "batch_size", batch_size, 1)
        if rows > 1 and not batched:
            raise Unsupported(
                f"load: this suite makes one env, got batch_size={rows}; for {rows} of them call "
                f"create_environment({environment_name!r}, load, num_parallel_environments={rows})"
            )
        env = make_env(environment_name, **({"num_envs": rows} if batched else {}), **options)
        for wrapper in gym_env_wrappers:
            env = wrapper(env)
        if max_episode_steps:
            env = TransformedEnv(env, TimeLimit(max_episode_steps, step_count_key="_step_count"))  # nobody observes it
        for wrapper in alf_env_wrappers:
            env = wrapper(env)
        return AlfEnvironment(env) if batched else env

    load.batched = batched  # type: ignore[attr-defined]
    return load


load = suite(make, batched=True)
"""All envs that ``marlenv list`` names and that have rows."""


def create_environment(
    env_name: str, env_load_fn: Load = load, *, num_parallel_environments: int = 30, nonparallel: bool = False,
    seed: int | None = None, **options: Any,
) -> AlfEnvironment:  # fmt: skip
    """A batched environment of a name: as the suite makes it, or of processes, or of one env in this process.

    Args:
        env_name: the task.
        env_load_fn: the suite's ``load``; with ``load.batched`` its env has rows of its own.
        num_parallel_environments: how many envs, from 1 on.
        nonparallel: one env, in this process.
        seed: every env gets its own from it, the same ones in the same order.
        **options: of ``env_load_fn``.

    Raises:
        Unsupported: ``env_load_fn`` does not say whether it is ``batched``.

    >>> create_environment("simple_spread", num_parallel_environments=4, max_episode_steps=25).batch_size
    4
    """
    if not hasattr(env_load_fn, "batched"):
        raise Unsupported(f"create_environment: {env_load_fn!r} has no .batched; suite(make, batched=True) makes one")
    number = 1
    if not nonparallel:
        number = whole("create_environment", "num_parallel_environments", num_parallel_environments, 1)
    if env_load_fn.batched:
        made = env_load_fn(env_name, batch_size=number, **options)
    else:

        def one() -> Any:
            return env_load_fn(env_name, **options)

        made = ThreadEnvironment(one) if nonparallel else ParallelAlfEnvironment([one] * number)
    if seed is not None:
        made.seed(seed)
    return made


def create_eval_environment(
    train: AlfEnvironment, make_env: Callable[[], EnvBase], *, evaluate: bool, no_thread_env_for_conf: bool
) -> AlfEnvironment | None:
    """The environment beside that of training, by the flags of ALF's ``TrainerConfig``.

    Args:
        train: what is trained on.
        make_env: makes one env of ours.
        evaluate: whether there is to be an evaluation.
        no_thread_env_for_conf: whether nothing may run in this process.

    Returns:
        For evaluation one env, in a process with ``no_thread_env_for_conf`` and else in this one. Without evaluation
        None, but for one in this process beside processes, where its configuration is looked at.
    """
    if no_thread_env_for_conf:
        return ParallelAlfEnvironment([make_env]) if evaluate else None
    beside = evaluate or isinstance(train, ParallelAlfEnvironment)
    return ThreadEnvironment(make_env) if beside else None
