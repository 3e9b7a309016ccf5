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
from sizes import first
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
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

    def one_by_one(self) -> list[Keys]:
        """Those of one group each."""
        return [self] if self.groups is None else [Keys({group: n}) for group, n in self.groups.items()]


class Case(NamedTuple):
    """A transform, the envs that it is compared on, and what torchrl cannot do there."""

    name: str
    make: Callable[[Any, Keys], Any]
    groups: tuple[str, ...] = tuple(GROUPS)
    env: dict[str, Any] = {}
    rows: tuple[tuple[int, ...], ...] = ((), (2,))
    resets: bool = True
    """Whether rows start anew one by one in torchrl's."""
    why: str = ""
    """Why torchrl's cannot be had in all groups."""


def printed(value: Any) -> torch.Tensor:
    """A hash of what is printed of a value, as TorchRL's by default; ours is of all numbers of a tensor."""
    return marlenv.Hash.reproducible_hash(str(value))


def per_group(make: Callable[[Any, Keys], Any]) -> Callable[[Any, Keys], Any]:
    """A transform for each group, where one transform is for one entry."""
    return lambda lib, k: lib.Compose(*(make(lib, own) for own in k.one_by_one()))


ROOT = ("root",)
ONE_REWARD: dict[str, Any] = {"groups": ("root", "one group"), "why": "torchrl's asks for the only reward of the env"}
MANY_ACTIONS: dict[str, Any] = {"groups": ROOT, "why": "torchrl's puts their dimension before that of the agents"}
TARGETS: dict[str, Any] = {"groups": ROOT, "why": "torchrl's writes the target of a row where each agent has one"}
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
    Case("DoubleToFloat, found", lambda lib, k: lib.DoubleToFloat()),
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
    Case("CatTensors",
         per_group(lambda lib, k: lib.CatTensors(k("observation") + k("precise"), out_key=k("both")[0]))),
    Case("CatTensors, kept", per_group(
        lambda lib, k: lib.CatTensors(k("precise") + k("observation"), out_key=k("both")[0], del_keys=False))),
    Case("Stack", per_group(lambda lib, k: lib.Stack(k("observation") + k("twin"), k("pair")[0], dim=-2))),
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
    Case("VecNormV2, rows together", lambda lib, k: lib.VecNormV2(k("observation"), decay=0.9, reduce_batch_dims=True),
         rows=((2,),), resets=False),
    Case("CatFrames", lambda lib, k: lib.CatFrames(3, -1, k("observation"), reset_key="_reset")),
    Case("CatFrames, zeros",
         lambda lib, k: lib.CatFrames(3, -1, k("observation"), padding="constant", reset_key="_reset")),
    Case("CatFrames, pictures",
         lambda lib, k: lib.CatFrames(2, -3, k("pixels"), out_keys=k("film"), reset_key="_reset")),
    Case("TimeMaxPool",  # above zero, which torchrl's takes the values before the first one for
         lambda lib, k: lib.Compose(lib.ObservationNorm(100.0, 1.0, k("observation")),
                                    lib.TimeMaxPool(k("observation"), T=2, reset_key="_reset"))),
    Case("FrameSkipTransform", lambda lib, k: lib.FrameSkipTransform(2), env={"limit": 20}, **ONE_REWARD),
    Case("NoopResetEnv", lambda lib, k: lib.NoopResetEnv(1, random=False), rows=((),), **ONE_REWARD),
    Case("ActionScaling", per_group(lambda lib, k: lib.ActionScaling(k("action")))),
    Case("ActionScaling, 0 to 1", per_group(lambda lib, k: lib.ActionScaling(k("action"), standard_normal=False))),
    Case("ActionScaling, given", per_group(lambda lib, k: lib.ActionScaling(k("action"), loc=1.0, scale=0.5))),
    Case("ActionDiscretizer", per_group(lambda lib, k: lib.ActionDiscretizer(4, k("action")[0]))),
    Case("ActionDiscretizer, high", per_group(lambda lib, k: lib.ActionDiscretizer(5, k("action")[0], sampling=2))),
    Case("ActionDiscretizer, one-hot",
         per_group(lambda lib, k: lib.ActionDiscretizer(3, k("action")[0], categorical=False)),
         rows=((),)),
    Case("MultiAction", lambda lib, k: lib.MultiAction(stack_rewards=False), env={"limit": 20}, **MANY_ACTIONS),
    Case("MultiAction, all rewards", lambda lib, k: lib.MultiAction(), env={"limit": 20}, **MANY_ACTIONS),
    Case("MultiAction, until the end", lambda lib, k: lib.MultiAction(), env={"limit": 4}, rows=((),), **MANY_ACTIONS),
    Case("LineariseRewards", lambda lib, k: lib.LineariseRewards(k("reward"), weights=[1.0, -2.0]), env={"goals": 2}),
    Case("LineariseRewards, all", lambda lib, k: lib.LineariseRewards(k("reward")), env={"goals": 2}),
    Case("TargetReturn", lambda lib, k: lib.TargetReturn(10.0, reset_key="_reset"), **TARGETS),
    Case("TargetReturn, constant", lambda lib, k: lib.TargetReturn(10.0, mode="constant", reset_key="_reset"),
         **TARGETS),
    Case("TrajCounter", lambda lib, k: lib.TrajCounter()),
    Case("TensorDictPrimer",
         lambda lib, k: lib.TensorDictPrimer(primer(lib), default_value=2.0, expand_specs=True, reset_key="_reset")),
    Case("gSDENoise", lambda lib, k: lib.gSDENoise(), rows=((),)),
    Case("UnaryTransform", lambda lib, k: lib.UnaryTransform(k("observation"), k("double"), fn=double)),
    Case("Hash", lambda lib, k: lib.Hash(k("whole"), ["a", "b"][: len(k("whole"))], hash_fn=printed), rows=((),)),
    Case("BatchSizeTransform", lambda lib, k: lib.BatchSizeTransform(reshape_fn=lambda td: td.reshape(2, 2)),
         rows=((4,),), resets=False),
    Case("ConditionalSkip", lambda lib, k: lib.ConditionalSkip(lambda td: first_of(td, k).sum(-1) > 1.0),
         rows=((),)),
    Case("ConditionalPolicySwitch",
         lambda lib, k: lib.ConditionalPolicySwitch(still(k), lambda td: first_of(td, k).sum(-1) > 0.0),
         env={"limit": 9}, rows=((),)),
    Case("DeviceCastTransform", lambda lib, k: lib.DeviceCastTransform("cpu")),
    Case("RandomTruncationTransform",  # which has no choice
         lambda lib, k: lib.Compose(lib.StepCounter(), lib.RandomTruncationTransform(1, 1)), env={"limit": 20}),
    Case("EndOfLifeTransform", lambda lib, k: lib.EndOfLifeTransform(eol_attribute="lives")),
    Case("Timer", lambda lib, k: lib.Timer()),
    Case("ActionMask",
         per_group(lambda lib, k: lib.ActionMask(k("choice")[0], k("choice_mask")[0])), env={"choices": 4}),
    Case("a chain",
         lambda lib, k: lib.Compose(lib.ToTensorImage(in_keys=k("pixels")),
                                    lib.ObservationNorm(0.0, 2.0, k("observation")),
                                    lib.ClipTransform(k("observation"), low=-1.0, high=1.0),
                                    lib.RewardScaling(0.0, 3.0, k("reward")), lib.RewardSum(), lib.StepCounter(4))),
]  # fmt: skip


