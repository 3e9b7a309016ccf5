"""TorchRL's module paths lead to marlenv's public names, lazily, and say what is not there."""

from __future__ import annotations

import importlib
import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest

import marlenv
from marlenv.module_paths import PathFinder, names_below, offered, reason_of
from marlenv.specs.legacy import TABLE as OLD_NAMES
from marlenv.torchrl_paths import ELSEWHERE, INSTEAD, PATHS

HELD = [(path, name) for path in PATHS for name in offered(path, marlenv.__all__)]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_can_be_imported_and_lists_what_marlenv_has(path: str) -> None:
    module = importlib.import_module(f"marlenv.{path}")
    assert module is sys.modules[f"marlenv.{path}"]
    assert set(offered(path, marlenv.__all__)) <= set(dir(module))


@pytest.mark.parametrize(("path", "name"), HELD)
def test_a_name_is_the_public_one(path: str, name: str) -> None:
    scope: dict[str, object] = {}
    exec(f"from marlenv.{path} import {name}", scope)
    assert scope[name] is getattr(marlenv, name)


@pytest.mark.parametrize("name", sorted(OLD_NAMES))
def test_old_names_of_specs_warn_where_they_are_imported(name: str) -> None:
    for path in ("data", "data.tensor_specs"):
        with pytest.warns(DeprecationWarning, match=rf"marlenv\.{name} is the old name") as caught:
            getattr(importlib.import_module(f"marlenv.{path}"), name)
        assert caught[0].filename == __file__


def test_scripts_keep_their_forms_of_import() -> None:
    import marlenv.envs.utils as u
    from marlenv.collectors.utils import split_trajectories
    from marlenv.data import Composite
    from marlenv.envs.libs import pettingzoo
    from marlenv.envs.libs.pettingzoo import PettingZooEnv
    from marlenv.envs.model_based.dreamer import DreamerEnv
    from marlenv.envs.utils import ExplorationType, set_exploration_type, set_interaction_type

    from marlenv.envs import EnvBase, TransformedEnv

    assert u.step_mdp is marlenv.step_mdp
    assert pettingzoo.PettingZooEnv is PettingZooEnv is marlenv.envs.libs.pettingzoo.PettingZooEnv
    assert set_exploration_type is set_interaction_type
    assert ExplorationType is marlenv.InteractionType
    assert (split_trajectories, Composite, EnvBase, TransformedEnv, DreamerEnv) == (
        marlenv.split_trajectories,
        marlenv.Composite,
        marlenv.EnvBase,
        marlenv.TransformedEnv,
        marlenv.DreamerEnv,
    )
    from marlenv.envs.transforms import _apply_to_composite, _apply_to_composite_inv
    from marlenv.envs.transforms.transforms import _apply_to_composite as of_the_tutorial

    assert of_the_tutorial is _apply_to_composite is marlenv.transforms.apply_to_outputs
    assert _apply_to_composite_inv is marlenv.transforms.apply_to_inputs
    for line, name in (("envs.utils", "check_env_specs"), ("envs", "TransformedEnv"), ("record", "VideoRecorder")):
        scope: dict[str, object] = {}
        exec(f"from marlenv.{line} import *", scope)
        assert scope[name] is getattr(marlenv, name)


def test_classes_are_pickled_by_the_module_that_they_live_in() -> None:
    from marlenv.envs.libs.vmas import VmasWrapper

    assert VmasWrapper.__module__ == "marlenv.wrappers.vmas.env"
    assert b"envs.libs" not in pickle.dumps(VmasWrapper)
    assert pickle.loads(pickle.dumps(VmasWrapper)) is marlenv.VmasWrapper


def test_rooms_are_written_by_name() -> None:
    """As dill writes modules, which could not write what is no plain one."""
    room = importlib.import_module("marlenv.envs")
    assert type(room) is not ModuleType
    assert pickle.loads(pickle.dumps(room)) is room


