"""Options of pools that cannot be are refused at once, by name."""

from __future__ import annotations

import pytest

from marlenv import AsyncEnvPool, ParallelEnv, SerialEnv
from marlenv.errors import SpecError
from marlenv.testing import CountingEnv

WRONG = [
    ("num_processes", 0, "num_processes must be an integer from 1 to 3, got 0"),
    ("num_threads", 0, "num_threads must be an integer from 1 on, got 0"),
    ("num_threads", "x", "num_threads must be an integer from 1 on, got 'x'"),
    ("num_sub_threads", 0, "num_sub_threads must be an integer from 1 on, got 0"),
    ("timeout", "5", "timeout must be a number of seconds above 0, or None for any time, got '5'"),
    ("timeout", 0, "timeout must be a number of seconds above 0, or None for any time, got 0"),
    ("timeout", -1, "timeout must be a number of seconds above 0, or None for any time, got -1"),
    ("timeout", True, "timeout must be a number of seconds above 0, or None for any time, got True"),
    ("shutdown_timeout", None, "shutdown_timeout must be a number of seconds from 0 on, got None"),
    ("shutdown_timeout", "x", "shutdown_timeout must be a number of seconds from 0 on, got 'x'"),
    ("create_env_kwargs", "abc", "create_env_kwargs must be a list of 3 dicts, one per child, got 'abc'"),
    ("create_env_kwargs", [1, 2, 3], r"create_env_kwargs\[0\] must be a dict of keyword arguments, got 1"),
    ("create_env_kwargs", [{}], "3 workers need 3 entries in create_env_kwargs, got 1"),
    ("backend_options", 3, "backend_options must be a dict of options, got 3"),
]


@pytest.mark.parametrize("cls", [SerialEnv, ParallelEnv])
@pytest.mark.parametrize(("name", "value", "says"), WRONG)
def test_what_cannot_be_is_refused(cls, name, value, says):
    with pytest.raises(SpecError, match=f"^{cls.__name__}: {says}$"):
        cls(3, CountingEnv, **{name: value})


@pytest.mark.parametrize(("name", "value", "says"), [one for one in WRONG if one[0][0] in "tcb"])
def test_of_asynchronous_pools_too(name, value, says):
    with pytest.raises(SpecError, match=f"^ThreadingAsyncEnvPool: {says}$"):
        AsyncEnvPool([CountingEnv] * 3, **{name: value})


def test_a_function_must_make_the_envs():
    for make in (None, [CountingEnv, None, CountingEnv]):
        with pytest.raises(SpecError, match="create_env_fn must be a function that makes an env, got NoneType"):
            SerialEnv(3, make)


def test_options_that_change_later_are_looked_at():
    env = SerialEnv(2, CountingEnv)
    with pytest.raises(SpecError, match=r"SerialEnv: num_threads must be an integer from 1 on, got 0"):
        env.configure_parallel(num_threads=0)
    assert env.num_threads is None
    with pytest.raises(SpecError, match=r"SerialEnv\.update_kwargs: kwargs must be a list of 2 dicts, .*, got 3"):
        env.update_kwargs(3)
    with pytest.raises(SpecError, match=r"SerialEnv\.update_kwargs: 2 workers need 2 entries in kwargs, got 1"):
        env.update_kwargs([{}])


@pytest.mark.parametrize("make", [SerialEnv, lambda n, make: AsyncEnvPool([make] * n)])
def test_options_of_a_reset_are_looked_at(make):
    env = make(2, CountingEnv)
    for given, says in (
        (5, "must be a list of 2 dicts, one per child, got 5"),
        ([{}, 3], r"\[1\] must be a dict of keyword arguments, got 3"),
    ):
        with pytest.raises(SpecError, match=rf"\.reset: list_of_kwargs ?{says}"):
            env.reset(list_of_kwargs=given)
    env.close()
