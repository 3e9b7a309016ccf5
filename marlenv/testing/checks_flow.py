"""Clauses about the flow of data: what resets and steps do, and what they leave alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.errors import ContractBroken, EnvClosed, Unsupported
from marlenv.testing.checks import STEPS, check, differences, global_state, leaves, open_env, require, same, steps_of

MakeEnv = Callable[[], EnvBase]


@check("return rewards from _step only")
def resets_give_no_rewards(make_env: MakeEnv) -> None:
    """The data of a reset hold observations and flags, and no rewards."""
    env = open_env(make_env)
    td = env.reset()
    for key in env.reward_keys:
        require(key not in td.keys(True, True), f"reset returned the reward {key!r}")


@check("_reset must start a new episode every time; do not rely on being called once")
def resetting_twice_is_resetting(make_env: MakeEnv) -> None:
    """A reset right after a reset starts an episode like any other."""
    env = open_env(make_env)
    env.reset()
    env.rand_step(env.reset())


@check("step exactly once per call of _step, and reset what is done")
def rollouts_have_the_length_asked_for(make_env: MakeEnv) -> None:
    """A rollout that goes on after ends has as many steps as it was asked for."""
    env = open_env(make_env)
    got = env.rollout(5, break_when_any_done=False, return_contiguous=False).batch_size[-1]
    require(got == 5, f"a rollout of 5 steps has {got}")


@check("seed every source of randomness in _set_seed; if the simulator cannot be seeded, raise Unsupported there")
def equal_seeds_give_equal_episodes(make_env: MakeEnv) -> None:
    """Two envs with the same seed, told the same actions, answer the same."""
    first, second = open_env(make_env, 7), open_env(make_env, 7)
    if first.__dict__.get("_unseeded"):
        raise Unsupported("the env says that it cannot be seeded")
    a, b = first.reset(), second.reset()
    require(not (odd := differences(a, b)), f"resets with the same seed differ in {odd}")
    for i in range(STEPS):
        acted = first.rand_action(a)
        data_a, a = first.step_and_maybe_reset(acted)
        data_b, b = second.step_and_maybe_reset(b.update(data_a.select(*first.action_keys)))
        require(
            not (odd := differences(data_a["next"], data_b["next"])), f"with the same seed, step {i} differs in {odd}"
        )


@check("return the next seed from set_seed (the base does); do not override set_seed")
def seeds_make_a_chain(make_env: MakeEnv) -> None:
    """``set_seed`` returns another seed, always the same one."""
    env = make_env()
    try:
        one, two = env.set_seed(3), env.set_seed(3)
    except NotImplementedError as error:
        raise Unsupported(f"the env says that it cannot be seeded: {error}") from error
    require(one == two and one != 3, f"set_seed(3) returned {one}, then {two}")


@check("draw from the env's own generator (marlenv.RowRNG); never from torch.rand, numpy.random or random")
def global_generators_stay_where_they_are(make_env: MakeEnv) -> None:
    """Resets, steps and random actions neither read nor move a global generator."""
    env = open_env(make_env)
    before = global_state()
    for _ in steps_of(env, 5):
        pass
    after = global_state()
    for name, a, b in zip(("torch", "numpy", "random"), before, after, strict=True):
        require(same(a, b), f"the global generator of {name} was moved")


@check("keep state per env object: no class attributes, no module globals")
def envs_do_not_disturb_each_other(make_env: MakeEnv) -> None:
    """Making, seeding, resetting and stepping another env changes nothing for this one."""
    alone, beside_another = open_env(make_env, 5), open_env(make_env, 5)
    if alone.__dict__.get("_unseeded"):
        raise Unsupported("the env says that it cannot be seeded")
    for i, ((a, _), (b, _)) in enumerate(zip(steps_of(alone, 6), _with_another(beside_another, make_env), strict=True)):
        require(not (odd := differences(a, b)), f"another env changed step {i} in {odd}")


def _with_another(env: EnvBase, make_env: MakeEnv) -> list[tuple[TensorDictBase, TensorDictBase]]:
    made = []
    for pair in steps_of(env, 6):
        other = open_env(make_env, 99)
        other.rand_step(other.reset())
        made.append(pair)
    return made


@check("_step and _reset must return new tensordicts and new tensors; never write into their input or hand out buffers")
def steps_leave_old_data_alone(make_env: MakeEnv) -> None:
    """Data that were handed out never change afterwards."""
    env = open_env(make_env)
    kept: list[tuple[TensorDictBase, TensorDictBase]] = []
    td = env.reset()
    for _ in range(5):
        acted = env.rand_action(td)
        copy = acted.clone()
        data, td = env.step_and_maybe_reset(acted)
        require(not (odd := differences(data.exclude("next"), copy)), f"step changed its input in {odd}")
        kept.append((data, data.clone()))
    for i, (data, copy) in enumerate(kept):
        require(not (odd := differences(data, copy)), f"data of step {i} changed later in {odd}")


@check("compute observations before anything is reset; leave resetting to the base")
def final_observations_are_kept(make_env: MakeEnv) -> None:
    """``step_and_maybe_reset`` returns under ``"next"`` what ``step`` alone returns."""
    plain, resetting = open_env(make_env, 11), open_env(make_env, 11)
    if plain.__dict__.get("_unseeded"):
        raise Unsupported("the env says that it cannot be seeded")
    a, b = plain.reset(), resetting.reset()
    for i in range(STEPS):
        acted = plain.rand_action(a)
        actions = acted.select(*plain.action_keys).clone()
        stepped = plain.step(acted)
        both, b = resetting.step_and_maybe_reset(b.update(actions))
        require(not (odd := differences(stepped["next"], both["next"])), f"the final data of step {i} differ in {odd}")
        a = plain.maybe_reset(plain.step_mdp(stepped))


@check("reset only what the '_reset' mask marks; the base keeps the other rows if _reset does not touch their state")
def partial_resets_keep_other_rows(make_env: MakeEnv) -> None:
    """A partial reset leaves the other rows bit for bit as they were, also in the steps that follow."""
    env = open_env(make_env, 13)
    if not env.batch_size or env.batch_size.numel() < 2:
        raise Unsupported("the env has one row only")
    td = env.rand_step(env.reset())
    td = env.step_mdp(td)
    top = env.plan.done.top[0]
    if top.path:
        raise Unsupported("the env has no flags at the root")
    mask = torch.zeros(top.shape, dtype=torch.bool, device=env.device)
    mask.reshape(env.batch_size.numel(), -1)[0] = True
    before = td.clone()
    after = env.reset(td.set("_reset", mask))
    rows_before, rows_after = (x.reshape(-1)[1:] for x in (before, after))
    odd = [k for k in differences(rows_before, rows_after) if k not in map(str, env.action_keys)]
    require(not odd, f"a reset of row 0 changed other rows in {odd}")
    require("_reset" not in after.keys(), "the '_reset' mask was left in the data")


@check("_reset(td with an all-True mask) must do what _reset(None) does")
def resetting_all_rows_is_a_reset(make_env: MakeEnv) -> None:
    """A mask that marks everything resets like no mask at all."""
    whole, masked = open_env(make_env, 17), open_env(make_env, 17)
    if whole.__dict__.get("_unseeded"):
        raise Unsupported("the env says that it cannot be seeded")
    td = masked.reset().empty()
    a = whole.reset()
    whole_again = whole.reset()
    for level in masked.plan.done.top:
        td.set(
            (*level.path, "_reset") if level.path else "_reset",
            torch.ones(level.shape, dtype=torch.bool, device=masked.device),
        )
    masked_again = masked.reset(td)
    require(
        set(map(str, leaves(whole_again))) == set(map(str, leaves(masked_again))), "the masked reset has other entries"
    )
    require(not (odd := differences(whole_again, masked_again)), f"the masked reset differs in {odd}")
    require(bool(leaves(a)), "a reset returned nothing")


@check("put the whole state into _get_state, randomness included, and read all of it in _set_state")
def states_can_be_put_back(make_env: MakeEnv) -> None:
    """From a stored state the same actions lead to the same data."""
    env = open_env(make_env, 19)
    td = env.step_mdp(env.rand_step(env.reset()))
    state = env.get_state(td).clone()
    acts = [env.rand_action(td.clone()).select(*env.action_keys).clone()]
    first = env.step(td.clone().update(acts[0]))
    again = env.set_state(state)
    second = env.step(again.update(acts[0]))
    require(not (odd := differences(first["next"], second["next"])), f"from the same state, a step differs in {odd}")


@check("do not override step or reset; write _step and _reset")
def closed_envs_refuse(make_env: MakeEnv) -> None:
    """A closed env cannot be stepped, and says so."""
    env = open_env(make_env)
    td = env.rand_action(env.reset())
    env.close()
    try:
        env.step(td)
    except EnvClosed:
        return
    raise ContractBroken("a closed env was stepped without an error")


@check("do not override step; the base checks that actions are there")
def missing_actions_are_refused(make_env: MakeEnv) -> None:
    """Stepping without an action is an error that names its key."""
    env = open_env(make_env)
    td = env.reset()
    key = env.action_keys[0]
    td = td.exclude(key)
    try:
        env.step(td)
    except KeyError as error:
        require(
            str(key if isinstance(key, str) else key[-1]) in str(error), f"the error does not name {key!r}: {error}"
        )
        return
    raise ContractBroken(f"the env was stepped without {key!r}")
