"""Data sets of OpenML as bandits, beside TorchRL's, from a folder as scikit-learn keeps it (``openml_folder.py``)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import openml_folder
import pytest
import torch

import marlenv
from marlenv import EnvCreator, ParallelEnv, check_env_specs
from marlenv.errors import KeyMissing, MissingExtra, ShapeError, UnknownName
from marlenv.testing import run_contract
from marlenv.wrappers import OpenMLEnv

pytestmark = [pytest.mark.slow, pytest.mark.sim]
pytest.importorskip("sklearn", reason="needs scikit-learn: tests/simulators.sh openml")
NAMES = ["adult_num", "adult_onehot", "mushroom_num", "mushroom_onehot", "magic"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return openml_folder.write(tmp_path_factory.mktemp("openml"))


@pytest.mark.reference
@pytest.mark.parametrize("name", NAMES)
def test_samples_and_classes_are_torchrls(name: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = pytest.importorskip("torchrl.data.datasets.openml", reason="needs TorchRL: pip install -e '.[torchrl]'")
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(home))
    data = theirs.OpenMLExperienceReplay._get_data(name)
    ours = OpenMLEnv(name)
    assert len(data) == (35 if name.startswith("adult") else 40)  # rows with holes are left out
    assert torch.allclose(ours._x, torch.as_tensor(data["X"]).float(), atol=1e-6)
    assert torch.equal(ours._y, torch.as_tensor(data["y"]).long())


def test_a_right_guess_pays_and_every_step_is_the_last(home: Path) -> None:
    env = OpenMLEnv("mushroom_onehot", batch_size=[6], data_home=home)
    env.set_seed(0)
    td = env.reset()
    guess = td["y"].clone()
    guess[:3] = 1 - guess[:3]
    after = env.step(td.set("action", guess))["next"]
    assert after["reward"].flatten().tolist() == [0, 0, 0, 1, 1, 1]
    assert after["done"].all()
    assert after["terminated"].all()
    assert torch.equal(after["observation"], td["observation"])
    for row in range(6):  # a sample stands beside its own class
        at = (env._x == td["observation"][row]).all(-1)
        assert td["y"][row] in env._y[at]


def test_a_row_draws_the_same_samples_in_a_batch_of_any_size(home: Path) -> None:
    one, many = (OpenMLEnv("magic", batch_size=[n], data_home=home) for n in (1, 5))
    for env in (one, many):
        env.set_seed(3)
    for _ in range(4):
        assert torch.equal(one.reset()["observation"][0], many.reset()["observation"][0])
    td = many.reset()
    some = many.reset(td.clone().set("_reset", torch.tensor([[True], [False], [False], [False], [False]])))
    assert torch.equal(some["observation"][1:], td["observation"][1:])
    one.reset()
    again = many.reset(), one.reset(), one.reset()
    assert torch.equal(again[0]["observation"][0], again[2]["observation"][0])  # it drew once more than row 0 of one


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_specs_hold(batch: tuple[int, ...], home: Path) -> None:
    env = OpenMLEnv("adult_onehot", batch_size=batch, data_home=home)
    check_env_specs(env)
    assert env.action_spec.n == 3
    assert env.reset()["observation"].shape == (*batch, 2 + 2)


def test_the_contract_holds(home: Path) -> None:
    results = run_contract(lambda: OpenMLEnv("magic", batch_size=[3], data_home=home), steps=8)
    assert not [f"{r.name}: {r.says}" for r in results if r.verdict == "broken"]


def test_it_is_sent_to_others_and_has_a_name(home: Path) -> None:
    pool = ParallelEnv(2, EnvCreator(partial(OpenMLEnv, "magic", data_home=home)))
    assert pool.rollout(2, break_when_any_done=False)["observation"].shape == (2, 2, 2)
    pool.close()
    env = marlenv.make("openml/mushroom_num", data_home=home, num_envs=2)
    assert env.reset()["observation"].shape == (2, 3)
    assert "magic" in OpenMLEnv.available_envs


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda home: OpenMLEnv(3), UnknownName, "^OpenMLEnv: there is no data set 3; known"),
        (lambda home: OpenMLEnv("magic", batch_size="a", data_home=home), TypeError, "a size is an int or .* got 'a'"),
        (lambda home: OpenMLEnv("magic", batch_size=[-1], data_home=home), ShapeError, r"not be negative, got \[-1\]"),
        (lambda home: OpenMLEnv("mushrooms"), UnknownName, "no data set 'mushrooms'; did you mean 'mushroom_"),
        (
            lambda home: (env := OpenMLEnv("magic", data_home=home)).step(env.rand_action()),
            KeyMissing,
            r"OpenMLEnv\.step: no entry 'y'; step on from what reset\(\) gave",
        ),
    ],
)
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str, home: Path) -> None:
    with pytest.raises(kind, match=says):
        call(home)


@pytest.mark.filterwarnings("ignore:Invalid cache")  # scikit-learn's
def test_data_that_cannot_be_fetched_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_network(*args: Any, **kwargs: Any) -> None:
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", no_network)
    with pytest.raises(OSError, match="no network") as caught:
        OpenMLEnv("magic", data_home=tmp_path)
    assert caught.value.__notes__ == [
        f"OpenMLEnv: data set 'MagicTelescope' is not in {str(tmp_path)!r}, and could not be fetched from OpenML"
    ]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtra, match=r"OpenMLEnv needs 'sklearn'.*marlenv-torch\[openml\]"):
        OpenMLEnv("magic")
