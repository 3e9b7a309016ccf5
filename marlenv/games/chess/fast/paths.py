"""Which code answers: ``kernels.py`` on the CPU where numba is installed, torch operations elsewhere.

Both give the same bits. States go in and come out with any batch dimensions; the code behind sees one row after
another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marlenv.errors import DeviceError, DtypeError, ShapeError
from marlenv.games.chess import bits, ending
from marlenv.games.chess.board import FULLMOVE, HALFMOVE, HASH, MOST, OUTCOME, PASSANT, PLANES, REPEATS, WORDS, State
from marlenv.games.chess.ending import Limits
from marlenv.games.chess.fast import env_torch
from marlenv.games.chess.moves import advance, generate
from marlenv.games.fast.compiled import NUMBA, played
from marlenv.games.fast.step_buffers import StepBuffers
from marlenv.rng import RowRNG
from marlenv.threads import shared

Path = Literal["auto", "torch", "numba"]

DRAWING, WRITING, PLAYING, WORDING = 20, 50, 200, 5000
"""Nanoseconds that a game takes one thread, about."""
_ON_CPU = torch.empty(0, device="cpu")


def compiled(path: Path, tensor: Tensor) -> bool:
    """Whether numba answers for a tensor."""
    if path == "numba" and tensor.device.type != "cpu":
        raise DeviceError(f"chess: path='numba' works on the CPU, the state is on {tensor.device}; take path='auto'")
    return path == "numba" or (
        path == "auto" and NUMBA and tensor.device.type == "cpu" and not torch.compiler.is_compiling()
    )


@cache
def kernels() -> ModuleType:
    """The module of the numba path; importing it needs numba."""
    from marlenv.games.chess.fast import kernels  # optional: compiled on first use

    return kernels


def _memory(*tensors: Tensor) -> list[NDArray[np.int64]]:
    """The memory of tensors as rows; of a copy where a tensor has gaps."""
    found = [tensor.contiguous().numpy() for tensor in tensors]
    return found if found[0].ndim == 2 else [rows.reshape(-1, rows.shape[-1]) for rows in found]


@cache
def _limits(limits: Limits) -> NDArray[np.int64]:
    return np.array(limits)


def _target(state: State, out: State | None) -> State:
    """Where a result is written: to ``out`` if it fits, else to new memory."""
    if out is None:
        return blank(state)
    if out is state and all(part.is_contiguous() for part in state):
        return out
    for part, given in zip(state, out, strict=True):
        if (
            given.shape != part.shape
            or given.dtype != torch.int64
            or not given.is_contiguous()
            or given.device != part.device
        ):
            raise ShapeError(
                f"chess: out must be contiguous int64 {list(part.shape)} on {part.device}, "
                f"got {given.dtype} {list(given.shape)} on {given.device}"
            )
    return out


def _into(out: State | None, new: State) -> State:
    """A result, copied to ``out`` where that is given."""
    if out is None:
        return new
    for given, part in zip(_target(new, out), new, strict=True):
        given.copy_(part)
    return out


def settle(words: Tensor, limits: Limits, chess960: bool, path: Path) -> State:
    """The states of positions without a past, of which the words up to ``FULLMOVE`` are known; ``[*B, 13+]``."""
    lead, kept = words.shape[:-1], limits.plies + 1
    if compiled(path, words):
        board, history, moves = (words.new_zeros(*lead, width) for width in (WORDS, kept, PLANES))
        board[..., : FULLMOVE + 1] = words[..., : FULLMOVE + 1]
        kernels().settle(*_memory(board, history, moves), _limits(limits), chess960)
        return State(board, history, moves)
    rows = words.reshape(-1, words.shape[-1]).t().contiguous()
    past = words.new_zeros(rows.shape[1], kept)
    return _state(lead, *ending.settle(rows, past, None, limits, chess960))


def _state(lead: torch.Size, words: Tensor, history: Tensor, moves: Tensor) -> State:
    board = words.t().contiguous()
    return State(board.reshape(*lead, WORDS), history.reshape(*lead, history.shape[-1]), moves.reshape(*lead, PLANES))


def play(state: State, action: Tensor, limits: Limits, chess960: bool, path: Path, out: State | None = None) -> State:
    """The positions after ``action``; a row whose action is not among its moves stays as it is."""
    lead = state.board.shape[:-1]
    check_action("play", state, action)
    if compiled(path, action):
        new = _target(state, out)
        old_rows = _memory(*state)
        new_rows = old_rows if new is state else _memory(*new)
        actions = action.contiguous().numpy().reshape(-1)
        kernels().play(*old_rows, actions, _limits(limits), chess960, *new_rows, new is state)
        return new
    words = state.board.reshape(-1, WORDS).t().contiguous()
    history = state.history.reshape(-1, state.history.shape[-1])
    legal, chosen = bits.chosen(state.moves.reshape(-1, PLANES), action.reshape(-1))
    words = words ^ ((words ^ advance(words, chosen, chess960)) & legal)
    before = state.board[..., HALFMOVE].reshape(-1, 1).clamp(max=history.shape[-1] - 1)
    key = torch.where(legal.unsqueeze(-1) != 0, state.board[..., HASH].reshape(-1, 1), history.gather(-1, before))
    history = history.scatter(-1, before, key)
    return _into(out, _state(lead, *ending.settle(words, history, words[REPEATS] & ~legal, limits, chess960)))


def permits(state: State, action: Tensor, path: Path) -> Tensor:
    """Whether each action is among the moves of its row; bool ``[*B]``."""
    check_action("permits", state, action)
    if compiled(path, action):
        fits = torch.empty(action.shape, dtype=torch.bool, device="cpu")
        kernels().permits(*_memory(state.moves), action.contiguous().numpy().reshape(-1), fits.numpy().reshape(-1))
        return fits
    return bits.chosen(state.moves, action)[0] != 0


def check_action(who: str, state: State, action: Tensor) -> None:
    """Refuses actions of the wrong shape or dtype."""
    if action.dtype != torch.int64:
        raise DtypeError(f"chess.{who}: actions are int64, got {action.dtype}")
    if action.shape != state.board.shape[:-1]:
        raise ShapeError(
            f"chess.{who}: one action per position, {list(state.board.shape[:-1])}; got {list(action.shape)}"
        )


def sample(moves: Tensor, random: Tensor, path: Path) -> Tensor:
    """A legal action per row, see :func:`bits.sample`."""
    if compiled(path, moves):
        bits.check_sample(moves, random)
        action = torch.empty(random.shape, dtype=torch.int64, device="cpu")
        kernels().sample(*_memory(moves), random.contiguous().numpy().reshape(-1), action.numpy().reshape(-1))
        return action
    return bits.sample(moves, random)


def draw(moves: Tensor, rng: RowRNG, path: Path) -> Tensor:
    """The same with the next bits of a generator, which moves on by one."""
    if compiled(path, moves):
        bits.check_sample(moves, rng.key)
        action = torch.empty(rng.key.shape, dtype=torch.int64, device="cpu")
        state = (part.contiguous().numpy().reshape(-1) for part in (rng.key, rng.counter))
        kernels().draw(*_memory(moves), *state, action.numpy().reshape(-1))
        rng.counter = rng.counter + 1
        return action
    return bits.sample(moves, rng.bits([1]).squeeze(-1))


def unpack(moves: Tensor, out: Tensor | None, path: Path) -> Tensor:
    """Packed actions as a mask, see :func:`bits.unpack`."""
    if compiled(path, moves):
        mask = bits.mask_for(moves, out)
        kernels().unpack(*_memory(moves, mask.view(torch.int64)))
        return mask
    return bits.unpack(moves, out)


def step(
    state: State, action: Tensor, fresh: State, limits: Limits, chess960: bool, path: Path, out: State | None
) -> tuple[Tensor, State]:
    """The boards after ``action``, and the positions with fresh ones where the game is over."""
    check_action("step", state, action)
    check_fresh(state, fresh)
    if compiled(path, action):
        new = _target(state, out)
        old_rows = _memory(*state)
        new_rows = old_rows if new is state else _memory(*new)
        actions = action.contiguous().numpy().reshape(-1)
        ended = torch.empty(state.board.shape, dtype=torch.int64, device="cpu")
        fresh_rows = _memory(*fresh)
        places = (*old_rows, actions, _limits(limits), chess960, *new_rows, new is state, *fresh_rows, *_memory(ended))
        kernels().step(*places)
        return ended, new
    after = play(state, action, limits, chess960, path)
    return after.board, restart(after, after.board[..., OUTCOME] != 0, fresh, path, out)


def check_fresh(state: State, fresh: State) -> None:
    """Refuses fresh positions that are neither one nor one for each row."""
    lead = state.board.shape[:-1]
    if fresh.board.shape[:-1] not in (lead, torch.Size()):
        raise ShapeError(f"chess: fresh must have the rows {list(lead)} or none, got {list(fresh.board.shape[:-1])}")


def restart(state: State, where: Tensor, fresh: State, path: Path, out: State | None = None) -> State:
    """Row by row the fresh position or the old one; ``fresh`` has the rows of ``state``, or no batch dimensions."""
    lead = state.board.shape[:-1]
    if where.shape != lead or where.dtype != torch.bool:
        raise ShapeError(f"chess.restart: where must be bool {list(lead)}, got {where.dtype} {list(where.shape)}")
    check_fresh(state, fresh)
    if compiled(path, where):
        new = _target(state, out)
        old_rows = _memory(*state)
        new_rows = old_rows if new is state else _memory(*new)
        rows = where.contiguous().numpy().reshape(-1)
        kernels().restart(rows, *old_rows, *_memory(*fresh), *new_rows, new is state)
        return new
    mask = where.unsqueeze(-1)
    return _into(out, State(*(torch.where(mask, new, old) for new, old in zip(fresh, state, strict=True))))


# --- an env's step on the CPU -----------------------------------------------------------------------


@cache
def env_kernels() -> ModuleType:
    """The module of whole steps; importing it needs numba."""
    from marlenv.games.chess.fast import env_kernels  # optional: compiled on first use

    return env_kernels


@cache
def rollout_kernel() -> ModuleType:
    """The module of rollouts; importing it needs numba."""
    from marlenv.games.chess.fast import rollout_kernel  # optional: compiled on first use

    return rollout_kernel


def blank(state: State) -> State:
    """New memory for as many positions."""
    return State(*[torch.empty(part.shape, dtype=torch.int64, device="cpu") for part in state])


NOWHERE: tuple[int, ...] = (0, 0, 0, 0, 0)


class Addresses(NamedTuple):
    """Where :class:`StepBuffers` are in memory, see :mod:`env_kernels`; masks are ``[*B, 73]`` or bool."""

    state: tuple[int, int, int]
    """Board, history, moves."""
    masks: tuple[int, int]
    """Of White, of Black."""
    entries: tuple[int, int, int, int, int]
    """Turns, flags, outcomes, rewards, and the boards, behind which lie those that the players see."""
    width: int
    """The words of a row of a mask."""
    buffers: StepBuffers[State]
    """The memory itself."""

    @classmethod
    def of(cls, buffers: StepBuffers[State], width: int) -> Addresses:
        """Where the parts of buffers are."""
        white, black = _at(*buffers.action_masks)
        board, history, moves = _at(*buffers.state)
        turn, flags, outcome, rewards = _at(buffers.turn, buffers.flags, buffers.outcome, buffers.rewards)
        return cls((board, history, moves), (white, black), (turn, flags, outcome, rewards, board), width, buffers)


def env_step(
    state: State,
    actions: Sequence[Tensor],
    done: Tensor,
    limits: Limits,
    chess960: bool,
    out: Addresses,
    fresh: State | None,
    restarted: Addresses | None,
    path: Path,
) -> int:
    """Plays where games are not ``done``; given a fresh position, begins others in place of those that are over.

    See :func:`env_kernels.step`. Of what is ``restarted`` boards, moves, White's mask and what an env says are
    written: games that are over have no history, as those that begin, and what Black may do in them is the same.
    """
    if not compiled(path, done):
        again = None if restarted is None else restarted.buffers
        return env_torch.step(state, actions, done, limits, chess960, out.buffers, fresh, again)
    kept = _whole(*state, *actions, done)  # held until the call is over
    at = _at(*kept)
    places, entries = NOWHERE, NOWHERE
    if fresh is not None and restarted is not None:
        board, _, moves = restarted.state
        places, entries = (*_at(fresh.board, fresh.moves), board, moves, restarted.masks[0]), restarted.entries
    return int(
        env_kernels().step(
            shared(done.numel() * PLAYING),
            done.numel(),
            limits.plies + 1,
            out.width,
            at[:3],
            at[3:5],
            at[5],
            _limits(limits),
            chess960,
            out.state,
            out.masks,
            out.entries,
            places,
            (0, 0),
            entries,
        )
    )


def env_rollout(
    steps: int,
    before: Addresses,
    after: Addresses,
    actions: Sequence[Tensor],
    fresh: State,
    drawing: tuple[Tensor, int, tuple[int, int]],
    limits: Limits,
    chess960: bool,
    *,
    stops: bool,
) -> tuple[int, int]:
    """Plays random actions; how many steps, and why no more, see :func:`marlenv.games.fast.compiled.played`.

    See :func:`rollout_kernel.rollout`, too.

    Args:
        steps: the most.
        before: where the first step is; the others lie behind it.
        after: where what follows on the first step is to be.
        actions: memory for those of White and Black, ``[T, *B, 1]``.
        fresh: the position that games begin with.
        drawing: the keys ``[*B]``, the place in their streams, and the offsets of White and Black.
        limits: of the rules.
        chess960: how castling is numbered.
        stops: whether to stop where a game is over.
    """
    keys, at, offsets = drawing
    [keys] = _whole(keys)
    end = int(
        rollout_kernel().rollout(
            shared(steps * keys.numel() * PLAYING),
            keys.numel(),
            limits.plies + 1,
            before.width,
            steps,
            (*before.state, *before.masks, *before.entries[:4]),
            (*after.state, *after.masks, *after.entries[:4]),
            _at(*actions),
            _at(fresh.board, fresh.moves),
            stops,
            (keys.data_ptr(), at, *offsets),
            _limits(limits),
            chess960,
        )
    )
    return played(end, steps)


def env_reset(state: State, mask: Tensor, fresh: State, out: Addresses, path: Path) -> bool:
    """Fresh positions in the rows of ``mask``, bool ``[*B]``, and White's mask, see :func:`env_kernels.reset`.

    False, and nothing, where one of those games is not over by the rules. Games that are over have no history, as those
    that begin.
    """
    if not compiled(path, mask):
        return env_torch.reset(state, mask, fresh, out.buffers)
    kept = _whole(*state, *fresh, mask)
    at, many, (board, _, moves) = _at(*kept), fresh.board.ndim > 1, out.state
    old, new = (at[0], at[2]), (board, moves)
    threads, how = shared(mask.numel() * WRITING), (mask.numel(), out.width, at[6], many)
    return bool(env_kernels().reset(threads, *how, (at[3], at[5]), old, new, out.masks[0], out.entries))


def env_actions(state: State, key: Tensor, counter: int, offsets: tuple[int, int], path: Path) -> tuple[Tensor, Tensor]:
    """A legal action of each mover for both players, see :func:`env_kernels.draw`; int64 ``[*B, 1]`` each."""
    if not compiled(path, key):
        return env_torch.draw(state, key, counter, offsets)
    lead = state.board.shape[:-1]
    white, black = (
        torch.empty((*lead, 1), dtype=torch.int64, device="cpu"),
        torch.empty((*lead, 1), dtype=torch.int64, device="cpu"),
    )
    kept = _whole(state.board, state.moves, key)
    threads = shared(key.numel() * DRAWING)
    env_kernels().draw(threads, key.numel(), *_at(*kept), counter, offsets, _at(white, black))
    return white, black


def _whole(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors without gaps."""
    return tuple([one if one.is_contiguous() else one.contiguous() for one in tensors])


