"""``check_env_specs`` finds what an env gets wrong, and says what, where and when."""

from __future__ import annotations

import pytest
import torch
from tensordict import NonTensorData, TensorDict
from twin_envs import load

from marlenv import Binary, Bounded, Composite, EnvBase, Unbounded, check_env_specs
from marlenv.errors import ContractBroken, KeyMissing, ShapeError
from marlenv.testing.mocks import CountingEnv, GroupedEnv, MaskedEnv, UnevenEnv

GOOD = {
    "counting": lambda: CountingEnv(max_steps=2),
    "rows": lambda: CountingEnv(max_steps=2, batch_size=[2, 2]),
    "grouped": lambda: GroupedEnv({"g": {"x": ["a", "b"]}, "h": ["c"]}, terminate={"a": 1}, batch_size=[2]),
    "masked": lambda: MaskedEnv(batch_size=[3]),
    "uneven": UnevenEnv,
    "padded": lambda: UnevenEnv("pad"),
    "pendulum": lambda: load("pendulum", "marlenv").PendulumEnv(seed=0),
}


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD)
@pytest.mark.parametrize(
    "how", [{}, {"break_when_any_done": "both"}, {"seed": 0}, {"return_contiguous": False}], ids=str
)
def test_good_envs_pass(make, how):
    check_env_specs(make(), **how)
    make().check_env_specs(**how)


def test_batch_unlocked_envs_are_checked_at_a_given_batch_size():
    env = load("pendulum", "marlenv").PendulumEnv(seed=0)
    check_env_specs(env, tensordict=env.gen_params(batch_size=[3]))
    check_env_specs(env, tensordict=env.reset(env.gen_params(batch_size=[3])))


class Liar(EnvBase):
    """Says one thing and does another; ``lie`` changes what a step (or with ``at_reset`` a reset) answers."""

    def __init__(self, lie, at_reset=False, both=False):
        super().__init__()
        self.lie, self.at_reset, self.both = lie, at_reset, both
        self.observation_spec = Composite(
            x=Bounded(-1, 1, (3,)), g=Composite(y=Unbounded((2, 1), dtype=torch.int64), shape=(2,))
        )
        self.action_spec = Unbounded((1,))
        self.reward_spec = Bounded(0, 1, (1,))
        self.done_spec = Binary(shape=(1,), dtype=torch.bool)

    def _observe(self):
        group = TensorDict({"y": torch.zeros(2, 1, dtype=torch.int64)}, [2])
        return TensorDict({"x": torch.zeros(3), "g": group}, [])

    def _reset(self, tensordict):
        return self.lie(self._observe()) if self.at_reset or self.both else self._observe()

    def _step(self, tensordict):
        out = self._observe().update({"reward": torch.zeros(1), "done": torch.tensor([False])})
        return out if self.at_reset else self.lie(out)

    def _set_seed(self, seed):
        pass


def put(key, value):
    return lambda td: td.set(key, value)


