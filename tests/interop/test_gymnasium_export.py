"""Our envs behind Gymnasium's interfaces: Gymnasium's own checker, and the same numbers as our env gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import marlenv
from marlenv import GymEnv, GymWrapper, RewardScaling, register_gym, to_gymnasium, to_gymnasium_vector
from marlenv.errors import DtypeError, KeyMissing, NeedsReset, ShapeError, SpecTypeError, Unsupported
from marlenv.testing import CountingEnv

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
MODES = ["NEXT_STEP", "SAME_STEP", "DISABLED"]


def task(num_envs: int | None = None, **options: Any) -> Any:
    return marlenv.make("navigation", num_envs=num_envs, compile="none", **{"n_agents": 1, "max_steps": 7, **options})


ENVS = {
    "one agent": task,
    "a group": lambda: task(n_agents=3),
    "choices": lambda: task(continuous_actions=False),
    "one-hot choices": lambda: task(continuous_actions=False, categorical_actions=False),
    "no groups": lambda: GymEnv("CartPole-v1"),
    "pendulum": marlenv.PendulumEnv,
}


@pytest.mark.parametrize("name", ENVS)
@pytest.mark.filterwarnings("ignore")  # the checker recommends spaces
def test_gymnasiums_checker_finds_nothing_wrong(name: str) -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(to_gymnasium(ENVS[name]()), skip_render_check=True)


def test_numbers_are_those_of_our_env() -> None:
    gym, env = to_gymnasium(task(n_agents=3)), task(n_agents=3)
    env.set_seed(5)
    td, (seen, _) = env.reset(), gym.reset(seed=5)
    for step in range(7):
        assert np.array_equal(seen, td["agents", "observation"][0].numpy())
        action = gym.action_space.sample()
        seen, reward, terminated, truncated, _ = gym.step(action)
        data = env.step(td.set(("agents", "action"), torch.from_numpy(action).unsqueeze(0)))
        assert reward == pytest.approx(float(data["next", "agents", "reward"].double().sum()), abs=1e-6)
        assert (terminated, truncated) == (False, step == 6)
        td = env.step_mdp(data)


@pytest.mark.parametrize("mode", MODES)
def test_a_vector_that_comes_back_is_our_env(mode: str) -> None:
    """Our rows, as a vector of Gymnasium's in each of its modes, read by our own wrapper again."""
    back = GymWrapper(to_gymnasium_vector(task(4), mode))
    env = task(4)
    for one in (back, env):
        one.set_seed(3)
    td, other = env.reset(), back.reset()
    for step in range(20):
        action = torch.rand(4, 2, generator=torch.Generator().manual_seed(step)) * 2 - 1
        data, td = env.step_and_maybe_reset(td.set(("agents", "action"), action.unsqueeze(1)))
        theirs, other = back.step_and_maybe_reset(other.set("action", action))
        assert torch.equal(data["next", "agents", "observation"].squeeze(1), theirs["next", "observation"]), step
        assert torch.allclose(data["next", "agents", "reward"].reshape(4, 1), theirs["next", "reward"])
        assert torch.equal(data["next", "truncated"], theirs["next", "truncated"])
        assert torch.equal(td["agents", "observation"].squeeze(1), other["observation"]), step


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES[1:])  # TorchRL refuses the other of any vector
def test_torchrls_wrapper_takes_our_vectors_as_gymnasiums_own(mode: str) -> None:
    theirs = pytest.importorskip("torchrl.envs.libs.gym", reason="needs torchrl: pip install -e '.[torchrl]'")
    vector, env = to_gymnasium_vector(task(4), mode), task(4)
    sim = theirs.GymWrapper(vector)  # it plays a while
    for one in (vector.inner, env):
        one.set_seed(3)
    data = sim.rollout(20, break_when_any_done=False)
    assert data["next", "truncated"].squeeze(-1)[0].nonzero().flatten().tolist() == [6, 13]
    td = env.reset()
    for step in data[:, :7].unbind(-1):  # where all rows are over, TorchRL resets once more
        assert torch.equal(td["agents", "observation"].squeeze(1), step["observation"])
        td["agents", "action"] = step["action"].unsqueeze(1)
        played, td = env.step_and_maybe_reset(td)
        assert torch.equal(played["next", "agents", "observation"].squeeze(1), step["next", "observation"])


