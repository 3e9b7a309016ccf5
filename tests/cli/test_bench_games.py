"""``marlenv bench games`` plays every game that OpenSpiel has too, on both sides."""

from __future__ import annotations

import pytest
from sizes import first

from marlenv.cli.benches import spiel
from marlenv.cli.benches.games import measure
from marlenv.errors import SpecError
from marlenv.games.index import GAMES


@pytest.mark.reference
@pytest.mark.parametrize("name", first(spiel.PEERS, 5))
def test_both_sides_play_as_many_plies_as_they_say(name: str) -> None:
    assert spiel.ours(name, 2, 60)() == 60
    play = spiel.spiel(spiel.PEERS[name][2], 50)
    assert [play(), play()] == [50, 50]


def test_every_game_but_those_of_our_own_is_there() -> None:
    own = {"matrix_game"}  # without a table there is no game; the prisoners' dilemma is one
    assert {game for game, _, _ in spiel.PEERS.values()} == {game.name for game in GAMES} - own


@pytest.mark.slow
@pytest.mark.reference
def test_a_game_is_measured_at_many_rows_and_at_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spiel, "ROWS", 128)
    figures = spiel.peer_figures("kuhn poker", 1, work=1024, peers_work=100)
    assert [figure.what for figure in figures] == [
        f"kuhn poker B={rows}{way}" for way in ("", ", rollout(64)") for rows in (128, 64)
    ]
    assert all(figure.ours > 0 and figure.peer > 0 and figure.peer_name == "OpenSpiel" for figure in figures)


def test_a_game_that_is_not_there_is_an_error() -> None:
    with pytest.raises(SpecError, match="nothing has 'hax' in its name; there are tic-tac-toe, connect four, hex"):
        measure(1, only="hax")
