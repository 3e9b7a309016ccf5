"""What observations of gym's envs are called, as in TorchRL; Atari's games by name; spaces of one's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from rows import without

from marlenv import GymEnv, GymWrapper, SerialEnv, check_env_specs
from marlenv.errors import MissingExtra, UnknownName
from marlenv.optional import has
from marlenv.specs import Binary, Bounded, Categorical, TensorSpec, Unbounded
from marlenv.wrappers import _conversions, register_gym_spec_conversion
from marlenv.wrappers._spaces import spec_of

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
spaces = gymnasium.spaces
ONE, TWO = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (3,))


def shown(*shape: int, low: float = 0, high: float = 255, dtype: Any = np.uint8) -> Any:
    return spaces.Box(low, high, shape, dtype)


NAMES: dict[str, tuple[Any, set[str]]] = {
    "colours": (shown(4, 5, 3), {"pixels"}),
    "colours in floats": (shown(4, 5, 3, dtype=np.float32), {"pixels"}),
    "grey": (shown(4, 5), {"observation"}),
    "one channel": (shown(4, 5, 1), {"observation"}),
    "channels first": (shown(3, 4, 5), {"observation"}),
    "four in a stack": (shown(4, 4, 5, 3), {"observation"}),
    "from 0 to 1": (shown(4, 5, 3, high=1), {"observation"}),
    "a state": (spaces.Dict(state=ONE, x=TWO), {"observation", "x"}),
    "a state beside an observation": (spaces.Dict(state=ONE, observation=TWO), {"state", "observation"}),
    "pixels and a state": (spaces.Dict(pixels=shown(4, 5, 3), state=ONE), {"pixels", "observation"}),
    "colours under a name": (spaces.Dict(camera=shown(4, 5, 3)), {"camera"}),
}


class Sees(gymnasium.Env):
    """Gives samples of a space; an episode has three steps, and its pictures are black."""

    action_space = spaces.Discrete(2)

    def __init__(self, space: Any, render_mode: str = "rgb_array") -> None:
        self.observation_space, self.render_mode, self.seen, self.t = space, render_mode, [], 0

    def look(self) -> Any:
        self.seen.append(self.observation_space.sample())
        return self.seen[-1]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return self.look(), {}

    def step(self, action: int) -> Any:
        self.t += 1
        return self.look(), 1.0, self.t == 3, False, {}

    def render(self) -> Any:
        return np.zeros((4, 5, 3), np.uint8)


def as_numbers(seen: Any, name: str) -> Any:
    """An entry of what an env saw, by our name."""
    if not isinstance(seen, dict):
        return seen
    return seen["state" if name == "observation" and name not in seen else name]


@pytest.mark.parametrize("case", NAMES)
def test_what_is_seen_has_torchrls_name(case: str) -> None:
    space, names = NAMES[case]
    raw = Sees(space)
    env = GymWrapper(raw)
    check_env_specs(env)
    assert set(env.observation_spec.keys()) == names
    raw.seen = []
    data = env.rollout(3)
    for name in names:
        whole = torch.cat([data[:1][name], data["next", name]])
        assert np.array_equal(whole.numpy(), np.stack([as_numbers(seen, name) for seen in raw.seen])), name


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", NAMES)
def test_torchrls_wrapper_has_these_names(case: str) -> None:
    libs = pytest.importorskip("torchrl.envs", reason="needs TorchRL: pip install -e '.[torchrl]'")
    space, names = NAMES[case]
    assert set(libs.GymWrapper(Sees(space)).observation_spec.keys()) == names


@pytest.mark.parametrize("case", ["colours", "a state", "pixels and a state"])
@pytest.mark.parametrize("mode", ["SAME_STEP", "NEXT_STEP", "DISABLED"])
def test_rows_of_a_vector_have_the_names_of_single_envs(case: str, mode: str) -> None:
    space, names = NAMES[case]
    rows = [Sees(space), Sees(space)]
    mode = gymnasium.vector.AutoresetMode[mode]
    env = GymWrapper(gymnasium.vector.SyncVectorEnv([lambda: rows[0], lambda: rows[1]], autoreset_mode=mode))
    assert set(env.observation_spec.keys()) == names
    check_env_specs(env)
    data = env.rollout(7, auto_reset=False, tensordict=env.reset(), break_when_any_done=False)
    for i, row in enumerate(rows):
        for name in names:
            last = as_numbers(row.seen[-1], name)
            assert np.array_equal(data["next", name][i, -1].numpy(), last)
            assert data[name].dtype == torch.from_numpy(np.asarray(last)).dtype


@pytest.mark.parametrize("case", ["colours", "pixels and a state"])
@pytest.mark.parametrize("pixels_only", [True, False])
def test_an_env_that_sees_pixels_is_not_drawn_too(case: str, pixels_only: bool) -> None:
    space, names = NAMES[case]
    raw = Sees(space)
    raw.render = pytest.fail
    env = GymWrapper(raw, from_pixels=True, pixels_only=pixels_only)
    assert set(env.observation_spec.keys()) == names
    assert np.array_equal(env.reset()["pixels"].numpy(), as_numbers(raw.seen[-1], "pixels"))


def test_pictures_of_envs_in_series_are_those_of_each() -> None:
    raws = [Sees(NAMES["colours"][0]), Sees(NAMES["colours"][0])]
    env = SerialEnv(2, [partial(GymWrapper, raw) for raw in raws])
    td = env.reset()
    assert all(np.array_equal(td["pixels"][i].numpy(), raw.seen[-1]) for i, raw in enumerate(raws))
    for _ in range(5):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        for i, raw in enumerate(raws):
            over = bool(data["next", "done"][i])
            assert np.array_equal(data["next", "pixels"][i].numpy(), raw.seen[-2 if over else -1])
            assert np.array_equal(td["pixels"][i].numpy(), raw.seen[-1])


ALONE = """
from marlenv import GymEnv
print(*GymEnv("ALE/Pong-v5").observation_spec.keys())
"""


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.skipif(not has("ale_py"), reason="needs ale-py: pip install -e '.[pettingzoo]'")
def test_ataris_games_are_found_without_an_import() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines()[-1:] == ["pixels"], done.stderr[-2000:]


@pytest.mark.sim
@pytest.mark.skipif(not has("ale_py"), reason="needs ale-py: pip install -e '.[pettingzoo]'")
def test_a_game_of_ataris_that_there_is_not_is_named() -> None:
    with pytest.raises(
        UnknownName, match=r"^GymEnv: gymnasium has no env 'ALE/Pongg-v5'; did you mean 'ALE/Pong-v5'\?"
    ):
        GymEnv("ALE/Pongg-v5")


@pytest.mark.parametrize("name", ["ALE/NoSuchGame-v5", "NoSuchNoFrameskip-v4"])
def test_without_ale_py_its_install_command_is_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "ale_py")
    with pytest.raises(MissingExtra, match=r"^GymEnv needs 'ale_py', which is not installed; pip install"):
        GymEnv(name)


@pytest.mark.filterwarnings("ignore")  # gym says that it is not maintained
@pytest.mark.parametrize("library", ["gymnasium", "gym"])
def test_envs_are_made_without_their_librarys_checker(library: str) -> None:
    """The one of gym 0.26 fails in its first step with NumPy 2."""
    pytest.importorskip(library)
    env: Callable[..., GymEnv] = partial(GymEnv, "Pendulum-v1", backend=library)
    assert type(env()._env.env.env).__name__ == "PendulumEnv"
    assert env().rollout(3).shape == (3,)
    assert env(num_envs=2).rollout(3).shape == (2, 3)
    assert type(env(disable_env_checker=False)._env.env.env).__name__ == "PassiveEnvChecker"


class Board(gymnasium.Space):
    def __init__(self) -> None:
        super().__init__((2,), np.float32)

    def sample(self, *_: Any, **__: Any) -> Any:
        return np.ones(2, np.float32)

    def contains(self, x: Any) -> bool:
        return True


class Larger(Board):
    """A board that is a kind of board."""


@pytest.fixture
def taught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered is so for one test."""
    monkeypatch.setattr(_conversions, "_CUSTOM", {})