def _at(*tensors: Tensor) -> tuple[int, ...]:
    """Where tensors are in memory."""
    return tuple([one.data_ptr() for one in tensors])


@cache
def san_kernels() -> ModuleType:
    """The module of numbers in SAN; importing it needs numba."""
    from marlenv.games.chess.fast import san_kernel  # optional: compiled on first use

    return san_kernel


def san(state: State, table: Tensor, chess960: bool) -> tuple[Tensor, Tensor]:
    """The numbers and actions of all legal moves, see :func:`san_kernel.san`; int64 ``[*B, 218]`` each."""
    lead = state.board.shape[:-1]
    numbers, actions = (torch.empty((*lead, MOST), dtype=torch.int64, device="cpu") for _ in range(2))
    board, moves = _memory(state.board, state.moves)
    threads = shared(board.shape[0] * WORDING)
    san_kernels().san(threads, board, moves, table.numpy(), chess960, *_memory(numbers, actions))
    return numbers, actions


def san_pick(numbers: Tensor, actions: Tensor, unit: Tensor) -> Tensor:
    """The number of a legal move for each number in [0, 1), int64 ``[*B]``; see :func:`san_kernel.pick`."""
    out = torch.empty(unit.shape, dtype=torch.int64, device="cpu")
    [unit] = _whole(unit)
    san_kernels().pick(unit.numel(), _at(numbers, actions), unit.data_ptr(), out.data_ptr())
    return out


