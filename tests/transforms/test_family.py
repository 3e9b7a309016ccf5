"""Transforms by known numbers: those that draw, that torchrl lacks or cannot run here, and those of stored data."""

from __future__ import annotations

import pickle
import time

import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv import (
    ActionDelay,
    ActionDiscretizer,
    AgentIndex,
    AutoResetEnv,
    AutoResetTransform,
    BatchSizeTransform,
    CatFrames,
    Compose,
    ConditionalPolicySwitch,
    ConditionalSkip,
    DeviceCastTransform,
    DiscreteActionProjection,
    DropMessages,
    EndOfLifeTransform,
    FrameSkipTransform,
    MultiAction,
    NoopResetEnv,
    ObservationDelay,
    ObservationNorm,
    RecordEpisodeStats,
    RegroupTransform,
    RenameTransform,
    RewardClipping,
    RewardScaling,
    RewardSum,
    SerialEnv,
    SharedObservation,
    StepCounter,
    TeamReward,
    TimeLimit,
    Timer,
    TrajCounter,
    TransformedEnv,
    VecGymEnvTransform,
    VecNorm,
    VecNormV2,
)
from marlenv.errors import DtypeError, GroupError
from marlenv.testing.comparison import differences
from marlenv.testing.mocks import CountingEnv, GroupedEnv


def column(env: marlenv.EnvBase, key: object, steps: int = 4, **how: object) -> torch.Tensor:
    """An entry of a rollout that goes on over the ends of episodes, without its last dimension."""
    return env.rollout(steps, break_when_any_done=False, **how)[key].squeeze(-1)


def test_a_time_limit_truncates_and_never_terminates() -> None:
    env = TransformedEnv(GroupedEnv(batch_size=[2]), TimeLimit(2))
    out = env.rollout(5)["next"]
    assert out.shape == (2, 2)
    for node in (out, out["agents"]):
        assert node["truncated"][:, -1].all()
        assert not node["terminated"].any()


def test_episodes_are_numbered_across_rows() -> None:
    env = TransformedEnv(CountingEnv(2, batch_size=[2]), Compose(TrajCounter(), RenameTransform(["traj_count"], ["n"])))
    assert column(env, "n", 6).tolist() == [[0, 0, 2, 2, 4, 4], [1, 1, 1, 3, 3, 3]]
    state = env.state_dict()
    other = TransformedEnv(CountingEnv(2, batch_size=[2]), Compose(TrajCounter()))
    other.load_state_dict({k: v for k, v in state.items() if k in other.state_dict()})
    assert other.reset()["traj_count"].flatten().tolist() == [5, 6]


