"""What calls the kernels of a game: draws, steps and rollouts of random play, each one call, in the threads of PyTorch.

A game has two functions that play the rows from ``start`` to ``stop``, which depend on no others. All arrays of a row
are ``[n, w]``, actions of a player and ``done`` ``[n]``, flags ``[4 + 5 P, n]`` and rewards ``[P, n]``::

    draw(options, state, keys, at, offsets, out, start, stop) -> int
    play(options, before, how, following, restarted, start, stop) -> int

``before`` is ``(state, actions, done)``, ``how`` is ``(ahead, always, steps)``; ``following`` and ``restarted`` are
``(state, observations, masks, turn, outcome, flags, rewards)``. What is restarted is written if ``ahead`` is set, and
where no game is over only if ``always`` is, too. ``steps`` says how many such steps are written side by side before
anybody reads them: of several, board games leave in ``state``, too, what the next starts from. Both return 0 where an
action is illegal, or a position is one that no game leads to; else 1 if a game is over, or 2. ``out`` are the actions,
one column for those who move in turn.

Importing this needs numba.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from marlenv.games.fast.by_rows import by_rows, call_at
from marlenv.games.fast.cached import compiled
from marlenv.games.fast.kernels import BLOCK, Array, _result
from marlenv.games.fast.plain_arrays import (
    arrays_at,
    bare,
    bytes_of,
    changed,
    copy_rows,
    made,
    parts_of,
    rows_at_hand,
)

Arrays = tuple[Array, ...]
Offsets = tuple[int, ...]
Before = tuple[Arrays, Arrays, Array]
How = tuple[bool, bool, int]
Data = tuple[Any, ...]

STATE, SEEN, MASKS, TURNS, OUTCOMES, FLAGS, REWARDS = range(7)  # the parts of what kernels write


def _stepped(context: Any, memory: Any, t: Any) -> Any:
    players = len(memory[SEEN]) if isinstance(memory[SEEN], types.BaseTuple) else 0

    def change(context: Any, builder: Any, kind: Any, value: Any, t: Any) -> Any:
        seats = players if kind.ndim == 4 else 0
        inner = types.Array(kind.dtype, kind.ndim - (2 if seats else 1), "C")
        whole = types.Tuple([inner] * seats) if seats else inner
        if value is None:
            return whole, None
        array = context.make_array(kind)(context, builder, value)
        shape = cgutils.unpack_tuple(builder, array.shape)[kind.ndim - inner.ndim :]
        strides = cgutils.unpack_tuple(builder, array.strides)
        found = []
        for seat in range(max(seats, 1)):
            past = builder.mul(strides[0], t)
            if seats:
                past = builder.add(past, builder.mul(strides[1], context.get_constant(types.intp, seat)))
            data = cgutils.pointer_add(builder, array.data, past)
            found.append(made(context, builder, inner, data, shape))
        return whole, context.make_tuple(builder, whole, found) if seats else found[0]

    return changed(memory, change, types.int64)


step_of: Any = intrinsic(_stepped)
"""``step_of(memory, t)``: of each array ``[T, ...]`` that of a step; one of ``[T, P, ...]`` as a tuple of ``P``."""

# --- calls ------------------------------------------------------------------------------------------------------------


def kinds(value: Any) -> Any:
    """The numba types of what kernels are given, as :func:`bare` makes them."""
    return _plain(numba.typeof(value))


def _plain(kind: Any) -> Any:
    if isinstance(kind, types.Array):
        return types.Array(kind.dtype, kind.ndim, "C")
    return types.Tuple([_plain(one) for one in parts_of(kind)]) if isinstance(kind, types.BaseTuple) else kind


def compiled_at(kernel: Any, given: tuple[Any, ...]) -> int:
    """Compiles a kernel for arguments of these types, and rows; returns where it is, for :func:`called`.

    Machine code of a game is not compiled into what calls it: that would compile it again.
    """
    asked = (*given, types.int64, types.int64)
    kernel.compile(asked)
    result = kernel.overloads[asked]
    assert types.unliteral(result.signature.return_type) == types.int64, kernel
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


def _called(context: Any, address: Any, given: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        status, answer = call_at(context, builder, args[0], given, cgutils.unpack_tuple(builder, args[1]))
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return answer

    return types.int64(address, given), code


called: Any = intrinsic(_called)
"""``called(address, args)``: what compiled code at an address says."""


@compiled
def draw(
    kernel: int,
    threads: tuple[int, int],
    rows: int,
    options: tuple[Any, ...],
    like: tuple[Any, ...],
    addresses: tuple[int, ...],
    drawing: tuple[Any, ...],
    out: Array,
) -> int:
    """A random legal action for each row; returns 0 where that cannot be.

    Args:
        kernel: where ``draw`` of the game is.
        threads: to use, see :func:`marlenv.threads.shared`.
        rows: how many there are.
        options: of the game.
        like: a position of one row.
        addresses: where the parts of those to read are.
        drawing: keys, place and offsets of what is drawn from.
        out: to write to, ``[B, 1]`` or of each player.
    """
    keys, at, offsets = drawing
    state = arrays_at(like, addresses, rows)
    return by_rows(kernel, (bare(options), state, bare(keys), at, offsets, bare(out)), rows, threads)


@compiled
def step(
    kernel: int,
    threads: tuple[int, int],
    rows: int,
    options: tuple[Any, ...],
    like: tuple[Any, ...],
    addresses: tuple[int, ...],
    twice: tuple[bool, bool],
    following: tuple[Any, ...],
    restarted: tuple[Any, ...],
) -> int:
    """A whole step; returns what :meth:`marlenv.games.fast.fast_rules.FastSteps.step` does.

    Args:
        kernel: where ``play`` of the game is.
        threads: to use.
        rows: how many there are.
        options: of the game.
        like: a position, actions and ``done`` of one row.
        addresses: where those to read are.
        twice: whether to write what is restarted, and whether a game is likely to be over.
        following: to write to.
        restarted: the same.
    """
    ahead, likely = twice
    how = ahead, likely or threads[0] > 1, 1  # a game of another thread may be over
    given = bare(options), arrays_at(like, addresses, rows), how, bare(following), bare(restarted)
    return _result(by_rows(kernel, given, rows, threads))


@compiled
def rollout(
    kernels: tuple[int, int],
    threads: tuple[int, int],
    steps: int,
    options: tuple[tuple[Any, ...], tuple[Any, ...]],
    memory: tuple[Any, ...],
    drawing: tuple[Any, ...],
    stops: bool,
    held: bool,
) -> int:
    """Plays random actions, step after step; returns what :func:`marlenv.games.fast.compiled.played` is asked.

    Args:
        kernels: where ``draw`` and ``play`` of the game are.
        threads: to use.
        steps: the most to play, ``T``.
        options: of both.
        memory: what each step starts from, and what follows, see :func:`step_of`; the actions of each player,
            ``[T, n]``; and those of a step as ``draw`` writes them.
        drawing: what actions are drawn from, see :data:`marlenv.games.fast.fast_rules.Drawing`.
        stops: whether to stop where a game is over; else games that are over begin anew.
        held: whether ``play`` leaves in place of a position what the next step starts from.
    """
    keys, at, width, offsets = drawing
    given = kernels, steps, bare(options), bare(memory), (bare(keys), at, width, offsets), stops, held and steps > 1
    return by_rows(_rollout, given, keys.size, threads)


@compiled
def _rollout(
    kernels: tuple[int, int],
    steps: int,
    options: tuple[tuple[Any, ...], tuple[Any, ...]],
    memory: tuple[Any, ...],
    drawing: tuple[Any, ...],
    stops: bool,
    held: bool,
    start: int,
    stop: int,
) -> int:
    (before, after, actions, found), (keys, at, width, offsets) = memory, drawing
    end, first = 2 * steps, step_of(before, 0)[STATE]
    kept = (np.empty(bytes_of(first, BLOCK) if held else 1, np.uint8),)
    (room,) = bare(kept)
    for low in range(start, stop, BLOCK):
        high = min(low + BLOCK, stop)
        positions = rows_at_hand(first, room, low, BLOCK)
        if held:
            copy_rows(positions, first, low, high - low)
        for t in range((end + 1) // 2):
            ahead = t < steps - 1
            now, then, chosen = step_of(before, t), step_of(after, t), step_of(actions, t)
            begun = step_of(before, t + 1 if ahead else t)
            state = positions if held else now[STATE]
            given = options[0], state, keys, at + t * width, offsets, found, low, high
            how = called(kernels[0], given)
            if how != 0:
                for seat in range(len(chosen)):
                    mine, column = chosen[seat], seat % found.shape[1]
                    for b in range(low, high):
                        mine[b] = found[b, column]
                move = options[1], (state, chosen, now[FLAGS][2]), (ahead, ahead, steps), then, begun, low, high
                how = called(kernels[1], move)
            if how == 0 or (how == 1 and stops):
                end = min(end, 2 * t + how)
                break
    kept[0][0] = 0  # until here it is held
    return end
