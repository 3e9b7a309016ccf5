"""What machine code writes step after step arrives row by row, number for number, in steps that begin anew too."""

import pytest
import torch
from stepwise import stepwise
from test_fused import same

from marlenv.envs import EnvBase
from marlenv.physics.env import staging_buffer
from marlenv.physics.env.staging_buffer import ALIGNED, FEWEST, MOST
from marlenv.physics.jit import cache
from marlenv.physics.jit.kernel import Turned
from marlenv.registration import make

pytestmark = pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")


def steer(td):
    return td.set(("agents", "action"), -td["agents", "observation"][..., :2].clamp(-1, 1))


@pytest.fixture(scope="module")
def kernel():
    return make("give_way", num_envs=2, compile="aot").engine.kernel


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("rows", [1, 5, 16, 83, 8192])
@pytest.mark.parametrize("shape", [(), (3,), (2, 9)], ids=str)
@pytest.mark.parametrize("kept", [True, False])
def test_what_followed_and_what_was_shown_is_turned(kernel, dtype, rows, shape, kept):
    """Where no row ended it is the same, as it was left by who was shown it. Of 8,192 rows they are written past the
    caches.
    """
    draw = torch.Generator().manual_seed(rows)

    def some(*size):
        return torch.randint(0, 2 if dtype == torch.bool else 1000, size, generator=draw).to(dtype)

    x, shown = (some(7, rows, *shape).movedim(1, -1) for _ in range(2))
    memory = [some(rows, 12, *shape) for _ in range(2)]
    want = [m.clone() for m in memory]
    out, before = (m.movedim(0, -1)[:10] for m in memory)
    ended = [0, 1, 0, 0, 1, 1, 0]
    if kept:
        kernel.turning([Turned(x, out, before)])(3, 10, [shown], ended)
        where = torch.tensor([*ended[:6], 1]).bool().reshape(7, *(1,) * (x.ndim - 1))  # none is shown after the last
        want[0][:, 3:10] = torch.where(where, x, shown).movedim(-1, 0)
    else:
        kernel.turning([Turned(None, before[1:])])(3, 10, [shown], ended)
    want[1][:, 4:10] = shown[:6].movedim(-1, 0)
    assert torch.equal(memory[0], want[0])
    assert torch.equal(memory[1], want[1])


def odd_ones(kind, rows):
    """Five tensors that are no plain memory, or have a gradient."""
    x = [torch.randn(rows, 3, generator=torch.Generator().manual_seed(i)) for i in range(5)]
    return {
        "turned": [one.reshape(3, rows).T for one in x],
        "one of them turned": [*x[:4], x[4].reshape(3, rows).T],
        "negated": [*x[:4], torch._neg_view(x[4])],
        "complex": [torch.complex(one, one).conj() for one in x],
        "zeros without memory": [*x[:4], torch._efficientzerotensor(rows, 3)],
        "nothing": [one[:, :0] for one in x],
    }[kind]


@pytest.mark.parametrize("rows", [1, 5, 83, 4096])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (4, 2), (5, 7)], ids=str)
def test_steps_are_stacked_as_pytorch_stacks_them(kernel, rows, dtype, shape):
    draw = torch.Generator().manual_seed(rows)
    parts = [
        torch.randint(0, 2 if dtype == torch.bool else 99, (rows, *shape), generator=draw).to(dtype) for _ in range(9)
    ]
    [found] = kernel.stacked([parts])
    assert found.is_contiguous()
    assert found.dtype == dtype
    assert torch.equal(found, torch.stack(parts, 1))


LAID = {
    "a part of each row": lambda x: x.chunk(2, -1)[1],
    "parts of each row, apart": lambda x: x[..., ::2],
    "other rows between": lambda x: x[::2],
    "agents from last to first, in memory of their own": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "the same number for all": lambda x: x[:, :1, :1].expand(-1, 3, 4),
    "the same row for all": lambda x: x[:1].expand(20, -1, -1),
    "pieces of pieces": lambda x: x.reshape(-1, 2, 6, 6)[:, :, ::3, ::2],
}