def test_lives_that_are_lost() -> None:
    class Game(CountingEnv):
        def lives(self) -> torch.Tensor:
            return 5 - (self.count // 2).squeeze(-1).long()

    env = TransformedEnv(Game(6, batch_size=[2]), EndOfLifeTransform(eol_attribute="lives"))
    out = env.rollout(6)["next"]
    assert out["lives"][0].tolist() == [5, 4, 4, 3, 3, 2]
    assert out["end-of-life"][0].flatten().tolist() == [False, True, False, True, False, True]


def test_finished_episodes_are_recorded_for_every_agent() -> None:
    env = TransformedEnv(
        GroupedEnv(terminate={"agent_0": 2}, truncate={"agent_1": 3, "agent_2": 3}, rule="all"), RecordEpisodeStats()
    )
    env.set_seed(0)
    data = env.rollout(3)["next", "agents"]
    record, reward = data["episode"], data["reward"]
    assert record["length"].squeeze(-1).tolist() == [[0, 0, 0], [2, 0, 0], [0, 3, 3]]
    assert record["outcome"].squeeze(-1).tolist() == [[0, 0, 0], [1, 0, 0], [0, 2, 2]]
    assert torch.allclose(record["return"][1, 0], reward[:2, 0].sum(0))
    assert torch.allclose(record["return"][2, 1:], reward[:, 1:].sum(0))
    root = TransformedEnv(CountingEnv(2), Compose(RecordEpisodeStats(), TimeLimit(9)))
    assert column(root, ("next", "episode", "return"), 5).tolist() == [0, 2, 0, 2, 0]


# --- memory that follows resets, and later transforms ----------------------------------------------


def test_groups_that_start_anew_by_themselves_forget_by_themselves() -> None:
    def make(chain: Compose) -> TransformedEnv:
        return TransformedEnv(GroupedEnv({"g": ["a"], "h": ["b"]}, terminate={"a": 2, "b": 3}, root_flags=False), chain)

    keys = [("g", "observation"), ("h", "observation")]
    out = make(Compose(RewardSum(), StepCounter(), CatFrames(2, -1, keys))).rollout(5, break_when_any_done=False)
    assert out["g", "step_count"].flatten().tolist() == [0, 1, 0, 1, 0]
    assert out["h", "step_count"].flatten().tolist() == [0, 1, 2, 0, 1]
    assert out["h", "observation"][:, 0, [2, 5]].tolist() == [[0, 0], [0, 1], [1, 2], [0, 0], [0, 1]]
    assert out["g", "episode_reward"].flatten()[[0, 2, 4]].tolist() == [0, 0, 0]


@pytest.mark.parametrize("later", ["changed", "renamed", "left out"])
def test_what_is_remembered_is_found_whatever_later_transforms_do(later: str) -> None:
    after = {
        "changed": lambda: ObservationNorm(0.0, 10.0, ["episode_reward", "observation"]),
        "renamed": lambda: RenameTransform(["episode_reward", "step_count"], ["sum", "n"]),
        "left out": lambda: marlenv.ExcludeTransform("episode_reward", "step_count"),
    }[later]
    env = TransformedEnv(
        CountingEnv(3, batch_size=[2]), Compose(RewardSum(), StepCounter(4), CatFrames(2, -1, ["observation"]), after())
    )
    plain = TransformedEnv(
        CountingEnv(3, batch_size=[2]), Compose(RewardSum(), StepCounter(4), CatFrames(2, -1, ["observation"]))
    )
    ours, want = (one.rollout(9, break_when_any_done=False)["next"] for one in (env, plain))
    if later == "changed":
        assert torch.equal(ours["episode_reward"], want["episode_reward"] * 10)
        assert torch.equal(ours["observation"], want["observation"] * 10)
    elif later == "renamed":
        assert torch.equal(ours["sum"], want["episode_reward"])
        assert torch.equal(ours["n"], want["step_count"])
    else:
        assert "step_count" not in ours.keys()
    assert torch.equal(ours["truncated"], want["truncated"])
    env.check_env_specs()


# --- steps within steps ---------------------------------------------------------------------------


def test_rows_that_are_done_stop_within_repeated_steps() -> None:
    env = TransformedEnv(CountingEnv(3, batch_size=[2]), FrameSkipTransform(2))
    out = env.rollout(2, break_when_all_done=True)["next"]
    assert out["observation"].squeeze(-1).tolist() == [[2, 3], [2, 4]]
    assert out["reward"].squeeze(-1).tolist() == [[2, 1], [2, 2]]


@pytest.mark.parametrize("by_mask", [False, True])
def test_frames_are_skipped_in_rows_that_are_stepped_only(by_mask: bool) -> None:
    """Row 1 stands still, and its env too, though row 0 ends before all frames are played."""
    pool = SerialEnv(2, CountingEnv, create_env_kwargs=[{"max_steps": 2}, {"max_steps": 9}])
    waits = torch.tensor([False, True])
    skip = ConditionalSkip(lambda td: torch.zeros(2, dtype=torch.bool) if by_mask else waits)
    env = TransformedEnv(pool, Compose(skip, FrameSkipTransform(4)))
    td = env.rand_action(env.reset())
    out = env.step(td.set("_step", ~waits) if by_mask else td)["next"]
    assert out["observation"].flatten().tolist() == [2, 0]
    assert env.get_state().clone()["count"].flatten().tolist() == [2, 0]


def test_repeated_steps_see_the_action_as_the_env_does() -> None:
    env = TransformedEnv(GroupedEnv(), Compose(FrameSkipTransform(3), marlenv.ActionScaling([("agents", "action")])))
    td = env.reset()
    td["agents", "action"] = torch.full((3, 2), 0.5)
    assert torch.allclose(env.step(td)["next", "agents", "reward"], torch.full((3, 1), 3.0))


def test_rewards_of_repeated_steps_have_the_bounds_of_none() -> None:
    env = TransformedEnv(CountingEnv(3), Compose(RewardClipping(-0.5, 0.5), FrameSkipTransform(2)))
    env.check_env_specs()
    assert env.rollout(3)["next", "reward"].squeeze(-1).tolist() == [1.0, 0.5]
    assert env.reward_spec == marlenv.Unbounded((1,))
    one = TransformedEnv(CountingEnv(3), Compose(RewardClipping(-0.5, 0.5), FrameSkipTransform(1)))
    assert one.reward_spec == marlenv.Bounded(-0.5, 0.5, (1,))


def test_several_actions_in_one_step() -> None:
    env = TransformedEnv(CountingEnv(3, batch_size=[2]), MultiAction(stack_observations=True))
    td = env.reset()
    assert td["observation"].shape == (2, 1, 1)
    out = env.step(td.set("action", torch.zeros(2, 4, 1)))["next"]
    assert out["observation"].squeeze(-1).tolist() == [[1, 2, 3, 3], [1, 2, 3, 4]]
    assert out["reward"].squeeze(-1).tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert out["done"].flatten().tolist() == [True, True]


def test_what_others_remember_is_not_stacked() -> None:
    env = TransformedEnv(CountingEnv(9), Compose(marlenv.ObservationDelay(1), MultiAction(stack_observations=True)))
    out = env.step(env.reset().set("action", torch.zeros(3, 1)))["next"]
    assert out["observation"].flatten().tolist() == [0, 1, 2]
    td = env.step_mdp(TensorDict({"next": out})).set("action", torch.zeros(2, 1))
    assert env.step(td)["next", "observation"].flatten().tolist() == [3, 4]


def test_idle_steps_begin_episodes_elsewhere_row_by_row() -> None:
    def starts(rows: int) -> list[float]:
        env = TransformedEnv(CountingEnv(99, batch_size=[rows]), NoopResetEnv(5))
        env.set_seed(1)
        return env.reset()["observation"].flatten().tolist()

    many = starts(60)
    assert set(many) == {0, 1, 2, 3, 4}
    assert starts(7) == many[:7]
    env = TransformedEnv(CountingEnv(4, batch_size=[2]), NoopResetEnv(2, random=False))
    td = env.step_mdp(env.rand_step(env.reset()))
    td = env.reset(td.set("_reset", torch.tensor([[True], [False]])))
    assert td["observation"].flatten().tolist() == [2, 3]


def test_an_opponent_plays_unseen() -> None:
    asked: list[int] = []

    def first(td: TensorDict) -> TensorDict:
        asked.append(int(td["observation"].max()))
        return td.set("action", torch.zeros(*td.batch_size, 1))

    odd = lambda td: (td["observation"] % 2 == 1).squeeze(-1)  # noqa: E731
    env = TransformedEnv(CountingEnv(6, batch_size=[3]), ConditionalPolicySwitch(first, odd))
    assert column(env, ("next", "observation"), 3)[0].tolist() == [2, 4, 6]
    assert asked == [1, 3, 5]


def test_skipped_rows_stand_still_and_no_transform_counts_them() -> None:
    chain = Compose(
        StepCounter(), ConditionalSkip(lambda td: (td["observation"] >= 2) & (torch.arange(2) == 0).unsqueeze(-1))
    )
    out = TransformedEnv(CountingEnv(9, batch_size=[2]), chain).rollout(4)["next"]
    assert out["observation"].squeeze(-1).tolist() == [[1, 2, 2, 2], [1, 2, 3, 4]]
    assert out["step_count"].squeeze(-1).tolist() == [[1, 2, 2, 2], [1, 2, 3, 4]]
    assert out["reward"].squeeze(-1).tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]