def test_a_row_that_starts_anew_does_not_read_its_action() -> None:
    vector = to_gymnasium_vector(task(3))
    vector.reset(seed=0)
    for _ in range(7):
        seen, _, _, truncated, _ = vector.step(vector.action_space.sample())
    assert truncated.all()
    seen, reward, terminated, truncated, _ = vector.step(vector.action_space.sample())
    assert not (terminated | truncated).any()
    assert (reward == 0).all()
    assert vector.observation_space.contains(seen)


def test_gymnasiums_wrappers_of_vectors_work_on_top() -> None:
    wrappers = gymnasium.wrappers.vector
    vector = wrappers.RecordEpisodeStatistics(wrappers.NormalizeReward(to_gymnasium_vector(task(3))))
    vector.reset(seed=0)
    infos = [vector.step(vector.action_space.sample())[-1] for _ in range(8)]
    assert infos[6]["episode"]["l"].tolist() == [7, 7, 7]


class Lamps(gymnasium.Env):
    """Counts; over where the action is 0, with 0 as its count again."""

    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, kind: str) -> None:
        self.kind, self.count = kind, 0
        spaces = gymnasium.spaces
        box, lamps = spaces.Box(0, 99, (2,), np.float32), spaces.MultiBinary(3)
        self.observation_space = {
            "Box": box, "Discrete": spaces.Discrete(100), "Dict": spaces.Dict(box=box, lamps=lamps)
        }[kind]  # fmt: skip

    def _seen(self) -> Any:
        box = np.full(2, self.count, np.float32)
        lamps = np.array([self.count >> i & 1 for i in range(3)], np.int8)
        return {"Box": box, "Discrete": np.int64(self.count), "Dict": {"box": box, "lamps": lamps}}[self.kind]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return self._seen(), float(self.count), bool(action == 0), False, {}


