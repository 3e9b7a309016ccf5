"""The contract holds for our envs; what is judged, what is not, and how it is told."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sizes import first
from tensordict import TensorDict, TensorDictBase

import marlenv
from marlenv import EnvBase
from marlenv.errors import ContractBroken, SpecError
from marlenv.games import GameEnv, TicTacToe
from marlenv.testing import CHECKS, CountingEnv, EnvContract, GroupedEnv, MaskedEnv, blame, generators, run_contract
from marlenv.testing.catalogue.envs import ENVS as ENVS_OF_THE_ROOM
from marlenv.testing.catalogue.envs import Example

NEST = {"wolves": ["a", "b"], "sheep": {"young": ["c"], "old": ["d"]}}
ENVS: dict[str, Callable[[], EnvBase]] = {
    "counting": CountingEnv,
    "counting, batched": lambda: CountingEnv(batch_size=[4]),
    "masked": lambda: MaskedEnv(batch_size=[3]),
    "tree of groups": lambda: GroupedEnv(
        NEST, terminate={"a": 2, "c": 3}, truncate={"b": 4, "d": 5}, rule="all", batch_size=[3]
    ),
    "flags per group only": lambda: GroupedEnv(
        {"w": ["a", "b"], "s": ["c"]}, terminate={"a": 2, "c": 3}, root_flags=False, batch_size=[3]
    ),
    "tic-tac-toe": lambda: marlenv.TicTacToeEnv(batch_size=[4]),
    "tic-tac-toe, any batch": marlenv.TicTacToeEnv,
    "tic-tac-toe, one player": lambda: marlenv.TicTacToeEnv(single_player=True),
    "game": lambda: GameEnv(TicTacToe(), batch_size=[4]),
    "game, forfeits and limit": lambda: GameEnv(TicTacToe(), illegal="lose", max_plies=5, group_map="all_in_one_group"),
    "serial": lambda: marlenv.SerialEnv(3, CountingEnv),
    "transformed": lambda: marlenv.TransformedEnv(
        GroupedEnv(terminate={"agent_0": 3}, batch_size=[2]),
        marlenv.Compose(marlenv.StepCounter(4), marlenv.RewardSum(), marlenv.InitTracker()),
    ),
    "simple_spread": lambda: marlenv.make("simple_spread", num_envs=3, max_steps=5),
}


@pytest.mark.slow
@pytest.mark.parametrize("env", first(ENVS, 3))
def test_the_contract_holds(env: str) -> None:
    broken = [f"{r.name}: {r.says}" for r in run_contract(ENVS[env]) if r.verdict == "broken"]
    assert not broken, "\n".join(broken)


class TestAsATestClass(EnvContract):
    """What a user writes for an env of their own."""

    def make_env(self) -> EnvBase:
        return CountingEnv(max_steps=3, batch_size=[2])


def test_every_clause_says_what_it_is_and_how_to_mend_it() -> None:
    for name, check in CHECKS.items():
        assert check.says.endswith("."), name
        assert len(check.mend) > 20, name
        known = list(CHECKS)
        assert set(check.needs) <= set(known), name


class Global(CountingEnv):
    """Draws from a generator that belongs to everybody."""

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        torch.rand(1)
        return super()._step(tensordict)


class NaN(CountingEnv):
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        out = super()._step(tensordict)
        return out.set("reward", out["reward"] * torch.nan)


def test_a_test_class_skips_what_is_exempt_and_explains_what_breaks() -> None:
    class Exempt(EnvContract):
        exempt = {"global_generators_stay_where_they_are": "the simulator draws from numpy's generator"}  # noqa: RUF012

        def make_env(self) -> EnvBase:
            return Global()

    with pytest.raises(pytest.skip.Exception, match="numpy's generator"):
        Exempt().test_global_generators_stay_where_they_are()

    class Broken(EnvContract):
        def make_env(self) -> EnvBase:
            return Global()

    with pytest.raises(ContractBroken, match="the global generator of torch was moved in step 0") as caught:
        Broken().test_global_generators_stay_where_they_are()
    assert "how to mend it" in caught.value.__notes__[0]
    with pytest.raises(pytest.skip.Exception, match="not reached: global_generators_stay_where_they_are is broken"):
        Broken().test_equal_seeds_give_equal_episodes()
    Broken().test_numbers_are_finite()


def test_a_clause_is_one_line_for_tables_and_terminals() -> None:
    assert not [check.name for check in CHECKS.values() if "\n" in check.says]


def test_a_test_class_plays_its_env_once() -> None:
    made = []

    class Counted(EnvContract):
        steps = 5

        def make_env(self) -> EnvBase:
            made.append(CountingEnv())
            return made[-1]

    Counted().test_done_has_a_cause()
    before = len(made)
    Counted().test_numbers_are_finite()
    Counted().test_those_who_act_are_alive()
    assert len(made) == before


def test_an_observation_called_alive_that_is_no_flag_says_nothing_of_deaths() -> None:
    class Healthy(GroupedEnv):
        """Tells how alive agents are, as a number."""

        def __init__(self) -> None:
            super().__init__(terminate={"agent_0": 2, "agent_1": 6, "agent_2": 6}, rule="all", batch_size=[2])
            numbers = {"observation": marlenv.Unbounded((2, 3, 3)), "alive": marlenv.Unbounded((2, 3))}
            agents = marlenv.Composite(numbers, shape=(2, 3))
            self.observation_spec = marlenv.Composite(agents=agents, noise=marlenv.Unbounded((2, 1)), shape=(2,))

        def _data(self, *, with_flags: bool) -> TensorDict:
            out = super()._data(with_flags=with_flags)
            agents = out["agents"].exclude("mask")
            return out.set("agents", agents.set("alive", agents["alive"].float()))

    assert not [f"{r.name}: {r.says}" for r in run_contract(Healthy) if r.verdict == "broken"]


def test_all_clauses_look_at_so_many_steps() -> None:
    class Late(CountingEnv):
        def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
            out = super()._step(tensordict)
            return out.set("reward", out["reward"] / (out["observation"] != 70))

    def make_env() -> EnvBase:
        return Late(max_steps=100)

    broken = {n: [r.name for r in run_contract(make_env, steps=n) if r.verdict == "broken"] for n in (3, 64, 70)}
    assert broken == {3: [], 64: [], 70: ["numbers_are_finite"]}
    for steps in (0, 2.5, True):
        with pytest.raises(SpecError, match=f"steps must be a positive int, got {steps}"):
            list(run_contract(Late, steps=steps))  # type: ignore[arg-type]


def test_several_faults_are_told_one_by_one() -> None:
    class Both(Global, NaN):
        pass

    broken = {r.name: r.says for r in run_contract(Both) if r.verdict == "broken"}
    assert broken == {
        "numbers_are_finite": "'reward' is not finite in step 0",
        "global_generators_stay_where_they_are": "the global generator of torch was moved in step 0",
    }


def test_an_error_is_told_once_with_its_place() -> None:
    class Fails(CountingEnv):
        def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
            if bool((self.count == 4).any()):
                raise ZeroDivisionError("no force")
            return super()._step(tensordict)

    results = {r.name: r for r in run_contract(Fails)}
    broken = [r for r in results.values() if r.verdict == "broken"]
    assert [r.name for r in broken] == ["envs_can_be_played"]
    assert broken[0].says.startswith("ZeroDivisionError in step 4: no force (test_contract.py:")
    assert broken[0].says.endswith(" in _step)")
    assert results["specs_can_be_sent"].verdict == "held"
    assert results["states_can_be_put_back"] == (
        "states_can_be_put_back", "not reached", "envs_can_be_played is broken", ""
    )  # fmt: skip


class NoReturn(CountingEnv):
    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:  # type: ignore[return]
        super()._reset(tensordict)


def test_an_env_that_cannot_be_reset_is_told_by_the_clause_that_it_breaks() -> None:
    results = {r.name: r for r in run_contract(NoReturn)}
    assert [r.name for r in results.values() if r.verdict == "broken"] == ["data_match_the_specs"]
    assert "NoReturn._reset: must return a tensordict, returned NoneType" in results["data_match_the_specs"].says
    assert results["resets_give_no_rewards"].verdict == "not reached"

    class AsATest(EnvContract):
        def make_env(self) -> EnvBase:
            return NoReturn()

    with pytest.raises(ContractBroken, match="returned NoneType"):
        AsATest().test_data_match_the_specs()


@pytest.mark.parametrize(
    "clause", ["resets_give_no_rewards", "rows_do_not_see_each_other", "specs_can_be_sent", "numbers_are_finite"]
)
def test_nothing_is_left_unreached_while_nothing_is_broken(clause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever clause an error is thought to belong to, whether that needs the ones that hand it on or holds."""
    monkeypatch.setitem(blame.OWNERS, "checked", clause)
    results = list(run_contract(NoReturn))
    assert any(r.verdict == "not reached" for r in results)
    told = [r for r in results if r.verdict == "broken"]
    assert told
    assert all("returned NoneType" in r.says for r in told)


