"""EnvPool's tasks for several players: every number is that of raw pools with one env each, stepped by hand."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from planted_faults import FAULTS, broken, is_noticed
from rows import entry_of, equal

import marlenv
from marlenv import EnvCreator, MultiThreadedEnv, MultiThreadedEnvWrapper, check_env_specs
from marlenv.errors import EnvClosed, GroupError, NeedsReset, SpecError, SpecTypeError, Unsupported
from marlenv.testing import run_contract

envpool = pytest.importorskip("envpool", reason="EnvPool is an extra, and has no wheel for every platform")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # gymnasium's, about the precision of its boxes
TURNS = ["LeducHoldem-v1", "SparrowMahjong-v1", "ConnectFour-v1"]
AT_ONCE = "IntersectionMultiAgent-v0"
OPTIONS: dict[str, dict[str, Any]] = {AT_ONCE: {"duration": 4}}
ROWS, SEED = 3, 5


def made(name: str, **options: Any) -> MultiThreadedEnv:
    task = {"seed": SEED, **OPTIONS.get(name, {})}
    return MultiThreadedEnv(ROWS, name, create_env_kwargs=task, categorical_action_encoding=True, **options)


class Raw:
    """A pool of one env, with the words of EnvPool's own documentation."""

    def __init__(self, name: str, row: int) -> None:
        task = {"seed": SEED + row, **OPTIONS.get(name, {})}
        self.pool = envpool.make(name, num_envs=1, env_type="gymnasium", **task)
        self.key = "players.action" if name == AT_ONCE else "action"

    def reset(self) -> Any:
        return self.pool.reset()

    def step(self, actions: list[int]) -> Any:
        none = np.zeros(len(actions), np.int32)
        return self.pool.step({self.key: np.array(actions, np.int32), "env_id": none[:1], "players.env_id": none})


def compare(env: Any, td: Any, row: int, seen: Any, info: Any, over: bool) -> None:
    """What one row observes."""
    for i, player in enumerate(env.agent_names):
        equal(entry_of(env, td, player, "observation")[row], seen[i], (player, "observation"))
        mine = "current_player" not in info or int(info["current_player"][0]) == i
        equal(entry_of(env, td, player, "alive")[row], not over, (player, "alive"))
        equal(entry_of(env, td, player, "mask")[row], mine and not over, (player, "mask"))
        if "legal_action_mask" in info and mine and not over:
            equal(entry_of(env, td, player, "action_mask")[row], info["legal_action_mask"][0], (player, "action_mask"))
        elif "legal_action_mask" in info:
            assert bool(entry_of(env, td, player, "action_mask")[row].all()), player


def told(env: Any, td: Any, row: int, info: Any) -> list[int]:
    """The actions of a row as EnvPool takes them; of those who take turns it reads the first, whoever is second."""
    actions = [int(entry_of(env, td, player, "action")[row]) for player in env.agent_names]
    if "current_player" not in info:
        return actions
    turn = int(info["current_player"][0])
    return [actions[turn], *[int(env.full_action_spec["agents", "action"].space.n) - 1] * (len(actions) - 1)]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TURNS, AT_ONCE])
def test_every_number_is_that_of_the_raw_pools(name: str) -> None:
    env, raws = made(name), [Raw(name, row) for row in range(ROWS)]
    td, now = env.reset(), [raw.reset() for raw in raws]
    ends = dict.fromkeys(("terminated", "truncated"), 0)
    for _ in range(60):
        for row, (seen, info) in enumerate(now):
            compare(env, td, row, seen, info, over=False)
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        following = data["next"]
        for row, raw in enumerate(raws):
            seen, reward, terminated, truncated, info = raw.step(told(env, data, row, now[row][1]))
            over = bool(terminated[0] | truncated[0])
            compare(env, following, row, seen, info, over)
            flags = {"terminated": bool(terminated[0]), "truncated": bool(truncated[0] & ~terminated[0]), "done": over}
            for entry, want in flags.items():
                assert bool(following[entry][row]) is want, entry
                for i, player in enumerate(env.agent_names):
                    equal(entry_of(env, following, player, entry)[row], want, (player, entry))
                    equal(entry_of(env, following, player, "reward")[row], reward[i], (player, "reward"))
            ends = {entry: count + flags[entry] for entry, count in ends.items()}
            now[row] = raw.reset() if over else (seen, info)
    assert ends["truncated" if name == AT_ONCE else "terminated"] > 3