@pytest.mark.parametrize("rows", [2, 38])
@pytest.mark.parametrize("kind", LAID)
def test_rows_that_lie_apart_are_stacked(kernel, kind, rows):
    """As the means and deviations of a policy do, which are halves of what its network gave."""
    draw = torch.Generator().manual_seed(rows)
    parts = [LAID[kind](torch.randn(rows, 6, 12, generator=draw)) for _ in range(11)]
    others = [torch.randn(len(parts[0]), 5, generator=draw) for _ in parts]
    one_apart = [*parts[:-1], parts[-1].contiguous()]
    for found, want in zip(kernel.stacked([parts, others, one_apart]), (parts, others, one_apart), strict=True):
        assert found.is_contiguous()
        assert torch.equal(found, torch.stack(want, 1))


@pytest.mark.parametrize(
    "kind",
    ["turned", "one of them turned", "negated", "complex", "zeros without memory", "nothing"],
)
def test_what_is_no_plain_memory_is_stacked_too(kernel, kind):
    parts = odd_ones(kind, 70)
    found, want = kernel.stacked([parts])[0], torch.stack(parts, 1)
    assert (found.dtype, found.stride()) == (want.dtype, want.stride())
    assert torch.equal(found, want)


def test_what_lies_on_another_device_is_stacked_there(kernel):
    """``meta`` stands for a GPU: its tensors have no memory that the CPU could read."""
    found = kernel.stacked([[torch.ones(70, 3, device="meta")] * 5])[0]
    assert found.device.type == "meta"
    assert found.shape == (70, 5, 3)


def test_gradients_go_through_a_stack(kernel):
    weight = torch.ones(70, requires_grad=True)
    kernel.stacked([[t * weight for t in range(4)]])[0].sum().backward()
    assert torch.equal(weight.grad, torch.full((70,), 6.0))
    with torch.no_grad():
        assert not kernel.stacked([[weight, weight]])[0].requires_grad


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("steps", [1, FEWEST, 2 * FEWEST + 1])
def test_more_than_the_caches_hold_is_turned_in_the_shortest_parts(compact, steps, monkeypatch):
    monkeypatch.setattr(staging_buffer, "HELD", 1)
    found = []
    for roll in (EnvBase.rollout, stepwise):
        env = make("navigation", num_envs=21, seed=3, max_steps=5, compile="aot")
        found.append(roll(env, steps, steer, break_when_any_done=False, compact=compact))
    same(*found)


@pytest.mark.parametrize("tier", ["none", "aot"])
@pytest.mark.parametrize("rows", [1, 5, 64])
def test_what_a_policy_is_shown_lies_in_memory_as_what_a_step_by_hand_gives(rows, tier):
    """Matrix products depend on it in their last bits, and ``view`` takes only what lies row by row."""
    found = []
    for roll in (EnvBase.rollout, stepwise):
        seen = []

        def act(td, seen=seen):
            x = td["agents", "observation"]
            seen.append((x.is_contiguous(), x.data_ptr() % ALIGNED, x.view(rows, -1).clone()))
            return steer(td)

        env = make("navigation", num_envs=rows, seed=3, max_steps=5, compile=tier)
        roll(env, 12, act, break_when_any_done=False)
        found.append(seen)
    for (whole, place, x), (one, other, y) in zip(*found, strict=True):
        assert whole
        assert one
        assert place == other == 0
        assert torch.equal(x, y)


def centred():
    def act(td):
        seen = td["agents", "observation"].numpy()
        seen -= seen.mean(-1, keepdims=True)
        return steer(td)

    return act


def summed():
    """Keeps a sum in the first observation that it was given."""
    held = []

    def act(td):
        seen = td["agents", "observation"]
        held.append(held[0].mul_(0.5).add_(seen) if held else seen)
        return steer(td)

    return act


