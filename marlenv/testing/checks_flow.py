"""Clauses about the flow of data: what resets, steps, rollouts and states do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.errors import ContractBroken, EnvClosed, NeedsReset
from marlenv.testing.checks import PLAYED, NotJudged, check, require
from marlenv.testing.comparison import differences, leaves
from marlenv.testing.trace import apart, compare, follow, repeat

if TYPE_CHECKING:
    from marlenv.testing.case import Case

MATCH, OLD = "data_match_the_specs", "steps_leave_old_data_alone"
SEEDED = (PLAYED, "equal_seeds_give_equal_episodes")


@check("_reset must start a new episode every time; do not rely on being called once")
def resetting_twice_is_resetting(case: Case) -> None:
    """A reset right after a reset starts an episode like any other."""
    env = case.open()
    env.reset()
    env.rand_step(env.reset())


@check("compute observations before anything is reset; leave resetting to the base", SEEDED)
def final_observations_are_kept(case: Case) -> None:
    """``step_and_maybe_reset`` returns under ``"next"`` what ``step`` alone returns."""
    follow(case.twinned, case.make(), "stepping and then resetting differs", step=apart)


@check("step exactly once per call of _step, reset what is done, and do not override rollout", (*SEEDED, MATCH, OLD))
def rollouts_are_their_steps(case: Case) -> None:
    """A rollout that goes on after ends has as many steps as it was asked for, and gives what they give one by one."""
    trace, env = case.trace, case.open()
    data = env.rollout(case.steps, break_when_any_done=False, return_contiguous=False)
    require(data.batch_size[-1] == case.steps, f"a rollout of {case.steps} steps has {data.batch_size[-1]}")
    if trace.unseeded:
        return
    for i, (moment, one) in enumerate(zip(trace.moments, data.unbind(-1), strict=True)):
        compare(moment.data_then, one, None, "a rollout differs from its steps", f"step {i}")


@check("put everything that an episode changes back in _reset; keep nothing of the one before", SEEDED)
def resets_start_afresh(case: Case) -> None:
    """After a seed and a reset, what was played before does not show."""
    trace, env = case.twinned, case.open(number=23)
    td = env.reset()
    for _ in range(7):
        _, td = env.step_and_maybe_reset(env.rand_action(td))
    follow(trace, env, "after other episodes, the same seed differs")


@check("_reset(td with an all-True mask) must do what _reset(None) does", (*SEEDED, "envs_do_not_disturb_each_other"))
def resetting_all_rows_is_a_reset(case: Case) -> None:
    """A mask that marks everything resets like no mask at all."""
    trace, whole, masked = case.twinned, case.open(), case.open()
    a, b = whole.reset(), masked.reset()
    for moment in trace.moments[:3]:
        _, a = whole.step_and_maybe_reset(repeat(0, whole, a, moment))
        _, b = masked.step_and_maybe_reset(repeat(0, masked, b, moment))
    request = b.empty()
    for level in masked.plan.done.top:
        mask = torch.ones(level.shape, dtype=torch.bool, device=masked.device)
        request.set((*level.path, "_reset") if level.path else "_reset", mask)
    a, b = whole.reset(), masked.reset(request)
    says = "a masked reset of everything differs"
    require(set(leaves(a)) == set(leaves(b)), "a masked reset of everything has other entries")
    compare(a, b, None, says, "the reset")
    for i in range(min(case.steps, 16)):
        acted = whole.rand_action(a)
        actions = acted.select(*whole.action_keys).clone()
        data_a, a = whole.step_and_maybe_reset(acted)
        data_b, b = masked.step_and_maybe_reset(b.update(actions))
        compare(data_a["next"], data_b["next"], None, says, f"step {i} after it")


@check("put the whole state into _get_state, randomness included, and read all of it in _set_state", SEEDED)
def states_can_be_put_back(case: Case) -> None:
    """From a stored state the same actions lead to the same data, to the end; giving it away changes nothing."""
    trace, env = case.trace, case.open()
    td = env.reset()
    half = len(trace.moments) // 2
    for moment in trace.moments[:half]:
        _, td = env.step_and_maybe_reset(repeat(0, env, td, moment))
    try:
        state = env.get_state(td).clone()
        once = _rest(case, env, td, half)
        td = env.set_state(state)
    except NotImplementedError as error:
        raise NotJudged(str(error)) from error
    again = _rest(case, env, td, half)
    for i, (a, b) in enumerate(zip(once, again, strict=True)):
        compare(a, b, None, "from the same state, the same actions differ", f"step {i}")
    if trace.unseeded is None:
        for moment, a in zip(trace.moments[half:], once, strict=True):
            require(not (odd := differences(moment.data_then["next"], a)), f"get_state changed what follows in {odd}")


def _rest(case: Case, env: EnvBase, td: TensorDictBase, half: int) -> list[TensorDictBase]:
    """What the steps behind the middle of the trace give."""
    found = []
    for moment in case.trace.moments[half:]:
        data, td = env.step_and_maybe_reset(repeat(0, env, td, moment))
        found.append(data["next"].clone())
    return found


@check("do not override step or reset; write _step and _reset")
def closed_envs_refuse(case: Case) -> None:
    """A closed env cannot be stepped, and says so; or it starts again."""
    env = case.open()
    td = env.rand_action(env.reset())
    env.close()
    try:
        env.step(td)
    except EnvClosed:
        return
    except NeedsReset:  # it starts again, with children that are not under way
        require(env.starts_again, "a closed env asks for a reset, as if it were open")
        return
    if env.starts_again and not env.is_closed:
        env.close()
        return
    raise ContractBroken("a closed env was stepped without an error")


@check("do not override step; the base checks that actions are there", (PLAYED, "closed_envs_refuse"))
def missing_actions_are_refused(case: Case) -> None:
    """Stepping without an action is an error that names its key."""
    env = case.open()
    key = env.action_keys[0]
    td = env.reset().exclude(key)
    try:
        env.step(td)
    except KeyError as error:
        named = str(key if isinstance(key, str) else key[-1]) in str(error)
        require(named, f"the error does not name {key!r}: {error}")
        return
    raise ContractBroken(f"the env was stepped without {key!r}")


@check("return the next seed from set_seed (the base does); do not override set_seed")
def seeds_make_a_chain(case: Case) -> None:
    """``set_seed`` returns another seed, always the same one."""
    if case.trace.unseeded:
        raise NotJudged(case.trace.unseeded)
    env = case.make()
    one, two = env.set_seed(3), env.set_seed(3)
    require(one == two and one != 3, f"set_seed(3) returned {one}, then {two}")
