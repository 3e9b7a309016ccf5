"""Steps of several steps: an agent that ends within one keeps its end, its last observation and its rewards."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict, TensorDictBase

from marlenv import (
    Binary,
    Composite,
    ConditionalPolicySwitch,
    EnvBase,
    FrameSkipTransform,
    MultiAction,
    SerialEnv,
    TicTacToeEnv,
    TransformedEnv,
    Unbounded,
)
from marlenv.testing.mocks import GroupedEnv

Seen = list[tuple[list[int], list[int], list[float]]]


class Pulse(GroupedEnv):
    """An agent is done at the step of its end only, as where agents come back by themselves."""

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        out = super()._step(tensordict)
        late, _ = self.ends[("a",)]
        over = (self.count[("a",)] == late).unsqueeze(-1)
        return out.update({"a": {"terminated": over, "done": over.clone()}})


def played(cls: type[GroupedEnv], root: bool, n: int, transform: FrameSkipTransform | MultiAction | None) -> Seen:
    """Who is done, how many steps there were, and the rewards of four steps; x ends after 3 of the env, y after 4."""
    env: EnvBase = cls({"a": ["x", "y"]}, terminate={"x": 3, "y": 4}, root_flags=root, rule="all", batch_size=[2])
    if transform is not None:
        env = TransformedEnv(env, transform)
    td, seen = env.reset(), []
    many = (n,) if isinstance(transform, MultiAction) else ()
    for _ in range(4):
        td = env.step(td.set(("a", "action"), torch.ones(2, 2, *many, 2)))
        group = td["next", "a"]
        rewards = group["reward"].flatten(2).sum(-1)
        assert (group["observation"][0, :, 2] == group["observation"][1, :, 2]).all()
        done, steps = group["done"][1].flatten().int(), group["observation"][1, :, 2].int()
        seen.append((done.tolist(), steps.tolist(), rewards[1].tolist()))
        td = env.maybe_reset(env.step_mdp(td))
    return seen


BOTH = [([0, 0], [2, 2], [4, 4]), ([1, 1], [3, 4], [2, 4])]


@pytest.mark.parametrize("kind", [FrameSkipTransform, MultiAction])
@pytest.mark.parametrize("cls", [GroupedEnv, Pulse])
@pytest.mark.parametrize("root", [False, True])
def test_what_ends_within_a_step_keeps_its_end(kind: type, cls: type[GroupedEnv], root: bool) -> None:
    """One reward of an agent is 2: x gets one in its last step, as in the env itself."""
    plain = played(cls, root, 1, None)
    assert plain[2] == ([1, 0], [3, 3], [2, 2])  # the env's own last word about x
    transform = FrameSkipTransform(2) if kind is FrameSkipTransform else MultiAction()
    assert played(cls, root, 2, transform) == [*BOTH, *BOTH]


@pytest.mark.parametrize("root", [False, True])
def test_who_ended_before_the_step_goes_on_as_the_env_has_it(root: bool) -> None:
    """Without a root x starts anew; with one it waits for y, and both stop when y ends in the first of three steps."""
    second = ([1, 1], [4, 4], [2, 2]) if root else ([1, 1], [3, 4], [6, 2])
    first = ([1, 0], [3, 3], [6, 6])
    assert played(GroupedEnv, root, 3, FrameSkipTransform(3)) == [first, second, first, second]
    assert played(GroupedEnv, root, 3, MultiAction()) == [first, second, first, second]


def test_rewards_of_several_actions_are_0_behind_the_end_of_an_agent() -> None:
    env = TransformedEnv(Pulse({"a": ["x", "y"]}, terminate={"x": 1, "y": 2}), MultiAction())
    given = torch.tensor([[[1.0, 0], [2, 0], [4, 0]]] * 2)
    out = env.step(env.reset().set(("a", "action"), given))["next", "a"]
    assert out["reward"].squeeze(-1).tolist() == [[1, 0, 0], [1, 0, 0]]  # any agent's end is the row's
    env = TransformedEnv(Pulse({"a": ["x", "y"]}, terminate={"x": 1, "y": 2}, rule="all"), MultiAction())
    out = env.step(env.reset().set(("a", "action"), given))["next", "a"]
    assert out["reward"].squeeze(-1).tolist() == [[1, 0, 0], [1, 2, 0]]


def test_an_agent_that_comes_back_may_end_in_step_after_step() -> None:
    """It ends at 2, 5, 8 and so on of the env, whose flags say so for one step only; three of its steps are one."""

    class Back(Pulse):
        def _step(self, tensordict: TensorDictBase) -> TensorDict:
            out = super()._step(tensordict)
            over = torch.stack((self.count[("a",)][..., 0] % 3 == 2, torch.zeros(2, dtype=torch.bool)), -1)
            return out.update({"a": {"terminated": over.unsqueeze(-1), "done": over.unsqueeze(-1).clone()}})

    env = TransformedEnv(Back({"a": ["x", "y"]}, batch_size=[2], rule="all"), FrameSkipTransform(3))
    out = env.rollout(3, break_when_any_done=False)["next", "a"]
    assert out["done"][0, :, 0].flatten().tolist() == [True] * 3
    assert out["observation"][0, :, 0, 2].tolist() == [2, 5, 8]
    assert out["observation"][0, :, 1, 2].tolist() == [3, 6, 9]


class Walk(EnvBase):
    """Two agents whose places travel in the data; the first is done at place 3, the row at 6."""

    def __init__(self) -> None:
        super().__init__()
        flags = Composite(done=Binary(shape=(2, 1), dtype=torch.bool), shape=(2,))
        places = Composite(place=Unbounded((2, 1)), shape=(2,))
        self.state_spec = Composite(a=places)
        self.observation_spec = Composite(a=Composite(place=Unbounded((2, 1)), seen=Unbounded((2, 1)), shape=(2,)))
        self.action_spec = Unbounded((1,))
        self.reward_spec = Unbounded((1,))
        self.full_done_spec = Composite(done=Binary(shape=(1,), dtype=torch.bool), a=flags)

    def _at(self, place: torch.Tensor) -> TensorDict:
        over = torch.stack((place[0] == 3, place[1] == 9))
        group = TensorDict({"place": place, "seen": place.clone(), "done": over, "terminated": over.clone()}, [2])
        return TensorDict({"a": group, "done": place[0] >= 6, "reward": torch.ones(1)}, [])

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDict:
        return self._at(torch.zeros(2, 1)).exclude("reward")

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        return self._at(tensordict["a", "place"] + 1)

    def _set_seed(self, seed: int | None) -> None:
        pass


def test_what_an_env_goes_on_from_is_not_held_back() -> None:
    out = TransformedEnv(Walk(), FrameSkipTransform(2)).rollout(9)["next"]
    assert out["a", "place"][..., 0].tolist() == [[2, 2], [4, 4], [6, 6]]
    assert out["a", "seen"][..., 0].tolist() == [[2, 2], [3, 4], [6, 6]]
    assert out["a", "done"][..., 0].tolist() == [[False, False], [True, False], [False, False]]
    assert out["reward"].flatten().tolist() == [2, 2, 2]


def test_another_policy_moves_in_some_rows_of_a_game_as_in_envs_of_one() -> None:
    """The position is in the data, where rows that do not move keep it."""

    def moved(td: TensorDictBase, by: int) -> TensorDictBase:
        order = (torch.arange(9) * by + (td["board"].flatten(-2) * torch.arange(9)).sum(-1, keepdim=True)) % 9
        return td.set("action", torch.where(td["mask"], order, -1).argmax(-1))

    def alone() -> EnvBase:
        return TransformedEnv(TicTacToeEnv(), opponent())

    def opponent() -> ConditionalPolicySwitch:
        return ConditionalPolicySwitch(lambda td: moved(td, 4), lambda td: td["turn"].squeeze(-1) == 1)

    played = []
    for env in (TransformedEnv(TicTacToeEnv(batch_size=[3]), opponent()), SerialEnv(3, alone)):
        td, steps = env.reset().set("action", torch.tensor([0, 1, 4])), []
        for _ in range(16):
            data, td = env.step_and_maybe_reset(td)
            steps.append(data["next"])
            moved(td, 2)
        played.append(torch.stack(steps, 1))
    over = played[0]["done"].squeeze(-1)
    assert bool((over.any(0) & ~over.all(0)).any())  # rows end apart, so that the other moves in some of them
    assert (played[0] == played[1].select(*played[0].keys())).all()
