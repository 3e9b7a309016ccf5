"""The code snippets of the documents that the project was founded on run as they are, but for their imports.

``snippets/*.txt`` are taken over word for word from TorchRL's environment pages in two versions. What a snippet takes
for granted (``env``, ``base_env``, ``GymEnv``) is given by the tests below.

Snippets of those pages that wait, and what for:

=========================================  ============================================================
``ParallelEnv`` and its attributes         process pools (the masks of "Parallel environment reset" run here in series)
``AsyncEnvPool``                           asynchronous pools
``GymEnv``, ``set_gym_backend``            the gym wrappers (a stand-in is used where the env does not matter)
auto-resetting ``GymEnv``                  the gym wrappers; the behaviour is in ``test_auto_resetting.py``
``VmasEnv`` step                           the vmas wrapper
``ToTensorImage``, ``Resize``,             the transforms of values
``DoubleToFloat``, ``RenameTransform``
``VideoRecorder``, ``PixelRender...``      recorders
``MaskedCategorical`` policy               TorchRL's modules, which marlenv does not have
``ActionMask`` env                         never: it lacks a comma; the transform is in ``tests/transforms``
``implement_for``                          never: about versions of gym inside TorchRL
"pseudocode"                               never: about the inside of TransformedEnv
=========================================  ============================================================
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Optional

import pytest
import torch
from tensordict import TensorDict
from test_partial_resets import Zeros
from twin_envs import ported

import marlenv
from marlenv import Bounded, Compose, RewardSum, SerialEnv, StepCounter, Transform, TransformedEnv, Unbounded
from marlenv.errors import SpecError
from marlenv.testing.mocks import CountingEnv

FOLDER = Path(__file__).parent / "snippets"


def run(name, **scope):
    """Runs a snippet with some names given; returns the names that it leaves, and checks what it prints."""
    code, wanted = [], []
    for line in (FOLDER / f"{name}.txt").read_text().splitlines():
        line = line.strip() if line.lstrip().startswith((">>>", "...")) else line
        if line.startswith((">>>", "...")):
            code.append(line[4:] if line[3:4] == " " else line[3:])
        elif line.strip():
            wanted.append(line.strip())
    names = {"torch": torch, "TensorDict": TensorDict, "Optional": Optional}
    names |= {public: getattr(marlenv, public) for public in marlenv.__all__} | scope
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ported("\n".join(code)), f"{name}.txt", "exec"), names)
    return SimpleNamespace(**{k: v for k, v in names.items() if k.isidentifier()}), printed.getvalue(), wanted


class Idle(CountingEnv):
    """Needs no action."""

    def __init__(self):
        super().__init__(max_steps=2)
        self.full_action_spec = marlenv.Composite()


def gym_env(name):
    """A stand-in for the gym wrapper, where any env with an observation will do."""
    assert name == "Pendulum-v1"
    return CountingEnv()


class AnyLevel:
    """The env of the examples on resets: zeros after a reset, with flags beside the masks that it is given."""

    def reset(self, td):
        levels = [key[0] if isinstance(key, tuple) else "" for key in td.keys(True) if "_reset" in key]
        return Zeros(*levels).reset(td)


def test_going_on():
    left, _, _ = run("going_on", env=Idle(), N=5)
    assert left.result["next", "observation"].flatten().tolist() == [1, 2, 1, 2, 1]


@pytest.mark.parametrize("name", ["reset_masks", "reset_masks_old"])
def test_reset_masks(name):
    _, printed, wanted = run(name, env=AnyLevel())
    assert printed.splitlines() == wanted
    assert len(wanted) == 5


def test_resetting_some_of_many():
    env = SerialEnv(4, CountingEnv)
    env.rand_step(env.reset())
    left, _, _ = run("reset_many", env=env)
    assert "_reset" not in left.tensordict
    assert left.tensordict["done"].shape == (4, 1)
    assert [child.count.item() for child in env.children_envs] == [0, 1, 0, 0]


@pytest.mark.parametrize("name", ["group_specs", "group_specs_old_names"])
def test_specs_of_groups(name):
    agent = {"agent_i_action_spec": Bounded(-1, 1, (2,)), "agent_i_reward_spec": Unbounded((1,))}
    env = CountingEnv()
    env.n_agents = 3
    if name == "group_specs":
        run(name, env=env, agent_i_observation_spec=Unbounded((4,)), **agent)
    else:
        old = {}
        for word, new in (("CompositeSpec", "Composite"), ("DiscreteTensorSpec", "Categorical")):
            with pytest.warns(DeprecationWarning, match=f"use {new}"):
                old[word] = getattr(marlenv, word)
        run(name, env=env, agent_i_observation_spec=Unbounded((4,)), **agent, **old)
    assert env.action_key == ("agents", "action")
    assert env.reward_spec.shape == (3, 1)
    assert env.observation_spec["agents", "observation"].shape == (3, 4)
    assert env.done_keys == ["done", "terminated"]
    assert env.reward_spec == env.output_spec["full_reward_spec"][env.reward_key]
    assert env.is_spec_locked


def test_dynamic_specs():
    left, printed, wanted = run("dynamic")
    entries = [line.rstrip(",}") for line in wanted if "Tensor(shape" in line]
    assert len(entries) == 10
    assert all(entry in printed for entry in entries)
    assert left.env.rollout(5, return_contiguous=False).shape == (5,)


def test_parents():
    env = TransformedEnv(CountingEnv(), Compose(RewardSum(), StepCounter()))
    left, _, _ = run("parent", env=env)
    assert isinstance(left.resize_parent, TransformedEnv)
    assert left.resize_parent.observation_keys == ["episode_reward", "observation"]
    assert TransformedEnv(env.base_env, env.transform[:-1]).observation_keys == left.resize_parent.observation_keys


def test_custom_transforms():
    made, _, _ = run("add_one_to_obs")
    used, _, _ = run("use_transform", AddOneToObs=made.AddOneToObs, GymEnv=gym_env)
    assert used.env.rollout(3)["next", "observation"].flatten().tolist() == [2, 3, 4]
    used.env.check_env_specs()
    both, _, _ = run("compose", AddOneToObs=made.AddOneToObs, GymEnv=gym_env)
    assert both.env.rollout(3)["next", "episode_reward"].flatten().tolist() == [1, 2, 3]
    assert both.env.reset()["observation"].item() == 1


def test_custom_inverse_transforms():
    made, _, _ = run("add_one_to_action")
    base = CountingEnv()
    told, whole = [], base._step
    base._step = lambda td: told.append(td["action"].clone()) or whole(td)
    env = TransformedEnv(base, made.AddOneToAction())
    td = env.rand_action(env.reset())
    outside = td["action"].clone()
    assert torch.equal(env.step(td)["action"], outside)
    assert torch.equal(told[0], outside + 1)


def three():
    return CountingEnv(), (RewardSum(), StepCounter(), Transform())


def test_transforms_keep_their_parent():
    base, transforms = three()
    left, _, _ = run("third_transform", env=TransformedEnv(base, Compose(*transforms)))
    code = (FOLDER / "clone.txt").read_text()
    refused, works = [line[4:] for line in code.splitlines()]
    names = {"TransformedEnv": TransformedEnv, "base_env": CountingEnv(), "third_transform": left.third_transform}
    with pytest.raises(SpecError, match=r"belongs to an env already; pass its copy, transform.clone\(\)"):
        exec(refused, names)
    exec(works, names)


def test_slices_are_copies():
    base, transforms = three()
    run("slices", base_env=base, transform1=transforms[0], transform2=transforms[1], transform3=transforms[2])


def test_every_snippet_is_run():
    text = Path(__file__).read_text()
    assert [
        path.stem for path in FOLDER.glob("*.txt") if f'"{path.stem}"' not in text and f'"{path.name}"' not in text
    ] == []
