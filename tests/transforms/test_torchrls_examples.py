"""What the docstrings of torchrl's transforms show works here, too, and gives the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torchrl_oracle
from tensordict import TensorDict

import marlenv
from marlenv import AsyncEnvPool, ParallelEnv, SerialEnv
from marlenv.errors import SpecError

pytestmark = pytest.mark.reference
ORACLE = SimpleNamespace(**{**vars(torchrl_oracle.data), **vars(torchrl_oracle.envs)})
LIBRARIES: dict[str, Any] = {"torchrl": ORACLE, "marlenv": marlenv}
ROWS = [None, SerialEnv, ParallelEnv, lambda n, make: AsyncEnvPool([make] * n)]


def masked(lib: Any) -> type:
    """The env of ActionMask's docstring, whose mask is a state that goes through ``_reset`` and ``_step``."""

    class MaskedEnv(lib.EnvBase):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.action_spec = lib.Categorical(4)
            self.state_spec = lib.Composite(action_mask=lib.Binary(4, dtype=torch.bool))
            self.observation_spec = lib.Composite(obs=lib.Unbounded(3))
            self.reward_spec = lib.Unbounded(1)

        def _reset(self, tensordict: Any = None) -> Any:
            return self.observation_spec.zero().update(torch.ones_like(self.state_spec.zero()))

        def _step(self, tensordict: Any) -> Any:
            out = self.observation_spec.zero()
            mask = tensordict["action_mask"].scatter(-1, tensordict["action"].unsqueeze(-1), 0)
            return out.update({"action_mask": mask, "reward": self.reward_spec.zero(), "done": ~mask.any().view(1)})

        def _set_seed(self, seed: int | None) -> None:
            pass

    return MaskedEnv


def test_the_mask_of_a_state() -> None:
    data = []
    for lib in LIBRARIES.values():
        env = lib.TransformedEnv(masked(lib)(), lib.ActionMask())
        data.append(env.step(env.reset().set("action", torch.tensor(2))))
        assert env.action_spec.mask.tolist() == [True, True, False, True]
    theirs, ours = data
    for key in ("action_mask", ("next", "action_mask"), ("next", "done")):
        assert torch.equal(theirs[key], ours[key])


def test_a_rollout_is_as_the_docstring_says() -> None:
    """Torchrl 0.14.1 shows an episode of four steps, and plays on with a mask that stays as it was."""
    played = iter([2, 3, 1, 0])
    env = masked(marlenv)().append_transform(marlenv.ActionMask())
    data = env.rollout(10, lambda td: td.set("action", torch.tensor(next(played))))
    assert data["action_mask"].int().tolist() == [[1, 1, 1, 1], [1, 1, 0, 1], [1, 1, 0, 0], [1, 0, 0, 0]]
    assert data["next", "done"].flatten().tolist() == [False, False, False, True]


@pytest.mark.parametrize("pool", ROWS, ids=["alone", "series", "processes", "threads"])
def test_random_actions_obey_the_mask_of_a_state(pool: Any) -> None:
    """Every number is played once, so an episode has four steps and ``4, 3, 2, 1`` legal numbers."""
    make = masked(marlenv)
    env = (make() if pool is None else pool(2, make)).append_transform(marlenv.ActionMask())
    data = env.rollout(8, break_when_any_done=False)
    counts = data["action_mask"].sum(-1)
    assert counts.tolist() == torch.tensor([4, 3, 2, 1] * 2).expand_as(counts).tolist()
    assert data["action_mask"].gather(-1, data["action"].unsqueeze(-1)).all()
    assert "action_mask" in env.observation_keys
    env.check_env_specs()
    env.close()


WAYS = {
    "one after the other": lambda lib, *two: lib.Compose(*two),
    "a list": lambda lib, *two: lib.Compose(list(two)),
    "by name": lambda lib, *two: lib.Compose(transforms=list(two)),
}


@pytest.mark.parametrize("way", WAYS)
def test_three_ways_to_compose(way: str) -> None:
    """Rewards ``[-9, 0.5, 9]`` plus 1, then from -2 to 2."""
    for lib in LIBRARIES.values():
        chain = WAYS[way](lib, lib.RewardScaling(1.0, 1.0), lib.RewardClipping(-2.0, 2.0))
        assert len(chain) == 2
        rewards = chain(TensorDict(reward=torch.tensor([[-9.0], [0.5], [9.0]]), batch_size=[3]))["reward"]
        assert rewards.flatten().tolist() == [-2.0, 1.5, 2.0]


def test_compositions_that_are_none() -> None:
    assert len(marlenv.Compose([])) == len(marlenv.Compose(transforms=())) == 0
    with pytest.raises(SpecError, match=r"Compose: give the transforms one after the other or by transforms=\[...\]"):
        marlenv.Compose(marlenv.RewardSum(), transforms=[])
    with pytest.raises(SpecError, match=r"expected a transform or a function of tensordicts, got list"):
        marlenv.Compose([[marlenv.RewardSum()]])