def test_go_is_told_the_action_of_one_player_and_goes_on() -> None:
    """Its pool ends the process where it gets an action of each."""
    env, raws = made("Go9x9-v1"), [Raw("Go9x9-v1", row) for row in range(ROWS)]
    td, now = env.reset(), [raw.reset() for raw in raws]
    for _ in range(12):
        td = env.rand_action(td)
        actions = [told(env, td, row, info)[:1] for row, (_, info) in enumerate(now)]
        td = env.step(td)["next"]
        found = [raw.step(action) for raw, action in zip(raws, actions, strict=True)]
        now = [(seen, info) for seen, *_, info in found]
        for row, (seen, reward, terminated, _, info) in enumerate(found):
            compare(env, td, row, seen, info, over=bool(terminated[0]))
            equal(td["agents", "reward"][row].flatten(), reward, "reward")
        if bool(td["done"].any()):
            break


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_noticed(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "MultiThreadedEnv", broken(MultiThreadedEnv, fault))
    is_noticed(test_every_number_is_that_of_the_raw_pools, AT_ONCE)


@pytest.mark.parametrize("name", TURNS[:2])  # the others begin alike with any seed
def test_rows_have_the_seeds_of_one_pool_of_them_all(name: str) -> None:
    seen, info = envpool.make(name, num_envs=ROWS, env_type="gymnasium", seed=SEED).reset()
    order = np.argsort(info["players"]["env_id"], kind="stable")  # threads give rows in the order in which they end
    got = made(name).reset()["agents", "observation"]
    equal(got, seen[order], "observation")
    assert not torch.equal(got[0], got[1])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), [("LeducHoldem-v1", {}), (AT_ONCE, {"categorical": False})])
def test_the_contract_holds(name: str, options: dict[str, Any]) -> None:
    def build(num_envs: int = 3) -> MultiThreadedEnv:
        task = {"seed": SEED, **OPTIONS.get(name, {})}
        return MultiThreadedEnv(
            num_envs, name, create_env_kwargs=task, categorical_action_encoding=options.get("categorical", True)
        )

    results = run_contract(build, steps=10)
    assert not [f"{r.name}: {r.says}" for r in results if r.verdict == "broken"]


def test_any_groups_play_the_same_game() -> None:
    groups = {"a": ["player_2"], "b": {"c": ["player_1", "player_0"]}}
    one, other = made("SparrowMahjong-v1", group_map=groups), made("SparrowMahjong-v1")
    a, b = one.reset(), other.reset()
    for _ in range(12):
        a, b = one.rand_action(a), other.rand_action(b)
        for player, (path, i) in one.tree.place.items():
            a[(*path, "action")][:, i] = entry_of(other, b, player, "action")
        a, b = one.step(a)["next"], other.step(b)["next"]
        for player in one.agent_names:
            for entry in ("observation", "reward", "mask", "action_mask", "done"):
                equal(entry_of(one, a, player, entry), entry_of(other, b, player, entry).numpy(), (player, entry))
        if bool(b["done"].any()):
            break


def test_rows_are_reset_and_stepped_alone() -> None:
    env = made(AT_ONCE)
    td = env.step(env.rand_action(env.reset()))["next"]
    mask = torch.tensor([True, False, True])
    after = env.step(env.rand_action(td.clone()).set("_step", mask))["next"]
    assert torch.equal(after["agents", "observation"][1], td["agents", "observation"][1])
    assert bool((after["agents", "observation"] != td["agents", "observation"]).flatten(1).any(1)[mask].all())
    again = env.reset(after.clone().set("_reset", mask.unsqueeze(-1)))
    assert torch.equal(again["agents", "observation"][1], td["agents", "observation"][1])


def test_a_seed_makes_the_same_data_again_and_envs_can_be_made_elsewhere_and_closed() -> None:
    task = {"num_workers": 2, "env_name": "LeducHoldem-v1"}
    env = pickle.loads(pickle.dumps(EnvCreator(MultiThreadedEnv, create_env_kwargs=task)))()
    data = []
    for seed in (3, 3, 4):
        env.set_seed(seed)
        data.append(env.rollout(12, break_when_any_done=False))
    assert bool((data[0] == data[1]).all())
    assert not bool((data[0]["agents"] == data[2]["agents"]).all())
    check_env_specs(env)
    assert MultiThreadedEnv(2, "LeducHoldem-v1", device="cpu").reset()["agents", "mask"].device == torch.device("cpu")
    env.close()
    with pytest.raises(EnvClosed):
        env.reset()