@pytest.mark.parametrize(
    ("lie", "text"),
    [
        (put("x", torch.zeros(3, dtype=torch.float64)),
         r"observation \('next', 'x'\) must be torch.float32, got torch.float64"),
        (put("x", torch.zeros(2)), r"observation \('next', 'x'\) must have shape \[3\], got \[2\]"),
        (put("x", torch.zeros(4, 3)), r"observation \('next', 'x'\) must have shape \[3\], got \[4, 3\]"),
        (put("x", torch.full((3,), 2.0)), r"observation \('next', 'x'\) lies outside its spec: Bounded"),
        (put(("g", "y"), torch.zeros(2, 1)),
         r"observation \('next', 'g', 'y'\) must be torch.int64, got torch.float32"),
        (lambda td: td.exclude("x"),
         r"observation \('next', 'x'\) is in the observation spec but the env did not give it"),
        (lambda td: td.exclude(("g", "y")),
         r"observation \('next', 'g', 'y'\) is in the observation spec but the env did not"),
        (put("z", torch.zeros(1)),
         r"entries that are in no spec: \[\"\('next', 'z'\)\"\]; add them to observation_spec or drop"),
        (put("reward", torch.full((1,), 2.0)), r"reward \('next', 'reward'\) lies outside its spec"),
        (put("reward", torch.zeros(1, dtype=torch.int64)),
         r"reward \('next', 'reward'\) must be torch.float32, got torch.int64"),
        (put("x", NonTensorData("a")), r"observation \('next', 'x'\) must be a tensor of torch.float32, got 'a'"),
        (put("g", torch.zeros(2)), r"^\('next', 'g'\) is a group in the specs, got a tensor \[2\]"),
        (lambda td: td.update({"done": torch.tensor([True]), "terminated": torch.tensor([False])}),
         r"done \('next', 'done'\) is True where neither 'terminated' nor 'truncated' is"),
        (put("terminated", torch.tensor([True])), r"done \('next', 'done'\) is False where 'terminated' is True"),
    ],
)  # fmt: skip
def test_lies_of_steps_are_found(lie, text):
    with pytest.raises(ContractBroken, match=text) as caught:
        check_env_specs(Liar(lie))
    assert caught.value.__notes__ == ["in step 0 of a rollout of Liar"]


@pytest.mark.parametrize("at_reset", [False, True])
def test_flags_that_are_not_bool_are_found(at_reset):
    where = "_reset" if at_reset else "_step"
    with pytest.raises(ContractBroken, match=rf"^Liar\.{where}: 'done' must be torch.bool, got torch.float32"):
        check_env_specs(Liar(put("done", torch.zeros(1)), at_reset=at_reset))


def test_steps_say_what_does_not_stack():
    with pytest.raises(ShapeError, match=r"^Liar.rollout: 'x' has the shapes \[\[2\], \[3\]\], each in some"):
        Liar(put("x", torch.zeros(2))).rollout(3)
    with pytest.raises(KeyMissing, match="what follows is returned by itself, not under 'next'"):
        Liar(lambda td: TensorDict({"next": td}, [])).rollout(1)


@pytest.mark.parametrize(
    ("lie", "text"),
    [
        (put("x", torch.zeros(3, dtype=torch.float64)), r"observation 'x' must be torch.float32, got torch.float64"),
        (
            lambda td: td.exclude("g"),
            r"observation \('g', 'y'\) is in the observation spec but the env did not give it",
        ),
        (put("reward", torch.zeros(1)), r"entries that are in no spec: \['reward'\]"),
        (put("g", torch.zeros(2)), r"^'g' is a group in the specs, got a tensor \[2\]"),
        (put("x", NonTensorData("a")), r"observation 'x' must be a tensor of torch.float32, got 'a'"),
    ],
)
def test_lies_of_resets_are_found(lie, text):
    with pytest.raises(ContractBroken, match=text):
        check_env_specs(Liar(lie, at_reset=True))


def test_dtypes_may_be_left_out():
    lie = put(("g", "y"), torch.zeros(2, 1))
    check_env_specs(Liar(lie, both=True), check_dtype=False)
    with pytest.raises(ContractBroken):
        check_env_specs(Liar(lie, both=True))


def test_lies_about_single_agents_are_found():
    env = UnevenEnv()
    whole = env._observe

    def lie():
        out = whole()
        out["agents"].tensordicts[1]["observation"] = torch.zeros(7)
        return out

    env._observe = lie
    with pytest.raises(
        ContractBroken, match=r"observation \('agents', 'observation'\) of agent 1 of its group must have shape \[3\]"
    ):
        check_env_specs(env)


def test_lies_about_a_device_are_found():
    env = CountingEnv(device="cpu")
    whole = env._step
    env._step = lambda td: whole(td).clear_device_().set("observation", torch.zeros(1, device="meta"))
    with pytest.raises(ContractBroken, match=r"observation \('next', 'observation'\) must be on cpu, got meta"):
        check_env_specs(env)


def test_it_is_an_assertion_error():
    """As in TorchRL."""
    with pytest.raises(AssertionError):
        check_env_specs(Liar(put("x", torch.zeros(2))))