@pytest.mark.parametrize("given", ["by name", "a mapping", "a composite"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
def test_primers_get_the_rows_of_the_env(shape: tuple[int, ...], given: str) -> None:
    """Whatever they begin with: torchrl resets to these, and then fails when asked for its specs."""
    found = []
    for lib in LIBRARIES.values():
        specs = {"mykey": lib.Unbounded(shape)}
        if given == "by name":
            primer = lib.TensorDictPrimer(**specs, default_value=2.0)
        else:
            primer = lib.TensorDictPrimer(specs if given == "a mapping" else lib.Composite(specs), default_value=2.0)
        env = lib.TransformedEnv(lib.SerialEnv(2, lib.PendulumEnv), primer)
        found.append(env.rollout(2, break_when_any_done=False))
    theirs, ours = found
    for key in ("mykey", ("next", "mykey")):
        assert torch.equal(theirs[key], ours[key])
    assert env.observation_spec["mykey"].shape == (2, *shape)
    env.check_env_specs()


@pytest.mark.parametrize("shape", [[2], [3]])
def test_primers_that_say_their_rows(shape: list[int]) -> None:
    primer = marlenv.TensorDictPrimer(marlenv.Composite(mykey=marlenv.Unbounded((*shape, 5)), shape=shape))
    if shape == [2]:
        assert SerialEnv(2, marlenv.PendulumEnv).append_transform(primer).reset()["mykey"].shape == (2, 5)
        return
    with pytest.raises(SpecError, match=r"the primers must begin with the batch size \[2\], got \[3\]"):
        SerialEnv(2, marlenv.PendulumEnv).append_transform(primer)


def unequal(lib: Any) -> SimpleNamespace:
    """Transforms that write other keys than they read: as many as they like."""

    class Measured(lib.Transform):  # type: ignore[misc]
        """The one in the docstring of ``Transform.forward``."""

        def __init__(self) -> None:
            super().__init__(in_keys=[], out_keys=["bytes"])

        def forward(self, tensordict: Any) -> Any:
            return tensordict.set("bytes", torch.tensor(tensordict.bytes()))

    class Added(lib.Transform):  # type: ignore[misc]
        """Takes two numbers for the action, their sum."""

        def __init__(self) -> None:
            super().__init__(in_keys_inv=["action"], out_keys_inv=["a", "b"])

        def transform_action_spec(self, action_spec: Any) -> Any:
            return lib.Composite(a=lib.Bounded(-1, 1, (1,)), b=lib.Bounded(-1, 1, (1,)))

        def _inv_call(self, tensordict: Any) -> Any:
            return tensordict.set("action", tensordict["a"] + tensordict["b"])

    class Inverse(Added):
        _inv_call = lib.Transform._inv_call

        def inv(self, tensordict: Any) -> Any:
            return Added._inv_call(self, tensordict.copy())

    class AtTheStart(lib.Transform):  # type: ignore[misc]
        def __init__(self, out_keys: list[str]) -> None:
            super().__init__(in_keys=[], out_keys=out_keys)

        def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
            return tensordict_reset.set("goal", torch.ones(1))

        def transform_observation_spec(self, observation_spec: Any) -> Any:
            return observation_spec.set("goal", lib.Unbounded((1,)))

    return SimpleNamespace(Measured=Measured, Added=Added, Inverse=Inverse, AtTheStart=AtTheStart)


def test_forward_writes_what_it_likes() -> None:
    data = TensorDict(a=torch.zeros(5, dtype=torch.float64))
    theirs, ours = (unequal(lib).Measured()(data.clone()) for lib in LIBRARIES.values())
    assert theirs["bytes"] == ours["bytes"] == 5 * 8
    with pytest.raises(SpecError, match=r"^Measured: in_keys and out_keys must .* an env does not call forward: write"):
        marlenv.PendulumEnv().append_transform(unequal(marlenv).Measured())


def test_one_action_of_two_numbers() -> None:
    """Pendulum's angular velocity after a step: ``thdot + (15 sin(th) + 3 (a + b)) dt``, with g = 10 and dt = 0.05."""
    for lib in LIBRARIES.values():
        env = lib.TransformedEnv(lib.PendulumEnv(), unequal(lib).Added())
        assert {*env.full_action_spec.keys()} == {"a", "b"}
        td = env.reset().update({"a": torch.tensor([0.25]), "b": torch.tensor([0.5])})
        td.update({"th": torch.tensor(0.5), "thdot": torch.tensor(0.0)})
        speed = env.step(td)["next", "thdot"]
        torch.testing.assert_close(speed.reshape(()), torch.tensor((15 * 0.479425539 + 3 * 0.75) * 0.05))


def test_inv_reads_what_it_likes() -> None:
    for lib in LIBRARIES.values():
        told = unequal(lib).Inverse().inv(TensorDict(a=torch.tensor([0.25]), b=torch.tensor([0.5])))
        assert told["action"].item() == 0.75
    with pytest.raises(
        SpecError, match=r"^Inverse: in_keys_inv and out_keys_inv .* does not call inv: write _inv_call"
    ):
        marlenv.PendulumEnv().append_transform(unequal(marlenv).Inverse())


def test_a_reset_writes_what_it_likes() -> None:
    """Torchrl's fails at the step unless nothing is named, where ours does the same as that."""
    theirs, ours = (
        lib.TransformedEnv(lib.PendulumEnv(), unequal(lib).AtTheStart(keys)).rollout(3)
        for lib, keys in ((ORACLE, []), (marlenv, ["goal"]))
    )
    assert torch.equal(theirs["goal"], ours["goal"])
    assert "goal" not in theirs["next"].keys()
    assert "goal" not in ours["next"].keys()


def test_single_values_have_a_key_each() -> None:
    mine = type("Mine", (marlenv.Transform,), {"_apply_transform": lambda self, x: x})
    for keys in ({"in_keys": ["a"], "out_keys": ["b", "c"]}, {"in_keys_inv": ["a"], "out_keys_inv": ["b", "c"]}):
        with pytest.raises(SpecError, match=r"^Mine: .* must be as many, got \['a'\] and \['b', 'c'\]$"):
            mine(**keys)
