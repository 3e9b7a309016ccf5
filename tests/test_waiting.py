"""No step makes the host wait for a device.

Shown without one, on ``meta`` tensors: they hold nothing, so whatever looks at data raises (``item``, ``bool``,
``nonzero``), and CUDA's way is taken everywhere, since they are not on the CPU. :class:`NoWaiting` also refuses copies
between host and device, which ``meta`` allows and which make the host wait for CUDA
(``torch.cuda.set_sync_debug_mode``) and end the capture of a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from marlenv.scenarios.index import SCENARIOS
from sizes import first, some
from torch import Size, Tensor
from torch.overrides import TorchFunctionMode

import marlenv
from marlenv import EnvBase
from marlenv.constants import constant
from marlenv.games import Go
from marlenv.games.chess import Chess
from marlenv.games.env.game_env import MANY
from marlenv.physics.maths import rowwise
from marlenv.registration import available
from marlenv.rng import RowRNG

META = torch.device("meta")
ROWS = 64
MAKES = {"tensor", "as_tensor", "asarray", "new_tensor"}  # tensors from data of the host
COPIES = {"to", "copy_", "type_as"}
INDEXES = {"__getitem__", "__setitem__"}


def on_host(x: object) -> bool:
    return isinstance(x, Tensor) and x.is_cpu


class NoWaiting(TorchFunctionMode):
    """Raises for what copies from the host to a device, or back; numbers, and tensors without dimensions as operands,
    are no copies."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name, given = getattr(func, "__name__", ""), [*args, *kwargs.values()]
        if name in INDEXES and args[0].is_meta:
            self._check_index(name, *args)
        out = func(*args, **kwargs)
        if isinstance(out, Tensor) and out.is_meta:
            data = args[name == "new_tensor"] if name in MAKES else out
            if not (isinstance(data, Tensor) and data.is_meta):
                raise RuntimeError(f"{name} copies {data!r} to the device")
            copied = [x for x in given if on_host(x) and (x.ndim or name in COPIES)]
            if copied:
                raise RuntimeError(f"{name} copies {copied[0]!r} to the device")
        elif on_host(out) and any(isinstance(x, Tensor) and x.is_meta for x in given):
            raise RuntimeError(f"{name} copies from the device")
        return out

    @staticmethod
    def _check_index(name: str, into: Tensor, index: Any, value: Any = 0) -> None:
        for part in index if isinstance(index, tuple) else (index,):
            if isinstance(part, list) or (on_host(part) and part.ndim):
                raise RuntimeError(f"{name} copies the index {part!r} to the device")
            if (
                isinstance(part, Tensor)
                and part.dtype == torch.bool
                and (name == "__getitem__" or isinstance(value, Tensor))
            ):
                raise RuntimeError(f"{name} counts the rows of a mask")


def lives_without_waiting(env: EnvBase) -> None:
    """Raises unless steps, random actions and resets of ended rows keep the host free once constants are in place."""
    td = env.reset()
    _, td = env.step_and_maybe_reset(env.rand_action(td))
    with NoWaiting():
        step, td = env.step_and_maybe_reset(env.rand_action(td))
        assert all(x.is_meta for x in step.values(True, True) if isinstance(x, Tensor))
        env.maybe_reset(env.step(env.rand_action(td))["next"])


def test_rollouts_do_not_wait() -> None:
    for name in ("chess", "simple_spread"):
        env = marlenv.make(name, num_envs=ROWS, device=META, seed=0)
        env.rollout(1, break_when_any_done=False)
        with NoWaiting():
            env.rollout(2, break_when_any_done=False)


# an opponent in games whose players do not simply alternate (poker, backgammon) moves until nobody waits for it: the
# host looks
OPTIONS: list[dict[str, Any]] = [
    {"illegal": "lose"},
    {"max_plies": 5},
    {"opponent": "random"},
    {"group_map": "all_in_one_group"},
]
CHESS: list[dict[str, Any]] = [{"mask": "bool"}, {"chess960": True}, {"draws": "claim"}, {"draws": "forced"}]
TASKS = [
    *((name, {}) for name in available("game")),
    *((name, options) for name in ("chess", "hex", "connect_four", "matrix_game") for options in OPTIONS),
    *(("chess", options) for options in CHESS),
    ("hex", {"swap": True}),
    ("go", {"repetition": "forbid"}),
    ("go", {"repetition": "draw"}),
]


