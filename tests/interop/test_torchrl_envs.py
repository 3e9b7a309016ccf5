"""Specs and envs that go to torchrl 0.14.1 and back: its own check passes, and every entry is what ours gives."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable

import pytest
import torch
import torchrl_oracle as rl
from sizes import first
from tensordict import TensorDict
from torchrl.envs import RewardSum, SerialEnv, StepCounter, TransformedEnv

import marlenv
from marlenv import EnvBase, from_torchrl, to_torchrl
from marlenv.errors import SpecError, SpecTypeError, Unsupported
from marlenv.registration import find
from marlenv.specs import (
    Binary,
    Bounded,
    Categorical,
    Choice,
    Composite,
    MultiCategorical,
    NonTensor,
    OneHot,
    Stacked,
    Unbounded,
)
from marlenv.testing.catalogue.envs import ENVS
from marlenv.testing.catalogue.specs import SPECS
from marlenv.testing.mocks import CountingEnv

ONCE_FOR_ALL = {"choice batch"}  # TorchRL's Choice makes one choice for all rows
NO_DRAWS = {"one-hot dynamic", "stacked values", "stacked batch"}  # TorchRL cannot draw from its own
OUTSIDE = {"bounded infinite", "bounded half-infinite"}  # what TorchRL draws is not in the spec
NATIVE = [name for name in marlenv.available() if "/" not in name and name not in marlenv.available("wrapper")]


@pytest.mark.parametrize("example", [e for e in SPECS if e.name not in ONCE_FOR_ALL], ids=lambda e: e.name)
def test_a_spec_goes_there_and_comes_back(example) -> None:
    spec = example.make()
    theirs = to_torchrl(spec)
    assert from_torchrl(theirs) == spec
    assert theirs.shape == spec.shape
    assert isinstance(spec, (Composite, Stacked)) or theirs.dtype == spec.dtype
    if example.name != "categorical uint8":  # 256 is not below 256 in eight bits
        assert theirs.is_in(spec.rand())
    if example.name not in NO_DRAWS | OUTSIDE:
        with warnings.catch_warnings(action="ignore"):
            assert spec.is_in(theirs.rand())


@pytest.mark.parametrize("shape", [(0, 2), (4, 0, 2)])
def test_choices_of_no_rows_go_there_and_come_back(shape: tuple[int, ...]) -> None:
    back = from_torchrl(to_torchrl(MultiCategorical([2, 3], shape)))
    assert back == MultiCategorical([2, 3], shape)
    assert back._widths == (2, 3)


def test_one_of_several_choices_goes_there_and_comes_back_with_the_shape_of_its_values() -> None:
    for spec, shape in ((MultiCategorical(4), ()), (MultiCategorical([4]), (1,))):
        theirs = to_torchrl(spec)
        assert from_torchrl(theirs) == spec
        assert [one.rand().shape for one in (spec, theirs, from_torchrl(theirs))] == [shape] * 3
        assert theirs.is_in(spec.rand())
        assert spec.is_in(theirs.rand())


def test_names_of_dimensions_go_there_and_come_back() -> None:
    deep = Composite(x=Unbounded((2, 3)), shape=(2, 3), names=["rows", "agents"])
    spec = Composite(deep=deep, shape=(2,), names=["rows"])
    spec["deep"].names = ["rows", "agents"]
    theirs = to_torchrl(spec)
    assert theirs.names == ["rows"]
    assert theirs["deep"].names == ["rows", "agents"]
    back = from_torchrl(theirs)
    assert (back.names, back["deep"].names, back.rand()["deep"].names) == (["rows"], *[["rows", "agents"]] * 2)


def test_flags_have_an_index_for_every_dimension() -> None:
    theirs = to_torchrl(Binary(shape=(3, 4), dtype=torch.bool))
    plain = rl.data.Binary(shape=(3, 4), dtype=torch.bool)
    assert theirs == plain
    assert plain == theirs
    assert theirs[0].shape == (4,)
    assert theirs[0, 0].is_in(torch.tensor(True))
    assert pickle.loads(pickle.dumps(theirs)) == theirs != theirs[:2]
    env = to_torchrl(marlenv.make("skirmish", num_envs=2, compile="none"))
    alone = env.inner.full_observation_spec_unbatched
    for key, leaf in env.full_observation_spec_unbatched.items(True, True):
        assert leaf.shape == alone[key].shape


def test_a_choice_per_row_is_more_than_torchrl_can_say() -> None:
    spec = Composite(a=Composite(b=Choice([Unbounded((2,)), Bounded(0, 1, (2,))]).expand(3, 2), shape=(3,)), shape=(3,))
    with pytest.raises(
        SpecError, match=r"cannot express Choice.* under \('a', 'b'\): its Choice chooses once for all rows"
    ):
        to_torchrl(spec)


def test_a_spec_of_an_unknown_class_is_named_with_its_key() -> None:
    class Odd(Unbounded):
        pass

    class Odder(marlenv.TensorSpec):
        _draw = zero = None

    Odder.__abstractmethods__ = frozenset()
    assert to_torchrl(Odd((2,))) == rl.data.Unbounded((2,))
    spec = Composite(agents=Composite(odd=Unbounded((2, 1)), shape=(2,)))
    dict.__setitem__(spec["agents"]._specs, "odd", Odder.__new__(Odder))
    with pytest.raises(SpecError, match=r"has no spec like Odder under \('agents', 'odd'\)"):
        to_torchrl(spec)


def test_an_env_says_which_spec_cannot_go(monkeypatch) -> None:
    env = CountingEnv()
    env.observation_spec = Composite(word=OneHot(3, use_register=True))
    with pytest.raises(SpecError, match="use_register=True") as caught:
        to_torchrl(env)
    assert "under 'word'" in str(caught.value)
    assert "in the observation spec of CountingEnv" in caught.value.__notes__[0]


@pytest.mark.parametrize("example", ENVS, ids=lambda e: e.name)
def test_torchrl_finds_nothing_wrong_with_any_kind_of_env(example) -> None:
    env = example.make()
    theirs = to_torchrl(env)
    rl.utils.check_env_specs(theirs)
    assert from_torchrl(theirs) is env


@pytest.mark.parametrize("name", first(NATIVE, 3))
def test_torchrl_finds_nothing_wrong_with_our_own_envs(name: str) -> None:
    plain = {"compile": "none"} if find(name).kind == "scenario" else {}  # without waiting for a compiler
    rl.utils.check_env_specs(to_torchrl(marlenv.make(name, num_envs=2, seed=0, **plain)))


@pytest.mark.parametrize(
    "name",
    [
        "pettingzoo/simple_tag_v3",
        "pettingzoo/tictactoe_v3",
        "open_spiel/tic_tac_toe",
        "vmas/balance",
        "gym/CartPole-v1",
    ],
)
@pytest.mark.sim
def test_torchrl_finds_nothing_wrong_with_wrappers(name: str) -> None:
    rl.utils.check_env_specs(to_torchrl(marlenv.make(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simple_tag", "navigation", "tic_tac_toe", "kuhn_poker"])
def test_every_entry_is_what_our_env_gives(name: str) -> None:
    """The same seed, with and without TorchRL around: torchrl's stepping and ours agree, random actions included."""
    options = {} if name in {"tic_tac_toe", "kuhn_poker"} else {"max_steps": 4}
    ours, theirs = marlenv.make(name, num_envs=3, **options), to_torchrl(marlenv.make(name, num_envs=3, **options))
    ours.set_seed(5)
    theirs.set_seed(5)
    a, b = (env.rollout(15, break_when_any_done=False) for env in (ours, theirs))
    assert set(a.keys(True, True)) == set(b.keys(True, True))
    for key in a.keys(True, True):
        assert torch.equal(a[key], b[key]), key


