"""What a check of the contract is, and what checks are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.errors import ContractBroken
from marlenv.keys import NestedKey

STEPS = 12  # steps of the rollouts that checks look at


class Check(NamedTuple):
    """One clause of the contract."""

    name: str
    says: str
    """The clause, as a sentence."""
    mend: str
    """What to do when it is broken."""
    run: Callable[[Callable[[], EnvBase]], None]
    """Raises :class:`~marlenv.errors.ContractBroken` for an env that breaks it."""


_ATTRIBUTE = "contract_check"


def check(mend: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a check; its docstring is the clause, ``mend`` says what to do when it is broken."""

    def decorate(run: Callable[..., None]) -> Callable[..., None]:
        says = (run.__doc__ or "").strip()
        setattr(run, _ATTRIBUTE, Check(run.__name__, says, mend, run))
        return run

    return decorate


def collect(*modules: ModuleType) -> dict[str, Check]:
    """All checks of some modules, in the order in which they are written."""
    found = {}
    for module in modules:
        for thing in vars(module).values():
            if (made := getattr(thing, _ATTRIBUTE, None)) is not None:
                found[made.name] = made
    return found


def require(holds: bool, says: str) -> None:
    """Raises :class:`~marlenv.errors.ContractBroken` unless ``holds``."""
    if not holds:
        raise ContractBroken(says)


def leaves(td: TensorDictBase) -> dict[NestedKey, Any]:
    """Every leaf of a tensordict by key; lazy stacks by part."""
    return {key: td.get(key) for key in td.keys(True, True)}


def same(a: Any, b: Any) -> bool:
    """Whether two leaves are equal bit for bit; NaN equals NaN."""
    if not isinstance(a, Tensor):
        return bool(a == b)
    if a.is_nested:
        return all(same(x, y) for x, y in zip(a.unbind(), b.unbind(), strict=True))
    return a.shape == b.shape and a.dtype == b.dtype and bool(((a == b) | ((a != a) & (b != b))).all())  # noqa: PLR0124


def differences(a: TensorDictBase, b: TensorDictBase) -> list[str]:
    """The entries in which two tensordicts differ."""
    ones, others = leaves(a), leaves(b)
    missing = [str(k) for k in ones.keys() ^ others.keys()]
    return missing + [str(k) for k in ones.keys() & others.keys() if not same(ones[k], others[k])]


def open_env(make_env: Callable[[], EnvBase], seed: int | None = 0) -> EnvBase:
    """A fresh env, seeded if it can be."""
    env = make_env()
    if seed is not None:
        try:
            env.set_seed(seed)
        except NotImplementedError:
            env.__dict__["_unseeded"] = True
    return env


def steps_of(env: EnvBase, steps: int = STEPS) -> Iterator[tuple[TensorDictBase, TensorDictBase]]:
    """The data of every step of a random rollout that goes on after ends, and the data that the next step starts from."""
    td = env.reset()
    for _ in range(steps):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        yield data, td


def levels(env: EnvBase) -> list[dict[str, NestedKey]]:
    """The done keys of every level by name."""
    found = []
    for group in env.done_keys_groups:
        found.append({key if isinstance(key, str) else key[-1]: key for key in group})
    return found


def global_state() -> list[Any]:
    """The state of the generators that belong to nobody: torch's, numpy's and Python's."""
    import random

    import numpy as np

    return [torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()]  # type: ignore[index]
