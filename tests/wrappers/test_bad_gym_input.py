"""What makes no sense to the wrappers of gym's envs, and to what stands beside them, is an error that says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv import (
    GymEnv,
    GymWrapper,
    MOGymEnv,
    MOGymWrapper,
    default_info_dict_reader,
    gym_backend,
    implement_for,
    register_gym_spec_conversion,
    set_gym_backend,
)
from marlenv.errors import (
    EnvClosed,
    IllegalAction,
    MarlenvError,
    MissingExtra,
    NeedsReset,
    ShapeError,
    SpecError,
    SpecTypeError,
    UnknownName,
    Unsupported,
)
from marlenv.optional import has

pytestmark = pytest.mark.sim
CART = "CartPole-v1"
needs_mo = pytest.mark.skipif(not has("mo_gymnasium"), reason="needs MO-Gymnasium")


def _stepped(value: Any, **options: Any) -> Any:
    env = GymEnv(CART, categorical_action_encoding=True, **options)
    td = env.reset()
    return env.step(td.set("action", torch.as_tensor(value)))


def _closed(env: Any) -> Any:
    env.close()
    return env


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: GymEnv(3), UnknownName, r"^GymEnv: gymnasium has no env 3; known: \["),
        (lambda: GymEnv("CartPol-v1"), UnknownName, r"no env 'CartPol-v1'; did you mean 'CartPole-v1'"),
        (lambda: GymEnv("no_such:CartPole-v1"), MissingExtra, r"^GymEnv needs 'no_such', which is not installed; pip"),
        (lambda: GymEnv("gymnasium:CartPol-v1"), UnknownName, r"no env 'CartPol-v1'; did you mean 'CartPole-v1'"),
        (lambda: GymEnv(CART, num_envs=-1), SpecError, r"^GymEnv: num_envs must be an integer from 0 on, got -1"),
        (lambda: GymEnv(CART, num_envs="a"), SpecError, r"^GymEnv: num_envs must be an integer from 0 on, got 'a'"),
        (lambda: GymEnv(CART, num_envs=2, frame_skip=2), SpecError, r"frame_skip must be 1 for a vector"),
        (lambda: GymEnv(CART, num_envs=2, vectorization_mode="asynk"), UnknownName, r"'asynk'; did you mean 'async'"),
        (lambda: GymEnv(CART, from_pixel=True), TypeError, r"^GymEnv has no option 'from_pixel', and neither"),
        (lambda: GymEnv(CART, num_workers=2), TypeError, r"pools are made by name: ParallelEnv\(n, functools"),
        (lambda: GymEnv(CART, batch_size=[3]), ShapeError, r"^GymEnv: batch_size must be \[\], as the simul.*\[3\]"),
        (lambda: GymEnv(CART, num_envs=2, batch_size=[3]), ShapeError, r"batch_size must be \[2\].*\[3\]"),
        (lambda: GymEnv(CART, from_pixels=True, render_mode="human"), SpecError, r"needs render_mode='rgb_array'"),
        (GymWrapper, SpecTypeError, r"must be an env of gym or gymnasium, got NoneType; GymEnv takes a name"),
        (lambda: GymWrapper(CART), SpecTypeError, r"must be an env of gym or gymnasium, got str"),
        (lambda: GymWrapper(GymEnv(CART)), SpecTypeError, r"^GymWrapper: GymEnv is an env of marlenv's already"),
        (lambda: GymWrapper(gymnasium.make(CART), from_pixels=True), SpecError, r'render_mode="rgb_array"'),
        (lambda: _stepped(7), IllegalAction, r"^GymEnv.step: actions are numbers from 0 to 1, got 7"),
        (lambda: _stepped(-1), IllegalAction, r"^GymEnv.step: actions are numbers from 0 to 1, got -1"),
        (lambda: _stepped([0, 2], num_envs=2), IllegalAction, r"numbers from 0 to 1, got \[0 2\]"),
        (lambda: GymEnv(CART).step(TensorDict(action=torch.tensor([0, 1]))), NeedsReset, r"call reset\(\) first"),
        (lambda: _closed(GymEnv(CART)).reset(), EnvClosed, r"the env is closed"),
        (lambda: _closed(GymEnv(CART, num_envs=2)).reset(), EnvClosed, r"the env is closed"),
        (lambda: GymEnv(CART).set_seed(1.5), TypeError, r"seed must be an int, got 1.5"),
        (lambda: GymEnv(CART).set_info_dict_reader(3), SpecTypeError, r"expected a function of info dict .* got 3"),
        (lambda: default_info_dict_reader("lives"), SpecTypeError, r"keys must be a list of names, got 'lives'"),
        (lambda: default_info_dict_reader(3), SpecTypeError, r"keys must be a list of names, got 3"),
        (lambda: default_info_dict_reader(["a"], spec=3), SpecTypeError, r"spec must be a composite, .* got 3"),
        (lambda: default_info_dict_reader(["a"], spec=[]), SpecError, r"a list of specs needs as many keys"),
        (lambda: set_gym_backend("no_such"), MissingExtra, r"needs 'no_such', which is not installed; pip install"),
        (lambda: set_gym_backend(3), SpecTypeError, r"^set_gym_backend: expected a module, its name or .* got 3"),
        (lambda: set_gym_backend(SimpleNamespace(action_space=3)), SpecTypeError, r"SimpleNamespace is no env of gymn"),
        (lambda: GymEnv(CART, backend="no_such"), MissingExtra, r"needs 'no_such', which is not installed"),
        (lambda: gym_backend("no_such"), ModuleNotFoundError, r"No module named 'gymnasium.no_such'"),
        (lambda: implement_for(3), SpecTypeError, r"^implement_for: expected a module's name or a function"),
        (lambda: implement_for("gymnasium", "new"), SpecError, r"a version is a string such as '0.26', got 'new'"),
        (lambda: implement_for("gymnasium", 1), SpecError, r"a version is a string such as '0.26', got 1"),
        (lambda: register_gym_spec_conversion(3)(lambda s: s), SpecTypeError, r"expected a class, or 'module.Class'"),
        (lambda: register_gym_spec_conversion(int)(3), SpecTypeError, r"and a function, got <class 'int'> and 3"),
        (lambda: register_gym_spec_conversion("no_such.Box")(print), UnknownName, r"no module is called 'no_such'"),
        (lambda: marlenv.register_gym("A-v0", 3), SpecTypeError, r"entry_point must be a name of .* got 3"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


@needs_mo
@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: MOGymEnv(3), UnknownName, r"^MOGymEnv: mo_gymnasium has no env 3"),
        (lambda: MOGymEnv("minecar-v0"), UnknownName, r"no env 'minecar-v0'; did you mean 'minecart-v0"),
        (lambda: MOGymEnv(CART), UnknownName, r"mo_gymnasium has no env 'CartPole-v1'; known"),
        (lambda: MOGymEnv("deep-sea-treasure-v0", foo=1), TypeError, r"^MOGymEnv has no option 'foo'"),
        (lambda: MOGymWrapper(gymnasium.make(CART)), SpecTypeError, r"got CartPoleEnv, which has no reward_space; Gym"),
        (lambda: MOGymWrapper("minecart-v0"), SpecTypeError, r"^MOGymWrapper: env must be an env of gym"),
    ],
)  # fmt: skip
def test_bad_input_to_envs_with_several_rewards_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


def test_no_env_is_made_of_a_range_of_versions_that_is_empty() -> None:
    @implement_for("gymnasium", "2", "1")
    def nothing_fits() -> None: ...

    @implement_for("no_such_module", "1")
    def not_there() -> None: ...

    for function in (nothing_fits, not_there):
        for kind in (Unsupported, ModuleNotFoundError):  # ours, and TorchRL's
            with pytest.raises(kind, match=r"not for the versions that are installed"):
                function()


def test_no_rows_are_a_single_env_as_in_torchrl() -> None:
    assert GymEnv(CART, num_envs=0).batch_size == ()


def test_the_library_is_said_when_an_env_is_made_or_by_an_env_of_it() -> None:
    sim = gymnasium.make(CART)
    with set_gym_backend("math"):
        assert GymEnv(CART, backend="gymnasium").rollout(2).batch_size == (2,)
        with set_gym_backend(sim):
            assert gym_backend() is gymnasium
        assert gym_backend().__name__ == "math"


def test_a_batch_size_that_is_the_simulators_is_taken() -> None:
    assert GymEnv(CART, num_envs=2, batch_size=[2]).rollout(2).batch_size == (2, 2)


class Drawn(gymnasium.Env):
    """Draws what it is told."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}  # type: ignore[misc]

    def __init__(self, picture: Any) -> None:
        self.picture, self.render_mode = picture, "rgb_array"

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(2, np.float32), {}

    def render(self) -> Any:
        return self.picture


