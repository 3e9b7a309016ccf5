"""Brax through the wrapper, compared entry by entry with the raw env, compiled and mapped over rows by hand."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from planted_faults import FAULTS, broken, is_noticed
from rows import copies_go_on, without
from sizes import some

import marlenv
from marlenv import BraxEnv, BraxWrapper, EnvCreator, check_env_specs
from marlenv.errors import MissingExtra, NeedsReset, ShapeError, SpecError, SpecTypeError, UnknownName, Unsupported
from marlenv.optional import has, need
from marlenv.testing import run_contract

pytestmark = [
    pytest.mark.sim,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # JAX's and mujoco's own
    pytest.mark.skipif(not has("brax"), reason="needs Brax: VENV=.venv tests/simulators.sh brax"),
]


STEPS = 8


def keys_of(seed: int, resets: list[int]) -> Any:
    """The key of every row, as the wrapper documents it: made of the seed, the row and the number of its resets."""
    random = need("jax", "test").random
    first = random.PRNGKey(seed)
    pairs = [random.fold_in(random.fold_in(first, row), count) for row, count in enumerate(resets)]
    return need("jax.numpy", "test").stack(pairs)


def raw_env(name: str, length: int | None, **options: Any) -> Any:
    envs = need("brax.envs", "test")
    env = envs.get_environment(name, **options)
    return env if length is None else need("brax.envs.wrappers.training", "test").EpisodeWrapper(env, length, 1)


def close(got: torch.Tensor, want: Any, where: Any) -> None:
    """Equal but for the order in which two compilations of one formula add and multiply: steps of float32."""
    want = np.asarray(want).reshape(got.shape)
    scale = np.maximum(np.abs(want), 1.0)
    assert np.all(np.abs(got.numpy() - want) <= STEPS * np.finfo(np.float32).eps * scale), (where, got, want)


def same_state(td: Any, state: Any) -> Any:
    """Compares Brax's state, number by number; returns that of the wrapper, so that roundings do not add up."""
    util = need("jax.tree_util", "test")
    leaves, structure = util.tree_flatten_with_path(state)
    ours = []
    for way, want in leaves:
        path = tuple(str(next(getattr(p, k) for k in ("name", "key", "idx") if hasattr(p, k))) for p in way)
        close(td[("state", *path)], want, path)
        ours.append(td[("state", *path)].numpy().astype(want.dtype))
    assert len(ours) == len(list(td["state"].keys(True, True)))
    return util.tree_unflatten(structure, ours)


@pytest.mark.parametrize(
    ("name", "options", "length", "causes"),
    [
        ("fast", {}, 4, {"truncated"}),  # never ends by itself
        pytest.param("inverted_pendulum", {"backend": "spring"}, None, {"terminated"}, marks=pytest.mark.full),
        ("inverted_pendulum", {"backend": "spring"}, 12, {"terminated", "truncated"}),
    ],
)
def test_every_number_is_the_simulators(name: str, options: dict[str, Any], length: int | None, causes: Any) -> None:
    jax = need("jax", "test")
    raw = raw_env(name, length, **options)
    begin, advance = jax.jit(jax.vmap(raw.reset)), jax.jit(jax.vmap(raw.step))
    env = BraxEnv(name, batch_size=[3], episode_length=length, seed=5, **options)
    td, state, resets, ends = env.reset(), begin(keys_of(5, [1, 1, 1])), [1, 1, 1], dict.fromkeys(causes, 0)
    for _ in range(40):
        close(td["observation"], state.obs, "observation")
        state = same_state(td, state)
        push = env.rand_action(td)["action"]
        push[1:] = push[1:].abs() * torch.tensor([[1.0], [-1.0]])  # two rows fall over, each to its side
        data, td = env.step_and_maybe_reset(td.set("action", push))
        state = advance(state, data["action"].numpy())
        following, done = data["next"], np.asarray(state.done) > 0
        state = same_state(following, state)  # the final one too
        close(following["observation"], state.obs, "next observation")
        close(following["reward"], state.reward, "reward")
        cut = np.asarray(state.info["truncation"]) > 0 if length else np.zeros(3, bool)
        for entry, want in (("done", done), ("truncated", done & cut), ("terminated", done & ~cut)):
            assert following[entry].flatten().tolist() == want.tolist()
            if entry in ends:
                ends[entry] += int(want.sum())
        if done.any():
            resets = [count + int(over) for count, over in zip(resets, done, strict=True)]
            fresh = begin(keys_of(5, resets))

            def pick(new: Any, old: Any, done: Any = done) -> Any:
                return np.where(done.reshape(-1, *[1] * (np.ndim(old) - 1)), new, old)

            state = jax.tree.map(pick, fresh, state)
    assert min(ends.values()) > 1, ends