def test_a_step_mask_that_a_transform_writes_is_obeyed() -> None:
    class Every(marlenv.Transform):
        def _inv_call(self, tensordict: TensorDict) -> TensorDict:
            return tensordict.set("_step", torch.tensor([True, False, True]))

    for base in (CountingEnv(9, batch_size=[3]), SerialEnv(3, lambda: CountingEnv(9))):
        out = TransformedEnv(base, Every()).rollout(3)["next"]
        assert out["observation"][:, -1].flatten().tolist() == [3, 0, 3]


# --- batches, devices, envs that reset themselves --------------------------------------------------


def test_a_reshaped_batch_is_the_batch_reshaped() -> None:
    grid = TransformedEnv(CountingEnv(2, batch_size=[6]), BatchSizeTransform(reshape_fn=lambda td: td.reshape(2, 3)))
    flat = CountingEnv(2, batch_size=[6])
    ours, want = (
        env.rollout(7, lambda td: td.set("action", torch.zeros(*td.batch_size, 1)), break_when_any_done=False)
        for env in (grid, flat)
    )
    assert not differences(ours.reshape(6, 7), want)
    grid.check_env_specs()


def test_a_batch_for_an_env_that_takes_any() -> None:
    class Any_(marlenv.EnvBase):
        batch_locked = False

        def __init__(self) -> None:
            super().__init__()
            self.observation_spec = marlenv.Composite(x=marlenv.Unbounded((1,)))
            self.state_spec = marlenv.Composite(x=marlenv.Unbounded((1,)))
            self.action_spec = marlenv.Unbounded((1,))
            self.reward_spec = marlenv.Unbounded((1,))

        def _reset(self, tensordict: TensorDict | None) -> TensorDict:
            return TensorDict({"x": torch.zeros(1)}, [])

        def _step(self, tensordict: TensorDict) -> TensorDict:
            x = tensordict["x"] + tensordict["action"]
            return TensorDict({"x": x, "reward": x, "done": x > 2}, tensordict.batch_size)

        def _set_seed(self, seed: int | None) -> None:
            pass

    env = TransformedEnv(Any_(), BatchSizeTransform(batch_size=[4]))
    assert env.batch_size == (4,)
    out = env.rollout(2, lambda td: td.set("action", torch.arange(4.0).reshape(4, 1)))
    assert out["next", "x"].flatten().tolist() == [0, 1, 2, 3]