@pytest.mark.parametrize(
    ("picture", "got"),
    [
        (np.full((4, 5), 0.97, np.float32), r"float32 \[4, 5\]"),  # depths, of which only zeros were left
        (np.full((4, 5, 3), 0.5), r"float64 \[4, 5, 3\]"),
        (np.zeros((4, 5), np.uint8), r"uint8 \[4, 5\]"),
        ([np.zeros((4, 5, 3), np.uint8)], r"uint8 \[1, 4, 5, 3\]"),
        (np.full((4, 5, 3), 256), r"int64 \[4, 5, 3\]"),
        ("an ansi picture", "str"),
        ((np.zeros((4, 5, 3)), np.zeros((4, 5))), "tuple"),
    ],
)
def test_what_is_no_picture_in_colours_is_refused(picture: Any, got: str) -> None:
    with pytest.raises(SpecError, match=rf"pictures of whole numbers from 0 to 255, \[H, W, 3\], .*; got {got}$"):
        GymWrapper(Drawn(picture), from_pixels=True)


def test_pictures_of_whole_numbers_are_taken_whatever_their_dtype() -> None:
    picture = np.arange(60).reshape(4, 5, 3)
    assert torch.equal(GymWrapper(Drawn(picture), from_pixels=True).reset()["pixels"], torch.from_numpy(picture).byte())


