"""Every transform gives what torchrl 0.14.1's gives, entry by entry: with entries at the root, in one group and in two.

Entries whose names begin with an underscore are ours alone: what a transform remembers stands in the data. Where
torchrl is not followed, a case says why; ``docs/migrate.md`` has the list.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torchrl_oracle
from scripted_actions import Script
from twin_envs import assert_same_data, load

import marlenv
from marlenv.tensordicts import is_nested

pytestmark = pytest.mark.reference
LIBRARIES = {"torchrl": torchrl_oracle.envs, "marlenv": marlenv}
GROUPS = {"root": None, "one group": {"agents": 2}, "two groups": {"wolves": 2, "sheep": 3}}


class Keys(NamedTuple):
    """The entries of a Studio, by name."""

    groups: dict[str, int] | None

    def __call__(self, name: str) -> list[Any]:
        return [name] if self.groups is None else [(group, name) for group in self.groups]


class Case(NamedTuple):
    """A transform, the envs that it is compared on, and what torchrl cannot do there."""

    name: str
    make: Callable[[Any, Keys], Any]
    groups: tuple[str, ...] = tuple(GROUPS)
    env: dict[str, Any] = {}
    rows: tuple[tuple[int, ...], ...] = ((), (2,))
    resets: bool = True
    """Whether rows start anew one by one in torchrl's."""