@pytest.mark.parametrize("name", ["simple_spread", "tic_tac_toe"])
def test_the_short_way_through_a_step_is_torchrls_long_one(name: str, monkeypatch) -> None:
    """``step_and_maybe_reset`` goes straight to ours; torchrl's own version of it gives the same."""
    options = {} if name == "tic_tac_toe" else {"max_steps": 4}
    short, long = (to_torchrl(marlenv.make(name, num_envs=3, seed=1, **options)) for _ in range(2))
    long.__dict__["_step_and_maybe_reset"] = lambda td: rl.envs.EnvBase._step_and_maybe_reset(long, td)
    a, b = (env.rollout(15, break_when_any_done=False) for env in (short, long))
    assert a["next", "done"].sum() > 2
    for key in b.keys(True, True):
        assert torch.equal(a[key], b[key]), key
    assert set(a.keys(True, True)) == set(b.keys(True, True))


def test_nothing_is_copied_on_the_way() -> None:
    env = marlenv.make("simple_spread", num_envs=2, seed=0)
    given = []
    step = env._step
    env.__dict__["_step"] = lambda td: given.append(step(td)) or given[-1]
    theirs = to_torchrl(env)
    td = theirs.step(theirs.rand_action(theirs.reset()))
    assert td["next", "agents", "observation"].data_ptr() == given[0]["agents", "observation"].data_ptr()


