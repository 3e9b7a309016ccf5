"""Clauses about flags and masks: who is done, who lives, who acts, and what is legal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from marlenv.keys import DONE_NAMES, beside, nested, under
from marlenv.tensordicts import fetch
from marlenv.testing.blame import owner
from marlenv.testing.checks import PLAYED, NotReached, check, levels, require

if TYPE_CHECKING:
    from marlenv.testing.case import Case

MATCH = (PLAYED, "data_match_the_specs")
NOTHING_DONE = "nothing_is_done_after_a_reset"


@check("return done flags that are False from _reset, or pass allow_done_after_reset=True", needs=())
def nothing_is_done_after_a_reset(case: Case) -> None:
    """No flag is True right after a reset."""
    trace = case.trace
    if trace.error is not None:
        if owner(trace.error) == NOTHING_DONE:
            raise trace.error
        raise NotReached(owner(trace.error) or PLAYED)
    env = trace.played
    if env._allow_done_after_reset:
        return
    for key in env.done_keys:
        flag = trace.first.get(key, None)
        require(flag is None or not bool(flag.any()), f"{key!r} is True after a reset")
    for i, moment in enumerate(trace.moments):
        for level in env.plan.done.top:
            flag = moment.following_then.get((*level.path, "done"), None)
            require(flag is None or not bool(flag.any()), f"what is done in step {i} is still done after its reset")


@check("give terminated and truncated, and leave done to the base; never set done without one of them", MATCH)
def done_has_a_cause(case: Case) -> None:
    """At every level ``done`` is ``terminated | truncated``."""
    env = case.trace.played
    for i, data in enumerate(m.data_then for m in case.trace.moments):
        for names in levels(env):
            flags = {name: data.get(under("next", key)) for name, key in names.items()}
            if "done" not in flags or "terminated" not in flags:
                continue
            declared_as_another = data.get(under("next", beside(names["done"], "truncated")), None)
            truncated = flags.get("truncated", declared_as_another)
            causes = flags["terminated"] if truncated is None else flags["terminated"] | truncated
            require(
                bool((flags["done"] == causes).all()), f"{names['done']!r} is not terminated | truncated in step {i}"
            )


@check(
    "derive the root's flags from the agents' with marlenv.groups.aggregate; never end an episode for no agent's sake",
    (*MATCH, "done_has_a_cause"),
)
def the_root_ends_with_its_agents(case: Case) -> None:
    """Where agents have flags of their own, the root is done only if some agent is."""
    env = case.trace.played
    inner = [names["done"] for names in levels(env) if "done" in names and not isinstance(names["done"], str)]
    if "done" not in env.done_keys or not inner:
        return
    for i, data in enumerate(m.data_then for m in case.trace.moments):
        root = data["next", "done"].flatten(len(env.batch_size)).any(-1)
        agents = torch.zeros_like(root)
        for key in inner:
            agents |= data.get(("next", *key)).flatten(len(env.batch_size)).any(-1)
        require(bool((~root | agents).all()), f"the root is done in step {i} while no agent is")


@check("keep the flags of an agent that has left as they were in its last step", (*MATCH, "done_has_a_cause"))
def the_dead_do_not_change(case: Case) -> None:
    """An agent that has ended keeps its flags for the rest of the episode, unless ``alive`` says that it is born again;
    one that terminated does not become truncated.
    """
    env = case.trace.played
    over: dict[object, dict[str, Tensor]] = {}
    for i, data in enumerate(m.data_then for m in case.trace.moments):
        for names in levels(env):
            key = names.get("truncated")
            if (
                key is None
                or isinstance(key, str)
                or "done" not in env.done_keys
                or not names.keys() >= set(DONE_NAMES)
            ):
                continue
            flags = {name: data.get(("next", *nested((*key[:-1], name)))) for name in DONE_NAMES}
            terminated, truncated = flags["terminated"], flags["truncated"]
            goes_on = ~data["next", "done"].flatten(len(env.batch_size)).any(-1)
            goes_on = goes_on.reshape(*goes_on.shape, *[1] * (terminated.ndim - goes_on.ndim))
            alive = data.get(("next", *nested((*key[:-1], "alive"))), None)
            known = alive is not None and alive.dtype == torch.bool and alive.numel() == terminated.numel()
            gone = ~alive.reshape(terminated.shape) if known else None
            before = over.get(key)
            only, ended = terminated & ~truncated, flags["done"].clone()
            if before is not None:
                cut = truncated & before["only"]
                require(not bool(cut.any()), f"{key!r}: a terminated agent became truncated in step {i}")
                still = before["ended"] if gone is None else before["ended"] & gone
                for name in DONE_NAMES if gone is not None else ():
                    moved = still & (flags[name] != before[name])
                    require(
                        not bool(moved.any()),
                        f"{(*key[:-1], name)!r} of an agent that is done and not alive changed in step {i}",
                    )
                only, ended = only | before["only"] & still, ended | still
            over[key] = {**flags, "only": only & goes_on, "ended": ended & goes_on}


@check("draw random actions through env.rand_action or the action spec; keep the spec's domain true")
def random_actions_are_legal(case: Case) -> None:
    """Random actions are in the action spec, and allowed by the masks that the env emits."""
    for i, moment in enumerate(case.trace.moments):
        require(moment.illegal is None, f"the random action {moment.illegal} in step {i}")


@check("pass masks through marlenv.groups.open_rows: all True on rows that do not act", needs=())
def masks_leave_a_choice(case: Case) -> None:
    """An action mask is never all False."""
    trace = case.trace
    if trace.error is not None and owner(trace.error) != "masks_leave_a_choice":
        raise NotReached(owner(trace.error) or PLAYED)
    where = [("after the reset", trace.first)]
    for i, moment in enumerate(trace.moments):
        where.append((f"after step {i}", moment.following_then))
    for says, td in where:
        for data, entry in trace.played.plan.acts(td):
            mask: Any = fetch(data, entry.mask or ())
            if entry.mask is not None and mask is not None:
                require(bool(mask.any(-1).all()), f"{nested(entry.mask)!r} is all False somewhere {says}")
    if trace.error is not None:
        raise trace.error


@check("an agent that acts must be alive: mask is part of alive", MATCH)
def those_who_act_are_alive(case: Case) -> None:
    """``mask`` is True only where ``alive`` is."""
    env = case.trace.played
    pairs = [key for key in env.observation_keys if (key if isinstance(key, str) else key[-1]) == "alive"]
    for i, data in enumerate(m.data_then for m in case.trace.moments):
        for key in pairs:
            mask = data["next"].get(beside(key, "mask"), None)
            if mask is not None:
                require(
                    bool((data["next"].get(key) | ~mask).all()), f"an agent of {key!r} acts while not alive in step {i}"
                )