@pytest.mark.parametrize("kind", ["Box", "Discrete", "Dict"])
def test_the_same_step_says_what_gymnasiums_own_vector_says(kind: str) -> None:
    """Entry by entry, with copies of last observations and None for rows that go on."""
    theirs = gymnasium.vector.SyncVectorEnv(
        [lambda: Lamps(kind)] * 3, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
    )
    ours = to_gymnasium_vector(marlenv.SerialEnv(3, lambda: GymWrapper(Lamps(kind))), "SAME_STEP")
    assert ours.observation_space == theirs.observation_space
    assert repr(ours.reset(seed=0)) == repr(theirs.reset(seed=0))
    kept = []
    for actions in ([1, 2, 1], [1, 0, 1], [0, 1, 0], [2, 2, 2], [0, 0, 0]):
        told, wanted = ours.step(np.array(actions)), theirs.step(np.array(actions))
        assert repr(told) == repr(wanted)
        for row, last in enumerate(told[-1].get("final_obs", [])):
            assert (last is None) == (actions[row] != 0)
            assert last is None or ours.single_observation_space.contains(last)
        kept.append((told[-1], repr(told[-1])))
    assert all(repr(info) == before for info, before in kept)  # later steps write nothing into them


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: to_gymnasium("navigation"), SpecTypeError, "expected an env of marlenv, got str"),
        (lambda: to_gymnasium(marlenv.make("simple_tag")), SpecTypeError, "one agent, or one group, acts, got actions"),
        (lambda: to_gymnasium(task(2)), Unsupported, r"one row, got batch size \[2\]; to_gymnasium_vector takes those"),
        (lambda: to_gymnasium_vector(GymEnv("CartPole-v1")), Unsupported, r"an env with rows, got batch size \[\]"),
        (lambda: to_gymnasium_vector(task(2), "NEXT"), Unsupported, "did you mean 'NEXT_STEP'"),
        (lambda: to_gymnasium(task()).step(None), NeedsReset, "reset"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


@pytest.mark.parametrize("action", [None, "up", 4.7, [[1.5]] * 3])
def test_what_is_no_number_of_an_action_is_named(action: Any) -> None:
    for options in ({}, {"categorical_actions": False}):
        gym = to_gymnasium(task(n_agents=3, continuous_actions=False, **options))
        gym.reset()
        with pytest.raises(DtypeError, match=r"^to_gymnasium: .*'action'\) must be whole numbers, got .*MultiDiscrete"):
            gym.step(action)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "kind", "says"),
    [
        ({"seed": [5, 6, 7]}, Unsupported, r"seed must be one int, .*, got \[5, 6, 7\]; gymnasium.vector.Sync"),
        ({"seed": [None, 1, 2]}, Unsupported, r"seed must be one int, .*, got \[None, 1, 2\]"),
        ({"seed": 1.5}, DtypeError, "seed must be an int, got 1.5"),
        ({"reset_mask": [True, False]}, ShapeError, r"'reset_mask'\] must be bool \[3\], .*, got bool \[2\]"),
        ({"reset_mask": np.ones((3, 1), bool)}, ShapeError, r"must be bool \[3\], .*, got bool \[3, 1\]"),
        ({"reset_mask": [0, 2]}, ShapeError, r"must be bool \[3\], True for rows that start anew, got int64 \[2\]"),
        ({"reset_mask": [True, False, True], "seed": 7}, Unsupported, "seed=7 would seed all rows, .*; leave out"),
    ],
)  # fmt: skip
def test_what_is_no_seed_or_no_mask_is_refused_and_nothing_moves(asked: Any, kind: type[Exception], says: str) -> None:
    """The next episodes are those that come where nobody asked."""
    seen, options = [], {key: value for key, value in asked.items() if key == "reset_mask"}
    for refused in (False, True):
        vector = to_gymnasium_vector(task(3), "DISABLED")
        vector.reset(seed=0)
        if refused:
            with pytest.raises(kind, match=says):
                vector.reset(seed=asked.get("seed"), options=options)
        vector.step(np.zeros((3, 2)))
        seen.append(vector.reset(options={"reset_mask": np.array([False, True, True])})[0])
    assert np.array_equal(*seen)


def test_a_seed_and_a_mask_of_all_rows_are_a_seed() -> None:
    vector, other = to_gymnasium_vector(task(3), "DISABLED"), to_gymnasium_vector(task(3), "DISABLED")
    vector.reset(seed=0)
    again = vector.reset(seed=np.int64(7), options={"reset_mask": np.ones(3, bool)})[0]
    assert np.array_equal(again, other.reset(seed=7)[0])


def test_rows_that_are_done_must_be_reset_where_nothing_resets_them() -> None:
    vector = to_gymnasium_vector(task(2), "DISABLED")
    vector.reset(seed=0)
    for _ in range(7):
        vector.step(vector.action_space.sample())
    with pytest.raises(Unsupported, match=r"rows \[0, 1\] are done; reset them with options"):
        vector.step(vector.action_space.sample())


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are given for the length of a test."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.envs.registration.registry))


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    "entry", ["navigation", lambda **options: marlenv.make("navigation", **options)], ids=["a name", "a function"]
)
def test_an_env_has_a_name_of_gymnasiums(entry: Any) -> None:
    options = {"n_agents": 1, "max_steps": 7, "compile": "none"}
    register_gym("TestedNavigation-v0", entry, max_episode_steps=5, reward_threshold=3.0, **options)
    assert gymnasium.spec("TestedNavigation-v0").reward_threshold == 3.0
    made, ours = gymnasium.make("TestedNavigation-v0"), to_gymnasium(task())
    (seen, info), (wanted, _) = made.reset(seed=4), ours.reset(seed=4)
    assert info == {}
    for step in range(5):
        assert np.array_equal(seen, wanted)
        action = made.action_space.sample()
        seen, *paid = made.step(action)[:4]
        wanted, *want = ours.step(action)[:4]
        assert paid == [*want[:2], step == 4]  # a limit of Gymnasium's truncates
    vector = gymnasium.make_vec("TestedNavigation-v0", num_envs=3)
    assert vector.reset(seed=0)[0].shape == (3, 18)
    assert GymEnv("TestedNavigation-v0").rollout(9)["observation"].shape == (5, 18)