def test_another_device_outside() -> None:
    env = TransformedEnv(CountingEnv(device="cpu"), Compose(DeviceCastTransform("meta"), RewardSum()))
    td = env.reset()
    assert (env.device.type, td["observation"].device.type, env.action_spec.device.type) == ("meta",) * 3
    some = TransformedEnv(CountingEnv(device="cpu"), DeviceCastTransform("meta", in_keys=["observation"]))
    assert some.reset()["observation"].device.type == "meta"
    assert some.device is None


class Loop(CountingEnv):
    """Counts to its limit and goes on from 0 by itself."""

    def _step(self, tensordict: TensorDict) -> TensorDict:
        out = super()._step(tensordict)
        self.count = torch.where(out["done"], 0.0, self.count)
        return out.set("observation", self.count.clone())


def test_envs_that_reset_themselves() -> None:
    env = AutoResetEnv(Loop(2, batch_size=[2]), AutoResetTransform())
    out = env.rollout(4, break_when_any_done=False)
    assert out["observation"].squeeze(-1).tolist() == [[0, 1, 0, 1], [0, 1, 2, 0]]
    assert out["next", "observation"].squeeze(-1).nan_to_num(-9).tolist() == [[1, -9, 1, -9], [1, 2, -9, 1]]
    kept = AutoResetEnv(Loop(2), AutoResetTransform(replace=False))
    assert column(kept, ("next", "observation")).tolist() == [1, 0, 1, 0]


