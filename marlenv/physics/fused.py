"""Rollouts of scenarios that write into one preallocated tensordict, with as few operations per step as can be.

The data are those of the rollout of any env, entry by entry. They lie in memory step by step, with the rows last; what the
tensordict holds are views ``[B, T, ...]`` of that. Done flags of agents are views of those of their row.
"""

from __future__ import annotations

import ctypes
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.envs import EnvBase
from marlenv.envs.policies import as_policy, ask
from marlenv.envs.stepping import check_actions
from marlenv.errors import whole
from marlenv.keys import Path
from marlenv.physics.compiling import Compiled
from marlenv.physics.kernel import Draw, Field, action_fields, result_fields
from marlenv.physics.seating import wrap
from marlenv.physics.simulation import SHARED, leaves, unflatten
from marlenv.tensordicts import get, new, put

if TYPE_CHECKING:
    from marlenv.physics.env import ScenarioEnv

FLAGS = ("terminated", "truncated", "done")
KEPT = 2  # pieces of memory: that of the last rollout is often held while the next one is played
CHUNK = 64  # steps that machine code plays before it looks whether any row is done
LARGE, ADVICE = 1 << 22, 14  # bytes from which on memory is kept and large pages pay; MADV_HUGEPAGE of Linux


class Board:
    """The memory of a rollout.

    Args:
        env: whose.
        steps: ``T``.
        compact: leave out what is seen after steps.

    """

    def __init__(self, env: ScenarioEnv, steps: int, *, compact: bool = False) -> None:
        self.env, self.steps, self.rows = env, steps, env.num_envs
        outs, self.seen_count = result_fields(env.simulation)
        self.outs, self.acts = outs, action_fields(env.simulation)
        self.paths = {group: path for path, group in env.seating.whole.items()}
        seen = outs[: self.seen_count]
        flags = [Field((name,), Size(), torch.bool) for name in FLAGS]
        after = outs[self.seen_count :] if compact else outs
        sizes = [*after, *seen, *flags, *flags, *self.acts]
        buffers = iter(_arena(env, sizes, steps, self.rows))
        self.after = after
        self.next: list[Tensor | None] = [None] * (len(outs) - len(after)) + [next(buffers) for _ in after]
        self.root = [next(buffers) for _ in seen]
        self.flags = [next(buffers) for _ in flags]
        self.before = [next(buffers).zero_() for _ in flags]
        self.actions = [next(buffers) for _ in self.acts]

    def show(self, root: Sequence[Tensor], flags: Sequence[Tensor], fields: Sequence[Field]) -> dict[str, Any]:
        """Entries of the env from memory ``[*T, ..., B]``, of one moment or of all."""
        env, time = self.env, flags[0].ndim - 1
        batch = Size((self.rows, self.steps)[: 1 + time])
        views = {f.name: _first(x, time) for f, x in zip(fields, root, strict=True)}
        seen, infos, rewards = unflatten(views)
        ends = {name: _first(x, time).unsqueeze(-1) for name, x in zip(FLAGS, flags, strict=True)}
        out: dict[str, Any] = dict(ends)
        for group, path in self.paths.items():
            entries: dict[str, Any] = {"observation": seen[group]} if group in seen else {}
            if group in infos:
                told = infos[group]
                entries["info"] = {name: x if x.ndim > 2 + time else x.unsqueeze(-1) for name, x in told.items()}
            if group in rewards:
                entries["reward"] = rewards[group].unsqueeze(-1)
            agents = len(env.tree.groups[path])
            td = wrap(entries, Size((*batch, agents)), env.device)
            for name, flag in ends.items():
                put(td, name, flag.unsqueeze(1 + time).expand(*batch, agents, 1))
            level = out
            for name in path[:-1]:
                level = level.setdefault(name, new({}, batch, env.device))._tensordict
            level[path[-1]] = td
        if SHARED in infos:
            shared = {name: x if x.ndim > 1 + time else x.unsqueeze(-1) for name, x in infos[SHARED].items()}
            out["info"] = wrap(shared, batch, env.device)
        return out

    def moment(self, t: int) -> TensorDict:
        """What a policy gets before step ``t``."""
        data = self.show([x[t] for x in self.root], [x[t] for x in self.before], self.outs[: self.seen_count])
        return new(data, Size((self.rows,)), self.env.device)

    def keep(self, t: int, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        """Stores what is seen before step ``t``."""
        for field, buffer in zip(self.outs, self.root, strict=False):
            buffer[t].copy_(_pick(field, observations, infos).movedim(0, -1))

    def whole(self, steps: int, extras: Mapping[Any, Tensor]) -> TensorDictBase:
        """The first ``steps`` steps as the data of a rollout."""
        env, batch = self.env, Size((self.rows, steps))
        cut = slice(0, steps)
        self.steps = steps
        seen = self.outs[: self.seen_count]
        out = self.show([x[cut] for x in self.root], [x[cut] for x in self.before], seen)
        kept = [x[cut] for x in self.next if x is not None]
        following = self.show(kept, [x[cut] for x in self.flags], self.after)
        out["next"] = new(following, batch, env.device)
        td = new(out, batch, env.device)
        for field, buffer in zip(self.acts, self.actions, strict=True):
            put(_node(td, self.paths[field.name[0]]), "action", _first(buffer[cut], 1))
        for key, value in extras.items():
            td.set(key, value)
        td.refine_names(..., "time")
        return td


def fused(
    env: ScenarioEnv, steps: int, policy: Any, options: Mapping[str, Any], reset_options: Mapping[str, Any]
) -> TensorDictBase:
    """A rollout that :func:`fits` accepts."""
    stop = options["break_when_any_done"]
    stop = not options["break_when_all_done"] if stop is None else stop
    whole(f"{type(env).__name__}.rollout", "max_steps", steps, 1)
    given = options["tensordict"]
    start = env.reset(**reset_options) if options["auto_reset"] else env.maybe_reset(given)
    board = Board(env, steps, compact=options["compact"])
    for field, buffer in zip(board.outs, board.root, strict=False):
        buffer[0].copy_(_found(board, start, field).movedim(0, -1))
    extras: dict[Any, Tensor] = {}
    if policy is None and isinstance(env.engine, Compiled) and env.engine.kernel.draws:
        played = _drawn(env, board, steps, stop)
    else:
        act = env.rand_action if policy is None else as_policy(policy, env, options["trust_policy"])
        played, extras = _acted(env, board, act, steps, stop)
    if options["set_truncated"]:
        for name, flag in zip(FLAGS, board.flags, strict=True):
            if name != "terminated":
                flag[played - 1] = True
    return board.whole(played, extras)


def _drawn(env: ScenarioEnv, board: Board, steps: int, stop: bool) -> int:
    """Random actions, all in machine code."""
    engine = env.engine
    kernel, stream = engine.kernel, env.action_stream
    ended = torch.zeros(steps, dtype=torch.uint8)
    at, length = 0, min(CHUNK, steps) if stop else steps
    while at < steps:
        state = env.own_state()
        keys, used = stream.rng(env.batch_size).key, stream.used
        places = kernel.bind(state, board.actions, board.next, board.flags, board.root, keys)
        kept = {name: x.clone() for name, x in state.items()} if stop else None
        end = min(at + length, steps)
        options = {"last": steps - 1, "drawn": used, "most": env.max_steps}
        kernel.run(env.num_envs, places, ended, at, end, restart=not stop, **options)
        over = ended[at:end].nonzero() if stop else ended[:0]
        if kept is not None and len(over) and (first := at + int(over[0])) + 1 < end:
            for name, x in state.items():  # once more, no further than the first end
                x.copy_(kept[name])
            end = first + 1
            kernel.run(env.num_envs, places, ended, at, end, restart=False, **options)
        stream.skip((end - at) * kernel.draws)
        at = end
        if len(over):
            break
    return at


def _acted(env: ScenarioEnv, board: Board, act: Any, steps: int, stop: bool) -> tuple[int, dict[Any, Tensor]]:
    """A policy, step by step."""
    engine = env.engine
    compiled = isinstance(engine, Compiled)
    ended = torch.zeros(steps, dtype=torch.uint8)
    places = None
    if compiled:
        state = env.own_state()
        places = engine.kernel.bind(state, board.actions, board.next, board.flags, board.root)
    carried: dict[Any, Any] = {}
    kept: dict[Any, list[Tensor]] = {}
    for t in range(steps):
        td = board.moment(t)
        for key, value in carried.items():
            td.set(key, value)
        known = set(td.keys(True, True))
        check_actions(env, env.plan, ask(act, td, f"{type(env).__name__}.rollout"))
        actions = env.taken(td)
        for field, buffer in zip(board.acts, board.actions, strict=True):
            x = actions[field.name[0]]
            buffer[t].copy_((x.squeeze(-1) if x.ndim - 1 > len(field.shape) else x).movedim(0, -1))
        carried = {key: x for key, x in td.items(True, True) if key not in known or key in carried}
        carried = {key: x for key, x in carried.items() if key not in env.action_keys}
        for key, x in carried.items():
            kept.setdefault(key, []).append(x)
        last = t == steps - 1
        if compiled:
            engine.kernel.run(
                env.num_envs, places, ended, t, t + 1, last=steps - 1, most=env.max_steps, restart=not stop
            )
            any_done = bool(ended[t]) if stop else False
        else:
            any_done = _played(env, board, actions, t, last, stop)
        if stop and any_done:
            break
    extras = {key: torch.stack(xs, 1) for key, xs in kept.items()}
    return t + 1, extras


def _played(env: ScenarioEnv, board: Board, actions: Mapping[str, Tensor], t: int, last: bool, stop: bool) -> bool:
    """One step by the simulation, and what follows from it."""
    with env._gradients():
        state, seen, rewards, over, infos = env.engine.transition(env._state, actions)
        env._now = state
        for field, buffer in zip(board.outs, board.next, strict=True):
            if buffer is None:
                continue
            x = rewards[field.name[0]] if field.name[1:] == ("reward",) else _pick(field, seen, infos)
            buffer[t].copy_(x.movedim(0, -1))
        flags = env._flags(over, state["steps"])
        for name, buffer in zip(FLAGS, board.flags, strict=True):
            buffer[t].copy_(flags[name].squeeze(-1))
        done = board.flags[2][t]
        ended = bool(done.any()) if stop or done.device.type == "cpu" else not stop
        if last or (stop and ended):
            return ended
        if ended and not stop:
            seen, infos = env._begin(done.clone(), leaves(seen, infos))
        for field, buffer in zip(board.outs, board.root, strict=False):
            buffer[t + 1].copy_(_pick(field, seen, infos).movedim(0, -1))
        return ended


ROLLOUT = {
    name: p.default for name, p in inspect.signature(EnvBase.rollout).parameters.items() if p.kind is p.KEYWORD_ONLY
}
ROLLOUT["compact"] = False
"""The options of a rollout, with what holds when they are left out."""


def drawing(env: ScenarioEnv) -> tuple[Draw | None, int, bool]:
    """How random actions come of uniform numbers: a function, of how many numbers, and whether of float64 ones."""
    plan, whole = env.plan, env.seating.whole
    simple = (
        plan.dense_actions and not env._one_hot and all(e.mask is None and e.path[:-1] in whole for e in plan.actions)
    )
    if not simple:
        return None, 0, False

    def draw(unit: Tensor) -> dict[str, Tensor]:
        at, out = 0, {}
        for entry in plan.actions:
            part = unit[:, at : at + math.prod(entry.draw)].reshape(unit.shape[0], *entry.draw)
            at += math.prod(entry.draw)
            out[whole[entry.path[:-1]]] = entry.spec[0].from_unit(part)
        return out

    wide = any(entry.spec.unit_dtype == torch.float64 for entry in plan.actions)
    return draw, sum(math.prod(entry.draw) for entry in plan.actions), wide


def fits(env: ScenarioEnv, options: Mapping[str, Any], policy: Any) -> bool:
    """Whether a rollout can be fused: the plain ones, with the groups of the world."""
    plain = all(options[name] is None for name in ("callback", "actions", "storing_device", "out"))
    writes = [key for key in getattr(policy, "out_keys", ()) if isinstance(key, tuple) and key[0] == "next"]
    return (
        plain
        and not writes
        and not options["auto_cast_to_device"]
        and not options["break_when_all_done"]
        and options["return_contiguous"] is not False
        and not (env.grad_enabled and torch.is_grad_enabled())
        and not env.run_type_checks
        and len(env.seating.whole) == len(env.tree.groups)
        and not env.seating.padded
        and not env._one_hot
        and (options["tensordict"] is None if options["auto_reset"] else _only_ours(env, options["tensordict"]))
    )


def _only_ours(env: ScenarioEnv, td: TensorDictBase | None) -> bool:
    """Whether data to go on from hold the env's entries and nothing else."""
    own = {*env.observation_keys, *env.done_keys}
    return td is not None and own <= set(td.keys(True, True)) <= {*own, *env.action_keys}


# --- memory --------------------------------------------------------------------------------------


def _arena(env: ScenarioEnv, fields: Sequence[Field], steps: int, rows: int) -> list[Tensor]:
    """Room for all fields, ``[T, ..., B]`` each, in one piece of memory."""
    sizes = [-(-f.numbers * steps * rows * f.dtype.itemsize // 64) * 64 for f in fields]
    arena = _memory(env, sum(sizes) + 64)
    at = -arena.data_ptr() % 64 if arena.device.type == "cpu" else 0
    out = []
    for field, size in zip(fields, sizes, strict=True):
        used = field.numbers * steps * rows * field.dtype.itemsize
        out.append(arena[at : at + used].view(field.dtype).view(steps, *field.shape, rows))
        at += size
    return out


def _memory(env: ScenarioEnv, size: int) -> Tensor:
    """Memory of a rollout before that nobody holds any more, or fresh memory: first writes to that are slow."""
    kept: list[Tensor] = env.__dict__.setdefault("_memories", [])
    for memory in kept:
        if memory.numel() == size and _holders(memory) == 2:  # the tensor and the one who asks
            return memory
    memory = torch.empty(size, dtype=torch.uint8, device=env.device)
    if memory.device.type == "cpu" and size >= LARGE:
        _ask_for_large_pages(memory)
        kept[:] = [*kept, memory][-KEPT:]
    return memory


def _holders(x: Tensor) -> int:
    """How many hold the memory of a tensor; 0 where PyTorch does not say."""
    count = getattr(torch._C, "_storage_Use_Count", None)
    return count(x.untyped_storage()._cdata) if count is not None else 0


def _ask_for_large_pages(arena: Tensor) -> None:
    """First writes to fresh memory are several times as fast with them; where they are not to be had nothing happens."""
    try:
        advise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return
    page = 1 << 21
    start = -(-arena.data_ptr() // page) * page
    length = (arena.data_ptr() + arena.numel() - start) // page * page
    if length > 0:
        advise(ctypes.c_void_p(start), ctypes.c_size_t(length), ADVICE)


def _first(x: Tensor, time: int) -> Tensor:
    """``[*T, ..., B]`` as ``[B, *T, ...]``."""
    return x.movedim(-1, 0) if time <= 1 else x


def _pick(field: Field, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> Tensor:
    group, what, *name = field.name
    if what == "info":
        x: Tensor = infos[group][name[0]]
        return x
    seen = observations[group]
    return seen[name[0]] if name else seen


def _found(board: Board, td: TensorDictBase, field: Field) -> Tensor:
    """An entry of what a reset gave, in the shape of its field."""
    group, what, *name = field.name
    node: Any = td if group == SHARED else _node(td, board.paths[group])
    for part in (what, *name):
        node = get(node, part)
    return node.reshape(node.shape[0], *field.shape)


def _node(td: Any, path: Path) -> Any:
    for name in path:
        td = get(td, name)
    return td


__all__ = ["ROLLOUT", "Board", "drawing", "fits", "fused"]
