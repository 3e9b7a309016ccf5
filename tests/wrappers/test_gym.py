"""GymEnv and GymWrapper beside the simulators themselves, which are played by hand with the same seeds and actions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import marlenv
from marlenv import SerialEnv, check_env_specs
from marlenv.errors import (
    IllegalAction,
    MissingExtra,
    NeedsReset,
    ResetError,
    ShapeError,
    SpecError,
    SpecTypeError,
    UnknownName,
    Unsupported,
)
from marlenv.testing import run_contract
from marlenv.wrappers import GymEnv, GymWrapper, MOGymEnv, MOGymWrapper, gym_backend, implement_for, set_gym_backend

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
NAMES = ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "MountainCar-v0", "Taxi-v3", "Blackjack-v1", "Acrobot-v1"]
MODES = ["NEXT_STEP", "SAME_STEP", "DISABLED"]


def number(action: Tensor, env: Any) -> Any:
    """An action as the raw simulator takes it."""
    return int(action) if action.ndim == 0 else action.numpy()


def same(ours: Any, theirs: Any) -> bool:
    """Whether observations are equal, number by number."""
    if isinstance(theirs, tuple):
        return all(same(ours[str(i)], value) for i, value in enumerate(theirs))
    return np.array_equal(ours["observation"].numpy() if not isinstance(ours, Tensor) else ours.numpy(), theirs)


@pytest.mark.parametrize("name", NAMES)
def test_every_number_is_the_simulators(name: str) -> None:
    env, raw = GymEnv(name, categorical_action_encoding=True), gymnasium.make(name)
    env.set_seed(7)
    td, (seen, _) = env.reset(), raw.reset(seed=7)
    assert same(td, seen)
    for _ in range(120):
        td = env.rand_action(td)
        data, td = env.step_and_maybe_reset(td)
        seen, reward, terminated, truncated, _ = raw.step(number(data["action"], raw))
        after = data["next"]
        assert same(after, seen)
        assert float(after["reward"]) == np.float32(reward)
        flags = (terminated, truncated, terminated or truncated)
        assert tuple(bool(after[key]) for key in ("terminated", "truncated", "done")) == flags
        if flags[2]:
            assert same(td, raw.reset()[0])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["CartPole-v1", "Blackjack-v1"])
def test_rows_of_a_vector_are_envs_that_start_anew_by_themselves(name: str, mode: str) -> None:
    """However a vector resets, its rows are what envs in series are: the same seeds, no lost step, no lost end."""
    vector = gymnasium.vector.SyncVectorEnv(
        [partial(gymnasium.make, name)] * 3, autoreset_mode=gymnasium.vector.AutoresetMode[mode]
    )
    env = GymWrapper(vector, categorical_action_encoding=True)
    env.set_seed(5)
    rows = [gymnasium.make(name) for _ in range(3)]
    td, seen = env.reset(), [row.reset(seed=5 + i)[0] for i, row in enumerate(rows)]
    ends = 0
    for _ in range(60):
        td = env.rand_action(td)
        data, td = env.step_and_maybe_reset(td)
        for i, row in enumerate(rows):
            seen[i], reward, terminated, truncated, _ = row.step(int(data["action"][i]))
            after = data["next"][i]
            assert same(after, seen[i]), (mode, i)
            assert float(after["reward"]) == np.float32(reward)
            assert bool(after["terminated"]) is bool(terminated)
            assert bool(after["truncated"]) is bool(truncated)
            if terminated or truncated:
                seen[i], ends = row.reset()[0], ends + 1
            assert same(td[i], seen[i]), (mode, i)
    assert ends > 3


@pytest.mark.parametrize("mode", MODES)
def test_rows_that_are_over_wait_until_all_are(mode: str) -> None:
    vector = gymnasium.vector.SyncVectorEnv(
        [partial(gymnasium.make, "CartPole-v1")] * 4, autoreset_mode=gymnasium.vector.AutoresetMode[mode]
    )
    env = GymWrapper(vector)
    env.set_seed(0)
    data = env.rollout(200, break_when_all_done=True)
    done = data["next", "done"].squeeze(-1)
    assert bool(done[:, -1].all())
    assert bool((done.int().diff(dim=1) >= 0).all())
    first = done.int().argmax(1)
    for i in range(4):  # what a row shows stays as it was when it ended, and pays nothing
        end = data["next", "observation"][i, first[i]]
        assert torch.equal(data["next", "observation"][i, first[i] :], end.expand(done.shape[1] - int(first[i]), 4))
        assert float(data["next", "reward"][i, first[i] + 1 :].abs().sum()) == 0


def test_a_vector_cannot_hold_rows_that_go_on() -> None:
    env = GymEnv("CartPole-v1", num_envs=3)
    td = env.rand_action(env.reset()).set("_step", torch.tensor([True, False, True]))
    with pytest.raises(Unsupported, match=r"leaves out \[1\], which are not done; SerialEnv and ParallelEnv"):
        env.step(td)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
@pytest.mark.parametrize("num_envs", [None, 3])
def test_the_contract_holds(name: str, num_envs: int | None) -> None:
    results = run_contract(lambda: GymEnv(name, num_envs=num_envs), steps=16)
    assert not [f"{r.name}: {r.says}" for r in results if r.verdict == "broken"]


@pytest.mark.slow
def test_processes_of_gymnasium_give_what_series_give() -> None:
    rollouts = []
    for mode in ("sync", "async"):
        env = GymEnv("CartPole-v1", num_envs=3, vectorization_mode=mode)
        env.set_seed(1)
        rollouts.append(env.rollout(40, break_when_any_done=False))
        env.close()
    assert bool((rollouts[0] == rollouts[1]).all())


@pytest.mark.parametrize("vector", [False, True])
def test_actions_of_all_kinds_reach_the_simulator(vector: bool) -> None:
    """One-hot choices, choices that do not begin at 0, dicts and tuples of actions."""
    spaces = gymnasium.spaces
    parts = {
        "gear": spaces.Discrete(3, start=-1),
        "pedal": spaces.Box(0, 1, (2,)),
        "lamps": spaces.MultiDiscrete([2, 3]),
    }

    class Car(gymnasium.Env):
        observation_space = spaces.Dict(parts)
        action_space = spaces.Dict(parts)

        def reset(self, **_: Any) -> Any:
            return self.observation_space.sample(), {}

        def step(self, action: Any) -> Any:
            return {name: np.asarray(value) for name, value in action.items()}, 0.0, False, False, {}

    env = GymWrapper(gymnasium.vector.SyncVectorEnv([Car] * 2) if vector else Car(), categorical_action_encoding=True)
    check_env_specs(env)
    start = env.reset()
    seen = start.clone()
    td = env.step(env.rand_action(start))
    for name in parts:  # the car shows what it was told, and what it showed before is still there
        assert torch.equal(td["next", name], td["action", name])
        assert torch.equal(td[name], seen[name])


class Echo(gymnasium.Env):
    """Keeps what it is told; observes texts of the number of the env, of the episode and of the step."""

    def __init__(self, action_space: Any = None, name: str = "", end: int = 99) -> None:
        text = gymnasium.spaces.Text(9)
        self.observation_space = gymnasium.spaces.Dict(
            text=text, more=gymnasium.spaces.Tuple([text, gymnasium.spaces.Box(0, 99, (2,))])
        )
        self.action_space = gymnasium.spaces.Discrete(2) if action_space is None else action_space
        self.name, self.end, self.episode, self.at, self.told = name, end, 0, 0, []

    def seen(self) -> Any:
        text = f"{self.name}{self.episode}{self.at}"
        return {"text": text, "more": (text * 2, np.full(2, self.at, np.float32))}

    def reset(self, **_: Any) -> Any:
        self.episode, self.at = self.episode + 1, 0
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.told.append(action)
        self.at += 1
        return self.seen(), 0.0, self.at == self.end, False, {}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Box(0, 9, (2,), np.uint16),
        gymnasium.spaces.Box(0, 9, (2,), np.uint32),
        gymnasium.spaces.MultiDiscrete([2, 3]),
        gymnasium.spaces.MultiDiscrete([2, 3], dtype=np.int32, start=[1, 2]),
        gymnasium.spaces.Text(5, min_length=0),
    ],
    ids=["uint16", "uint32", "numbers", "int32", "texts"],
)
def test_actions_have_the_types_of_their_space(space: Any, categorical: bool, vector: bool, nested: bool) -> None:
    space = gymnasium.spaces.Dict(a=space, b=gymnasium.spaces.Tuple([space])) if nested else space
    echoes = [Echo(space) for _ in range(2)]
    sim = gymnasium.vector.SyncVectorEnv([lambda i=i: echoes[i] for i in range(2)]) if vector else echoes[0]
    env = GymWrapper(sim, categorical_action_encoding=categorical)
    env.rollout(3)
    for echo in echoes if vector else echoes[:1]:
        assert len(echo.told) == 3
        assert all(space.contains(action) for action in echo.told), echo.told


def test_numbers_of_several_choices_that_there_are_not_are_refused() -> None:
    env = GymWrapper(Echo(gymnasium.spaces.MultiDiscrete([2, 3])), categorical_action_encoding=True)
    td = env.reset()
    env.step(td.set("action", torch.tensor([1, 2])))
    with pytest.raises(IllegalAction, match=r"actions are numbers from 0 to \[1 2\], got \[2 0\]"):
        env.step(td.set("action", torch.tensor([2, 0])))
    assert np.array_equal(env._env.told, [[1, 2]])


@pytest.mark.parametrize(
    ("mode", "processes"),
    [*((mode, False) for mode in MODES), pytest.param("SAME_STEP", True, marks=pytest.mark.slow)],
)
def test_texts_of_a_vector_are_those_of_its_rows(mode: str, processes: bool) -> None:
    cls = gymnasium.vector.SyncVectorEnv
    if processes:  # gymnasium garbles texts in shared memory
        cls = partial(gymnasium.vector.AsyncVectorEnv, shared_memory=False)
    makers = [partial(Echo, None, name, end) for name, end in (("a", 2), ("b", 3))]
    env = GymWrapper(cls(makers, autoreset_mode=gymnasium.vector.AutoresetMode[mode]))
    series = SerialEnv(2, [lambda make=make: GymWrapper(make()) for make in makers])
    ours, theirs = env.reset(), series.reset()
    texts = ("text", ("more", "0"))
    assert [list(ours[key]) for key in texts] == [["a10", "b10"], ["a10a10", "b10b10"]]
    for _ in range(7):
        action = env.rand_action(ours)["action"]
        (a, ours), (b, theirs) = (
            e.step_and_maybe_reset(td.set("action", action)) for e, td in ((env, ours), (series, theirs))
        )
        for x, y in ((a["next"], b["next"]), (ours, theirs)):
            assert [list(x[key]) for key in texts] == [list(y[key]) for key in texts]
            assert torch.equal(x["more", "1"], y["more", "1"])
            assert all(type(text) is str for text in x["text"])
    env.close()


@pytest.mark.slow
def test_a_vector_that_resets_rows_twice_is_refused() -> None:
    """Gymnasium's processes forget that they were reset, where they share no memory."""
    vector = gymnasium.vector.AsyncVectorEnv([partial(gymnasium.make, "CartPole-v1")], shared_memory=False)
    with pytest.raises(
        Unsupported, match=r"AsyncVectorEnv resets rows a second time .* make it with shared_memory=True"
    ):
        GymWrapper(vector)
    vector.close()