def san_step(
    state: State,
    numbered: tuple[Tensor, Tensor],
    chosen: Tensor,
    done: Tensor,
    table: Tensor,
    limits: Limits,
    chess960: bool,
    size: int,
) -> tuple[State, tuple[Tensor, Tensor], Tensor, Tensor] | None:
    """The positions after moves by their numbers, the legal moves there, their mask and whether White is to move.

    None where a game is over before or after, a move is illegal, or else; see :func:`san_kernel.step`.
    """
    new, lead = blank(state), done.shape
    found = (
        torch.empty((*lead, MOST), dtype=torch.int64, device="cpu"),
        torch.empty((*lead, MOST), dtype=torch.int64, device="cpu"),
    )
    mask, turn = (
        torch.empty((*lead, size), dtype=torch.bool, device="cpu"),
        torch.empty(lead, dtype=torch.bool, device="cpu"),
    )
    kept = _whole(*state, *numbered, chosen, done)  # held until the call is over
    at = _at(*kept)
    fine = san_kernels().step(
        shared(done.numel() * WORDING),
        done.numel(),
        limits.plies + 1,
        at[:3],
        at[3:5],
        at[5],
        at[6],
        table.numpy(),
        _limits(limits),
        chess960,
        _at(*new),
        _at(*found),
        mask.data_ptr(),
        size,
        turn.data_ptr(),
    )
    return (new, found, mask, turn) if fine else None


def follow(board: list[int], action: int, chess960: bool, path: Path) -> tuple[list[int], NDArray[np.int64], bool]:
    """One position on the host after a legal action (none if negative): its words, its packed moves, and check.

    Draws are not seen: moves follow while there are any.
    """
    if compiled(path, _ON_CPU):
        words, planes = np.array(board, dtype=np.int64), np.zeros(PLANES, dtype=np.int64)
        checkers = kernels().follow(words, action, planes, chess960)
        return words.tolist(), planes, bool(checkers)
    column = torch.tensor(board, dtype=torch.int64, device="cpu").unsqueeze(-1)
    if action >= 0:
        column[: FULLMOVE + 1] = advance(column, torch.tensor([action], device="cpu"), chess960)
    moves = generate(column, chess960)
    column[PASSANT] = moves.passant
    return column[:, 0].tolist(), moves.planes[:, 0].numpy(), bool(moves.checkers[0])