def test_rooms_of_ours_stay_what_they_are() -> None:
    import marlenv.envs.model_based

    assert marlenv.envs.__file__ == str(Path(marlenv.__file__).parent / "envs" / "__init__.py")
    assert marlenv.envs.model_based.ModelBasedEnvBase is marlenv.ModelBasedEnvBase
    assert marlenv.envs.__spec__.loader.get_source("marlenv.envs").startswith('"""What an environment is')
    assert marlenv.envs.step_mdp is marlenv.step_mdp


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "from marlenv.data import ReplayBuffer",
            "it is torchrl.data.ReplayBuffer; replay buffers and data sets stay in",
        ),
        ("from marlenv.envs.libs.gym import convert_box_spec", "no 'convert_box_spec'"),
        ("from marlenv.envs import ChatEnv", "it is torchrl.envs.llm.ChatEnv; conversations with language models stay"),
        ("from marlenv.envs.common import make_tensordict", r"marlenv has `tensordict.TensorDict` instead"),
        ("from marlenv.envs.utils import Composite", r"it is marlenv\.data\.tensor_specs\.Composite, as in TorchRL"),
        ("from marlenv.envs.utils import stp_mdp", "no 'stp_mdp'; did you mean 'step_mdp'"),
        ("from marlenv._utils import logger", r"torchrl\._utils\.logger; marlenv has `logging\.getLogger"),
        ("from marlenv.data import DEVICE_TYPING", r"DEVICE_TYPING; marlenv has `torch\.device \| str \| int` instead"),
        ("from marlenv.envs.common import _EnvWrapper", r"TorchRL's, if it has one, is torchrl\.envs\.common\._EnvWr"),
        (
            "from marlenv.envs.transforms.transforms import FORWARD_NOT_IMPLEMENTED",
            r"is torchrl\.envs\.transforms\.tran",
        ),
        ("import marlenv.objectives", "there is no module marlenv.objectives; losses stay in TorchRL"),
        ("from marlenv import modules", "there is no module marlenv.modules; policies and networks stay in TorchRL"),
        ("from marlenv.modules import ProbabilisticActor", "policies and networks stay in TorchRL"),
        ("import marlenv.data.replay_buffers", "no 'replay_buffers'; replay buffers and data sets stay in TorchRL"),
        ("import marlenv.nothing", "No module named 'marlenv.nothing'"),
    ],
)
def test_what_is_not_there_is_an_error_that_says_where_it_is(line: str, says: str) -> None:
    with pytest.raises(ImportError, match=says):
        exec(line)


def test_attributes_that_are_not_there_are_attribute_errors() -> None:
    assert not hasattr(importlib.import_module("marlenv.envs.utils"), "Composite")
    with pytest.raises(AttributeError, match="torchrl.data.ReplayBuffer; replay buffers"):
        importlib.import_module("marlenv.data").ReplayBuffer  # noqa: B018


def test_a_name_that_comes_later_is_found_by_the_table() -> None:
    finder = PathFinder({"GymEnv"}, {"GymEnv": 7}.__getitem__)
    module = ModuleType("marlenv.envs.libs.gym")
    finder.open(module, "envs.libs.gym")
    assert module.GymEnv == 7
    assert "GymEnv" in dir(module)


@pytest.mark.slow
def test_a_path_loads_nothing_but_itself() -> None:
    for paths, heavy in (("marlenv.data", ("torch", "tensordict")), ("marlenv.envs.libs.pettingzoo", ("pettingzoo",))):
        code = f"import sys, {paths} as path; dir(path); print([m for m in {heavy} if m in sys.modules])"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert out.stdout.strip() == "[]"


@pytest.mark.reference
def test_the_table_says_where_torchrl_has_its_names() -> None:
    from torchrl_oracle import data, envs

    record = importlib.import_module("torchrl.record")
    older = {*OLD_NAMES, "exploration_mode", "set_exploration_mode", "set_interaction_type", "interaction_type"}
    older |= {
        "InteractionType",
        "KLRewardTransform",
        "SyncDataCollector",
        "MultiSyncDataCollector",
        "MultiaSyncDataCollector",
    }
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path, names in PATHS.items():
            module = importlib.import_module(f"torchrl.{path}") if path != "collectors.collectors" else None
            wrong += [f"{path}.{n}" for n in names.split() if module and not hasattr(module, n) and n not in older]
    assert not wrong
    for path, module in (("envs", envs), ("envs.transforms", envs.transforms), ("record", record), ("data", data)):
        exported = {n for n in module.__all__ if not isinstance(getattr(module, n), ModuleType)}
        assert exported - {"traj"} <= set(names_below(path)), path


@pytest.mark.reference
def test_every_public_file_of_torchrls_environment_layer_is_a_path() -> None:
    from torchrl_oracle import envs

    top = Path(envs.__file__).parents[1]
    files = [*(top / "envs").rglob("*.py"), *(top / "record").rglob("*.py"), top / "data/tensor_specs.py"]
    modules = {".".join(f.relative_to(top).with_suffix("").parts) for f in files if not f.name.startswith("_")}
    inside = {"envs.libs.jax_utils", "envs.libs.utils"}  # what its wrappers share
    assert {m for m in modules if m not in PATHS and not reason_of(m)} == inside


def test_the_table_has_no_word_twice_in_a_path_and_its_reasons_are_of_paths() -> None:
    for path, names in PATHS.items():
        words = names.split()
        assert len(words) == len(set(words)), path
        assert path.rpartition(".")[0] in {"", *PATHS}, f"{path} has no parent"
    named = {name for names in PATHS.values() for name in names.split()}
    assert set(INSTEAD) <= named
    public = [word for text in INSTEAD.values() for word in re.findall(r"`(\w+)", text)]
    assert {w for w in public if w not in ("env", "logging", "tensordict", "torch")} <= set(marlenv.__all__)
    assert reason_of("data") == ELSEWHERE["data"]
    assert reason_of("data.tensor_specs") == reason_of("envs") == ""