def test_texts_that_are_not_one_for_each_row_are_refused() -> None:
    vector = gymnasium.vector.SyncVectorEnv([Echo] * 2)
    vector.reset = lambda **_: ({"text": ("a",), "more": (("a", "b"), np.zeros((2, 2)))}, {})
    with pytest.raises(
        ShapeError,
        match=r"GymWrapper: observation 'text': the simulator gave .*'a'.*, expected an item for each of 2 rows",
    ):
        GymWrapper(vector).reset()


def test_a_simulator_whose_values_do_not_fit_its_space_is_named() -> None:
    class Odd(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,))
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **_: Any) -> Any:
            return np.zeros(3, np.float32), {}

    with pytest.raises(ShapeError, match=r"GymWrapper: the simulator gave a value of shape \[3\], its space has \[2\]"):
        GymWrapper(Odd()).reset()


class OldPole:
    """An env as gym 0.21 has them: ``reset`` gives observations alone, ``step`` four values, seeds have a method."""

    observation_space, action_space = gymnasium.spaces.Box(-9, 9, (1,)), gymnasium.spaces.Discrete(2)
    at, seeds = 0, ()

    def seed(self, seed: int) -> None:
        self.seeds = (*self.seeds, seed)

    def reset(self) -> Any:
        self.at = 0
        return np.float32([self.at])

    def step(self, action: int) -> Any:
        self.at += 1
        late = self.at == 4 and action == 0
        info = {"TimeLimit.truncated": True} if late else {}
        return np.float32([self.at]), 1, self.at == 4, info


