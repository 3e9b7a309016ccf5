"""``torch.compile`` of native envs: whole graphs are refused and say what to do, broken ones give the same data."""

from __future__ import annotations

import pytest
import torch

import marlenv

NATIVE = [
    ("simple_spread", {}, "make the env with compile='auto' or compile='compile'"),
    ("tic_tac_toe", {}, "compile the policy apart: games look at their data"),
    ("chess", {"layout": "torchrl"}, "compile the policy apart: games look at their data"),
]


@pytest.mark.parametrize("what", ["step", "reset"])
@pytest.mark.parametrize(("name", "options", "says"), NATIVE, ids=[case[0] for case in NATIVE])
def test_a_graph_of_a_whole_step_is_refused(name: str, options: dict[str, object], says: str, what: str) -> None:
    torch.compiler.reset()
    env = marlenv.make(name, num_envs=2, seed=0, **options)
    data = env.rand_action(env.reset())
    call = torch.compile(getattr(env, what), fullgraph=True, backend="eager")
    with pytest.raises(torch._dynamo.exc.Unsupported, match=says):
        call(data)


@pytest.mark.filterwarnings("ignore")
def test_bounds_are_not_written_out_in_an_export() -> None:
    """There they are symbols, which have no digits."""

    class Adds(torch.nn.Module):
        spec = marlenv.Bounded(-1, 3, (2, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert "Bounded" in repr(self.spec)
            return x + self.spec[0].high

    x = torch.arange(4.0)
    assert torch.export.export(Adds(), (x,)).module()(x).tolist() == [3, 4, 5, 6]
    assert repr(Adds.spec) == "Bounded([2, 1], float32, -1..3)"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_step_with_breaks_gives_the_same_data() -> None:
    torch.compiler.reset()
    data = []
    for compiled in (False, True):
        env = marlenv.make("simple_spread", num_envs=2, seed=0)
        step = torch.compile(env.step, backend="eager") if compiled else env.step
        data.append(step(env.rand_action(env.reset())))
    assert (data[0] == data[1]).all()