def test_random_actions_are_legal_for_whoever_holds_the_spec() -> None:
    env = to_torchrl(marlenv.make("chess", num_envs=2, seed=0))
    policy = rl.envs.utils.RandomPolicy(env.full_action_spec)  # keeps a clone of the spec, as collectors do
    assert len(env.rollout(20, policy, break_when_any_done=False)[0]) == 20  # an illegal move would be an error


def test_the_spec_of_an_action_follows_its_mask() -> None:
    env = to_torchrl(marlenv.make("tic_tac_toe", num_envs=2, seed=0))
    td = env.reset()
    td["x", "action"] = torch.tensor([[4], [0]])
    td["o", "action"] = torch.zeros(2, 1, dtype=torch.long)
    _, td = env.step_and_maybe_reset(td)
    spec = env.full_action_spec["o", "action"]
    assert spec.is_in(torch.tensor([[0], [4]]))
    assert not spec.is_in(torch.tensor([[4], [0]]))
    assert torch.equal(spec.mask, td["o", "action_mask"])
    assert spec == spec.plain()
    alone = pickle.loads(pickle.dumps(spec))
    assert alone == spec
    assert alone.is_in(alone.rand())  # a worker's copy draws as TorchRL's own


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deep", "pickle"])
def test_copies_of_torchrls_envs_around_ours_draw_from_ours(copied) -> None:
    env = TransformedEnv(to_torchrl(marlenv.make("tic_tac_toe", num_envs=2, seed=3)), StepCounter())
    env.rollout(2)  # TorchRL has read the specs, and keeps them
    twin = copied(env)
    for one in (env, twin):
        one.set_seed(5)
    first, second = (one.rollout(12, break_when_any_done=False) for one in (env, twin))
    assert first.shape == (2, 12)  # an illegal move would be an error
    for player in ("x", "o"):
        assert torch.equal(first[player, "action"], second[player, "action"])
    env.base_env.inner.set_seed(1)
    assert twin.base_env.inner is not env.base_env.inner


def test_torchrls_transforms_work_on_our_env() -> None:
    rewards = [("adversary", "reward"), ("agent", "reward")]
    totals = [("adversary", "episode_reward"), ("agent", "episode_reward")]
    env = TransformedEnv(to_torchrl(marlenv.make("simple_tag", num_envs=3, seed=0)), RewardSum(rewards, totals))
    env.append_transform(StepCounter(6))
    rl.utils.check_env_specs(env)
    td = env.rollout(20, break_when_any_done=False)
    assert td["next", "truncated"][0, :, 0].nonzero().flatten().tolist() == [5, 11, 17]
    reward, total = td["next", "agent", "reward"], td["next", "agent", "episode_reward"]
    for start in (0, 6, 12):
        torch.testing.assert_close(total[:, start : start + 6], reward[:, start : start + 6].cumsum(1))


