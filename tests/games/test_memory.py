"""Memory that is written again: never while anybody holds any of it, in whatever way."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sizes import first
from tensordict import TensorDict
from torch import Tensor

from marlenv.games import ConnectFour, GameEnv, TicTacToeEnv
from marlenv.games.fast.data_pool import DataPool
from marlenv.tensordicts import new


def laid_out() -> tuple[TensorDict, list[Tensor]]:
    """Two entries over one memory, and a third over its own."""
    flags, seen = torch.zeros(2, 4, dtype=torch.bool), torch.zeros(4, 3)
    batch = torch.Size([4])
    return new({"done": flags[0], "group": new({"alive": flags[1], "seen": seen}, batch)}, batch), [flags, seen]


def holds_gradient(td: TensorDict) -> Tensor:
    """What autograd keeps of a tensor for the backward pass, and nobody else."""
    weight = torch.ones(3, 3, requires_grad=True)
    return td["group", "seen"] @ weight


HOLDERS: dict[str, Callable[[TensorDict], Any]] = {
    "whole": lambda td: td,
    "entry": lambda td: td["done"],
    "row": lambda td: td["group", "seen"][0],
    "array": lambda td: td["group", "seen"].numpy(),
    "memory view": lambda td: memoryview(td["done"].numpy()),
    "dlpack": lambda td: torch.utils.dlpack.from_dlpack(td["group", "seen"]),
    "graph": holds_gradient,
}


@pytest.mark.slow
@pytest.mark.parametrize("hold", first(HOLDERS.values(), 2), ids=HOLDERS)
def test_a_page_is_not_handed_out_while_anybody_holds_any_of_it(hold: Callable[[TensorDict], Any]) -> None:
    pool = DataPool()
    td, first = pool.take("kind", laid_out)
    held = hold(td)
    del td
    gc.collect()
    assert pool.take("kind", laid_out)[1] is not first
    del held
    gc.collect()
    again = [pool.take("kind", laid_out) for _ in range(2)]
    assert any(memory is first for _, memory in again)


def test_what_is_done_to_a_tensor_does_not_stay_with_the_page() -> None:
    pool = DataPool()
    td, memory = pool.take("kind", laid_out)
    td["group", "seen"].requires_grad_()
    td["done"].resize_(2)
    td["more"] = torch.ones(4)
    del td
    td, again = pool.take("kind", laid_out)
    assert again is memory
    assert set(td.keys(True, True)) == {"done", ("group", "alive"), ("group", "seen")}
    assert not td["group", "seen"].requires_grad
    assert td["done"].shape == (4,)


def test_memory_that_moved_to_where_other_processes_read_it_is_left_to_them() -> None:
    pool = DataPool()
    td, memory = pool.take("kind", laid_out)
    td["group", "seen"].share_memory_()
    del td
    assert pool.take("kind", laid_out)[1] is not memory


def test_a_page_of_inference_is_no_page_of_training() -> None:
    pool = DataPool()
    with torch.inference_mode():
        td, memory = pool.take("kind", laid_out)
        del td
    td, other = pool.take("kind", laid_out)
    assert other is not memory
    assert not td["done"].is_inference()


def test_pool_that_are_held_are_forgotten_after_some() -> None:
    pool = DataPool()
    held = [pool.take("kind", laid_out) for _ in range(3 * DataPool.MOST)]
    first = held[0][1]
    del held
    assert all(memory is not first for _, memory in [pool.take("kind", laid_out) for _ in range(3 * DataPool.MOST)])


@pytest.mark.parametrize(
    "make",
    [lambda: GameEnv(ConnectFour(), batch_size=[64]), lambda: TicTacToeEnv(batch_size=[64])],
    ids=["four", "tic"],
)
def test_data_are_where_the_env_is_after_it_moved(make: Callable[[], Any]) -> None:
    env = make()
    for _ in range(2):
        env.rand_step(env.reset())  # pool that name no device
    env = env.to("cpu")
    following = env.rand_step(env.reset())["next"]
    groups = [value for value in following.values() if isinstance(value, TensorDict)]
    assert {td.device for td in (following, *groups)} == {torch.device("cpu")}


def test_a_torch_that_does_not_count_holders_gets_new_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marlenv.games.fast.data_pool.holders", None)
    pool = DataPool()
    first, second = (pool.take("kind", laid_out)[1] for _ in range(2))
    assert first is not second
    env = GameEnv(ConnectFour(), batch_size=[80])
    assert int(env.rollout(50, break_when_any_done=False)["next", "done"].sum()) > 0