def test_final_observations_of_vectorised_gym() -> None:
    class Vec(Loop):
        def _step(self, tensordict: TensorDict) -> TensorDict:
            before = self.count + 1
            return super()._step(tensordict).set("final", TensorDict({"observation": before}, self.batch_size))

        def _reset(self, tensordict: TensorDict | None, **_: object) -> TensorDict:
            return TensorDict({"observation": self.count.clone()}, self.batch_size)  # it has done so already

    env = TransformedEnv(Vec(2, batch_size=[2]), VecGymEnvTransform())
    out = env.rollout(4, break_when_any_done=False)
    assert out["next", "observation"].squeeze(-1).tolist() == [[1, 2, 1, 2], [1, 2, 3, 1]]
    assert out["observation"].squeeze(-1).tolist() == [[0, 1, 0, 1], [0, 1, 2, 0]]


def test_times_add_up() -> None:
    class Slow(CountingEnv):
        def _step(self, tensordict: TensorDict) -> TensorDict:
            time.sleep(0.02)
            return super()._step(tensordict)

    out = TransformedEnv(Slow(), Timer()).rollout(3)["next"]
    assert (out["time_step"] >= 0.02).all()
    assert (out["time_policy"] >= 0).all()


# --- actions --------------------------------------------------------------------------------------


def test_intervals_cover_the_action() -> None:
    kind = ActionDiscretizer.SamplingStrategy
    for sampling, want in ((kind.LOW, [-1, 0]), (kind.HIGH, [0, 1]), (kind.MEDIAN, [-0.5, 0.5])):
        env = TransformedEnv(CountingEnv(), ActionDiscretizer(2, sampling=sampling))
        told = [env.transform.inv(TensorDict({"action": torch.tensor([i])}))["action"].item() for i in (0, 1)]
        assert told == want
    env = TransformedEnv(CountingEnv(batch_size=[500]), ActionDiscretizer(2, sampling=kind.RANDOM))
    drawn = env.transform.inv(TensorDict({"action": torch.ones(500, 1, dtype=torch.int64)}, [500]))["action"]
    assert (drawn.min() > 0, drawn.max() < 1, drawn.std() > 0.2) == (True, True, True)
    uneven = TransformedEnv(GroupedEnv(), ActionDiscretizer(torch.tensor([2, 4]), ("agents", "action")))
    inner = uneven.transform.inv(
        TensorDict({"agents": TensorDict({"action": torch.ones(3, 2, dtype=torch.int64)}, [3])})
    )
    assert inner["agents", "action"][0].tolist() == [0.5, -0.25]
    uneven.check_env_specs()


def test_more_actions_than_there_are() -> None:
    class Few(CountingEnv):
        def __init__(self) -> None:
            super().__init__(batch_size=[200])
            self.action_spec = marlenv.OneHot(2, (200, 2))

    env = TransformedEnv(Few(), DiscreteActionProjection(2, 4))
    assert env.action_spec.shape == (200, 4)
    wide = torch.nn.functional.one_hot(torch.full((200,), 3), 4)
    few = env.transform.inv(TensorDict({"action": wide}, [200]))["action"]
    assert few.sum(-1).eq(1).all()
    assert 60 < int(few[:, 0].sum()) < 140
    known = torch.nn.functional.one_hot(torch.ones(200, dtype=torch.int64), 4)
    assert env.transform.inv(TensorDict({"action": known}, [200]))["action"][:, 1].all()