def test_a_vector_that_draws_nothing_is_refused() -> None:
    vector = gymnasium.make_vec(CART, num_envs=2, vectorization_mode="sync")
    with pytest.raises(SpecError, match='needs an env that draws; make it with render_mode="rgb_array"'):
        GymWrapper(vector, from_pixels=True)


def test_a_wrapper_that_only_takes_whole_resets_is_named_with_what_to_do_instead() -> None:
    """Gymnasium's own asserts, without a word."""
    vector = gymnasium.make_vec(CART, num_envs=3, vectorization_mode="sync")
    env = GymWrapper(gymnasium.wrappers.vector.NormalizeObservation(vector))
    env.set_seed(0)
    with pytest.raises(Unsupported, match=r"^GymWrapper: NormalizeObservation around a vector .* or VecNorm around"):
        env.rollout(250, break_when_any_done=False)
    assert env.reset()["observation"].shape == (3, 4)
    inside = [gymnasium.wrappers.NormalizeObservation]
    instead = GymEnv(CART, wrappers=inside, num_envs=3)
    assert instead.rollout(60, break_when_any_done=False)["next", "done"].any()


def test_rewards_of_several_agents_are_told_what_takes_them() -> None:
    class Two(Drawn):
        def step(self, action: Any) -> Any:
            return np.zeros(2, np.float32), [1.0, 2.0], False, False, {}

    with pytest.raises(ShapeError, match=r"shape \[1\], got \[2\]; .* summed .*, .* ParallelSimEnv"):
        GymWrapper(Two(None)).rollout(2)


@pytest.mark.parametrize(
    ("space", "says"),
    [
        (gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2)), "no conversion for a space of type Sequence"),
        (
            gymnasium.spaces.Dict({"a": gymnasium.spaces.Graph(gymnasium.spaces.Discrete(2), None)}),
            "no conversion .* Graph",
        ),
        (
            gymnasium.spaces.Dict({0: gymnasium.spaces.Discrete(2)}),
            "the keys of a space .* texts, got 0; rename",
        ),
        (gymnasium.spaces.Dict({"shape": gymnasium.spaces.Discrete(2)}), "'shape' is a word for the composite itself"),
    ],
)
@pytest.mark.parametrize("side", ["observation", "action"])
def test_spaces_that_no_spec_can_say_are_named_with_their_side(space: Any, says: str, side: str) -> None:
    env = type("Odd", (Drawn,), {f"{side}_space": space})(None)
    with pytest.raises(MarlenvError, match=f"^GymWrapper: {side}: .*{says}"):
        GymWrapper(env)