def double(value: torch.Tensor) -> torch.Tensor:
    return value * 2


def first_of(td: Any, k: Keys) -> torch.Tensor:
    """The observation of the first agent."""
    value: torch.Tensor = td[k("observation")[0]]
    return value if k.groups is None else value[..., 0, :]


def still(k: Keys) -> Callable[[Any], Any]:
    """A policy whose actions are zeros."""
    agents = [None] if k.groups is None else list(k.groups.values())

    def play(td: Any) -> Any:
        for key, n in zip(k("action"), agents, strict=True):
            td.set(key, torch.zeros(*td.batch_size, *([] if n is None else [n]), 2))
        return td

    return play


def primer(lib: Any) -> Any:
    data = marlenv if lib is marlenv else torchrl_oracle.data
    return data.Composite(hidden=data.Unbounded((3,)), count=data.Unbounded((1,), dtype=torch.int64))


def public(td: Any) -> Any:
    """The data without what is ours alone."""
    out = td.copy()
    for name in list(out.keys()):
        if name.startswith(("_", "time_")):
            del out[name]
        elif is_nested(out.get(name)):
            out.set(name, public(out.get(name)))
    return out


def made(library: str, case: Case, groups: str, rows: tuple[int, ...]) -> Any:
    lib = LIBRARIES[library]
    base = load("studio", library).Studio(GROUPS[groups], rows, **case.env)
    if case.name == "Stack":  # two entries of one shape
        keys = Keys(GROUPS[groups])
        base = lib.TransformedEnv(base, lib.RenameTransform(keys("observation"), keys("twin"), create_copy=True))
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
    first([(case, groups, rows) for case in CASES for groups in case.groups for rows in case.rows], 3),
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