@pytest.mark.usefixtures("registry")
def test_transforms_and_infos_of_a_registered_env() -> None:
    register_gym("Taxi-v9", GymEnv, transform=RewardScaling(0, 2.0), env_name="CartPole-v1")
    env = gymnasium.make("Taxi-v9")
    env.reset(seed=0)
    assert env.step(0)[1] == 2.0
    plain = gymnasium.make("Taxi-v9", transform=None)
    plain.reset(seed=0)
    assert plain.step(0)[1] == 1.0
    register_gym("Pendulum-v9", marlenv.PendulumEnv, info_keys=["thdot"])
    observed, info = gymnasium.make("Pendulum-v9").reset(seed=0)
    assert "thdot" not in observed
    assert float(info["thdot"]) == pytest.approx(
        float(gymnasium.make("Pendulum-v9", info_keys=None).reset(seed=0)[0]["thdot"])
    )
    with pytest.raises(KeyMissing, match=r"info_keys names \['speed'\], which are not observed; there are .*'th'"):
        gymnasium.make("Pendulum-v9", info_keys=["speed"])


class From(CountingEnv):
    """Begins at an option of its reset."""

    def _reset(self, tensordict: Any, *, first: int = 0) -> Any:
        out = super()._reset(tensordict)
        return out.set("observation", out["observation"] + first)


def test_options_are_those_of_the_reset() -> None:
    one, many = to_gymnasium(From()), to_gymnasium_vector(From(batch_size=[2]), autoreset_mode="DISABLED")
    assert one.reset(options={"first": 3})[0].tolist() == [3]
    assert one.reset(options={})[0].tolist() == one.reset()[0].tolist() == [0]
    assert many.reset(options={"first": 3})[0].flatten().tolist() == [3, 3]
    some = {"reset_mask": np.array([True, False]), "first": 4}
    assert many.reset(options=some)[0].flatten().tolist() == [4, 3]
    for env in (one, many):
        with pytest.raises(TypeError, match=r"From\.reset has no option 'fist'; did you mean 'first'"):
            env.reset(options={"fist": 3})
    assert one.step(one.action_space.sample())[0].tolist() == [1]


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_games_that_the_opponent_ends_at_once_say_what_they_were_worth(mode: str) -> None:
    """On two by two fields white wins with its first move: in 20 steps, or in every second of them, black loses."""
    env = marlenv.make("breakthrough", rows=2, columns=2, num_envs=3, opponent="random", seat=1, seed=0)
    vector = to_gymnasium_vector(env, mode)
    vector.reset()
    paid = []
    for _ in range(20):
        _, rewards, terminated, truncated, _ = vector.step(np.zeros(3, dtype=np.int64))
        assert not truncated.any()
        assert (rewards[~terminated] == 0).all()
        paid += rewards[terminated].tolist()
    assert paid == [-1.0] * (60 if mode == "SAME_STEP" else 30)


@pytest.mark.parametrize("export", [to_gymnasium_vector, marlenv.to_alf])
def test_closing_reaches_the_children_of_a_pool_that_was_never_reset(export: Any) -> None:
    """They stayed open, processes too: a pool says that it is closed until it starts."""
    pool = marlenv.SerialEnv(2, CountingEnv)
    made = export(pool)
    for _ in range(2):
        made.close()
        assert all(child.is_closed for child in pool.children_envs)
