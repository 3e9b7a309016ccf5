"""State dicts of modules that hold a pool: they have what the children have, and give it back to them."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest
import torch
from torch import nn

import marlenv
from marlenv import AsyncEnvPool, ObservationNorm, ParallelEnv, RewardScaling, SerialEnv, TransformedEnv
from marlenv.testing import CountingEnv

POOLS = {
    "serial": SerialEnv,
    "parallel": partial(ParallelEnv, num_processes=1),
    "threads": lambda _, makers: AsyncEnvPool(makers),
    "pools": lambda _, makers: SerialEnv(1, partial(SerialEnv, 2, makers)),
}
PREFIXES = {"pools": ("worker0.worker0.", "worker0.worker1.")}


def shifted(loc: float) -> marlenv.EnvBase:
    """An env that observes its count plus ``loc``."""
    return TransformedEnv(CountingEnv(), ObservationNorm(loc=loc, scale=1.0, standard_normal=False))


def pool(kind: str, *locs: float) -> marlenv.EnvBase:
    return POOLS[kind](2, [partial(shifted, loc) for loc in locs])


def counts(env: marlenv.EnvBase) -> list[float]:
    """What the children observe first, of a count of 0."""
    return env.reset()["observation"].flatten().tolist()


AROUND = {
    "a transform": (lambda env: TransformedEnv(env, RewardScaling(0.0, 1.0)), "base_env."),
    "a module": (lambda env: nn.ModuleDict({"env": env, "net": nn.Linear(1, 1)}), "env."),
}
if marlenv.optional.has("torchrl"):
    AROUND["torchrl"] = (marlenv.to_torchrl, "inner.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "around"), [("serial", name) for name in AROUND] + [(kind, "a transform") for kind in POOLS][1:]
)
def test_a_module_saves_and_loads_the_children_of_its_pool(kind: str, around: str) -> None:
    wrap, lead = AROUND[around]
    inner, other = pool(kind, 3.0, 5.0), pool(kind, 7.0, 7.0)
    assert (counts(inner), counts(other)) == ([3.0, 5.0], [7.0, 7.0])
    holder, module = wrap(inner), wrap(other)
    saved = holder.state_dict()
    locs = [f"{lead}{prefix}chain.transforms.0.loc" for prefix in PREFIXES.get(kind, ("worker0.", "worker1."))]
    assert [float(saved[name]) for name in locs] == [3.0, 5.0]
    assert not [name for name in saved if name.endswith("loc") and "worker" not in name and lead in name]
    module.load_state_dict(saved)
    assert counts(other) == [3.0, 5.0]
    missing = dict(saved, extra=torch.ones(1)) | {f"{lead}worker9.loc": torch.ones(1)}
    del missing[locs[1]]
    with pytest.raises(RuntimeError, match="Missing key") as caught:
        module.load_state_dict(missing)
    assert locs[1] in str(caught.value)
    assert f"{lead}worker9.loc" in str(caught.value)
    missing[locs[0]] = torch.tensor(4.0)
    found = module.load_state_dict(missing, strict=False)
    assert (found.missing_keys, set(found.unexpected_keys)) == ([locs[1]], {"extra", f"{lead}worker9.loc"})
    assert counts(other) == [4.0, 5.0]
    for one in (inner, other):
        one.close(raise_if_closed=False)


def weighted() -> marlenv.EnvBase:
    env = CountingEnv()
    env.net = nn.Linear(1, 1)
    return env


def test_a_value_of_another_shape_is_refused_as_pytorch_does() -> None:
    module = nn.ModuleDict({"env": SerialEnv(2, weighted)})
    saved = module.state_dict()
    saved["env.worker1.net.weight"] = torch.ones(3, 3)
    with pytest.raises(RuntimeError, match=r"(?s)loading state_dict for ModuleDict.*size mismatch for net\.weight"):
        module.load_state_dict(saved)


def test_the_pools_own_state_dict_has_a_prefix_where_one_is_asked_for() -> None:
    env = pool("serial", 1.0, 2.0)
    own, named = env.state_dict(), env.state_dict(prefix="mine.")
    assert list(own) == ["worker0", "worker1"]
    assert named["mine.worker1.chain.transforms.0.loc"] == own["worker1"]["chain.transforms.0.loc"] == 2.0


def scaled(scale: float) -> marlenv.EnvBase:
    """An env of two agents whose actions reach from ``-1 / scale`` to ``1 / scale``."""
    env = marlenv.make("simple_spread", num_envs=1)
    return TransformedEnv(env, marlenv.ActionScaling(loc=0.0, scale=scale, in_keys_inv=[ACTION]))


ACTION = ("agents", "action")


def bound(env: marlenv.EnvBase) -> float:
    """How far actions reach, by the spec."""
    return float(env.full_action_spec[ACTION].space.high.max())


@pytest.mark.parametrize("kind", ["serial", "threads", pytest.param("parallel", marks=pytest.mark.slow)])
def test_the_specs_of_a_pool_follow_what_its_children_load(kind: str) -> None:
    """Random actions were drawn from the bounds before."""
    one, other = (POOLS[kind](2, [partial(scaled, scale)] * 2) for scale in (1.0, 2.0))
    one.reset()
    one.load_state_dict(other.state_dict())
    assert bound(one) == 0.5
    assert bound(one) == bound(other) == bound(one[1:] if kind != "threads" else one)
    assert 0.2 < one.rollout(20)[ACTION].abs().max() <= 0.5
    module = nn.ModuleDict({"env": one})
    module.load_state_dict({name: 4 * value for name, value in module.state_dict().items()})
    assert bound(one) == 0.125
    one.close()
    other.close()


@pytest.mark.parametrize("kind", ["serial", pytest.param("parallel", marks=pytest.mark.slow)])
def test_the_specs_of_a_pool_follow_what_a_view_of_it_loads(kind: str) -> None:
    env = POOLS[kind](2, [partial(scaled, 1.0)] * 2)
    env.reset()
    part, other = env[1:], SerialEnv(1, partial(scaled, 2.0))
    part.load_state_dict(other.state_dict())
    highs = env.full_action_spec[ACTION].space.high
    assert (bound(part), highs[0].max(), highs[1].max()) == (0.5, 1.0, 0.5)
    env.close()


@pytest.mark.slow
def test_a_worker_that_is_lost_before_loading_is_replaced() -> None:
    env = ParallelEnv(2, partial(scaled, 1.0), on_failure="restart")
    env.reset()
    os.kill(env._workers[1].process.pid, signal.SIGKILL)
    env.load_state_dict(SerialEnv(2, partial(scaled, 2.0)).state_dict())
    assert bound(env) == 0.5
    assert env.failures.tolist() == [0, 1]
    env.close()


class Falling(CountingEnv):
    """Fails in its third step."""

    def _step(self, tensordict):
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps == 3:
            raise ValueError("fallen")
        return super()._step(tensordict)


def falling(loc: float) -> marlenv.EnvBase:
    return TransformedEnv(Falling(max_steps=9), ObservationNorm(loc=loc, scale=1.0, standard_normal=False))


RESTARTING = {
    "serial": lambda make: SerialEnv(2, make, on_failure="restart"),
    "threads": lambda make: AsyncEnvPool([make] * 2, on_failure="restart"),
    "parallel": lambda make: ParallelEnv(2, make, on_failure="restart"),
}


@pytest.mark.parametrize("kind", ["serial", "threads", pytest.param("parallel", marks=pytest.mark.slow)])
def test_children_that_are_made_anew_have_what_was_loaded(kind: str) -> None:
    """They went on with the statistics of their makers; and rollouts failed, as some steps had no truncated flag."""
    env = RESTARTING[kind](partial(falling, 0.0))
    saved = SerialEnv(2, [partial(falling, 100.0), partial(falling, 200.0)]).state_dict()
    env.load_state_dict(saved)
    seen = env.rollout(5, break_when_any_done=False)["observation"].squeeze(-1)
    assert seen.tolist() == [[start + n for n in (0, 1, 2, 0, 1)] for start in (100, 200)]
    assert env.failures.tolist() == [1, 1]
    for one in saved.values():  # the pool has copies
        one["chain.transforms.0.loc"].zero_()
    env.close()
    assert counts(env) == [100, 200]
    env.close()
    env.update_kwargs({})
    assert counts(env) == [0, 0]  # keyword arguments are newer
    env.close()
