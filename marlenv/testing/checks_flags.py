"""Clauses about flags and masks: who is done, who lives, who acts, and what is legal."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.errors import ContractBroken
from marlenv.keys import beside, nested
from marlenv.testing.checks import STEPS, check, levels, open_env, require, steps_of

MakeEnv = Callable[[], EnvBase]


@check("return done flags that are False from _reset, or pass allow_done_after_reset=True")
def nothing_is_done_after_a_reset(make_env: MakeEnv) -> None:
    """No flag is True right after a reset."""
    env = open_env(make_env)
    if env._allow_done_after_reset:
        return
    for _ in range(3):
        td = env.reset()
        for key in env.done_keys:
            require(not bool(td.get(key).any()), f"{key!r} is True after a reset")


@check("give terminated and truncated, and leave done to the base; never set done without one of them")
def done_has_a_cause(make_env: MakeEnv) -> None:
    """At every level ``done`` is ``terminated | truncated``."""
    env = open_env(make_env)
    for i, (data, _) in enumerate(steps_of(env, 2 * STEPS)):
        for names in levels(env):
            flags = {
                name: data.get(("next", *((key,) if isinstance(key, str) else key))) for name, key in names.items()
            }
            if "done" not in flags or "terminated" not in flags:
                continue
            causes = flags["terminated"] | flags["truncated"] if "truncated" in flags else flags["terminated"]
            require(
                bool((flags["done"] == causes).all()), f"{names['done']!r} is not terminated | truncated in step {i}"
            )


@check(
    "derive the root's flags from the agents' with marlenv.groups.aggregate; never end an episode for no agent's sake"
)
def the_root_ends_with_its_agents(make_env: MakeEnv) -> None:
    """Where agents have flags of their own, the root is done only if some agent is."""
    env = open_env(make_env)
    inner = [names["done"] for names in levels(env) if "done" in names and not isinstance(names["done"], str)]
    if "done" not in env.done_keys or not inner:
        return
    for i, (data, _) in enumerate(steps_of(env, 2 * STEPS)):
        root = data["next", "done"].flatten(len(env.batch_size)).any(-1)
        agents = torch.zeros_like(root)
        for key in inner:
            agents |= data.get(("next", *key)).flatten(len(env.batch_size)).any(-1)
        require(bool((~root | agents).all()), f"the root is done in step {i} while no agent is")


@check("keep the flags of an agent that has left as they were in its last step")
def the_dead_do_not_change(make_env: MakeEnv) -> None:
    """An agent that terminated does not become truncated later in the episode."""
    env = open_env(make_env)
    over: dict[object, Tensor] = {}
    for i, (data, _) in enumerate(steps_of(env, 2 * STEPS)):
        for names in levels(env):
            key = names.get("truncated")
            if key is None or isinstance(key, str) or "done" not in env.done_keys:
                continue
            truncated = data.get(("next", *key))
            terminated = data.get(("next", *nested((*key[:-1], "terminated"))))
            before = over.get(key)
            if before is not None:
                require(
                    not bool((truncated & before).any()), f"{key!r}: a terminated agent became truncated in step {i}"
                )
            goes_on = ~data["next", "done"].flatten(len(env.batch_size)).any(-1)
            goes_on = goes_on.reshape(*goes_on.shape, *[1] * (terminated.ndim - goes_on.ndim))
            only = terminated & ~truncated
            over[key] = (only if before is None else only | before) & goes_on


@check("draw random actions through env.rand_action or the action spec; keep the spec's domain true")
def random_actions_are_legal(make_env: MakeEnv) -> None:
    """Random actions are in the action spec, and allowed by the masks that the env emits."""
    env = open_env(make_env)
    td = env.reset()
    for i in range(STEPS):
        td = env.rand_action(td)
        for entry in env.plan.actions:
            value = td.get(entry.key)
            spec = entry.spec
            require(spec.is_in(value), f"random action {entry.key!r} is not in its spec {spec!r} in step {i}")
            if entry.mask is None or value.dtype.is_floating_point:
                continue
            mask = td.get(nested(entry.mask))
            if mask.shape == (*value.shape, mask.shape[-1]):
                legal = mask.gather(-1, value.long().unsqueeze(-1)).squeeze(-1)
                require(bool((legal | ~mask.any(-1)).all()), f"random action {entry.key!r} is masked out in step {i}")
        _, td = env.step_and_maybe_reset(td)


@check("pass masks through marlenv.groups.open_rows: all True on rows that do not act")
def masks_leave_a_choice(make_env: MakeEnv) -> None:
    """An action mask is never all False."""
    env = open_env(make_env)
    for i, (data, td) in enumerate(steps_of(env)):
        for entry in env.plan.actions:
            if entry.mask is not None:
                for where in (data, td):
                    mask = where.get(nested(entry.mask))
                    require(bool(mask.any(-1).all()), f"{nested(entry.mask)!r} is all False somewhere in step {i}")


@check("an agent that acts must be alive: mask is part of alive")
def those_who_act_are_alive(make_env: MakeEnv) -> None:
    """``mask`` is True only where ``alive`` is."""
    env = open_env(make_env)
    pairs = [key for key in env.observation_keys if (key if isinstance(key, str) else key[-1]) == "alive"]
    for i, (data, _) in enumerate(steps_of(env, 2 * STEPS)):
        for key in pairs:
            mask = data["next"].get(beside(key, "mask"), None)
            if mask is not None:
                require(
                    bool((data["next"].get(key) | ~mask).all()), f"an agent of {key!r} acts while not alive in step {i}"
                )


@check("set env.group_map to the groups that the specs are nested by")
def groups_match_the_specs(make_env: MakeEnv) -> None:
    """Every group of ``env.group_map`` is in the specs, with one row per agent."""
    env = make_env()
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