ROOT = ("root",)
CASES = [
    Case("BinarizeReward", lambda lib, k: lib.BinarizeReward(k("reward"))),
    Case("RewardClipping", lambda lib, k: lib.RewardClipping(-0.5, 1.0, in_keys=k("reward"))),
    Case("RewardScaling", lambda lib, k: lib.RewardScaling(0.5, 2.0, in_keys=k("reward"))),
    Case("RewardScaling, standard",
         lambda lib, k: lib.RewardScaling(0.5, 2.0, in_keys=k("reward"), standard_normal=True)),
    Case("SignTransform", lambda lib, k: lib.SignTransform(k("observation") + k("reward"))),
    Case("ClipTransform", lambda lib, k: lib.ClipTransform(k("observation") + k("reward"), low=-1, high=1.5)),
    Case("ClipTransform, low only", lambda lib, k: lib.ClipTransform(k("observation"), low=-1.0)),
    Case("ClipTransform, inverse", lambda lib, k: lib.ClipTransform(in_keys_inv=k("action"), low=-0.25, high=0.25)),
    Case("SignTransform, inverse", lambda lib, k: lib.SignTransform(in_keys_inv=k("action"))),
    Case("DoubleToFloat", lambda lib, k: lib.DoubleToFloat(k("precise"))),
    Case("DoubleToFloat, found", lambda lib, k: lib.DoubleToFloat(), ROOT),
    Case("DTypeCastTransform", lambda lib, k: lib.DTypeCastTransform(torch.float32, torch.float64, k("observation"))),
    Case("UnsqueezeTransform", lambda lib, k: lib.UnsqueezeTransform(-1, in_keys=k("observation"))),
    Case("UnsqueezeTransform, rewards",
         lambda lib, k: lib.UnsqueezeTransform(-1, in_keys=k("observation"),
         out_keys=[(*o[:-1], "far") if isinstance(o, tuple) else "far" for o in k("observation")])),
    Case("SqueezeTransform",
         lambda lib, k: lib.Compose(lib.UnsqueezeTransform(-2, in_keys=k("observation")),
                                    lib.SqueezeTransform(-2, in_keys=k("observation")))),
    Case("PermuteTransform", lambda lib, k: lib.PermuteTransform((-1, -3, -2), k("pixels"))),
    Case("FlattenObservation", lambda lib, k: lib.FlattenObservation(-3, -1, k("pixels"))),
    Case("CatTensors", lambda lib, k: lib.CatTensors(k("observation") + k("precise"), out_key=k("both")[0]),
         ("root", "one group")),
    Case("CatTensors, kept",
         lambda lib, k: lib.CatTensors(k("precise") + k("observation"), out_key=k("both")[0], del_keys=False),
         ("root", "one group")),
    Case("Stack", lambda lib, k: lib.Stack(["observation", "twin"], "pair", dim=-2), ROOT),
    Case("ToTensorImage", lambda lib, k: lib.ToTensorImage(in_keys=k("pixels"))),
    Case("ToTensorImage, not divided",
         lambda lib, k: lib.ToTensorImage(from_int=False, in_keys=k("pixels"), dtype=torch.float64)),
    Case("GrayScale",
         lambda lib, k: lib.Compose(lib.ToTensorImage(in_keys=k("pixels")), lib.GrayScale(in_keys=k("pixels")))),
    Case("RenameTransform", lambda lib, k: lib.RenameTransform(k("observation"), k("seen"))),
    Case("RenameTransform, copies", lambda lib, k: lib.RenameTransform(k("observation"), k("seen"), create_copy=True)),
    Case("RenameTransform, actions", lambda lib, k: lib.RenameTransform([], [], k("action"), k("move"))),
    Case("ExcludeTransform", lambda lib, k: lib.ExcludeTransform(*k("whole"), *k("pixels"))),
    Case("SelectTransform", lambda lib, k: lib.SelectTransform(*k("whole"))),
    Case("RemoveEmptySpecs", lambda lib, k: lib.RemoveEmptySpecs()),
    Case("FiniteTensorDictCheck", lambda lib, k: lib.FiniteTensorDictCheck()),
    Case("ObservationNorm", lambda lib, k: lib.ObservationNorm(0.5, 2.0, k("observation"))),
    Case("ObservationNorm, standard",
         lambda lib, k: lib.ObservationNorm(torch.tensor([0.5, 0, 1]), torch.tensor([2.0, 1, 3]), k("observation"),
                                            standard_normal=True)),
    Case("ObservationNorm, actions",
         lambda lib, k: lib.ObservationNorm(0.5, 2.0, k("observation"), in_keys_inv=k("action"))),
    *(Case(name, make, rows=rows, resets=rows == ((),))  # torchrl measures rows again that are not reset
      for rows in (((),), ((2,),))
      for name, make in (
          ("VecNorm", lambda lib, k: lib.VecNorm(k("observation") + k("reward"), decay=0.9)),
          ("VecNormV2", lambda lib, k: lib.VecNormV2(k("observation") + k("reward"), decay=0.9)),
          ("VecNormV2, no decay", lambda lib, k: lib.VecNormV2(k("observation"), decay=1.0)))),
    Case("VecNormV2, rows together", lambda lib, k: lib.VecNormV2(["observation"], decay=0.9, reduce_batch_dims=True),
         ROOT, rows=((2,),), resets=False),
    Case("CatFrames", lambda lib, k: lib.CatFrames(3, -1, k("observation"), reset_key="_reset")),
    Case("CatFrames, zeros",
         lambda lib, k: lib.CatFrames(3, -1, k("observation"), padding="constant", reset_key="_reset")),
    Case("CatFrames, pictures",
         lambda lib, k: lib.CatFrames(2, -3, k("pixels"), out_keys=k("film"), reset_key="_reset")),
    Case("TimeMaxPool", lambda lib, k: lib.TimeMaxPool(["observation"], T=2, reset_key="_reset"), ROOT),
    Case("FrameSkipTransform", lambda lib, k: lib.FrameSkipTransform(2), ROOT, {"limit": 20}),
    Case("NoopResetEnv", lambda lib, k: lib.NoopResetEnv(1, random=False), ROOT, rows=((),)),
    Case("ActionScaling", lambda lib, k: lib.ActionScaling(k("action")), ("root", "one group")),
    Case("ActionScaling, 0 to 1", lambda lib, k: lib.ActionScaling(k("action"), standard_normal=False),
         ("root", "one group")),
    Case("ActionScaling, given", lambda lib, k: lib.ActionScaling(k("action"), loc=1.0, scale=0.5),
         ("root", "one group")),
    Case("ActionDiscretizer", lambda lib, k: lib.ActionDiscretizer(4, k("action")[0]), ROOT),
    Case("ActionDiscretizer, high", lambda lib, k: lib.ActionDiscretizer(5, k("action")[0], sampling=2), ROOT),
    Case("ActionDiscretizer, one-hot", lambda lib, k: lib.ActionDiscretizer(3, k("action")[0], categorical=False), ROOT,
         rows=((),)),
    Case("MultiAction", lambda lib, k: lib.MultiAction(stack_rewards=False), ROOT, {"limit": 20}),
    Case("MultiAction, all rewards", lambda lib, k: lib.MultiAction(), ROOT, {"limit": 20}),
    Case("MultiAction, until the end", lambda lib, k: lib.MultiAction(), ROOT, {"limit": 4}, rows=((),)),
    Case("LineariseRewards", lambda lib, k: lib.LineariseRewards(k("reward"), weights=[1.0, -2.0]), env={"goals": 2}),
    Case("LineariseRewards, all", lambda lib, k: lib.LineariseRewards(k("reward")), env={"goals": 2}),
    Case("TargetReturn", lambda lib, k: lib.TargetReturn(10.0, reset_key="_reset"), ROOT),
    Case("TargetReturn, constant", lambda lib, k: lib.TargetReturn(10.0, mode="constant", reset_key="_reset"), ROOT),
    Case("TrajCounter", lambda lib, k: lib.TrajCounter()),
    Case("TensorDictPrimer",
         lambda lib, k: lib.TensorDictPrimer(primer(lib), default_value=2.0, expand_specs=True, reset_key="_reset")),
    Case("gSDENoise", lambda lib, k: lib.gSDENoise(), ROOT, rows=((),)),
    Case("UnaryTransform", lambda lib, k: lib.UnaryTransform(k("observation"), k("double"), fn=double)),
    Case("Hash", lambda lib, k: lib.Hash(["whole"], ["hash"]), ROOT, rows=((),)),
    Case("BatchSizeTransform", lambda lib, k: lib.BatchSizeTransform(reshape_fn=lambda td: td.reshape(2, 2)), ROOT,
         rows=((4,),), resets=False),
    Case("ConditionalSkip", lambda lib, k: lib.ConditionalSkip(lambda td: td["observation"].sum(-1) > 1.0), ROOT,
         rows=((),)),
    Case("ConditionalPolicySwitch",
         lambda lib, k: lib.ConditionalPolicySwitch(still, lambda td: td["observation"].sum(-1) > 0.0), ROOT,
         {"limit": 9}, rows=((),)),
    Case("a chain",
         lambda lib, k: lib.Compose(lib.ToTensorImage(in_keys=k("pixels")),
                                    lib.ObservationNorm(0.0, 2.0, k("observation")),
                                    lib.ClipTransform(k("observation"), low=-1.0, high=1.0),
                                    lib.RewardScaling(0.0, 3.0, k("reward")), lib.RewardSum(), lib.StepCounter(4))),
]  # fmt: skip