def test_envs_are_made_by_name() -> None:
    env = marlenv.make("envpool/LeducHoldem-v1", num_envs=2, seed=SEED)
    assert env.rollout(3)["next", "agents", "reward"].shape == (2, 3, 2, 1)
    assert set(TURNS) < set(MultiThreadedEnv.available_envs)


def test_what_is_refused() -> None:
    pool = envpool.make("TicTacToe-v1", num_envs=2, env_type="gymnasium")
    with pytest.raises(Unsupported, match=r"EnvPool waits for ever .* got num_envs=2; MultiThreadedEnv\(2, name\)"):
        MultiThreadedEnvWrapper(pool)
    with pytest.raises(GroupError, match=r"^MultiThreadedEnv: the task has one player, got group_map=; leave it out"):
        MultiThreadedEnv(2, "CartPole-v1", group_map={"a": ["player_0"]})
    with pytest.raises(GroupError, match="player_7"):
        made("TicTacToe-v1", group_map={"a": ["player_0", "player_7"]})
    with pytest.raises(SpecTypeError, match=r"env must be what envpool.make\(.*\) gives, got str"):
        MultiThreadedEnvWrapper("TicTacToe-v1")
    with pytest.raises(SpecError, match=r"num_workers"):
        MultiThreadedEnv(0, "TicTacToe-v1")
    env = made("TicTacToe-v1")
    with pytest.raises(NeedsReset, match="call reset"):
        env.step(env.rand_action())
    alone = envpool.make("TicTacToe-v1", num_envs=1, env_type="gymnasium", seed=1)
    assert MultiThreadedEnvWrapper(alone).rollout(3)["agents", "action"].shape == (1, 3, 2, 9)


def _mixed(pool: Any, numbers: np.random.Generator) -> Any:
    """A pool that gives its rows in any order, as one of threads may."""

    def mixed(out: tuple[Any, ...]) -> tuple[Any, ...]:
        order = numbers.permutation(len(out[-1]["env_id"]))
        players = numbers.permutation(len(out[-1]["players"]["env_id"]))
        several = len(players) != len(order)

        def taken(part: Any, of: Any) -> Any:
            if isinstance(part, dict):
                return {
                    name: taken(one, players if several and name == "players" else of) for name, one in part.items()
                }
            return np.asarray(part)[of]

        of_players = players if several else order
        seen, *rest, info = out
        ends = [taken(one, order) for one in rest[1:]]
        return (taken(seen, of_players), *[taken(one, of_players) for one in rest[:1]], *ends, taken(info, order))

    reset, step = pool.reset, pool.step
    pool.reset = lambda *args: mixed(reset(*args))
    pool.step = lambda *args: mixed(step(*args))
    return pool


@pytest.mark.parametrize("name", ["SparrowMahjong-v1", "LeducHoldem-v1", "CartPole-v1"])
def test_rows_that_come_in_another_order_are_put_where_they_belong(name: str) -> None:
    env, other = made(name), made(name)
    _mixed(other._env, np.random.default_rng(1))
    td, same = env.reset(), other.reset()
    assert (td == same).all()
    for step in range(40):
        action = env.rand_action(td.clone()).select(*env.action_keys)
        where = torch.tensor([step % 3 != 0, True, step % 4 != 0])  # partial steps, and partial resets
        data, td = env.step_and_maybe_reset(td.update(action).set("_step", where))
        again, same = other.step_and_maybe_reset(same.update(action).set("_step", where))
        assert (data["next"] == again["next"]).all(), step
        assert (td.exclude("_step") == same.exclude("_step")).all(), step
        td, same = td.exclude("_step"), same.exclude("_step")


def test_places_of_players_without_numbers_are_counted_row_by_row() -> None:
    env = made("LeducHoldem-v1")
    row, column = env._players._places({"env_id": [2, 0], "players": {"env_id": np.array([0, 2, 2, 0])}})
    assert row.tolist() == [1, 0, 0, 1]
    assert column.tolist() == [0, 0, 1, 1]