@pytest.mark.slow
@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("tier", ["none", "aot"])
@pytest.mark.parametrize("policy", [centred, summed])
def test_what_a_policy_writes_where_nobody_counts_it_is_in_the_data(policy, tier, compact):
    """In steps by hand it is in the tensors that are stacked."""
    found = []
    for roll in (EnvBase.rollout, stepwise):
        env = make("navigation", num_envs=5, seed=3, max_steps=7, compile=tier)
        found.append(roll(env, 2 * MOST + 1, policy(), break_when_any_done=False, compact=compact))
    same(*found)


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("steps", [1, MOST, MOST + 1])
def test_new_episodes_in_the_middle(compact, steps):
    found = []
    for roll in (EnvBase.rollout, stepwise):
        env = make("navigation", num_envs=70, seed=3, max_steps=9, compile="aot")
        found.append(roll(env, steps, steer, break_when_any_done=False, compact=compact))
    same(*found)


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("rows", [70, 200])
def test_rows_that_end_one_by_one(rows, stop):
    """What follows on a step is there for rows far from any that ended in it, too."""
    found = []
    for roll in (EnvBase.rollout, stepwise):
        env = make("balance", num_envs=rows, seed=3, compile="aot")
        found.append(roll(env, 40, env.rand_action, break_when_any_done=stop))
    same(*found)
    ended = torch.stack([some.any(0) for some in found[0]["next", "done"].squeeze(-1).split(16)])
    assert bool((ended.any(0) & ~ended.all(0)).any())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["navigation", "balance", "football"])
def test_what_is_written_past_the_caches_is_the_same(name):
    """Of many rows; the first of them live as they do alone."""
    found = []
    for rows in (48, 16384):
        env = make(name, num_envs=rows, seed=3, max_steps=2, compile="aot")
        assert env.engine.kernel._ways(rows, 1)[0] == (rows > 48)
        found.append([stepwise(env, 3, break_when_any_done=False)[:48], env.reset()[:48]])
    for few, many in zip(*found, strict=True):
        same(few, many)


def test_large_results_of_steps_by_hand_are_theirs_who_hold_them():
    """Their memory is used again, but not while anybody sees any of it."""
    few, env = (make("simple_spread", num_envs=rows, seed=3, compile="aot") for rows in (48, 16384))
    td, other, held = env.reset(), few.reset(), []
    for t in range(8):
        td, other = env.step_mdp(env.rand_step(td)), few.step_mdp(few.rand_step(other))
        seen, right = td["agents", "observation"], other["agents", "observation"]
        assert torch.equal(seen[:48], right)
        if t in (2, 5):
            held.append((seen[3:48, 1].T, right[3:, 1].T))
    assert all(torch.equal(x, y) for x, y in held)
    assert few._fast_step().pool is None
    pool = env._fast_step().pool
    before, size = pool.free, seen.nbytes
    del td, seen
    assert pool.free == max(before, size)  # as much as one step takes is kept


def test_actions_that_are_negated_when_they_are_read():
    """As the imaginary part of a conjugated number is: their memory says the opposite."""

    def act(td):
        return td.set(("agents", "action"), torch._neg_view(steer(td)["agents", "action"]))

    found = []
    for roll in (EnvBase.rollout, stepwise):
        env = make("navigation", num_envs=19, seed=3, max_steps=7, compile="aot")
        found.append(roll(env, 9, act, break_when_any_done=False))
    same(*found)
    plain = make("navigation", num_envs=19, seed=3, max_steps=7, compile="aot").rollout(
        9, lambda td: td.set(("agents", "action"), -steer(td)["agents", "action"]), break_when_any_done=False
    )
    assert torch.equal(found[0]["agents", "observation"], plain["agents", "observation"])


@pytest.mark.parametrize("t", [MOST - 1, MOST, MOST + 3])
def test_a_policy_that_does_more_between_two_stages(t):
    found = []
    for roll in (EnvBase.rollout, stepwise):
        count = iter(range(2 * MOST))

        def act(td, count=count):
            if next(count) == t:
                td["agents", "observation"][:, 0] = 9.0
            return steer(td)

        env = make("navigation", num_envs=19, seed=3, max_steps=7, compile="aot")
        found.append(roll(env, 2 * MOST, act, break_when_any_done=False))
    same(*found)
