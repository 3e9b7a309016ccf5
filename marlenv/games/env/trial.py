"""A trial of somebody's rules: a few games are played for some moves, and what :class:`~marlenv.games.Rules` says of
every answer is checked.

Steps check nothing of it: the rules answer them as often as they are asked, and shapes and dtypes never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Size, Tensor

from marlenv.errors import DtypeError, ShapeError, SpecError, SpecTypeError, whole
from marlenv.games.rules import Rules, picked
from marlenv.rng import RowRNG

TRIAL = 11  # games of the trial; unlikely to be the size of anything else
MOVES = 40  # of each game; most games begin to pay, and many end, within them
ROUNDING = 1e-3  # of the size of the returns; what they may add up to in a zero-sum game


def check_rules(rules: Rules[Any]) -> None:
    """Begins a few games, plays legal moves in each, and checks what the methods of the rules return.

    The games' chance and the moves have streams of their own, always the same. What comes after the first
    :data:`MOVES` moves is not seen.

    Raises:
        ShapeError: an answer has another shape than :class:`~marlenv.games.Rules` says.
        DtypeError: it has another dtype.
        SpecTypeError: it is no tensor; a position is no NamedTuple, or of another class after a move.
        SpecError: it has a value that cannot be: a seat that there is not, a game that goes on without a legal action,
            a finished game that moves, or what ``zero_sum``, ``pays_at_end`` or ``alternating`` exclude.
    """
    who, when = type(rules).__name__, "at the start"
    _check_attributes(who, rules)
    try:
        with torch.no_grad():
            state = rules.start(Size([TRIAL]), rng=RowRNG(0, [TRIAL]))
            _check_start(f"{who}.start", state)
            seen = _check_answers(rules, state, None)
            chance, wide = RowRNG(1, [TRIAL]), [len(rules.players)] if rules.simultaneous else []
            for move in range(1, MOVES + 1):
                when = f"in move {move}" if move > 1 else "in the first move"
                ended = bool(rules.over(state).all())
                action = picked(rules.legal(state), chance.uniform(shape=wide))
                before = type(state)(*(leaf.clone() for leaf in state))
                played = rules.play(state, action)
                _check_played(f"{who}.play", before, played)
                _check_answers(rules, played, seen)
                _check_move(rules, before, state, played)
                if ended:
                    break
                state = played
    except Exception as error:
        error.add_note(f"in a trial of {who} with {TRIAL} games, {when}")
        raise


def check_positions(who: str, rules: Rules[Any], state: Any) -> None:
    """Raises where positions that an env is told to go on from are none of its game.

    Raises:
        SpecError: a number is out of range.
    """
    good = rules.is_position(state)
    if not bool(good.all()):
        row = tuple((~good).nonzero()[0].tolist())
        got = {name: leaf[row].tolist() for name, leaf in zip(state._fields, state, strict=True)}
        few = {name: value for name, value in got.items() if not isinstance(value, list) or len(str(value)) <= 60}
        raise SpecError(
            f"{who}.set_state: expected positions of {type(rules).__name__}, with all numbers in range, got {few} in "
            f"row {row[0] if len(row) == 1 else list(row)}; give what env.get_state(td) gave"
        )


def _check_attributes(who: str, rules: Rules[Any]) -> None:
    """Raises where what the rules say of the game itself cannot be."""
    whole(who, "n_actions", rules.n_actions, 1)
    if not isinstance(rules.observation_shape, Sequence):
        raise SpecTypeError(f"{who}.observation_shape: expected a tuple of ints, got {rules.observation_shape!r}")
    words: Any
    for name, words in (("players", rules.players), ("outcomes", rules.outcomes)):
        if isinstance(words, str) or not isinstance(words, Sequence) or not all(isinstance(one, str) for one in words):
            raise SpecTypeError(f"{who}.{name}: expected a tuple of texts, got {words!r}")
        if not words:
            raise SpecError(f"{who}.{name}: expected a text or more, got {words!r}")
    if rules.alternating and (rules.simultaneous or len(rules.players) != 2):
        how = "who all act at once" if rules.simultaneous else "in turn"
        raise SpecError(
            f"{who}.alternating: True is for two players who move in turn, got {len(rules.players)} {how}; say "
            f"alternating = False in the rules"
        )


def _check_start(method: str, state: Any) -> None:
    """Raises where a position is no NamedTuple of tensors with a row per game."""
    if not isinstance(state, tuple) or not hasattr(state, "_fields"):
        raise SpecTypeError(f"{method}: expected a NamedTuple of tensors, got {_said(state)}")
    for name, leaf in zip(state._fields, state, strict=True):
        if name == "rng":
            _check(f"{method}: 'rng'", leaf, torch.int64, [TRIAL, 2], "rows, 2; what RowRNG.state gives")
        elif not isinstance(leaf, Tensor):
            raise SpecTypeError(f"{method}: {name!r} must be a tensor [{TRIAL}, ...] (rows, ...), got {_said(leaf)}")
        elif leaf.shape[:1] != (TRIAL,):
            raise ShapeError(
                f"{method}: {name!r} must be [{TRIAL}, ...] (rows, ...), got {list(leaf.shape)}; begin shapes with "
                f"batch_size"
            )


def _check_played(method: str, before: Any, after: Any) -> None:
    """Raises where a position after a move is not made as the first one is."""
    kind = type(before)
    if type(after) is not kind:
        raise SpecTypeError(f"{method}: expected a {kind.__name__}, as start gives, got {_said(after)}")
    for name, old, new in zip(kind._fields, before, after, strict=True):
        _check(f"{method}: {name!r}", new, old.dtype, old.shape, "as start gives it")


def _check_answers(rules: Rules[Any], state: Any, seen: torch.dtype | None) -> torch.dtype:
    """Checks what the rules say of positions; ``seen`` is the dtype of observations, which is returned."""
    who, seats = type(rules).__name__, len(rules.players)
    lead, letters = ([TRIAL, seats], "rows, players") if rules.simultaneous else ([TRIAL], "rows")
    over = rules.over(state)
    _check(f"{who}.over", over, torch.bool, [TRIAL], "rows")  # first, as others may ask it
    legal, outcome = rules.legal(state), rules.outcome(state)
    _check(f"{who}.legal", legal, torch.bool, [*lead, rules.n_actions], f"{letters}, n_actions")
    _check(f"{who}.outcome", outcome, torch.int8, [TRIAL], "rows")
    _check_range(f"{who}.outcome", outcome, len(rules.outcomes), "outcomes")
    if not rules.simultaneous:
        player = rules.player(state)
        _check(f"{who}.player", player, torch.int64, [TRIAL], "rows")
        _check_range(f"{who}.player", player, seats, "players")
    stuck = ~legal.any(-1) & ~(over.unsqueeze(-1) if rules.simultaneous else over)
    if bool(stuck.any()):
        raise SpecError(
            f"{who}.legal: expected a legal action of {'everybody' if rules.simultaneous else 'the player to move'} "
            f"until the game is over, got none in row {stuck.nonzero()[0, 0].item()}; a player who can do nothing has "
            f"an action for it"
        )
    early = outcome.masked_fill(over, 0)
    if bool(early.any()):
        raise SpecError(f"{who}.outcome: expected 0 until the game is over, got {int(early[early != 0][0])}")
    observed = rules.observe(state)
    shape = [TRIAL, seats, *rules.observation_shape]
    _check(f"{who}.observe", observed, seen, shape, "rows, players, *observation_shape")
    _check_returns(rules, rules.returns(state), over)
    dtype: torch.dtype = observed.dtype
    return dtype


def _check_move(rules: Rules[Any], before: Any, given: Any, after: Any) -> None:
    """Raises where a move does what none may; ``given`` is the position that ``before`` is a copy of."""
    who, over = type(rules).__name__, rules.over(before)
    for name, old, same, new in zip(before._fields, before, given, after, strict=True):
        if bool(_changed(old, same).any()):
            raise SpecError(f"{who}.play: wrote to {name!r} of the position it was given; make new tensors")
        moved = _changed(old, new) & over
        if bool(moved.any()):
            raise SpecError(
                f"{who}.play: expected a finished game to stay as it is, got another {name!r} in row "
                f"{int(moved.nonzero()[0])}; marlenv.games.rules.where(over, before, after) keeps such rows"
            )
    if rules.alternating:
        again = (rules.player(before) == rules.player(after)) & ~rules.over(after)
        if bool(again.any()):
            raise SpecError(
                f"{who}.player: expected the other player after every move, as alternating is True, got the same in "
                f"row {int(again.nonzero()[0])}; say alternating = False in the rules"
            )


def _changed(old: Tensor, new: Tensor) -> Tensor:
    """In which rows two tensors differ; NaN is NaN."""
    return ((old != new) & ~(old.isnan() & new.isnan())).unsqueeze(-1).flatten(1).any(-1)


def _check_returns(rules: Rules[Any], returns: Any, over: Tensor) -> None:
    who = f"{type(rules).__name__}.returns"
    floats = isinstance(returns, Tensor) and returns.is_floating_point() and not rules.pays_at_end
    _check(who, returns, returns.dtype if floats else torch.float32, [TRIAL, len(rules.players)], "rows, players")
    lost = returns.double().sum(-1).abs() > ROUNDING * returns.double().abs().sum(-1)
    if rules.zero_sum and bool(lost.any()):
        raise SpecError(
            f"{who}: expected returns that add up to zero, as zero_sum is True, got {returns[lost][0].tolist()}; say "
            f"zero_sum = False in the rules where they need not"
        )
    early = (returns != 0).any(-1) & ~over
    if rules.pays_at_end and bool(early.any()):
        raise SpecError(
            f"{who}: expected zeros until the game is over, as pays_at_end is True, got {returns[early][0].tolist()}; "
            f"say pays_at_end = False in the rules where moves pay"
        )


def _check_range(method: str, got: Tensor, count: int, what: str) -> None:
    """Raises where an index is none of ``count``."""
    wrong = got[(got < 0) | (got >= count)]
    if len(wrong):
        raise SpecError(f"{method}: expected an index of {what}, 0 to {count - 1}, got {int(wrong[0])}")


def _check(method: str, got: Any, dtype: torch.dtype | None, shape: Sequence[int], letters: str) -> None:
    """Raises where an answer is no tensor of this dtype (any where None) and shape."""
    is_tensor = isinstance(got, Tensor)
    fits = is_tensor and list(got.shape) == list(shape)
    if fits and dtype in (None, got.dtype):
        return
    kind = "a tensor" if dtype is None else str(dtype).removeprefix("torch.")
    error = ShapeError if is_tensor and not fits else DtypeError if is_tensor else SpecTypeError
    raise error(f"{method}: expected {kind} {list(shape)} ({letters}), got {_said(got)}")


def _said(got: Any) -> str:
    """An answer as errors say it."""
    if isinstance(got, Tensor):
        return f"{str(got.dtype).removeprefix('torch.')} {list(got.shape)}"
    return "None" if got is None else f"a {type(got).__name__}"
