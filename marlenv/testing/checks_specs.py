"""Clauses about specs: what an env says of itself is true."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvMetaData
from marlenv.envs.access import SIDE
from marlenv.envs.check import check_step
from marlenv.errors import ContractBroken, LockedSpec
from marlenv.keys import NestedKey, nested
from marlenv.specs import Composite, Unbounded
from marlenv.testing.blame import owner
from marlenv.testing.checks import PLAYED, NotReached, check, require
from marlenv.testing.comparison import leaves

if TYPE_CHECKING:
    from marlenv.testing.case import Case

MATCH = "data_match_the_specs"


@check("see what raises it; an env must go on for as long as it is stepped, and reset what is done", needs=())
def envs_can_be_played(case: Case) -> None:
    """An env can be made, seeded, reset and stepped with random actions, through ends and on."""
    error = case.trace.error
    if error is not None:
        if case.once("spec fault", lambda: spec_fault(case)) is not None:
            raise NotReached(MATCH)
        if (name := owner(error)) not in (None, PLAYED):
            raise NotReached(str(name))
        raise error
    if (several := case.several) is not None and several.error is not None:
        several.error.add_note(f"with {several.played.batch_size.numel()} rows" if several.env else "with several rows")
        raise several.error


@check("give every spec the env's batch size in front: spec.expand(*batch_size, *spec.shape)", needs=())
def specs_begin_with_the_batch_size(case: Case) -> None:
    """Every spec's shape begins with the env's batch size."""
    env = case.make()
    for kind in SIDE:
        for key, leaf in getattr(env, f"full_{kind}_spec").items(True, True):
            batch = env.batch_size
            require(
                leaf.shape[: len(batch)] == batch,
                f"{kind} {key!r}: shape {list(leaf.shape)} lacks batch size {list(batch)}",
            )


@check("return rewards from _step only", needs=())
def resets_give_no_rewards(case: Case) -> None:
    """The data of a reset hold observations and flags, and no rewards."""
    if case.trace.start is None:
        raise NotReached(owner(case.trace.error) or PLAYED)
    for key in rewards_of_a_reset(case):
        raise ContractBroken(f"reset returned the reward {key!r}")


def rewards_of_a_reset(case: Case) -> list[NestedKey]:
    """The rewards in the data of the reset."""
    held = case.trace.first.keys(True, True)
    return [key for key in case.trace.played.reward_keys if key in held]


@check(
    "make _reset and _step return exactly the entries of the specs, with their shapes, dtypes and domains",
    needs=("specs_begin_with_the_batch_size",),
)
def data_match_the_specs(case: Case) -> None:
    """Every step has the keys, shapes, dtypes and domains that the specs say."""
    fault = case.once("spec fault", lambda: spec_fault(case))
    if fault is not None:
        if rewards_of_a_reset(case):
            raise NotReached("resets_give_no_rewards")
        whole = case.trace.error is None
        if whole and any(moment.illegal for moment in case.trace.moments):
            raise NotReached("random_actions_are_legal")
        if whole and off_device(case) is not None:
            raise NotReached("data_live_on_the_device")
        if whole and case.trace.edited is not None:
            raise NotReached("steps_leave_old_data_alone")
        raise ContractBroken(fault)
    if case.trace.error is not None:
        if owner(case.trace.error) == MATCH:
            raise case.trace.error
        raise NotReached(owner(case.trace.error) or PLAYED)


def spec_fault(case: Case) -> str | None:
    """Where the data first leave the specs; numbers that are not finite are another clause's."""
    for i, moment in enumerate(case.trace.moments):
        if not_finite(moment.data_then) is not None:
            continue
        try:
            check_step(case.trace.played, moment.given.copy().set("next", moment.data_then["next"]))
        except ContractBroken as error:
            return f"{error}, in step {i}"
    return None


@check("do not return NaN or infinity; clip, or say so in the docs and exempt the env", needs=())
def numbers_are_finite(case: Case) -> None:
    """Observations and rewards are finite."""
    if case.trace.start is not None:
        require((key := not_finite(case.trace.first)) is None, f"{key} is not finite after the reset")
    for i, moment in enumerate(case.trace.moments):
        for where, td in (("step", moment.data_then["next"]), ("what follows step", moment.following_then)):
            require((key := not_finite(td)) is None, f"{key} is not finite in {where} {i}")
    if case.trace.error is not None:
        raise NotReached(owner(case.trace.error) or PLAYED)


