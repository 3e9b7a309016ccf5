"""What ALF's and Stable-Baselines3's wrappers do, by the transforms that ``docs/migrate.md`` names for them.

ALF cannot be had here: what its wrappers do is written down from its documents. SB3's wrappers are compared
with the library in ``test_recipes_and_sb3.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv import Compose, SerialEnv, TransformedEnv
from marlenv.errors import NotFinite
from marlenv.testing.mocks import CountingEnv, GroupedEnv

PAGE = (Path(__file__).parents[2] / "docs" / "migrate.md").read_text()


class Walk(CountingEnv):
    """Observes two numbers and a picture; the reward is the action."""

    def __init__(self) -> None:
        super().__init__(max_steps=99)
        self.observation_spec = marlenv.Composite(
            observation=marlenv.Unbounded((2,)), pixels=marlenv.Unbounded((4, 5, 3), dtype=torch.uint8)
        )
        self.action_spec = marlenv.Bounded(-2, 6, (1,))

    def show(self, td: TensorDict) -> TensorDict:
        picture = torch.arange(60, dtype=torch.uint8).reshape(4, 5, 3)
        return td.update({"observation": torch.cat((self.count * 3, -self.count)), "pixels": picture})

    def _reset(self, tensordict: TensorDict | None, **_: object) -> TensorDict:
        return self.show(super()._reset(tensordict))

    def _step(self, tensordict: TensorDict) -> TensorDict:
        return self.show(super()._step(tensordict)).set("reward", tensordict["action"].clone())


def played(transform: object, steps: int = 4, action: float = 1.0, base: type = Walk) -> TensorDict:
    env = TransformedEnv(base(), transform)
    return env.rollout(steps, lambda td: td.set("action", torch.full((1,), action)))


def test_alf_frame_stack() -> None:
    """The most recent ones; before there are so many the first one stands for those that are not there."""
    out = played(marlenv.CatFrames(3, -1, ["observation"]))
    assert out["observation"][0].tolist() == [0, 0] * 3
    assert out["observation"][2].tolist() == [0, 0, 3, -1, 6, -2]
    assert out["next", "observation"][2].tolist() == [3, -1, 6, -2, 9, -3]
    later = TransformedEnv(Walk(), Compose(marlenv.TimeLimit(2), marlenv.CatFrames(2, -1, ["observation"])))
    assert later.rollout(3, break_when_any_done=False)["observation"][2].tolist() == [0] * 4


def test_sb3_vec_frame_stack() -> None:
    made = marlenv.ObservationNorm(1.0, 1.0, ["observation"])  # a first frame that is not zero
    out = played(Compose(made, marlenv.CatFrames(2, -1, ["observation"], padding="constant")))["observation"]
    assert out[:2].tolist() == [[0, 0, 1, 1], [1, 1, 4, 0]]


def test_alf_frame_skip() -> None:
    assert played(marlenv.FrameSkipTransform(3))["next", "reward"].flatten().tolist() == [3] * 4


def test_alf_normalized_action() -> None:
    for given, told in ((-1.0, -2), (0.0, 2), (1.0, 6)):
        assert played(marlenv.ActionScaling(), 1, given)["next", "reward"].item() == told


def test_alf_observation_clip_wrapper() -> None:
    out = played(marlenv.ClipTransform(["observation"], low=-2.0, high=5.0))["next", "observation"]
    want = np.clip([[3, -1], [6, -2], [9, -3], [12, -4]], -2.0, 5.0)
    assert out.tolist() == want.tolist()


@pytest.mark.parametrize("reward", [-1.0, 0.0, 0.5])
def test_alf_sparse_reward(reward: float) -> None:
    out = played(marlenv.BinarizeReward(), 2, reward)["next", "reward"]
    assert out.flatten().tolist() == [float(reward > 0)] * 2


def test_alf_time_limit() -> None:
    out = played(marlenv.TimeLimit(3), 9)["next"]
    assert out["truncated"].flatten().tolist() == [False, False, True]
    assert not out["terminated"].any()


def test_alf_discrete_action_wrapper() -> None:
    env = TransformedEnv(Walk(), marlenv.ActionDiscretizer(4))
    told = [env.step(env.reset().set("action", torch.tensor([i])))["next", "reward"].item() for i in range(4)]
    assert told == [-1, 1, 3, 5]


def test_sb3_vec_normalize_with_save_and_load(tmp_path: Path) -> None:
    """Mean and deviation over all envs and steps, as ``RunningMeanStd`` of the whole data."""
    norm = marlenv.VecNorm(["observation"], decay=1.0)
    env = TransformedEnv(SerialEnv(3, Walk), Compose(norm, marlenv.ClipTransform(["observation"], low=-1.5, high=1.5)))
    out = env.rollout(20)
    data = np.stack([[3.0 * t, -1.0 * t] for t in range(21)])
    assert np.allclose(norm.loc["observation"], data.mean(0), atol=1e-4)
    assert np.allclose(norm.scale["observation"], data.std(0), atol=1e-3)
    assert float(out["next", "observation"].abs().max()) == 1.5
    torch.save(norm.state_dict(), tmp_path / "norm.pt")
    other = marlenv.VecNorm(["observation"], decay=1.0)
    other.load_state_dict(torch.load(tmp_path / "norm.pt"))
    other.freeze()
    before = other.loc["observation"].clone()
    TransformedEnv(Walk(), other).rollout(5)
    assert torch.equal(other.loc["observation"], before)
    assert torch.equal(before, norm.loc["observation"])


def test_sb3_vec_check_nan() -> None:
    class Nan(Walk):
        def show(self, td: TensorDict) -> TensorDict:
            out = super().show(td)
            return out.set("observation", out["observation"] / (self.count != 2))

    with pytest.raises(NotFinite, match="'observation' is inf in number 0, step 2 since the last reset"):
        played(marlenv.FiniteTensorDictCheck(), base=Nan)


def test_sb3_vec_transpose_image() -> None:
    out = played(marlenv.PermuteTransform((-1, -3, -2), ["pixels"]), 1)["pixels"][0]
    assert np.array_equal(out, np.transpose(np.arange(60).reshape(4, 5, 3), (2, 0, 1)))


def test_sb3_vec_monitor() -> None:
    env = TransformedEnv(Walk(), Compose(marlenv.TimeLimit(3), marlenv.RecordEpisodeStats()))
    out = env.rollout(7, lambda td: td.set("action", torch.full((1,), 2.0)), break_when_any_done=False)[
        "next", "episode"
    ]
    assert out["return"].flatten().tolist() == [0, 0, 6, 0, 0, 6, 0]
    assert out["length"].flatten().tolist() == [0, 0, 3, 0, 0, 3, 0]


def test_sb3_vec_extract_dict_obs() -> None:
    chain = Compose(marlenv.SelectTransform("pixels"), marlenv.RenameTransform(["pixels"], ["observation"]))
    assert TransformedEnv(Walk(), chain).observation_keys == ["observation"]
    assert played(chain.clone(), 1)["observation"].shape == (1, 4, 5, 3)


def test_recipes_hold_for_groups() -> None:
    keys = [("agents", "observation")]
    chain = Compose(
        marlenv.VecNorm(keys), marlenv.CatFrames(2, -1, keys), marlenv.TimeLimit(4), marlenv.RecordEpisodeStats()
    )
    TransformedEnv(SerialEnv(2, GroupedEnv), chain).check_env_specs()


@pytest.mark.parametrize(
    "name",
    ["FrameStack", "FrameSkip", "NormalizedAction", "ObservationClipWrapper", "SparseReward", "TimeLimit",
     "DiscreteActionWrapper"]
    + ["VecNormalize", "VecFrameStack", "StackedObservations", "VecCheckNan", "VecTransposeImage", "VecMonitor",
       "VecExtractDictObs"],
)  # fmt: skip
def test_every_recipe_is_on_the_page(name: str) -> None:
    assert f"`{name}" in PAGE