# --- several agents -------------------------------------------------------------------------------


def test_the_same_agents_in_other_groups() -> None:
    make = lambda: GroupedEnv({"all": ["a", "b", "c"]}, batch_size=[2])  # noqa: E731
    env = TransformedEnv(make(), RegroupTransform({"x": ["c"], "y": ["b", "a"]}))
    env.check_env_specs()
    td = env.reset()
    assert env.group_map == {"x": ["c"], "y": ["b", "a"]}
    assert td["y", "observation"][0, :, 1].tolist() == [1, 0]
    td["x", "action"], td["y", "action"] = (
        torch.full((2, 1, 2), 1.0),
        torch.tensor([[0.5, 0.5], [0.25, 0.25]]).expand(2, 2, 2),
    )
    out = env.step(td)["next"]
    assert out["x", "reward"].flatten().tolist() == [2, 2]
    assert out["y", "reward"][0].flatten().tolist() == [1, 0.5]
    back = TransformedEnv(
        make(), Compose(RegroupTransform({"x": ["c"], "y": ["b", "a"]}), RegroupTransform({"all": ["a", "b", "c"]}))
    )
    policy = lambda td: td.set(("all", "action"), torch.linspace(0, 1, 12).reshape(2, 3, 2))  # noqa: E731
    data = []
    for one in (back, make()):
        one.set_seed(0)
        data.append(one.rollout(3, policy))
    assert not differences(*data)


def test_groups_by_a_rule() -> None:
    rules = {"one_group_per_agent": ["a_0", "a_1", "b"], "by_name_prefix": ["a", "b"], "by_spec": ["group_0"]}
    for rule, groups in {marlenv.MarlGroupMapType.ONE_GROUP_PER_AGENT: ["a_0", "a_1", "b"], **rules}.items():
        env = TransformedEnv(GroupedEnv({"all": ["a_0", "a_1", "b"]}, batch_size=[2]), RegroupTransform(rule))
        assert list(env.group_map) == groups
        env.check_env_specs()
    with pytest.raises(GroupError, match=r"no rule is called 'by_nam_prefix'; did you mean 'by_name_prefix'\?"):
        TransformedEnv(GroupedEnv(), RegroupTransform("by_nam_prefix"))


def test_a_run_of_agents_is_a_view() -> None:
    transform = RegroupTransform({"first": ["a", "b"], "last": ["c"]})
    TransformedEnv(GroupedEnv({"all": ["a", "b", "c"]}), transform)
    whole = TensorDict({"all": TensorDict({"x": torch.arange(3.0)}, [3])}, [])
    made = transform(whole)
    assert made["first", "x"].data_ptr() == whole["all", "x"].data_ptr()


@pytest.mark.parametrize(("mode", "per"), [("sum", "group"), ("mean", "group"), ("sum", "team"), ("mean", "team")])
def test_rewards_of_teams(mode: str, per: str) -> None:
    plain, teams = (GroupedEnv({"g": ["a", "b"], "h": ["c"]}, batch_size=[2]) for _ in "ab")
    env = TransformedEnv(teams, TeamReward(mode, per))
    for one in (plain, env):
        one.set_seed(2)
    alone, ours = (one.rollout(3)["next"] for one in (plain, env))
    rewards = {group: alone[group, "reward"] for group in ("g", "h")}
    found = torch.cat(list(rewards.values()), -2)
    for group, reward in rewards.items():
        pool = found if per == "team" else reward
        want = pool.sum(-2, keepdim=True) if mode == "sum" else pool.mean(-2, keepdim=True)
        assert torch.allclose(ours[group, "reward"], want.expand_as(reward))