def not_finite(td: TensorDictBase) -> str | None:
    """The first entry that holds NaN or infinity."""
    for key, value in leaves(td).items():
        number = isinstance(value, Tensor) and value.dtype.is_floating_point and not (value.is_nested or value.is_meta)
        if number and not bool(value.isfinite().all()):
            return repr(key)
    return None


@check("a spec's domain must contain what it draws; check bounds, masks and dtypes", needs=())
def specs_accept_what_they_draw(case: Case) -> None:
    """A random value of every spec is in the spec."""
    env = case.make()
    for kind in SIDE:
        spec = getattr(env, f"full_{kind}_spec")
        drawn = spec.rand()
        if not spec.is_in(drawn):
            odd = [key for key, leaf in spec.items(True, True) if not leaf.is_in(drawn[key])]
            raise ContractBroken(f"the {kind} spec draws values that it does not accept, under {odd}")


@check(
    "list the entries in observation_spec, reward_spec, done_spec or action_spec under the keys that the data have",
    needs=(PLAYED, MATCH),
)
def keys_point_at_entries(case: Case) -> None:
    """``action_keys``, ``reward_keys``, ``done_keys`` and ``observation_keys`` are in the data, where they belong."""
    env, data = case.trace.played, case.trace.moments[0].data
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


@check("return only tensors on the env's device from _reset and _step", needs=())
def data_live_on_the_device(case: Case) -> None:
    """Every tensor is on the env's device."""
    require((stray := off_device(case)) is None, str(stray))
    if case.trace.error is not None:
        raise NotReached(owner(case.trace.error) or PLAYED)


def off_device(case: Case) -> str | None:
    """Which entry is elsewhere than the env."""
    device = case.trace.env.device if case.trace.env is not None else None
    if device is None:
        return None
    for i, moment in enumerate(case.trace.moments):
        for key, value in leaves(moment.data_then).items():
            if isinstance(value, Tensor) and value.device.type != device.type:
                return f"{key!r} is on {value.device} in step {i}, the env on {device}"
    return None


@check(
    "call super().__init__() and assign specs as env attributes, so that they are locked after construction", needs=()
)
def locked_specs_refuse_writing(case: Case) -> None:
    """A spec of a locked env cannot be written to; assigning it on the env works."""
    env = case.make()
    require(env.is_spec_locked, "the specs are not locked after construction")
    try:
        env.full_observation_spec["written_by_the_contract"] = Unbounded((*env.batch_size, 1))
    except LockedSpec:
        pass
    else:
        raise ContractBroken("a locked observation spec could be written to")
    env.full_observation_spec = env.full_observation_spec.clone()
    require(env.is_spec_locked, "assigning a spec left the specs unlocked")


@check("keep specs free of things that cannot be pickled", needs=())
def specs_can_be_sent(case: Case) -> None:
    """Specs and metadata survive pickling, so that another process can allocate buffers."""
    env = case.make()
    meta = EnvMetaData.metadata_from_env(env)
    try:
        back = pickle.loads(pickle.dumps(meta))
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise ContractBroken(f"the specs cannot be pickled: {error}") from error
    require(back.specs == meta.specs, "the specs are not equal after pickling")
    require(isinstance(env.specs.clone(), Composite), "the specs cannot be copied")


@check("set env.group_map to the groups that the specs are nested by", needs=())
def groups_match_the_specs(case: Case) -> None:
    """Every group of ``env.group_map`` is in the specs, with one row per agent."""
    env = case.make()
    tree = getattr(env, "tree", None)
    if tree is None:
        return
    batch = len(env.batch_size)
    for path, agents in tree.groups.items():
        sides = (
            env.full_action_spec,
            env.full_observation_spec,
        )  # the env itself may play a group, as an opponent does
        spec = next((side[nested(path)] for side in sides if nested(path) in side), None)
        if spec is None:
            raise ContractBroken(f"group {nested(path)!r} is in no spec")
        got = list(spec.shape[batch:])
        require(got == [len(agents)], f"group {nested(path)!r} has {len(agents)} agents, its spec the shape {got}")
