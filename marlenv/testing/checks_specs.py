"""Clauses about specs: what an env says of itself is true."""

from __future__ import annotations

import pickle
from collections.abc import Callable

from torch import Tensor

from marlenv.envs import EnvBase, EnvMetaData, check_env_specs
from marlenv.envs.access import SIDE
from marlenv.errors import ContractBroken, LockedSpec
from marlenv.specs import Composite, Unbounded
from marlenv.testing.checks import check, leaves, open_env, require, steps_of

MakeEnv = Callable[[], EnvBase]


@check("give every spec the env's batch size in front: spec.expand(*batch_size, *spec.shape)")
def specs_begin_with_the_batch_size(make_env: MakeEnv) -> None:
    """Every spec's shape begins with the env's batch size."""
    env = make_env()
    for kind in SIDE:
        for key, leaf in getattr(env, f"full_{kind}_spec").items(True, True):
            batch = env.batch_size
            require(
                leaf.shape[: len(batch)] == batch,
                f"{kind} {key!r}: shape {list(leaf.shape)} lacks batch size {list(batch)}",
            )


@check("a spec's domain must contain what it draws; check bounds, masks and dtypes")
def specs_accept_what_they_draw(make_env: MakeEnv) -> None:
    """A random value of every spec is in the spec."""
    env = make_env()
    for kind in SIDE:
        spec = getattr(env, f"full_{kind}_spec")
        require(spec.is_in(spec.rand()), f"the {kind} spec draws values that it does not accept: {spec}")


@check("make _reset and _step return exactly the entries of the specs, with their shapes and dtypes")
def data_match_the_specs(make_env: MakeEnv) -> None:
    """Every step of a rollout has the keys, shapes, dtypes and domains that the specs say."""
    check_env_specs(open_env(make_env), break_when_any_done="both", steps=6)


@check("list the entries in observation_spec, reward_spec, done_spec or action_spec under the keys that the data have")
def keys_point_at_entries(make_env: MakeEnv) -> None:
    """``action_keys``, ``reward_keys``, ``done_keys`` and ``observation_keys`` are in the data, where they belong."""
    env = open_env(make_env)
    data, _ = next(steps_of(env, 1))
    for kind, where in (
        ("action", data),
        ("observation", data),
        ("done", data),
        ("reward", data["next"]),
        ("observation", data["next"]),
        ("done", data["next"]),
    ):
        for key in getattr(env, f"{kind}_keys"):
            require(key in where.keys(True), f"{kind} key {key!r} is not in the data")


@check("return only tensors on the env's device from _reset and _step")
def data_live_on_the_device(make_env: MakeEnv) -> None:
    """Every tensor is on the env's device."""
    env = open_env(make_env)
    if env.device is None:
        return
    data, _ = next(steps_of(env, 1))
    for key, value in leaves(data).items():
        if isinstance(value, Tensor):
            require(value.device.type == env.device.type, f"{key!r} is on {value.device}, the env on {env.device}")


@check("do not return NaN or infinity; clip, or say so in the docs and exempt the env")
def numbers_are_finite(make_env: MakeEnv) -> None:
    """Observations and rewards are finite."""
    env = open_env(make_env)
    for i, (data, _) in enumerate(steps_of(env)):
        for key, value in leaves(data["next"]).items():
            if isinstance(value, Tensor) and value.dtype.is_floating_point and not value.is_nested:
                require(bool(value.isfinite().all()), f"{key!r} is not finite in step {i}")


@check("call super().__init__() and assign specs as env attributes, so that they are locked after construction")
def locked_specs_refuse_writing(make_env: MakeEnv) -> None:
    """A spec of a locked env cannot be written to; assigning it on the env works."""
    env = make_env()
    require(env.is_spec_locked, "the specs are not locked after construction")
    try:
        env.full_observation_spec["written_by_the_contract"] = Unbounded((*env.batch_size, 1))
    except LockedSpec:
        pass
    else:
        raise ContractBroken("a locked observation spec could be written to")
    env.full_observation_spec = env.full_observation_spec.clone()
    require(env.is_spec_locked, "assigning a spec left the specs unlocked")


@check("keep specs free of things that cannot be pickled")
def specs_can_be_sent(make_env: MakeEnv) -> None:
    """Specs and metadata survive pickling, so that another process can allocate buffers."""
    env = make_env()
    meta = EnvMetaData.metadata_from_env(env)
    back = pickle.loads(pickle.dumps(meta))
    require(back.specs == meta.specs, "the specs are not equal after pickling")
    require(isinstance(env.specs.clone(), Composite), "the specs cannot be copied")