def test_numbers_of_agents_and_what_all_see() -> None:
    env = TransformedEnv(
        GroupedEnv({"g": ["a", "b"], "h": ["c"]}, batch_size=[2]),
        Compose(AgentIndex(of="all"), SharedObservation(), SharedObservation(out_key=("h", "state"))),
    )
    td = env.reset()
    assert td["h", "agent_index"].tolist() == [[[0, 0, 1]]] * 2
    assert td["state"].shape == (2, 9)
    assert torch.equal(
        td["state"], torch.cat([td["g", "observation"].flatten(1), td["h", "observation"].flatten(1)], -1)
    )
    assert torch.equal(td["h", "state"][:, 0], td["state"])
    env.check_env_specs()


def test_late_actions_and_observations() -> None:
    class Echo(CountingEnv):
        def _step(self, tensordict: TensorDict) -> TensorDict:
            return super()._step(tensordict).set("reward", tensordict["action"].clone())

    def policy(td: TensorDict) -> TensorDict:
        return td.set("action", td["n"].float() / 10 + 0.1)

    chain = Compose(StepCounter(step_count_key="n"), ActionDelay(2), ObservationDelay(1))
    out = TransformedEnv(Echo(3), chain).rollout(6, policy, break_when_any_done=False)["next"]
    assert torch.allclose(out["reward"].flatten(), torch.tensor([0, 0, 0.1, 0, 0, 0.1]))
    assert out["observation"].flatten().tolist() == [0, 1, 2, 0, 1, 2]


def test_lost_messages_belong_to_rows() -> None:
    def played(rows: int) -> TensorDict:
        env = TransformedEnv(GroupedEnv(batch_size=[rows]), DropMessages(0.3, "last", flag_name="arrived"))
        env.set_seed(4)
        return env.rollout(8)["next", "agents"]

    many = played(50)
    assert 0.6 < float(many["arrived"].float().mean()) < 0.8
    assert torch.equal(many["arrived"][:4], played(4)["arrived"])
    count, arrived = many["observation"][..., 2], many["arrived"]
    want = torch.zeros(50, 3)
    for t in range(8):
        want = torch.where(arrived[:, t], torch.full_like(want, t + 1.0), want)
        assert torch.equal(count[:, t], want)


# --- statistics -----------------------------------------------------------------------------------


def test_running_statistics_are_those_of_the_data() -> None:
    env = TransformedEnv(CountingEnv(99, batch_size=[3]), VecNorm(["observation"], decay=1.0))
    env.rollout(20)
    seen = torch.arange(21.0)
    norm = env.transform
    assert torch.allclose(norm.loc["observation"], seen.mean())
    assert torch.allclose(norm.scale["observation"], seen.std(unbiased=False), atol=1e-4)
    frozen = norm.frozen_copy()
    env.rollout(5)
    assert torch.allclose(frozen.loc["observation"], seen.mean())
    data = TensorDict({"observation": torch.tensor([[3.0]])}, [1])
    assert torch.allclose(frozen.denorm(frozen(data.clone()))["observation"], data["observation"], atol=1e-5)
    same = frozen.to_observation_norm()
    assert torch.allclose(same(data.clone())["observation"], frozen(data.clone())["observation"])


@pytest.mark.parametrize("kind", [VecNorm, VecNormV2])
def test_statistics_are_saved_and_loaded(kind: type) -> None:
    make = lambda: TransformedEnv(CountingEnv(99), kind(["observation", "reward"], decay=0.9))  # noqa: E731
    env, other = make(), make()
    env.rollout(6)
    other.transform.load_state_dict(env.transform.state_dict())
    data = []
    for one in (env, other, pickle.loads(pickle.dumps(env))):
        one.set_seed(0)
        data.append(one.rollout(3, lambda td: td.set("action", torch.zeros(1))))
    assert not differences(data[0], data[1])
    assert not differences(data[0], data[2])


