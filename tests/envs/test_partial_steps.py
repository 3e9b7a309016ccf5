"""Partial steps: only what ``"_step"`` marks is stepped; the rest keeps what it had, or gets zeros."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from twin_envs import load

from marlenv import AsyncEnvPool, ParallelEnv, SerialEnv, TransformedEnv, make
from marlenv.errors import DtypeError, KeyMissing, NotInSpec, ResetError, ShapeError, Unsupported
from marlenv.testing.mocks import CountingEnv, GroupedEnv

counting = lambda: CountingEnv(max_steps=9)  # noqa: E731
PARTIAL = torch.tensor([True, False])
MAKERS = {
    "batch-locked": lambda: CountingEnv(batch_size=[2]),
    "serial": lambda: SerialEnv(2, counting),
    "transformed": lambda: TransformedEnv(CountingEnv(batch_size=[2])),
    "transformed serial": lambda: TransformedEnv(SerialEnv(2, counting)),
    "serial transformed": lambda: SerialEnv(2, lambda: TransformedEnv(counting())),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_only_marked_rows_are_stepped(make):
    env = make()
    td = env.step_mdp(env.rand_step(env.reset()))
    td = env.rand_action(td).set("_step", PARTIAL)
    out = env.step(td)
    assert out is td
    assert "_step" not in out
    assert out["next", "observation"].flatten().tolist() == [2, 1]
    assert out["next", "reward"].flatten().tolist() == [1, 0]
    later = env.rand_step(env.step_mdp(out))
    assert later["next", "observation"].flatten().tolist() == [3, 2]  # the other row's state did not move


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_rows_without_data_get_zeros(make):
    env = make()
    env.rand_step(env.reset())
    td = env.rand_action().set("_step", PARTIAL)  # no observations in the input
    out = env.step(td)["next"]
    assert out["observation"].flatten().tolist() == [2, 0]
    assert out["done"].flatten().tolist() == [False, False]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_no_row_and_all_rows(make):
    env = make()
    td = env.step_mdp(env.rand_step(env.reset()))
    still = env.step(env.rand_action(td.copy()).set("_step", torch.zeros(2, dtype=torch.bool)))
    assert still["next", "observation"].flatten().tolist() == [1, 1]
    moved = env.step(env.rand_action(td.copy()).set("_step", torch.ones(2, dtype=torch.bool)))
    assert moved["next", "observation"].flatten().tolist() == [2, 2]
    assert "_step" not in moved


def test_envs_without_a_batch_look_for_step_first():
    env = counting()
    td = env.step_mdp(env.rand_step(env.reset()))
    still = env.step(env.rand_action(td.copy()).set("_step", torch.tensor(False)))
    assert (still["next", "observation"].item(), still["next", "reward"].item(), env.count.item()) == (1, 0, 1)
    assert env.step(env.rand_action(td).set("_step", torch.tensor([True])))["next", "observation"].item() == 2


@pytest.mark.parametrize("rows", [[True, False, True], [False] * 3, [True] * 3])
def test_batch_unlocked_envs_step_the_marked_part(rows):
    """A stateless env never sees the rows that are not stepped."""
    env = load("conventions", "marlenv").FullSpecs()
    td = env.reset(TensorDict({}, [3])).update({"position": torch.arange(3.0).unsqueeze(-1)})
    td["move"], td["turn"] = torch.ones(3, 1), torch.ones(3, 1, dtype=torch.int64)
    sizes, whole = [], env._step
    env._step = lambda td: sizes.append(td.batch_size) or whole(td)
    out = env.step(td.set("_step", torch.tensor(rows)))
    assert sizes == [torch.Size([sum(rows)])] * any(rows)
    assert out["next", "position"].flatten().tolist() == [i + rows[i] for i in range(3)]
    assert out["next", "speed"].flatten().tolist() == [float(r) for r in rows]
    assert out["position"].flatten().tolist() == [0, 1, 2]


def test_batch_unlocked_envs_with_a_batch_size_are_masked():
    env = load("conventions", "marlenv").FullSpecs((2,))
    td = env.reset().update({"move": torch.ones(2, 1), "turn": torch.ones(2, 1, dtype=torch.int64)})
    assert env.step(td.set("_step", PARTIAL))["next", "position"].flatten().tolist() == [1, 0]


def test_groups_stand_still_with_their_row():
    env = GroupedEnv(batch_size=[2], terminate={"agent_0": 2})
    env.set_seed(0)
    td = env.step_mdp(env.rand_step(env.reset()))
    out = env.step(env.rand_action(td).set("_step", PARTIAL))["next", "agents"]
    assert out["observation"][..., 2].tolist() == [[2, 2, 2], [1, 1, 1]]
    assert out["done"].squeeze(-1).tolist() == [[True, False, False], [False] * 3]
    assert not out["reward"][1].any()


def test_waiting_rows_of_a_rollout():
    env = CountingEnv(max_steps=2, batch_size=[3])
    rollout = env.rollout(9, break_when_all_done=True)
    assert rollout.shape == (3, 4)
    assert rollout["next", "observation"].squeeze(-1).tolist() == [[1, 2, 2, 2], [1, 2, 3, 3], [1, 2, 3, 4]]
    assert rollout["next", "reward"].squeeze(-1).sum(-1).tolist() == [2, 3, 4]
    assert rollout["done"].squeeze(-1).tolist() == [[False, False, True, True], [False] * 3 + [True], [False] * 4]
    assert "_step" not in rollout.keys()


@pytest.mark.parametrize("root_flags", [True, False])
def test_a_rollout_waits_until_everybody_is_done(root_flags):
    env = GroupedEnv(
        {"g": ["a", "b"], "h": ["c"]}, terminate={"a": 1, "b": 3, "c": 2}, rule="all", root_flags=root_flags
    )
    assert env.rollout(9, break_when_all_done=True).shape == (3,)


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (torch.ones(2), r"'_step' must be a bool mask of shape \[2\], got torch.float32 \[2\]"),
        (torch.ones(2, 1, dtype=torch.int64), r"must be a bool mask of shape \[2\], got torch.int64"),
    ],
)
def test_faults_of_masks(mask, text):
    env = CountingEnv(batch_size=[2])
    with pytest.raises(ResetError, match=text):
        env.step(env.rand_action(env.reset()).set("_step", mask))


# --- a mask switches nothing off, and refused data stay as they were ---------------------------------


def choosing(**options):
    return make("simple_spread", num_envs=2, seed=0, n_agents=2, compile="none", **options)


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (DtypeError, torch.full((2, 2), 1.7)),
        (ShapeError, torch.zeros(2, 2, 2, dtype=torch.int64)),
        (KeyMissing, None),
    ],
    ids=["float", "shape", "missing"],
)
def test_a_mask_does_not_switch_off_checks_of_actions(error, action):
    env = choosing(continuous_actions=False)
    td = env.rand_action(env.reset()).exclude(("agents", "action"))
    if action is not None:
        td["agents", "action"] = action
    before = env.get_state()
    for mask in (PARTIAL, ~PARTIAL, torch.zeros(2, dtype=torch.bool)):
        with pytest.raises(error):
            env.step(td.set("_step", mask))
        assert torch.equal(td["_step"], mask)
    assert (env.get_state() == before).all()


@pytest.mark.parametrize(
    "make_env",
    [lambda: SerialEnv(2, counting), lambda: make("tic_tac_toe", num_envs=2), lambda: CountingEnv(batch_size=[2])],
    ids=["serial", "game", "batch-locked"],
)
def test_a_mask_does_not_make_up_for_a_missing_action(make_env):
    env = make_env()
    td = env.rand_action(env.reset())
    td.del_(env.action_keys[-1])
    with pytest.raises(KeyMissing, match="step: no action under"):
        env.step(td.set("_step", PARTIAL))
    assert torch.equal(td["_step"], PARTIAL)


@pytest.mark.parametrize("row", [0, 1])
def test_values_are_looked_at_in_the_rows_that_step(row):
    env = choosing(run_type_checks=True)
    td = env.rand_action(env.reset())
    td["agents", "action"][row] = 50
    before, td["_step"] = env.get_state(), PARTIAL
    if row == 0:
        with pytest.raises(NotInSpec, match=r"the value is not in the spec"):
            env.step(td)
        assert (env.get_state() == before).all()
    else:
        env.step(td)
        assert env.get_state()["steps"].tolist() == [1, 0]


def test_a_game_does_not_read_the_moves_of_rows_that_wait():
    env = make("tic_tac_toe", num_envs=2, seed=0)
    td = env.rand_action(env.reset())
    for player in ("x", "o"):
        td[player, "action"][1] = 77
    out = env.step(td.set("_step", PARTIAL))["next"]
    assert out["turn"].flatten().tolist() == [1, 0]
    assert not out["done"].any()


def test_a_refused_mask_stays_in_the_data():
    env = CountingEnv(batch_size=[2])
    td = env.rand_action(env.reset()).set("_step", PARTIAL.long())
    for _ in range(2):
        with pytest.raises(ResetError):
            env.step(td)
    assert torch.equal(td["_step"], PARTIAL.long())
    assert env.count.flatten().tolist() == [0, 0]


@pytest.mark.parametrize("rows", [[True, False, True], [True] * 3])
def test_a_mask_stays_in_the_data_of_a_batch_unlocked_env(rows):
    env = load("conventions", "marlenv").FullSpecs()
    td = env.reset(TensorDict({}, [3])).set("turn", torch.ones(3, 1, dtype=torch.int64))
    mask = torch.tensor(rows)
    with pytest.raises(KeyMissing, match="no action under 'move'"):
        env.step(td.set("_step", mask))
    assert torch.equal(td["_step"], mask)


# --- envs that step all rows at once -----------------------------------------------------------------


class AllAtOnce(CountingEnv):
    """It looks at no mask, and its state is its own."""

    handles_partial_steps = False

    def _step(self, tensordict):
        return super()._step(tensordict.exclude("_step"))


@pytest.mark.parametrize(
    ("make_env", "name"),
    [
        (lambda: AllAtOnce(max_steps=9, batch_size=[2]), "AllAtOnce"),
        (lambda: TransformedEnv(AllAtOnce(max_steps=9, batch_size=[2])), "TransformedEnv"),
    ],
    ids=["alone", "transformed"],
)
def test_rows_that_go_on_are_not_moved_unasked(make_env, name):
    env = make_env()
    td = env.rand_action(env.reset()).set("_step", PARTIAL)
    message = rf"{name}.step: all rows of AllAtOnce are stepped at once, got a '_step' that leaves out \[1\], which are"
    with pytest.raises(Unsupported, match=message):
        env.step(td)
    assert torch.equal(td["_step"], PARTIAL)
    assert env.step(td.exclude("_step"))["next", "observation"].flatten().tolist() == [1, 1]


def test_rows_that_are_done_may_be_stepped_on():
    plain, whole = (kind(max_steps=2, batch_size=[3]) for kind in (CountingEnv, AllAtOnce))
    for env in (plain, whole):
        env.set_seed(0)
    assert (plain.rollout(9, break_when_all_done=True) == whole.rollout(9, break_when_all_done=True)).all()


def held():
    """Two rows that move at once."""
    return AllAtOnce(max_steps=9, batch_size=[2])


@pytest.mark.slow
@pytest.mark.parametrize(
    "make_pool",
    [
        lambda: SerialEnv(2, held),
        lambda: ParallelEnv(2, held, num_processes=1),
        lambda: ParallelEnv(2, held, use_buffers=False),
        lambda: ParallelEnv(2, held, num_processes=1)[:],
        lambda: AsyncEnvPool([held, held]),
    ],
    ids=["series", "processes", "pieces", "view", "threads"],
)
def test_no_child_of_a_pool_moves_where_one_cannot_hold_its_rows(make_pool):
    env = make_pool()
    td = env.rand_action(env.reset())
    with pytest.raises(Unsupported, match=r"leaves out \[1\], which are not done"):
        env.step(td.set("_step", torch.tensor([[True, True], [True, False]])))
    assert [count.flatten().tolist() for count in env.count] == [[0, 0], [0, 0]]
    out = env.step(td.set("_step", torch.tensor([[True, True], [False, False]])))
    assert out["next", "observation"].flatten().tolist() == [1, 1, 0, 0]
    env.close()