@pytest.mark.parametrize("action", [0, 1])
def test_time_limits_of_the_older_interface_truncate(action: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gym = pytest.importorskip("gym")
    monkeypatch.setattr(gym, "__version__", "0.21.0")  # whatever the backend is
    old = type("GymsPole", (OldPole, gym.Env), {})()
    env = GymWrapper(old, categorical_action_encoding=True)
    env.set_seed(3)
    data = env.rollout(9, lambda td: td.set("action", torch.tensor(action)))
    assert env._env.seeds == (3,)
    assert data["next", "observation"].flatten().tolist() == [1, 2, 3, 4]
    assert bool(data["next", "truncated"][-1]) is (action == 0)
    assert bool(data["next", "terminated"][-1]) is (action == 1)


def test_pixels_are_what_the_simulator_draws() -> None:
    env = GymEnv("CartPole-v1", from_pixels=True, pixels_only=False)
    raw = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env.set_seed(2)
    raw.reset(seed=2)
    td = env.reset()
    assert np.array_equal(td["pixels"].numpy(), raw.render())
    data = env.step(env.rand_action(td))
    raw.step(int(data["action"].argmax()))
    assert np.array_equal(data["next", "pixels"].numpy(), raw.render())
    assert data["next", "observation"].shape == (4,)
    only = GymEnv("CartPole-v1", num_envs=2, from_pixels=True)
    assert set(only.reset().keys(True, True)) == {"pixels", "done", "terminated", "truncated"}
    with pytest.raises(SpecError, match=r"make it with render_mode=\"rgb_array\""):
        GymWrapper(gymnasium.make("CartPole-v1"), from_pixels=True)


def test_frames_are_skipped_until_the_end() -> None:
    env, raw = GymEnv("CartPole-v1", frame_skip=3, categorical_action_encoding=True), gymnasium.make("CartPole-v1")
    env.set_seed(0)
    raw.reset(seed=0)
    data = env.rollout(50, lambda td: td.set("action", torch.tensor(1)))
    steps, over = 0, False
    while not over:
        _, _, over, _, _ = raw.step(1)
        steps += 1
    assert float(data["next", "reward"].sum()) == steps


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: GymEnv("CartPol-v1"), UnknownName, "gymnasium has no env 'CartPol-v1'; did you mean 'CartPole-v1'"),
        (lambda: GymWrapper("CartPole-v1"), SpecTypeError, "must be an env of gym or gymnasium, got str; GymEnv"),
        (GymWrapper, SpecTypeError, "got NoneType"),
        (
            lambda: GymWrapper(gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point")),
            Unsupported,
            "CartPoleVectorEnv neither resets single rows nor starts them anew in the step.*autoreset_mode=SAME_STEP",
        ),
        (lambda: GymEnv("CartPole-v1", num_envs=2, frame_skip=2), SpecError, "frame_skip must be 1 for a vector"),
        (lambda: GymEnv("CartPole-v1").step(GymEnv("CartPole-v1").rand_action()), NeedsReset, "reset"),
        (lambda: set_gym_backend("no_such_gym"), MissingExtra, "no_such_gym"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


def test_a_vector_of_gym_resets_all_rows_or_those_that_are_done() -> None:
    class Old(gymnasium.vector.SyncVectorEnv):
        """As gym's are: no mode, and no mask of rows."""

    vector = Old([partial(gymnasium.make, "CartPole-v1")] * 2, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    vector.autoreset_mode_kept, vector.metadata = vector.autoreset_mode, {}
    env = GymWrapper(vector)
    env._rows.masks = False
    td = env.reset()
    with pytest.raises(ResetError, match=r"resets all rows, or those that are done, got \[1\]"):
        env.reset(td.set("_reset", torch.tensor([[False], [True]])))


def test_backends_are_set_for_a_while_or_for_good() -> None:
    gym = pytest.importorskip("gym")
    with set_gym_backend("gym") as inner:
        assert inner is gym is gym_backend()
        with set_gym_backend(gymnasium):
            assert gym_backend("spaces") is gymnasium.spaces
        assert gym_backend() is gym
    assert gym_backend() is gymnasium
    assert set_gym_backend(lambda: gym)(gym_backend)() is gym

    @implement_for("gym")
    def library() -> str:
        return "gym"

    @implement_for("gymnasium", "1.0")
    def library() -> str:  # noqa: F811
        return "gymnasium"

    assert library() == "gymnasium"
    assert set_gym_backend("gym")(library)() == "gym"

    @implement_for("gymnasium", None, "0.9")
    def old() -> str:
        return "old"

    with pytest.raises(
        Unsupported, match=r"old: not for the versions that are installed, but for gymnasium from 0 to 0.9"
    ):
        old()


def test_code_for_versions_of_gym_runs_with_gymnasium_too() -> None:
    """The documents' example: 1 where gym 0.26 is installed, whichever library was chosen."""
    version = pytest.importorskip("gym").__version__

    @implement_for("gym", None, "0.26.0")
    def fun() -> int:
        return 0

    @implement_for("gym", "0.26.0", None)
    def fun() -> int:  # noqa: F811
        return 1

    want = int(tuple(map(int, version.split(".")[:2])) >= (0, 26))
    assert [fun(), *(set_gym_backend(name)(fun)() for name in ("gym", "gymnasium"))] == [want] * 3


@pytest.mark.filterwarnings("ignore")  # gym says that it is not maintained
def test_envs_of_gym_are_played_too() -> None:
    gym = pytest.importorskip("gym")
    with set_gym_backend("gym"):
        env = GymEnv("MountainCar-v0", categorical_action_encoding=True)
    raw = gym.make("MountainCar-v0", disable_env_checker=True)
    env.set_seed(4)
    td, (seen, _) = env.reset(), raw.reset(seed=4)
    for _ in range(30):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        assert np.array_equal(data["observation"].numpy(), seen)
        seen = raw.step(int(data["action"]))[0]


def test_many_envs_in_series_are_seeded_one_by_one() -> None:
    env = SerialEnv(3, partial(GymEnv, "CartPole-v1"))
    env.set_seed(0)
    a = env.rollout(20, break_when_any_done=False)
    env.set_seed(0)
    assert bool((a == env.rollout(20, break_when_any_done=False)).all())
    assert not torch.equal(a["observation"][0], a["observation"][1])


def test_envs_have_names() -> None:
    env = marlenv.make("gym/CartPole-v1", num_envs=2, seed=1)
    assert env.batch_size == (2,)
    assert env.rollout(4)["observation"].shape == (2, 4, 4)
    assert "CartPole-v1" in GymEnv.available_envs


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_rewards_of_mo_gymnasium_are_vectors() -> None:
    mo_gym = pytest.importorskip("mo_gymnasium", reason="needs MO-Gymnasium: tests/simulators.sh mo_gymnasium")
    env, raw = MOGymEnv("minecart-v0", categorical_action_encoding=True), mo_gym.make("minecart-v0")
    check_env_specs(env)
    env.set_seed(3)
    td, (seen, _) = env.reset(), raw.reset(seed=3)
    for _ in range(200):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        assert np.array_equal(data["observation"].numpy(), seen)
        seen, reward, terminated, truncated, _ = raw.step(int(data["action"]))
        assert np.array_equal(data["next", "reward"].numpy(), np.float32(reward))
        assert data["next", "reward"].shape == (3,)
        if terminated or truncated:
            seen = raw.reset()[0]
    vector = MOGymWrapper(mo_gym.wrappers.vector.MOSyncVectorEnv([partial(mo_gym.make, "deep-sea-treasure-v0")] * 2))
    assert vector.rollout(3, break_when_any_done=False)["next", "reward"].shape == (2, 3, 2)
    assert "minecart-v0" in MOGymEnv.available_envs


@pytest.mark.slow
def test_atari_is_played_too() -> None:
    pytest.importorskip("ale_py", reason="needs ale-py: pip install -e '.[pettingzoo]'")
    env, raw = GymEnv("ALE/Pong-v5", frame_skip=2), gymnasium.make("ALE/Pong-v5")
    env.set_seed(1)
    td, (seen, _) = env.reset(), raw.reset(seed=1)
    for _ in range(5):
        assert np.array_equal(td["pixels"].numpy(), seen)
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        for _ in range(2):
            seen = raw.step(int(data["action"].argmax()))[0]


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"categorical_action_encoding": True}, {"from_pixels": True}, {"num_envs": 2}])
def test_torchrls_wrapper_has_the_same_entries(options: dict[str, Any]) -> None:
    libs = pytest.importorskip("torchrl.envs", reason="needs TorchRL: pip install -e '.[torchrl]'")
    theirs, ours = libs.GymEnv("CartPole-v1", **options), GymEnv("CartPole-v1", **options)
    a, b = theirs.rollout(3), ours.rollout(3)
    shapes = [{key: (x.shape, x.dtype) for key, x in td.items(True, True)} for td in (a, b)]
    assert shapes[0] == shapes[1]
    theirs.close()