def test_statistics_of_rollouts() -> None:
    env = TransformedEnv(CountingEnv(4), ObservationNorm(in_keys=["observation"], standard_normal=True))
    env.transform.init_stats(4)
    assert torch.allclose(env.transform.loc, torch.tensor([1.5]))  # 0 1 2 3
    assert torch.allclose(env.transform.scale, torch.arange(4.0).std().reshape(1))
    assert torch.allclose(env.rollout(4)["observation"].mean(), torch.tensor(0.0), atol=1e-6)
    other = ObservationNorm(in_keys=["observation"], standard_normal=True)
    other.load_state_dict(env.transform.state_dict())
    assert torch.equal(other.loc, env.transform.loc)


# --- whole rollouts at once -----------------------------------------------------------------------

OBSERVED, PAID = ("agents", "observation"), ("agents", "reward")


class ByAgents(RewardScaling):
    """Rewards ``[*B, A, 1]`` of a batch of one dimension, divided by the number of agents."""

    def _apply_transform(self, obs: torch.Tensor) -> torch.Tensor:
        return obs / obs.shape[1]


CHAINS = {
    "nothing": Compose,
    "pure": lambda: Compose(
        ObservationNorm(0.5, 2.0, [OBSERVED]),
        marlenv.ClipTransform([OBSERVED], [("agents", "cut")], low=-0.5, high=1.0),
        RewardScaling(1.0, 0.5),
        marlenv.UnsqueezeTransform(-1, in_keys=[("agents", "cut")]),
        marlenv.PermuteTransform((-1, -2), [("agents", "cut")]),
        RewardScaling(torch.tensor([[0.0], [1.0], [2.0]]), 1.0),  # of the agents
    ),
    "numbers of rows": lambda: RewardScaling(torch.tensor([0.0, 10.0, 20.0]).reshape(3, 1, 1), 1.0),
    "a subclass": lambda: ByAgents(0.0, 1.0),
    "memory": lambda: Compose(ObservationNorm(0.5, 2.0, [OBSERVED]), RewardSum()),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize(
    "how", [{}, {"break_when_any_done": False}, {"break_when_all_done": True}, {"set_truncated": True}]
)
def test_rollouts_at_once_are_rollouts_step_by_step(chain: str, how: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice in a row, and then a step: the env stands where it would."""
    taken = []

    def play(at_once: bool) -> list[TensorDict]:
        make = lambda: marlenv.make("simple_spread", num_envs=3, seed=0, max_steps=7)  # noqa: E731
        env = TransformedEnv(make().add_truncated_keys() if "set_truncated" in how else make(), CHAINS[chain]())
        if not at_once:
            monkeypatch.setattr(env, "_rollout", lambda *_: None)
        else:
            whole = env._rollout
            monkeypatch.setattr(env, "_rollout", lambda *given: taken.append(whole(*given)) or taken[-1])
        found = [env.rollout(9, **how) for _ in range(2)]
        return [*found, env.rand_step(env.reset())]

    for ours, want in zip(play(True), play(False), strict=True):
        assert not differences(ours, want)
        assert ours.names == want.names
        held = [leaf.data_ptr() for leaf in ours.values(True, True)]
        assert len(set(held)) == len(held)
    at_once = (
        chain in ("nothing", "pure") and "break_when_all_done" not in how
    )  # which the scenario does not do at once
    assert all((made is not None) is at_once for made in taken)


def test_types_are_checked_in_every_rollout() -> None:
    class Doubles(ObservationNorm):
        def transform_observation_spec(self, observation_spec: marlenv.Composite) -> marlenv.Composite:
            return observation_spec

        def _apply_transform(self, obs: torch.Tensor) -> torch.Tensor:
            return super()._apply_transform(obs).double()

    Doubles.pure = True
    env = TransformedEnv(marlenv.make("simple_spread"), Doubles(0.0, 1.0, [OBSERVED]), run_type_checks=True)
    with pytest.raises(DtypeError, match=r"\('agents', 'observation'\) must be torch.float32, got torch.float64"):
        env.rollout(3)
