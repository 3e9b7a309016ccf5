"""Constructors take what torchrl 0.14.1's take, under the same names, in the same order, with the same defaults."""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import Any

import pytest
import torchrl_oracle

import marlenv

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what torchrl looks for
    import torchrl.record

pytestmark = pytest.mark.reference
RECORDERS = ["VideoRecorder", "TensorDictRecorder", "PixelRenderTransform"]
LOGGERS = {"CSVLogger": "csv", "TensorboardLogger": "tensorboard", "WandbLogger": "wandb", "MLFlowLogger": "mlflow"}
THEIRS = {
    name: getattr(torchrl_oracle.envs.transforms, name)
    for name in marlenv.transforms.__all__
    if hasattr(torchrl_oracle.envs.transforms, name)
}
PASSED_ON = {"VIPRewardTransform": "VIPTransform"}
"""Ours hand their arguments to the constructor of another."""
ON_PURPOSE = {
    ("Transform", "in_keys"): "none, where none are given; None asks the env for them",
    ("Transform", "in_keys_inv"): "the same",
    ("ObservationTransform", "in_keys_inv"): "the same",
}
"""Where our default is another, and why."""


def theirs_of(name: str) -> Any:
    if name in LOGGERS:
        return getattr(importlib.import_module(f"torchrl.record.loggers.{LOGGERS[name]}"), name)
    return getattr(torchrl.record, name) if name in RECORDERS else THEIRS[name]


def parameters(kind: Any) -> dict[str, inspect.Parameter]:
    found = inspect.signature(kind.__init__).parameters
    return {n: p for n, p in found.items() if n != "self" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


@pytest.mark.parametrize("name", [*THEIRS, *RECORDERS, *LOGGERS])
def test_constructors_take_what_torchrls_take(name: str) -> None:
    theirs, ours = parameters(theirs_of(name)), parameters(getattr(marlenv, PASSED_ON.get(name, name)))
    assert [n for n in theirs if n not in ours] == []
    given = [n for n, p in theirs.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert [n for n in ours if n in given][: len(given)] == given
    assert all(ours[n].kind is p.kind or ours[n].kind is p.POSITIONAL_OR_KEYWORD for n, p in theirs.items())
    differ = {
        n: (p.default, ours[n].default)
        for n, p in theirs.items()
        if p.default is not p.empty and repr(p.default) != repr(ours[n].default) and (name, n) not in ON_PURPOSE
    }
    assert differ == {}


def test_what_a_signature_does_not_say() -> None:
    """torchrl's classes that are made by a metaclass, by their documents."""
    assert list(parameters(marlenv.TransformedEnv))[:4] == ["base_env", "transform", "cache_specs", "auto_unwrap"]
    assert marlenv.TransformedEnv(transform=marlenv.RewardSum(), base_env=marlenv.PendulumEnv())
    for lib in (torchrl_oracle.envs, marlenv):
        assert type(lib.VecNorm(["a"], decay=0.5, new_api=True)) is lib.VecNormV2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torchrl's says that the first form will go
            assert type(lib.VecNorm(["a"], new_api=False)) is type(lib.VecNorm(["a"])) is lib.VecNorm
