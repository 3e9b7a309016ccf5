"""Pools whose envs' entries change in size, and pools whose data live on a device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from pools import assert_equal, pool
from tensordict import TensorDict, TensorDictBase

from marlenv import AsyncEnvPool, Composite, EnvBase, ParallelEnv, SerialEnv, Unbounded
from marlenv.testing import CountingEnv


class Growing(EnvBase):
    """Observes as many numbers as it has played steps, and a few more; ends after three."""

    def __init__(self, more: int = 1) -> None:
        super().__init__()
        self.observation_spec = Composite(history=Unbounded((-1,)))
        self.action_spec, self.reward_spec = Unbounded((1,)), Unbounded((1,))
        self.more, self.t = more, 0

    def _reset(self, tensordict: TensorDictBase | None, **_: object) -> TensorDict:
        self.t = 0
        return TensorDict({"history": torch.zeros(self.more)})

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        self.t += 1
        history = torch.cat([tensordict["history"], tensordict["action"]])
        return TensorDict({"history": history, "reward": torch.ones(1), "done": torch.tensor([self.t == 3])})

    def _set_seed(self, seed: int | None) -> None:
        pass


POOLS: dict[str, Callable[..., EnvBase]] = {
    "serial": lambda makers: SerialEnv(len(makers), makers),
    "processes": lambda makers: ParallelEnv(len(makers), makers, num_processes=2),
    "threads": partial(AsyncEnvPool, stack="maybe_dense"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 2, 4)], ids=["alike", "unlike"])
def test_entries_may_change_in_size(kind: str, sizes: tuple[int, ...]) -> None:
    env = POOLS[kind]([partial(Growing, n) for n in sizes])
    env.set_seed(0)
    alone = [Growing(n) for n in sizes]
    td, tds = env.reset(), [one.reset() for one in alone]
    for t in range(7):
        action = torch.arange(3.0).reshape(3, 1) + t
        step, td = env.step_and_maybe_reset(td.set("action", action))
        for i, one in enumerate(alone):
            want, tds[i] = one.step_and_maybe_reset(tds[i].set("action", action[i]))
            assert torch.equal(step[i]["next", "history"], want["next", "history"])
            assert torch.equal(step[i]["next", "done"], want["next", "done"])
            assert torch.equal(td[i]["history"], tds[i]["history"])
    env.close()


DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU of NVIDIA"))])  # fmt: skip


@DEVICES
@pytest.mark.parametrize("kind", ["counting", "rows", "groups", "transformed", "gymnasium"])
@pytest.mark.parametrize("cls", [SerialEnv, partial(ParallelEnv, num_processes=2)], ids=["serial", "processes"])
def test_data_live_on_the_device_of_the_pool(cls: Callable[..., EnvBase], kind: str, device: str) -> None:
    plain, moved = pool(SerialEnv, kind), pool(cls, kind, device=device)
    assert moved.device.type == device
    for how in ({}, {"break_when_any_done": False}):
        assert plain.set_seed(5) == moved.set_seed(5)
        actions = iter(plain.rollout(6, **how).select(*plain.action_keys).unbind(-1))
        plain.set_seed(5)
        one = plain.rollout(6, **how)
        two = moved.rollout(
            6, lambda td, actions=actions: td.update(next(actions).to(device)), auto_cast_to_device=False, **how
        )
        assert {value.device for value in two.values(True, True)} == {moved.device}
        assert_equal(one, two.cpu(), how)
    moved.close()


@DEVICES
@pytest.mark.parametrize("kind", POOLS)
def test_a_pool_that_was_moved_stays_there(kind: str, device: str) -> None:
    env = POOLS[kind]([CountingEnv] * 2).to(device)
    for _ in range(2):  # before it has run, and after it has ended
        td = env.rollout(2, break_when_any_done=False)
        assert env.device.type == td.device.type == device
        assert td["next", "observation"].device.type == device
        assert td["next", "observation"].flatten().tolist() == [1, 2, 1, 2]
        env.close()
    if kind == "threads":
        env.async_reset_send()
        assert env.async_reset_recv(min_get=2).device.type == device
        env.close()