@pytest.mark.parametrize("fault", some(FAULTS, 3))
def test_planted_faults_are_noticed(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "BraxEnv", broken(BraxEnv, fault))
    options = {"backend": "spring"}
    is_noticed(test_every_number_is_the_simulators, "inverted_pendulum", options, 12, {"terminated", "truncated"})


def test_what_jax_compiled_may_be_forgotten() -> None:
    env = BraxEnv("fast", batch_size=[2], seed=1)
    data = env.rand_step(env.reset())
    env.clear_cache()
    assert torch.equal(env.step(data.exclude("next"))["next", "observation"], data["next", "observation"])


def test_the_contract_holds() -> None:
    results = run_contract(lambda num_envs=3: BraxEnv("fast", num_envs=num_envs, episode_length=5), steps=12)
    assert not [f"{r.name}: {r.says}" for r in results if r.verdict == "broken"]


def test_a_step_starts_from_the_state_in_its_data() -> None:
    env = BraxEnv("fast", batch_size=[2], seed=1)
    td = env.reset()
    action = torch.ones(2, 1)
    first = env.step(td.clone().set("action", action))["next"]
    env.rollout(3)
    assert (env.step(td.set("action", action))["next"] == first).all()


def test_frames_are_skipped_and_rewards_added_until_the_end() -> None:
    env, single = (BraxEnv("fast", batch_size=[1], seed=3, frame_skip=n, episode_length=5) for n in (3, 1))
    action = torch.ones(1, 1)
    a = env.reset().set("action", action)
    b, total, totals = single.reset(), torch.zeros(1, 1), []
    for step in range(5):
        b = single.step(b.set("action", action))["next"]
        total = total + b["reward"]
        if step in (2, 4):
            totals.append(total)
            total = torch.zeros(1, 1)
    first = env.step(a)["next"]
    second = env.step(first.clone().set("action", action))["next"]
    assert torch.allclose(first["reward"], totals[0])
    assert torch.allclose(second["reward"], totals[1])
    assert bool(second["truncated"])
    assert torch.allclose(second["observation"], b["observation"])


def test_rows_and_seeds() -> None:
    few, many = (BraxEnv("inverted_pendulum", backend="spring", num_envs=n, seed=7).reset() for n in (2, 4))
    assert torch.equal(few["observation"], many["observation"][:2])
    env = BraxEnv("inverted_pendulum", backend="spring")
    env.set_seed(7)
    first = env.reset()
    assert torch.equal(first["observation"], many["observation"][0])
    env.set_seed(7)
    assert torch.equal(env.reset()["observation"], first["observation"])