def test_a_partial_reset_by_torchrls_masks_keeps_the_other_rows_and_their_chance() -> None:
    """Kuhn poker deals by streams that travel in the data; TorchRL hands over masks only."""
    env = marlenv.make("kuhn_poker", num_envs=3, seed=2)
    wrapped = TransformedEnv(to_torchrl(marlenv.make("kuhn_poker", num_envs=3, seed=2)))
    a, b = env.rollout(12, break_when_any_done=False), wrapped.rollout(12, break_when_any_done=False)
    assert torch.equal(a["state", "cards"], b["state", "cards"])
    td = wrapped.reset()
    td = wrapped.step_mdp(wrapped.step(wrapped.rand_action(td)))
    before = td.clone()
    td["_reset"] = torch.tensor([[True], [False], [False]])
    td = wrapped.reset(td, set_state=False)
    assert torch.equal(td["state", "moves"][1:], before["state", "moves"][1:])
    assert not torch.equal(td["state", "moves"][0], before["state", "moves"][0])


def test_torchrls_series_and_ours_agree() -> None:
    series = SerialEnv(2, lambda: to_torchrl(marlenv.make("simple_spread", num_envs=2, max_steps=5)))
    ours = marlenv.SerialEnv(2, lambda: marlenv.make("simple_spread", num_envs=2, max_steps=5))
    series.set_seed(3), ours.set_seed(3)
    assert torch.equal(series.reset()["agents", "observation"], ours.reset()["agents", "observation"])
    assert series.rollout(12, break_when_any_done=False)["next", "done"].sum() == 2 * 2 * 2


def test_an_env_of_torchrl_comes_to_us() -> None:
    theirs, ours = rl.envs.PendulumEnv(), from_torchrl(rl.envs.PendulumEnv())
    assert to_torchrl(ours) is ours.inner
    marlenv.check_env_specs(ours)
    assert isinstance(ours, EnvBase)
    theirs.set_seed(0), ours.set_seed(0)
    td = ours.append_transform(marlenv.StepCounter(7)).rollout(20, break_when_any_done=False)
    assert td["next", "truncated"].squeeze(-1).nonzero().flatten().tolist() == [6, 13]
    start = TensorDict({"th": td["th"][0], "thdot": td["thdot"][0], "params": td["params"][0]})
    moves = iter(td["action"])
    again = theirs.rollout(
        7, lambda td: td.set("action", next(moves)), auto_reset=False, tensordict=theirs.reset(start, set_state=True)
    )
    torch.testing.assert_close(again["next", "reward"], td["next", "reward"][:7])


def test_groups_are_known_under_torchrls_transforms() -> None:
    env = from_torchrl(TransformedEnv(to_torchrl(marlenv.make("simple_tag", max_steps=5)), StepCounter()))
    assert env.group_map == {"adversary": ["adversary_0", "adversary_1", "adversary_2"], "agent": ["agent_0"]}
    marlenv.check_env_specs(env)
    seat = from_torchrl(TransformedEnv(to_torchrl(CountingEnv()), StepCounter()))
    assert not hasattr(seat, "group_map")


@pytest.mark.parametrize("make", [lambda: to_torchrl(CountingEnv()), rl.envs.PendulumEnv, lambda: "navigation"])
def test_our_check_asks_for_an_env_of_ours(make) -> None:
    env = make()
    with pytest.raises(
        SpecTypeError, match=rf"^check_env_specs: expected an env of marlenv, got {type(env).__name__};"
    ):
        marlenv.check_env_specs(env)


def test_our_pools_draw_legal_actions_in_torchrl_and_leave_its_generator_alone() -> None:
    def played(seed: int) -> torch.Tensor:
        env = to_torchrl(marlenv.SerialEnv(2, lambda: marlenv.make("tic_tac_toe", num_envs=2)))
        torch.manual_seed(seed)
        env.set_seed(3)
        return env.rollout(30, break_when_any_done=False)["x", "action"]

    assert torch.equal(played(0), played(1))


def test_partial_resets_of_torchrls_envs_are_ours() -> None:
    env = from_torchrl(SerialEnv(3, lambda: TransformedEnv(rl.envs.PendulumEnv(), StepCounter(4))))
    td = env.rollout(3)
    td = env.step_mdp(td[:, -1])
    kept = td["th"].clone()
    td["_reset"] = torch.tensor([[True], [False], [False]])
    td = env.reset(td)
    assert torch.equal(td["th"][1:], kept[1:])
    assert td["step_count"].flatten().tolist() == [0, 3, 3]


