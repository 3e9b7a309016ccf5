"""Transforms of agents whose entries differ in size: what takes lists, what refuses them, and numbers that only pad."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv import (
    ActionDelay,
    ActionScaling,
    Categorical,
    CatFrames,
    CatTensors,
    ChessActions,
    ClipTransform,
    DropMessages,
    FiniteTensorDictCheck,
    Hash,
    MultiAction,
    ObservationDelay,
    ObservationNorm,
    RenameTransform,
    RewardSum,
    SerialEnv,
    SharedObservation,
    Stack,
    TensorDictPrimer,
    TimeMaxPool,
    Transform,
    TransformedEnv,
    UnaryTransform,
    VecNorm,
    VecNormV2,
)
from marlenv.errors import NotFinite, NotInSpec, SpecError, Unsupported
from marlenv.testing.mocks import CountingEnv, UnevenEnv

SEEN, DONE = ("agents", "observation"), ("agents", "action")
TENSORS_ONLY: dict[str, Callable[[], Transform]] = {
    "ActionDelay": lambda: ActionDelay(1),
    "CatFrames": lambda: CatFrames(2, -1, in_keys=[SEEN]),
    "DropMessages": lambda: DropMessages(0.5),
    "MultiAction": MultiAction,
    "ObservationDelay": lambda: ObservationDelay(1),
    "TimeMaxPool": lambda: TimeMaxPool(in_keys=[SEEN], T=2),
    "UnaryTransform": lambda: UnaryTransform([SEEN], [("agents", "z")], fn=lambda x: x * 2),
    "Hash": lambda: Hash([SEEN], [("agents", "z")]),
    "VecNorm": lambda: VecNorm(in_keys=[SEEN]),
    "VecNormV2": VecNormV2,
    "CatTensors": lambda: CatTensors([SEEN], "all"),
    "Stack": lambda: Stack([SEEN], "all"),
}
LISTS, DENSE = "stack", "pad"


@pytest.mark.parametrize("name", TENSORS_ONLY)
def test_what_takes_tensors_only_says_so(name: str) -> None:
    what = DONE if name in ("ActionDelay", "MultiAction") else SEEN
    with pytest.raises(Unsupported, match=rf"{name}: .*{what[1]}.* from agent to agent; take unequal='pad' in the env"):
        TransformedEnv(UnevenEnv(LISTS), TENSORS_ONLY[name]())
    TransformedEnv(UnevenEnv(DENSE), TENSORS_ONLY[name]()).check_env_specs()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ClipTransform(in_keys=[SEEN], low=-1, high=1),
        lambda: ObservationNorm(0.0, 1.0, in_keys=[SEEN]),
        RewardSum,
        SharedObservation,
        FiniteTensorDictCheck,
    ],
)
def test_the_others_take_lists(make: Callable[[], Transform]) -> None:
    TransformedEnv(UnevenEnv(LISTS), make()).check_env_specs()


@pytest.mark.parametrize("create_copy", [False, True])
def test_renamed_entries_of_a_pool_are_each_agents_own(create_copy: bool) -> None:
    """Around a pool as within it, where the agents stand in the first dimension of an env's own data."""

    def rename():
        return RenameTransform([SEEN], [("agents", "o")], create_copy=create_copy)

    around = TransformedEnv(SerialEnv(2, lambda: UnevenEnv(LISTS)), rename())
    within = SerialEnv(2, lambda: TransformedEnv(UnevenEnv(LISTS), rename()))
    one, other = (env.rollout(6, break_when_any_done=False)["next", "agents"] for env in (around, within))
    for agent, size in enumerate((2, 3)):
        seen = one[..., agent]["o"]
        assert torch.equal(seen, other[..., agent]["o"])
        assert seen[0].tolist() == [[n] * size for n in (1, 2, 3, 4, 1, 2)]


def test_a_number_of_an_agent_is_named() -> None:
    env = TransformedEnv(UnevenEnv(LISTS), FiniteTensorDictCheck())
    td = env.rand_action(env.reset())
    td["agents"].tensordicts[1]["action"][-1] = float("nan")
    with pytest.raises(NotFinite, match=r"\('agents', 'action'\) is nan in agent 1 of group 'agents', number 1"):
        env.step(td)


@pytest.mark.parametrize("standard_normal", [True, False])
def test_numbers_that_only_pad_are_not_scaled(standard_normal: bool) -> None:
    env = TransformedEnv(UnevenEnv(DENSE), ActionScaling([DONE], standard_normal=standard_normal))
    env.check_env_specs()
    low = -1 if standard_normal else 0
    assert env.full_action_spec[DONE].space.low.tolist() == [[low, 0], [low, low]]  # the small agent does one thing
    assert env.full_action_spec[DONE].space.high.tolist() == [[1, 0], [1, 1]]
    given = torch.tensor([[1.0, 0.0], [low, 1.0]])
    told = env.transform.inv(TensorDict({}).set(DONE, given))[DONE]
    assert told.tolist() == [[1, 0], [-1, 1]]
    assert env.base_env.full_action_spec[DONE].is_in(told)
    assert env.transform.normalize(told).tolist() == given.tolist()


def test_actions_of_one_value_are_not_scaled() -> None:
    env = CountingEnv()
    env.action_spec = marlenv.Bounded(2, 2, (1,))
    with pytest.raises(SpecError, match="finite bounds, the upper above the lower"):
        TransformedEnv(env, ActionScaling())


# --- what is not what it should be ----------------------------------------------------------------


@pytest.mark.parametrize("value", [7, {"h": 7}])
def test_primers_hold_values_of_their_specs(value: object) -> None:
    with pytest.raises(NotInSpec, match=r"TensorDictPrimer: the default of 'h' must be in Categorical.*got tensor"):
        TensorDictPrimer(h=Categorical(3, (2,)), expand_specs=False, default_value=value)
    made = TensorDictPrimer(h=Categorical(3, (2,)), expand_specs=False, default_value=2)
    assert TransformedEnv(CountingEnv(4, batch_size=[2]), made).reset()["h"].tolist() == [2, 2]


def test_numbers_of_moves_need_the_rules_of_an_env() -> None:
    with pytest.raises(Unsupported, match="ChessActions: works in a chess env only, whose rules it asks; make it with"):
        ChessActions().inv(TensorDict({"action": torch.tensor(3)}))