@pytest.mark.usefixtures("taught")
def test_a_conversion_has_torchrls_signature_or_a_part_of_it() -> None:
    told: dict[str, Any] = {}

    @register_gym_spec_conversion(Board)
    def whole(
        spec: Any,
        dtype: Any = 0,
        device: Any = 0,
        categorical_action_encoding: Any = 0,
        remap_state_to_observation: Any = 0,
        batch_size: Any = 0,
    ) -> TensorSpec:
        told.update(
            spec=spec,
            dtype=dtype,
            device=device,
            categorical=categorical_action_encoding,
            remap=remap_state_to_observation,
            batch=batch_size,
        )
        return Unbounded((2,))

    @register_gym_spec_conversion(Larger)
    def ours(space: Any, *, categorical: bool) -> TensorSpec:
        return Bounded(-5, 5, (2,)) if categorical else Binary(2)

    seen = Board()
    env = GymWrapper(Sees(spaces.Dict(a=seen, b=Larger())), categorical_action_encoding=True)
    assert told.pop("spec") is seen
    theirs = {"dtype": None, "device": None, "categorical": True, "remap": True, "batch": ()}
    assert told == theirs  # what TorchRL 0.14.1 hands over
    assert [env.observation_spec[name] for name in "ab"] == [Unbounded((2,)), Bounded(-5, 5, (2,))]
    assert GymWrapper(Sees(Larger())).observation_spec["observation"] == Binary(2)
    assert torch.equal(env.rollout(2)["a"], torch.ones(2, 2))


@pytest.mark.usefixtures("taught")
@pytest.mark.parametrize("order", [(Board, Larger), (Larger, Board)])
def test_the_conversion_of_the_nearest_class_is_taken(order: tuple[type, type]) -> None:
    for kind in order:
        register_gym_spec_conversion(kind)(lambda space, n=kind.__name__: Categorical(len(n)))
    assert [spec_of(kind()).n for kind in (Board, Larger)] == [5, 6]


@pytest.mark.usefixtures("taught")
@pytest.mark.parametrize("name", ["text.Text", "Text", "gymnasium.spaces.Text"])
def test_a_class_of_the_backends_spaces_goes_by_its_name(name: str) -> None:
    register_gym_spec_conversion(name)(lambda space, **_: Categorical(7))
    assert spec_of(spaces.Text(3)) == Categorical(7)