@pytest.mark.parametrize("outside", [lambda env: env, lambda env: TransformedEnv(env, StepCounter(9))])
def test_rows_of_torchrls_pools_stand_still(outside) -> None:
    env = from_torchrl(outside(SerialEnv(3, rl.envs.PendulumEnv)))
    env.set_seed(0)
    td = env.rand_action(env.reset())
    before = td["th"].clone()
    td = env.step(td.set("_step", torch.tensor([True, False, True])))
    assert torch.equal(td["next", "th"][1], before[1])
    assert (td["next", "th"][::2] != before[::2]).all()
    again = env.step(env.rand_action(env.step_mdp(td)))
    moved = before[1] + 0.05 * again["next", "thdot"][1]  # by Pendulum's law, from where it stood
    torch.testing.assert_close(again["next", "th"][1].sin(), moved.sin())


def test_masks_of_torchrls_games_are_read_from_their_data() -> None:
    with warnings.catch_warnings(action="ignore"):
        env = from_torchrl(rl.envs.TicTacToeEnv())
        env.set_seed(0)
        for _ in range(5):
            td = env.rollout(9)
            moves = td["action"].flatten().tolist()
            assert len(set(moves)) == len(moves)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: to_torchrl(CountingEnv),
            "expected an env or a spec or a transform of marlenv, got EnvMeta; call it first",
        ),
        (lambda: to_torchrl(3), r"got int; pass marlenv.make\(...\)"),
        (lambda: to_torchrl(rl.envs.PendulumEnv()), "got PendulumEnv; it is TorchRL's already"),
        (lambda: from_torchrl(Categorical(3)), "got Categorical; it is marlenv's already"),
        (lambda: from_torchrl("Pendulum-v1"), "got str; pass torchrl.envs.GymEnv"),
        (lambda: from_torchrl(rl.envs.PendulumEnv), "call it first"),
    ],
)
def test_what_cannot_go_is_named(call, text: str) -> None:
    with pytest.raises(SpecTypeError, match=text):
        call()


def test_words_travel() -> None:
    spec = Composite(word=NonTensor((), example_data="e2e4"))
    assert to_torchrl(spec).zero()["word"] == "e2e4"


def test_calling_an_env_says_what_a_collector_wants() -> None:
    from torchrl.collectors import Collector

    with pytest.raises(Unsupported, match=r"marlenv.to_torchrl\(env\)"):
        Collector(marlenv.make("simple_spread"), None, frames_per_batch=10, total_frames=10)


def test_an_attribute_is_set_where_it_is_read() -> None:
    """``env.opponent = policy`` was one of the adapter alone, and the first policy played on."""

    def field(place: int) -> Callable[[TensorDict], TensorDict]:
        return lambda td: td.set(("o", "action"), torch.full(td["o", "mask"].shape, place))

    inner = marlenv.make("tic_tac_toe", opponent=field(0), num_envs=1)
    env = to_torchrl(inner)
    env.opponent, env.note = field(8), "mine"
    td = env.reset().set(("x", "action"), torch.tensor([[4]]))
    assert env.step(td)["next", "x", "observation"][0, 0, 1].flatten().nonzero().tolist() == [[8]]
    assert env.note == "mine"
    assert not hasattr(inner, "note")


def test_the_specs_follow_what_the_env_inside_loads_or_becomes() -> None:
    """The bounds of actions were those before."""
    action = ("agents", "action")

    def scaled(scale: float) -> marlenv.ActionScaling:
        return marlenv.ActionScaling(loc=0.0, scale=scale, in_keys_inv=[action])

    def bound(env) -> float:
        return float(env.full_action_spec[action].space.high.max())

    one, other = (to_torchrl(marlenv.make("simple_spread").append_transform(scaled(s))) for s in (1.0, 2.0))
    one.load_state_dict(other.state_dict())
    assert bound(one) == bound(one.inner) == 0.5
    one.transform = scaled(4.0)
    assert bound(one) == bound(one.inner) == 0.25
    assert one.rollout(20)[action].abs().max() <= 0.25
    twin = copy.deepcopy(one)
    twin.load_state_dict(other.state_dict())
    assert (bound(twin), bound(one)) == (0.5, 0.25)
