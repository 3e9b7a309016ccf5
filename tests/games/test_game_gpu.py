"""Games on a GPU: the same plies as on the CPU, and nothing that waits."""

from __future__ import annotations

import pytest
import torch

from marlenv import check_env_specs
from marlenv.cli.benches.cuda import without_waiting
from marlenv.registration import available, make
from marlenv.testing.comparison import differences

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
CASES = [
    *((name, {}) for name in available("game")),
    *((name, {"group_map": "all_in_one_group"}) for name in ("chess", "hex", "connect_four")),
    *((name, {"opponent": "random"}) for name in ("chess", "hex", "connect_four", "kuhn_poker")),
    ("chess", {"chess960": True}),
    ("chess", {"draws": "claim"}),
    ("go", {"repetition": "forbid"}),
    ("go", {"repetition": "draw"}),
]


def exact(td):
    """The entries that are no fractions."""
    return td.select(*(key for key in td.keys(True, True) if not td.get(key).is_floating_point()))


games = pytest.mark.parametrize(("name", "options"), CASES, ids=str)


@games
def test_games_are_those_of_the_cpu(name, options):
    there, here = (make(name, num_envs=65, seed=3, device=device, **options) for device in ("cuda", "cpu"))
    for more in ({"break_when_any_done": False}, {}):
        ours, theirs = there.rollout(40, **more), here.rollout(40, **more)
        assert {x.device for x in ours.values(True, True) if isinstance(x, torch.Tensor)} == {there.device}
        assert differences(exact(ours.cpu()), exact(theirs)) == []
        for key in theirs.keys(True, True):  # a GPU divides by a number as it multiplies by its inverse
            torch.testing.assert_close(ours.get(key).cpu(), theirs.get(key), rtol=2e-7, atol=0)


# an opponent moves until nobody waits for it where players do not alternate: the host looks
@pytest.mark.parametrize(
    ("name", "options"), [x for x in CASES if x != ("kuhn_poker", {"opponent": "random"})], ids=str
)
def test_nothing_waits_for_plies_and_resets(name, options):
    env = make(name, num_envs=64, seed=0, device="cuda", **options)
    td = env.reset()
    for _ in range(2):
        _, td = env.step_and_maybe_reset(env.rand_action(td))
    env.rollout(2, break_when_any_done=False)
    torch.cuda.synchronize()
    with without_waiting():
        for _ in range(4):
            _, td = env.step_and_maybe_reset(env.rand_action(td))
        env.rollout(4, break_when_any_done=False)


@games
def test_specs_hold(name, options):
    check_env_specs(make(name, num_envs=3, seed=0, device="cuda", **options))