def test_dict_observations_stand_below_observation() -> None:
    """Brax calls one of them ``state``, as its own state is called here."""
    jax, fast = need("jax", "test"), need("brax.envs.fast", "test")
    sim = fast.Fast(obs_mode="dict_state", asymmetric_obs=True)
    env = BraxWrapper(sim, batch_size=[2], seed=1)
    check_env_specs(env)
    td, state = env.reset(), jax.vmap(sim.reset)(keys_of(1, [1, 1]))
    assert {name: td["observation", name].shape[-1] for name in state.obs} == {"state": 2, "privileged_state": 4}
    for _ in range(3):
        td = env.step(td.set("action", torch.tensor([[1.0], [-1.0]])))["next"]
        state = jax.vmap(sim.step)(state, np.array([[1.0], [-1.0]]))
        for name, want in state.obs.items():
            close(td["observation", name], want, name)
        close(td["state", "obs", "state"], state.obs["state"], "Brax's state")
    assert float(td["observation", "state"][0, 1]) == pytest.approx(0.06)  # went: three pushes of 0.02 m/s


def test_copies_and_pickles_go_on_as_the_env_does() -> None:
    env = BraxEnv("fast", episode_length=9, num_envs=2, seed=3)
    copies_go_on(env, env.rand_action(env.step_mdp(env.rand_step(env.reset()))))


def test_copies_and_pickles_have_the_physics_that_brax_holds_as_a_module() -> None:
    env = BraxEnv("inverted_pendulum", backend="spring", episode_length=9)
    physics = need("brax.spring.pipeline", "test")
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env)), env):
        assert twin._env.env._pipeline is physics


def test_envs_can_be_made_elsewhere_and_closed() -> None:
    creator = EnvCreator(BraxEnv, create_env_kwargs={"env_name": "fast", "batch_size": [2]})
    env = pickle.loads(pickle.dumps(creator))()
    check_env_specs(env)
    env.close()
    assert env.is_closed
    assert BraxEnv("fast", device="cpu").reset()["state"].device == torch.device("cpu")
    assert marlenv.make("brax/fast", num_envs=2, seed=0).rollout(3)["observation"].shape == (2, 3, 2)


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: BraxEnv("ants"), UnknownName, r"^BraxEnv: Brax has no task 'ants'; did you mean 'ant'"),
        (lambda: BraxEnv(3), UnknownName, r"^BraxEnv: Brax has no task 3; known"),
        (lambda: BraxEnv("fast", backnd="spring"), TypeError, r"no option 'backnd', and Fast makes nothing of it; "),
        (lambda: BraxEnv("ant", foo=3), TypeError, r"^BraxEnv has no option 'foo', and neither has the simulator"),
        (lambda: BraxEnv("fast", from_pixels=True), Unsupported, r"^BraxEnv: there are no pixels in the data; brax"),
        (lambda: BraxEnv("fast", num_envs=2, batch_size=[3]), SpecError, r"num_envs=2 and batch_size=\[3\] differ"),
        (lambda: BraxEnv("fast", num_envs=0), SpecError, r"num_envs must be an integer from 1 on, got 0"),
        (lambda: BraxEnv("fast", batch_size=[-3]), ShapeError, r"batch_size must not be negative, got \[-3\]"),
        (lambda: BraxEnv("fast", batch_size="ab"), TypeError, r"a size is an int or a sequence of them, got 'ab'"),
        (BraxWrapper, SpecTypeError, r"env must be an env of Brax's, got NoneType"),
        (lambda: BraxWrapper("ant"), SpecTypeError, r"env must be an env of Brax's, got str; BraxEnv takes names"),
        (lambda: BraxWrapper(need("brax.envs", "test").create("fast")), Unsupported, r"has a AutoResetWrapper"),
        (lambda: BraxEnv("fast").step(BraxEnv("fast").rand_action()), NeedsReset, r"there is no 'state'"),
        (lambda: BraxEnv("fast", requires_grad=True), Unsupported, r"^BraxEnv: steps have no gradient, got requires_"),
        (lambda: BraxEnv("fast", episode_length=0), ValueError, r"episode_length"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


def test_a_missing_brax_is_an_error_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "brax")
    with pytest.raises(MissingExtra, match=r'needs .brax.*pip install "marlenv-torch\[brax\]"'):
        BraxEnv("ant")
    assert BraxEnv.available_envs == []
