"""``Positions``: serialized states of a game, checked before OpenSpiel reads them, for ``Match``.

OpenSpiel believes what it is given: a text that is no state of the game, or moves that are illegal, may end the
process. Most games write their history, which is replayed here, move by move. What other games write is tried in
another process, unless it was written here.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from marlenv.errors import SpecError
from marlenv.optional import need

PROBE = (
    "import sys, pyspiel; import open_spiel.python.games; "
    "pyspiel.load_game(sys.argv[1]).deserialize_state(sys.stdin.read().removesuffix('\\n'))"
)
SECONDS = 120  # that the other process may take, most of which is its start
REMEMBERED = 1 << 16  # texts


class Positions:
    """Writes and reads the states of one game.

    Args:
        state: any state of the game.
        who: the wrapper, for messages.
    """

    def __init__(self, state: Any, who: str) -> None:
        self.who = who
        self._name = state.get_game().get_type().short_name
        self._histories = _writes_history(state, who)
        self._known: dict[int, None] = {}

    def write(self, state: Any) -> str:
        """The text of a state, as OpenSpiel serializes it."""
        text = str(state.serialize())
        if not self._histories:
            self._remember(text)
        return text

    def read(self, game: Any, text: Any) -> Any:
        """The state of a text.

        Raises:
            SpecError: the text is no state of this game.
        """
        if not isinstance(text, str):
            raise SpecError(
                f"{self.who}: a state is the text that state.serialize() gives, got {type(text).__name__} {text!r}"
            )
        return self._replayed(game, text) if self._histories else self._deserialized(game, text)

    def _remember(self, text: str) -> None:
        self._known[hash(text)] = None
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]

    def _replayed(self, game: Any, text: str) -> Any:
        try:
            moves = [int(move) for move in text.split()]
        except ValueError:
            raise self._refusal(text, "it is not a list of moves") from None
        state, players, at = game.new_initial_state(), range(game.num_players()), 0
        while at < len(moves):
            if state.is_terminal():
                raise self._refusal(text, f"the game is over after {at} of {len(moves)} moves")
            together = state.is_simultaneous_node()
            chosen = moves[at : at + (len(players) if together else 1)]
            if together:
                legal = [state.legal_actions(i) or (0, -1) for i in players]
            elif state.is_chance_node():  # of which some games list only some as legal
                legal = [[outcome for outcome, _ in state.chance_outcomes()]]
            else:
                legal = [state.legal_actions()]
            if len(chosen) < len(legal) or any(a not in of for a, of in zip(chosen, legal, strict=True)):
                raise self._refusal(text, f"move {chosen} (number {at}) is illegal there")
            if together:
                state.apply_actions(chosen)
            else:
                state.apply_action(*chosen)
            at += len(chosen)
        return state

    def _deserialized(self, game: Any, text: str) -> Any:
        if hash(text) not in self._known:
            ran = subprocess.run(
                [sys.executable, "-c", PROBE, str(game)],
                input=text,
                text=True,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
            if ran.returncode:
                last = ran.stderr.strip().splitlines()[-1:] or [f"reading it ends the process ({ran.returncode})"]
                raise self._refusal(text, last[0])
            self._remember(text)
        try:
            return game.deserialize_state(text.removesuffix("\n"))  # some games refuse the end of their last line
        except need("pyspiel", self.who).SpielError as error:
            raise self._refusal(text, f"OpenSpiel cannot read it back ({error})") from error

    def _refusal(self, text: str, why: str) -> SpecError:
        shown = text if len(text) <= 60 else text[:60] + "..."
        return SpecError(
            f"{self.who}: {shown!r} is not a state of {self._name!r}: {why}; pass the text of state.serialize()"
        )


def _writes_history(state: Any, who: str) -> bool:
    """Whether a game writes its moves, one per line, as most do."""
    try:
        return bool(
            state.serialize() == "".join(f"{move}\n" for move in state.history())
            or (not state.history() and state.serialize() == "\n")
        )
    except need("pyspiel", who).SpielError:
        return False
