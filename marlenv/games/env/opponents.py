"""Who can be an opponent, what one that is a policy is shown, and whether it answered for the seats that it plays."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.envs.policies import as_policy, ask
from marlenv.errors import KeyMissing, ShapeError, SpecError
from marlenv.games.rules import Rules
from marlenv.keys import NestedKey
from marlenv.tensordicts import fetch

Seats = Mapping[NestedKey, Sequence[int]]
"""Where actions are written, and the seats whose they are, in order."""


class Asked:
    """The opponent of an env: looked at where it is another than before, and asked.

    Args:
        who: the env.
        opponent: what it was made with.

    Raises:
        SpecError: it is none, or a player of tournaments.
    """

    def __init__(self, who: str, opponent: Any) -> None:
        self.who, self.kind = who, _kind(opponent)
        self._seen: Any = opponent
        self._policy: Any = None
        self._check(opponent)

    def there_is(self, opponent: Any) -> bool:
        """Whether the env has an opponent, whoever it is now.

        Raises:
            SpecError: it is of another kind than the one that the env was made with, on which its specs depend.
        """
        if opponent is not self._seen:
            if _kind(opponent) != self.kind:
                raise SpecError(
                    f"{self.who}: the env was made with a {self.kind} opponent, which its specs depend on, and has "
                    f"opponent={opponent!r} now; only a policy can take the place of a policy, else make another env"
                )
            self._check(opponent)
            self._seen, self._policy = opponent, None
        return self.kind != "missing"

    def _check(self, opponent: Any) -> None:
        if opponent is not None and opponent != "random" and not callable(opponent):
            raise SpecError(f"{self.who}: opponent must be 'random' or a policy, got {opponent!r}")
        if self.kind == "policy" and _takes_turns(opponent):
            name = getattr(opponent, "__name__", type(opponent).__name__)
            raise SpecError(
                f"{self.who}: the opponent {name} is a player of tournaments, which is asked by turns; give a policy, "
                f"which is given the env's data, or play in an Arena"
            )

    def answer(self, env: EnvBase, tensordict: TensorDictBase, places: Iterable[NestedKey]) -> TensorDictBase:
        """What it answers to the data; where it only returns actions, they are written into ``places``."""
        if self._policy is None:
            self._policy = as_policy(self._seen, env, action_keys=list(places) or None)
        return ask(self._policy, tensordict, f"{self.who}, opponent")

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Errors say that the opponent was asked."""
        try:
            yield
        except Exception as error:
            error.add_note(f"{self.who}: this was the opponent's turn")
            raise


def _kind(opponent: Any) -> str:
    return "missing" if opponent is None else "random" if isinstance(opponent, str) else "policy"


def _takes_turns(opponent: Any) -> bool:
    """Whether it is called with a ``turn: Turn``, as players of tournaments are; games observe a ``turn``, too."""
    try:
        asked = list(inspect.signature(opponent).parameters.values())
    except (TypeError, ValueError):
        return False
    return [one.name for one in asked] == ["turn"] and "Turn" in str(asked[0].annotation)


def without_actions(tensordict: TensorDictBase, keys: Iterable[NestedKey]) -> TensorDictBase:
    """A copy of the data in which nobody has chosen yet; the tensors are the same."""
    return tensordict.copy().exclude(*keys, inplace=True)


def check_answer(
    who: str, rules: Rules[Any], seat: int, places: Seats, answer: TensorDictBase, state: Any, waiting: Tensor
) -> None:
    """Raises unless the opponent wrote an action for each seat that it must play now.

    Args:
        who: the env.
        rules: of the game.
        seat: the one that the opponent does not play.
        places: where it writes.
        answer: the data with what it wrote.
        state: the positions.
        waiting: in which games it plays now, bool ``[*B]``.

    Raises:
        KeyMissing: an action is not there; where players move in turn, only those to move need one.
        ShapeError: one has another shape than the env's actions.
    """
    batch = answer.batch_size
    for key, seats in places.items():
        action = fetch(answer, key)
        if action is None:
            own, asked = [one for one in seats if one != seat], waiting
            if not rules.simultaneous:
                turn = rules.player(state)
                asked = waiting & torch.isin(turn, torch.tensor(own, device=turn.device))
            if bool(asked.any()):
                names = ", ".join(rules.players[one] for one in own)
                raise KeyMissing(
                    f"{who}: the opponent wrote no {key!r}, the action of {names}; it must write it into the data that "
                    f"it is given, which now have {sorted(map(str, answer.keys(True, True)))}"
                )
        elif action.shape != (want := (*batch, *([] if isinstance(key, str) else [len(seats)]))):
            raise ShapeError(
                f"{who}: the opponent's action {key!r} must have shape {list(want)}, got {list(action.shape)}"
            )