@pytest.mark.parametrize(("name", "options"), first(TASKS, 2), ids=str)
def test_games_do_not_wait(name: str, options: dict[str, Any]) -> None:
    lives_without_waiting(marlenv.make(name, num_envs=ROWS, device=META, seed=0, **options))


@pytest.mark.parametrize("name", available("game"))
def test_many_games_do_not_wait(name: str) -> None:
    lives_without_waiting(marlenv.make(name, num_envs=MANY, device=META, seed=0))


@pytest.mark.parametrize("rules", [Chess(path="torch"), Chess(path="torch", chess960=True), Go()], ids=repr)
def test_rules_in_a_graph_do_not_wait(rules: Any) -> None:
    rng = RowRNG(0, [ROWS], META)
    state = rules.start(Size([ROWS]), rng=rng, device=META)

    def ply() -> None:
        action = rules.draw(state, rng) if isinstance(rules, Chess) else rules.pick(state, rng.uniform())
        rules.step(state, action, out=state) if isinstance(rules, Chess) else rules.play(state, action)

    ply()
    with NoWaiting():
        ply()


NAMES = [entry.name for entry in SCENARIOS]


@pytest.mark.parametrize(
    ("name", "options"),
    first(
        [
            *((name, {}) for name in NAMES),
            *((name, {"continuous_actions": False}) for name in ("simple_spread", "simple_tag", "simple_world_comm")),
            *((name, {"group_map": "one_group_per_agent"}) for name in ("simple_spread", "simple_tag", "navigation")),
            ("simple_tag", {"group_map": "all_in_one_group"}),
        ],
        5,
    ),
    ids=str,
)
def test_scenarios_do_not_wait(name: str, options: dict[str, Any]) -> None:
    lives_without_waiting(marlenv.make(name, num_envs=ROWS, device=META, seed=0, max_steps=3, **options))


@pytest.mark.slow
@pytest.mark.parametrize("name", some(NAMES, 3))
def test_transitions_in_a_graph_do_not_wait(name: str) -> None:
    simulation, rng = marlenv.make(name, num_envs=ROWS, seed=0, device=META).simulation, RowRNG(0, [ROWS], META)
    actions = {group: rng.uniform(-1, 1, (c.agents, c.width)) for group, c in simulation.controls.items()}
    state, *_ = simulation.reset(simulation.start(rng))
    with torch.no_grad(), rowwise.graph():
        simulation.transition(state, actions)
        with NoWaiting():
            simulation.transition(state, actions)


@pytest.mark.parametrize(
    "waits",
    [
        lambda x: bool(x.any()),
        lambda x: x.sum().item(),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x[[0, 1]],
        lambda x: x[torch.tensor([0, 1])],
        lambda x: x.__setitem__(x > 0, x[0]),
        lambda x: x + torch.tensor([1.0, 2.0, 3.0]),
        lambda x: torch.tensor(1.0, device=x.device),
        lambda x: torch.as_tensor([1.0], device=x.device),
        lambda x: torch.ones(3).to(x.device),
        lambda x: torch.tensor(1.0).to(x),
        lambda x: x.copy_(torch.ones(3)),
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: x.numpy(),
    ],
)
def test_what_waits_is_found(waits: Callable[[Tensor], Any]) -> None:
    with pytest.raises((RuntimeError, NotImplementedError, TypeError)), NoWaiting():
        waits(torch.ones(3, device=META))


def test_constants_that_are_equal_as_numbers_keep_their_dtypes() -> None:
    kinds = ((True, torch.bool), (1, torch.int64), (1.0, torch.float32))
    assert [constant([value], META, dtype).dtype for value, dtype in kinds] == [dtype for _, dtype in kinds]
    assert constant([1.0], META, torch.float32) is constant([1.0], META, torch.float32)


def test_what_does_not_wait_is_let_through() -> None:
    x, mask = torch.ones(3, device=META), torch.ones(3, dtype=torch.bool, device=META)
    with NoWaiting():
        x[mask] = 0.0
        x[0] = 1.0
        x = torch.where(mask, x, 2.0) + torch.tensor(1.0) + torch.arange(3, device=META)
        assert x.index_select(0, torch.zeros(2, dtype=torch.int64, device=META)).shape == (2,)