@pytest.mark.parametrize(
    ("case", "groups"),
    first([(case, groups) for case in CASES if case.resets and (2,) in case.rows for groups in case.groups], 3),
    ids=lambda value: value.name if isinstance(value, Case) else str(value),
)
def test_partial_resets_are_torchrls(case: Case, groups: str) -> None:
    data = []
    for library in LIBRARIES:
        env = made(library, case, groups, (2,))
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


class Played:
    """A policy that does what was done before."""

    def __init__(self, key: tuple[str, ...], data: Any) -> None:
        self.key, self.actions = key, iter(data[key].unbind(0))

    def __call__(self, td: Any) -> Any:
        return td.set(self.key, next(self.actions))


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.groups == ONE_REWARD["groups"]], ids=lambda case: case.name
)
def test_rewards_of_two_groups_are_torchrls_of_each_by_itself(case: Case) -> None:
    """What happens in a group of a Studio does not depend on other groups."""
    ours = made("marlenv", case, "two groups", ()).rollout(4, Actions(made("marlenv", case, "two groups", ())))
    lib, agents = LIBRARIES["torchrl"], GROUPS["two groups"]
    for group, other in (("wolves", "sheep"), ("sheep", "wolves")):
        alone = {group: agents[group]}
        theirs = lib.TransformedEnv(load("studio", "torchrl").Studio(alone, **case.env), case.make(lib, Keys(alone)))
        data = theirs.rollout(4, Played((group, "action"), ours))
        own = public(ours)
        del own[other], own["next"][other]
        assert_same_data(public(data), own)


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("rows", [(), (2,)])
def test_several_actions_are_torchrls_steps(groups: str, rows: tuple[int, ...]) -> None:
    """torchrl's own MultiAction knows no groups; its env is stepped with one action after the other."""
    k = Keys(GROUPS[groups])
    env = marlenv.TransformedEnv(
        load("studio", "marlenv").Studio(GROUPS[groups], rows, limit=20), marlenv.MultiAction()
    )
    base = load("studio", "torchrl").Studio(GROUPS[groups], rows, limit=20)
    env.check_env_specs()
    td, theirs = Actions(env)(env.reset()), base.reset()
    at = {action: td[action].ndim - 2 for action in k("action")}
    actions, td = td.select(*k("action")), env.step(td)["next"]
    for n in range(2):
        for action, dim in at.items():
            theirs.set(action, actions[action].select(dim, n))
        theirs = base.step(theirs)["next"]
        for reward, dim in zip(k("reward"), at.values(), strict=True):
            assert torch.equal(td[reward].select(dim, n), theirs[reward])
    for key in k("observation"):
        assert torch.equal(td[key], theirs[key])


@pytest.mark.parametrize("groups", GROUPS)
def test_returns_that_are_asked_for_are_what_torchrls_sums_leave(groups: str) -> None:
    """torchrl's own TargetReturn knows no groups, but its RewardSum does."""
    k, found = Keys(GROUPS[groups]), []
    for library, lib in LIBRARIES.items():
        target = (
            lib.RewardSum() if library == "torchrl"
            else lib.TargetReturn(10.0, in_keys=k("reward"), out_keys=k("target_return"))
        )  # fmt: skip
        env = lib.TransformedEnv(load("studio", library).Studio(GROUPS[groups], (2,)), target)
        found.append(env.rollout(6, Actions(env), break_when_any_done=False))
    for total, target in zip(k("episode_reward"), k("target_return"), strict=True):
        for path in ((), ("next",)):
            want, got = (
                data.get((*path, *([key] if isinstance(key, str) else key)))
                for data, key in zip(found, (total, target), strict=True)
            )
            torch.testing.assert_close(got, 10.0 - want)


@pytest.mark.parametrize("groups", GROUPS)
def test_masks_of_actions_are_torchrls(groups: str) -> None:
    case = next(case for case in CASES if case.name == "ActionMask")
    theirs, ours = (made(library, case, groups, (2,)) for library in LIBRARIES)
    steps = [(env, Actions(env), env.reset()) for env in (theirs, ours)]
    for _ in range(3):
        steps = [(env, policy, env.step_mdp(env.step(policy(td)))) for env, policy, td in steps]
        for key in Keys(GROUPS[groups])("choice"):
            assert torch.equal(ours.full_action_spec[key].mask, theirs.full_action_spec[key].mask)


def projected(lib: Any, prefix: tuple[str, ...]) -> Any:
    """Actions of two sizes there and back; none that would be drawn."""
    key, wide = (*prefix, "action"), lib.DiscreteActionProjection(3, 5, (*prefix, "action"))
    stored, played = (TensorDict({}, [4]).set(key, torch.eye(n).long()[[0, 2, 1, 0]]) for n in (3, 5))
    return TensorDict({"stored": wide(stored), "played": wide.inv(played)}, [4])


