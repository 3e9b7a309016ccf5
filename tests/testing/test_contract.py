"""The contract holds for our envs, and every clause fails on an env that breaks it."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

import marlenv
from marlenv import Binary, Bounded, Composite, EnvBase, Unbounded
from marlenv.errors import ContractBroken
from marlenv.games import GameEnv, TicTacToe
from marlenv.testing import CHECKS, CountingEnv, EnvContract, GroupedEnv, MaskedEnv, run_contract
from marlenv.testing.contract import run_check

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


@pytest.mark.parametrize("env", ENVS)
def test_the_contract_holds(env: str) -> None:
    broken = [f"{r.name}: {r.says}" for r in run_contract(ENVS[env]) if r.verdict == "broken"]
    assert not broken, "\n".join(broken)


class TestAsATestClass(EnvContract):
    """What a user writes for an env of their own."""

    def make_env(self) -> EnvBase:
        return CountingEnv(max_steps=3, batch_size=[2])


class Sound(EnvBase):
    """An env that keeps the contract; each culprit below changes one thing."""

    def __init__(self, horizon: int = 3, **options: object) -> None:
        super().__init__(batch_size=[2], **options)
        one = {
            "observation": Unbounded((2, 2, 1)),
            "alive": Binary(shape=(2, 2), dtype=torch.bool),
            "mask": Binary(shape=(2, 2), dtype=torch.bool),
        }
        flag = lambda *s: Binary(shape=(2, *s, 1), dtype=torch.bool)  # noqa: E731
        self.observation_spec = Composite(agents=Composite(one, shape=(2, 2)), shape=(2,))
        self.action_spec = Composite(agents=Composite(action=Bounded(-1, 1, (2, 2, 1)), shape=(2, 2)), shape=(2,))
        self.reward_spec = Composite(agents=Composite(reward=Unbounded((2, 2, 1)), shape=(2, 2)), shape=(2,))
        names = ("done", "terminated", "truncated")
        self.full_done_spec = Composite(
            {n: flag() for n in names}, agents=Composite({n: flag(2) for n in names}, shape=(2, 2)), shape=(2,)
        )
        self.horizon = horizon
        self.count = torch.zeros(2, dtype=torch.int64)
        self.rng = marlenv.RowRNG(0, [2])

    def agents(self, ended: Tensor) -> dict:
        alive = (~ended).unsqueeze(-1).expand(2, 2)
        seen = self.count.reshape(2, 1, 1) + self.rng.uniform(shape=(2, 1))
        return {"observation": seen.float(), "alive": alive, "mask": alive}

    def _reset(self, tensordict: TensorDict | None, **_: object) -> TensorDict:
        where = None if tensordict is None else tensordict.get("_reset", None)
        where = torch.ones(2, dtype=torch.bool) if where is None else where.squeeze(-1)
        self.count = torch.where(where, 0, self.count)
        return TensorDict({"agents": TensorDict(self.agents(torch.zeros(2, dtype=torch.bool)), [2, 2])}, [2])

    def _step(self, tensordict: TensorDict) -> TensorDict:
        self.count = self.count + 1
        ended = self.count >= self.horizon
        flags = {"terminated": ended.unsqueeze(-1), "truncated": torch.zeros(2, 1, dtype=torch.bool)}
        flags["done"] = flags["terminated"] | flags["truncated"]
        inner = {k: v.unsqueeze(1).expand(2, 2, 1).clone() for k, v in flags.items()}
        agents = TensorDict({**self.agents(ended), "reward": torch.ones(2, 2, 1), **inner}, [2, 2])
        return TensorDict({"agents": agents, **flags}, [2])

    def _set_seed(self, seed: int | None) -> None:
        self.rng = marlenv.RowRNG(seed or 0, [2])


def culprit(change: Callable[[Sound, TensorDict], TensorDict], method: str = "_step") -> type[Sound]:
    """The sound env with one method's answer changed."""

    class Culprit(Sound):
        pass

    original = getattr(Sound, method)

    @functools.wraps(original)
    def changed(self: Sound, tensordict: TensorDict | None = None, **options: object) -> TensorDict:
        return change(self, original(self, tensordict, **options))

    setattr(Culprit, method, changed)
    return Culprit


def put(key: object, value: Callable[[Sound, TensorDict], Tensor]) -> Callable[[Sound, TensorDict], TensorDict]:
    return lambda env, td: td.set(key, value(env, td))


class NotSeeded(Sound):
    def _set_seed(self, seed: int | None) -> None:
        self.rng = marlenv.RowRNG(int.from_bytes(np.random.default_rng().bytes(4), "big"), [2])


class Global(Sound):
    def _step(self, tensordict: TensorDict) -> TensorDict:
        torch.rand(1)
        return super()._step(tensordict)


class Shared(Sound):
    steps = 0

    def _step(self, tensordict: TensorDict) -> TensorDict:
        Shared.steps += 1
        out = super()._step(tensordict)
        out["agents", "reward"] = out["agents", "reward"] * Shared.steps
        return out

    def _set_seed(self, seed: int | None) -> None:
        super()._set_seed(seed)
        Shared.steps = 0