def test_what_cannot_be_judged_is_said() -> None:
    said = {r.name: r.says for r in run_contract(lambda: CountingEnv(3)) if r.verdict == "skipped"}
    why = "what makes the env takes neither num_envs nor batch_size"
    rows = [name for name in CHECKS if "row" in name and name != "resetting_all_rows_is_a_reset"]
    assert len(rows) == 4
    assert said == dict.fromkeys(rows, why)
    said = {r.name: r.says for r in run_contract(lambda: CountingEnv(batch_size=[2])) if r.verdict == "skipped"}
    assert said == {"rows_do_not_depend_on_their_number": why}
    assert not [r for r in run_contract(CountingEnv) if r.verdict != "held"]  # a class takes batch_size


def test_an_env_that_is_not_made_anew_is_refused() -> None:
    env = CountingEnv()
    with pytest.raises(SpecError, match="a function that makes a fresh env, got CountingEnv; say lambda"):
        list(run_contract(env))  # type: ignore[arg-type]
    (first, *_) = [r for r in run_contract(lambda: env) if r.verdict == "broken"]
    assert "returned the same one twice; it must make a fresh one" in first.says
    (first, *_) = [r for r in run_contract(lambda: 3) if r.verdict == "broken"]  # type: ignore[arg-type,return-value]
    assert "returned a int; expected a marlenv.EnvBase" in first.says
    with pytest.raises(SpecError, match="is called 'done_has_cause'; did you mean 'done_has_a_cause'"):
        list(run_contract(CountingEnv, {"done_has_cause": "why not"}))


def test_the_contract_leaves_the_global_generators_where_they_are() -> None:
    before = generators.states()
    results = list(run_contract(Global))
    assert not generators.moved(before, generators.states())
    assert [r.name for r in results if r.verdict == "broken"] == ["global_generators_stay_where_they_are"]
    np.random.rand()
    assert generators.moved(before, generators.states()) == ["numpy"]


@pytest.mark.slow
@pytest.mark.parametrize("example", first(ENVS_OF_THE_ROOM, 6), ids=lambda example: example.name)
def test_the_envs_of_the_catalogue_keep_the_contract(example: Example) -> None:
    exempt = {}
    if example.name == "cheap":
        why = "hands out its buffers on purpose: what is measured is the env layer alone"
        exempt = dict.fromkeys(("entries_share_no_memory", "data_may_be_written_over"), why)
    broken = [f"{r.name}: {r.says}" for r in run_contract(example.make, exempt) if r.verdict == "broken"]
    assert not broken, "\n".join(broken)