def rewards_to_go(lib: Any, prefix: tuple[str, ...]) -> Any:
    """Those of every agent by itself in torchrl's, which takes the agents for time."""
    done = torch.zeros(2, 6, 3, 1, dtype=torch.bool)
    done[:, 2, 0], done[:, 3, 1], done[:, 5] = True, True, True
    reward = torch.arange(36.0).reshape(2, 6, 3, 1)
    ours, parts = lib is marlenv and prefix, []
    for agent in [slice(None)] if ours else [0, 1, 2] if prefix else [0]:
        own = prefix if ours else ()
        td = TensorDict({}, [2, 6]).set(("next", *own, "reward"), reward[:, :, agent].clone())
        td.set(("next", *own, "done"), done[:, :, agent])
        made = lib.Reward2GoTransform(0.5, [("next", *own, "reward")], done_key=(*own, "done")).inv(td)
        parts.append(made["next", *own, "reward"])
    return TensorDict({"reward": parts[0] if ours else torch.stack(parts, 2)}, [2, 6])


class Sum(torch.nn.Module):
    """A recurrent module whose hidden state is known."""

    def __init__(self) -> None:
        super().__init__()
        self.one = torch.nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return h[:, :1].expand(x.shape) * self.one + x.cumsum(1)


def burnt_in(lib: Any, prefix: tuple[str, ...]) -> Any:
    module = TensorDictModule(Sum(), in_keys=[(*prefix, "x"), (*prefix, "h")], out_keys=[("next", *prefix, "h")])
    x = torch.arange(10.0).reshape(2, 5, 1)
    return lib.BurnInTransform(module, 3)(TensorDict({}, [2, 5]).set((*prefix, "x"), x).set((*prefix, "h"), x * 0))


@pytest.mark.parametrize("make", [projected, rewards_to_go, burnt_in])
@pytest.mark.parametrize("prefix", [(), ("agents",)], ids=["root", "group"])
def test_stored_data_are_transformed_as_torchrls(make: Callable[..., Any], prefix: tuple[str, ...]) -> None:
    """One transform is for the entries of one group."""
    assert_same_data(*(make(lib, prefix) for lib in LIBRARIES.values()))


def test_a_case_that_is_not_compared_in_all_groups_says_why() -> None:
    for case in CASES:
        assert (case.groups == tuple(GROUPS)) == (not case.why), case.name


def test_every_transform_of_torchrl_that_ours_has_is_compared() -> None:
    """Or tested by itself, in the file that is named here."""
    apart = {
        "Compose": "a chain", "DreamerDecoder": "test_world_models.py",
        **dict.fromkeys(("BurnInTransform", "DiscreteActionProjection", "Reward2GoTransform"), "stored data"),
        "StepCounter": "test_transforms_and_torchrl.py",
        "InitTracker": "test_transforms_and_torchrl.py", "RewardSum": "test_transforms_and_torchrl.py",
    }  # fmt: skip
    names = [case.name for case in CASES]
    shared = [name for name in marlenv.transforms.__all__ if hasattr(torchrl_oracle.envs.transforms, name)]
    missing = [name for name in shared if not any(one.startswith(name) for one in names) and name not in apart]
    assert sorted(missing) == sorted(TESTED_BY_THEMSELVES)


TESTED_BY_THEMSELVES = {
    "AutoResetEnv": "test_auto_resetting.py: torchrl's loses the observation of the end",
    "AutoResetTransform": "the same",
    "CenterCrop": "test_images_and_texts.py against Pillow: torchrl's needs torchvision",
    "Crop": "the same",
    "ObservationTransform": "abstract",
    "PinMemoryTransform": "test_family.py: torchrl's needs CUDA",
    "R3MTransform": "test_backbones.py: torchrl's loads weights",
    "RandomCropTensorDict": "test_stored_data.py: it draws, in torchrl from the global generator",
    "Resize": "test_images_and_texts.py against Pillow: torchrl's needs torchvision",
    "Tokenizer": "test_images_and_texts.py against transformers, which torchrl calls",
    "Transform": "the base",
    "TransformedEnv": "it is what all are compared in",
    "VC1Transform": "test_backbones.py: torchrl's loads weights",
    "VIPRewardTransform": "the same",
    "VIPTransform": "the same",
    "VecGymEnvTransform": "test_gymnasium.py: it is for vectors of Gymnasium's",
}
"""And why torchrl's cannot be played beside them."""