class Buffer(Sound):
    def _step(self, tensordict: TensorDict) -> TensorDict:
        out = super()._step(tensordict)
        self.buffer = getattr(self, "buffer", out["agents", "observation"].clone())
        self.buffer.copy_(out["agents", "observation"])
        return out.set(("agents", "observation"), self.buffer)


class ResetsEverything(Sound):
    def _reset(self, tensordict: TensorDict | None, **_: object) -> TensorDict:
        self.count = torch.zeros_like(self.count)
        return super()._reset(None)


class Overrides(Sound):
    def step(self, tensordict: TensorDict) -> TensorDict:
        return tensordict.set("next", self._step(tensordict))


class SelfReset(Sound):
    """Steps like a vectorised gym env: the last observation is already the first of the next episode."""

    def maybe_reset(self, tensordict: TensorDict) -> TensorDict:
        return super().maybe_reset(tensordict)

    def step_and_maybe_reset(self, tensordict: TensorDict) -> tuple[TensorDict, TensorDict]:
        data, following = super().step_and_maybe_reset(tensordict)
        done = data["next", "done"].unsqueeze(-1)
        return data.set(
            "next",
            data["next"].set(("agents", "observation"), torch.where(done, 0.0, data["next", "agents", "observation"])),
        ), following


class Unlocked(Sound):
    def __init__(self) -> None:
        super().__init__(spec_locked=False) if False else super().__init__()

    def set_spec_lock_(self, mode: bool = True) -> EnvBase:
        return super().set_spec_lock_(False)


class NoBatch(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.full_observation_spec["agents"].shape  # noqa: B018
        self._output_spec["full_observation_spec"]["agents"]._specs["observation"].shape = torch.Size([1])


class Unpicklable(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.full_observation_spec["agents"].data_cls = None
        self.full_observation_spec["agents"]._specs["alive"].note = lambda: None


class BadDraws(Sound):
    def __init__(self) -> None:
        super().__init__()
        spec = self.full_action_spec["agents", "action"]
        spec.from_unit = lambda unit, mask=None: unit + 5


BREAKS: dict[str, Callable[[], EnvBase]] = {
    "specs_begin_with_the_batch_size": NoBatch,
    "specs_accept_what_they_draw": BadDraws,
    "data_match_the_specs": culprit(put(("agents", "reward"), lambda e, td: td["agents", "reward"].double())),
    "keys_point_at_entries": culprit(lambda e, td: td.exclude(("agents", "alive"))),
    "numbers_are_finite": culprit(put(("agents", "reward"), lambda e, td: td["agents", "reward"] / 0)),
    "locked_specs_refuse_writing": Unlocked,
    "specs_can_be_sent": Unpicklable,
    "resets_give_no_rewards": culprit(put(("agents", "reward"), lambda e, td: torch.zeros(2, 2, 1)), "_reset"),
    "equal_seeds_give_equal_episodes": NotSeeded,
    "global_generators_stay_where_they_are": Global,
    "envs_do_not_disturb_each_other": Shared,
    "steps_leave_old_data_alone": Buffer,
    "final_observations_are_kept": SelfReset,
    "partial_resets_keep_other_rows": culprit(
        lambda e, td: (
            (setattr(e, "count", e.count * 0), td)[1] if False else td.set("_reset", torch.ones(2, 1, dtype=torch.bool))
        ),
        "_reset",
    ),
    "closed_envs_refuse": Overrides,
    "missing_actions_are_refused": Overrides,
    "nothing_is_done_after_a_reset": culprit(put("done", lambda e, td: torch.ones(2, 1, dtype=torch.bool)), "_reset"),
    "done_has_a_cause": culprit(put("done", lambda e, td: torch.ones(2, 1, dtype=torch.bool))),
    "the_root_ends_with_its_agents": culprit(
        lambda e, td: td.set("terminated", torch.ones(2, 1, dtype=torch.bool)).set(
            "done", torch.ones(2, 1, dtype=torch.bool)
        )
    ),
    "those_who_act_are_alive": culprit(put(("agents", "mask"), lambda e, td: torch.ones(2, 2, dtype=torch.bool))),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_clause_fails_on_an_env_that_breaks_it(name: str) -> None:
    result = run_check(name, BREAKS[name])
    assert result.verdict == "broken", f"{name} did not notice"
    assert result.mend


def test_the_sound_env_keeps_every_clause() -> None:
    assert [r for r in run_contract(Sound) if r.verdict == "broken"] == []


def test_every_clause_says_what_it_is_and_how_to_mend_it() -> None:
    for name, check in CHECKS.items():
        assert check.says.endswith("."), name
        assert len(check.mend) > 20, name


def test_a_test_class_skips_what_is_exempt_and_explains_what_breaks() -> None:
    class Exempt(EnvContract):
        exempt = {"global_generators_stay_where_they_are": "the simulator draws from numpy's generator"}  # noqa: RUF012

        def make_env(self) -> EnvBase:
            return Global()

    with pytest.raises(pytest.skip.Exception, match="numpy's generator"):
        Exempt().test_global_generators_stay_where_they_are()

    class Broken(EnvContract):
        def make_env(self) -> EnvBase:
            return BREAKS["done_has_a_cause"]()

    with pytest.raises(ContractBroken, match=r"'done' is not terminated \| truncated") as caught:
        Broken().test_done_has_a_cause()
    assert "how to mend it" in caught.value.__notes__[0]