def double(value: torch.Tensor) -> torch.Tensor:
    return value * 2


def still(td: Any) -> Any:
    return td.set("action", torch.zeros(*td.batch_size, 2))


def primer(lib: Any) -> Any:
    data = marlenv if lib is marlenv else torchrl_oracle.data
    return data.Composite(hidden=data.Unbounded((3,)), count=data.Unbounded((1,), dtype=torch.int64))


def public(td: Any) -> Any:
    """The data without what is ours alone."""
    out = td.copy()
    for name in list(out.keys()):
        if name.startswith("_"):
            del out[name]
        elif is_nested(out.get(name)):
            out.set(name, public(out.get(name)))
    return out


def made(library: str, case: Case, groups: str, rows: tuple[int, ...]) -> Any:
    lib = LIBRARIES[library]
    base = load("studio", library).Studio(GROUPS[groups], rows, **case.env)
    if case.name == "Stack":  # two entries of one shape
        base = lib.TransformedEnv(base, lib.RenameTransform(["observation"], ["twin"], create_copy=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchrl's own
        return lib.TransformedEnv(base, case.make(lib, Keys(GROUPS[groups])))


class Actions(Script):
    """Scripted actions, several of them where a transform plays several."""

    def draw(self, leaf: Any, shape: tuple[int, ...]) -> torch.Tensor:
        shape = tuple(2 if n == -1 else n for n in shape)
        kind = type(leaf).__name__
        if kind == "MultiCategorical":
            counts = (
                torch.as_tensor(leaf.nvec).reshape(-1, leaf.nvec.shape[-1])[0]
                if isinstance(leaf.nvec, torch.Tensor)
                else torch.tensor(leaf.nvec)
            )
            return (torch.rand(shape, generator=self.generator) * counts).long()
        if kind == "MultiOneHot":
            parts = torch.as_tensor(leaf.nvec).flatten().tolist()
            index = [torch.randint(0, n, shape[:-1], generator=self.generator) for n in parts]
            return torch.cat([torch.nn.functional.one_hot(i, n) for i, n in zip(index, parts, strict=True)], -1).bool()
        return super().draw(leaf, shape)


@pytest.mark.parametrize(
    ("case", "groups", "rows"),
    [(case, groups, rows) for case in CASES for groups in case.groups for rows in case.rows],
    ids=lambda value: value.name if isinstance(value, Case) else str(value),
)
def test_rollouts_are_torchrls(case: Case, groups: str, rows: tuple[int, ...]) -> None:
    data = []
    for library in LIBRARIES:
        env = made(library, case, groups, rows)
        env.set_seed(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ways = ({}, {"break_when_any_done": False}) if case.resets else ({},)
            found = [env.rollout(4, Actions(env), **how) for how in ways]
        data.append([public(one) for one in found])
    for theirs, ours in zip(*data, strict=True):
        assert_same_data(theirs, ours)


@pytest.mark.parametrize("case", [c for c in CASES if c.resets and (2,) in c.rows], ids=lambda case: case.name)
def test_partial_resets_are_torchrls(case: Case) -> None:
    data = []
    for library in LIBRARIES:
        env = made(library, case, "root", (2,))
        env.set_seed(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            policy, td = Actions(env), env.reset()
            for _ in range(2):
                td = env.step_mdp(env.step(policy(td)))
            td["_reset"] = torch.tensor([[True], [False]])
            td = env.reset(td.exclude(*env.action_keys))
            data.append([public(td), public(env.step(policy(td)))])
    for theirs, ours in zip(*data, strict=True):
        assert_same_data(theirs, ours)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_specs_say_what_the_data_are(case: Case) -> None:
    for groups in case.groups:
        env = made("marlenv", case, groups, case.rows[-1])
        env.check_env_specs()


def test_every_transform_of_torchrl_that_ours_has_is_compared() -> None:
    """Or tested by itself, in the file that is named here."""
    apart = {
        "ActionMask": "test_transformed_envs.py", "DreamerDecoder": "test_world_models.py",
        "StepCounter": "test_transforms_and_torchrl.py",
        "InitTracker": "test_transforms_and_torchrl.py", "RewardSum": "test_transforms_and_torchrl.py",
    }  # fmt: skip
    names = [case.name for case in CASES]
    shared = [name for name in marlenv.transforms.__all__ if hasattr(torchrl_oracle.envs.transforms, name)]
    missing = [name for name in shared if not any(one.startswith(name) for one in names) and name not in apart]
    assert missing == sorted(TESTED_BY_THEMSELVES)


TESTED_BY_THEMSELVES = [
    "AutoResetEnv",
    "AutoResetTransform",
    "BurnInTransform",
    "CenterCrop",
    "Compose",
    "Crop",
    "DeviceCastTransform",
    "DiscreteActionProjection",
    "EndOfLifeTransform",
    "ObservationTransform",
    "PinMemoryTransform",
    "R3MTransform",
    "RandomCropTensorDict",
    "RandomTruncationTransform",
    "Resize",
    "Reward2GoTransform",
    "Timer",
    "Tokenizer",
    "Transform",
    "TransformedEnv",
    "VC1Transform",
    "VIPRewardTransform",
    "VIPTransform",
    "VecGymEnvTransform",
]
"""Those that draw, need images or a library, or work on stored data: ``test_family.py``, ``test_backbones.py``."""
