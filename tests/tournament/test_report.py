"""Reports, exports, warnings and the player that thinks: what they say about tournaments whose truth is known."""

from __future__ import annotations

import html
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from marlenv.cli.__main__ import main
from marlenv.errors import Unsupported
from marlenv.games import KuhnPoker, MatrixGame, TicTacToe
from marlenv.tournament import Arena, Game, Results, TabularPlayer, random_player, round_robin
from marlenv.tournament.config import Config
from marlenv.tournament.defects import defects
from marlenv.tournament.drive import open_ledger, run
from marlenv.tournament.export import pgn
from marlenv.tournament.mcts import MCTSPlayer
from marlenv.tournament.play import blank
from marlenv.tournament.report import standings, write_report
from marlenv.tournament.store import Ledger

TOML = """
env = "tic_tac_toe"
cycles = 4
rows = 16
[players]
"<b>ada</b>" = "random"
bob = {kind = "mcts", simulations = 8}
"""


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    (tmp_path / "t.toml").write_text(TOML)
    return tmp_path / "t.toml"


@pytest.mark.slow
def test_the_commands_play_rate_report_and_export(toml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tournament", "run", str(toml)]) == 0
    ledger = str(toml.with_suffix(".sqlite"))
    for verb, says in (("resume", "8 games"), ("status", "0 open, 0 leased, 8 finished"), ("rate", "mean return")):
        assert main(["tournament", verb, ledger]) == 0
        assert says in capsys.readouterr().out
    assert main(["tournament", "export", ledger]) == 0
    lines = [json.loads(line) for line in toml.with_suffix(".jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == list(range(8))
    assert all(line["plies"] == len(line["moves"]) for line in lines)
    assert main(["tournament", "report", ledger]) == 0
    page = toml.with_suffix(".html").read_text()
    assert "<b>ada" not in page  # what users write is text
    assert not re.search(r"""(src|href)=["']|https?://(?!www\.w3\.org)""", page.replace("&#34;", '"'))
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', page, re.S)[1])
    for one, line in zip(sorted(data["games"], key=lambda g: g["id"]), lines, strict=True):
        assert len(one["frames"]) == len(line["moves"]) + 1
        assert one["returns"] == line["returns"]


CIRCLE = """
env = "matrix_game"
options = {payoffs = "rock_paper_scissors"}
cycles = 30
[players]
rock = {kind = "test_report:always", action = 0}
paper = {kind = "test_report:always", action = 1}
scissors = {kind = "test_report:always", action = 2}
late = "test_report:resigns"
"""


def always(action: int):
    return lambda turn: torch.full_like(turn.seat, action)


def resigns(turn) -> torch.Tensor:
    return torch.full_like(turn.seat, -1)


@pytest.mark.slow
def test_the_page_shows_circles_accounts_and_the_schedule(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(CIRCLE.replace("late =", "# late ="))
    main(["tournament", "run", str(tmp_path / "t.toml")])
    main(["tournament", "report", str(tmp_path / "t.sqlite")])
    page = (tmp_path / "t.html").read_text()
    assert re.search(r"squared and summed, 100% \(\d+-100\) is cyclic, luck taken out", page)
    graph = re.search(r'<svg id="graph".*?</svg>', page, re.S)[0]
    assert graph.count("<line") == graph.count('class="sure"') == 3
    assert sorted(re.findall(r"<text[^>]*>(.*?)<title>", graph)) == ["paper", "rock", "scissors"]
    shares = re.search(r'<table id="shares">.*?</table>', page, re.S)[0]
    bounds = re.findall(r"<td>33% \((\d+)-(\d+)\)</td>", shares)
    assert len(bounds) == 6
    assert all(30 <= int(low) <= 33 <= int(high) <= 37 for low, high in bounds)
    assert "they win in a circle" in page
    schedule = re.search(r'<details id="schedule">.*?</details>', page, re.S)[0]
    assert schedule.count("<tr>") == 181
    (tmp_path / "t.toml").write_text(CIRCLE)
    main(["tournament", "run", str(tmp_path / "t.toml"), "--ledger", str(tmp_path / "b.sqlite")])
    main(["tournament", "report", str(tmp_path / "b.sqlite")])
    accounts = re.search(r'<table id="accounts">.*?</table>', (tmp_path / "b.html").read_text(), re.S)[0]
    assert "<tr><td>late</td><td>180</td><td>resigned: 180</td>" in accounts
    assert accounts.count("<td>none</td>") == 3


@pytest.mark.slow
def test_games_that_were_all_drawn_have_ratings_where_draws_are_halves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, ledger = tmp_path / "drawn.toml", str(tmp_path / "drawn.sqlite")
    path.write_text(CIRCLE.replace("action = 1", "action = 0").replace("action = 2", "action = 0"))
    assert main(["tournament", "run", str(path), "--draws", "half"]) == 0
    assert "Elo" in capsys.readouterr().out
    for how, says in (
        (["--draws", "half", "--no-seat"], "+0"),
        ([], "no ratings: rate: all games that count were drawn"),
    ):
        assert main(["tournament", "rate", ledger, *how]) == 0
        assert says in capsys.readouterr().out
        assert main(["tournament", "report", ledger, *how]) == 0
        assert ("no ratings" in path.with_suffix(".html").read_text()) == (not how)


def test_the_page_of_teams_says_what_training_together_was_worth(tmp_path: Path) -> None:
    """Two MARL policies on a scenario, each with itself and with the other, from both sides of the team."""
    text = (
        'env = "simple_tag"\nschedule = "teams"\ncycles = 2\nrows = 4\noptions = {max_steps = 3, compile = "none"}\n'
        '[players]\nstays = {kind = "test_report:goes", speed = 0.0}\nruns = {kind = "test_report:goes", speed = 1.0}\n'
    )
    (tmp_path / "t.toml").write_text(text)
    main(["tournament", "run", str(tmp_path / "t.toml")])
    main(["tournament", "report", str(tmp_path / "t.sqlite")])
    page = (tmp_path / "t.html").read_text()
    teams = re.search(r'<table id="teams">.*?</table>', page, re.S)[0]
    assert re.findall(r"<td>([a-z]+ - [a-z]+)</td><td>2</td>", teams) == [
        "stays - stays", "stays - runs", "runs - stays", "runs - runs",
    ]  # fmt: skip
    assert "With themselves policies return" in page
    assert "This env keeps no positions to replay" in page


def test_names_that_begin_alike_can_be_told_apart(tmp_path: Path) -> None:
    names = [f"checkpoint_of_the_wolves_{number:06}" for number in (1000, 2000, 3000)]
    config = Config.of({"env": "tic_tac_toe", "players": dict.fromkeys(names, "random"), "cycles": 40})
    ledger = open_ledger(config, tmp_path / "a.sqlite")
    run(ledger)
    write_report(ledger, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    for picture in ("plot", "graph"):
        drawn = re.search(rf'<svg id="{picture}".*?</svg>', page, re.S)[0]
        shown = dict(re.findall(r"<text[^>]*>([^<]*)<title>(.*?)</title></text>", drawn))
        assert sorted(shown.values()) == names
        assert all(len(short) <= 20 and short[-6:] == name[-6:] for short, name in shown.items())


@pytest.mark.slow
def test_the_page_says_why_nothing_can_be_replayed(toml: Path) -> None:
    ledger = open_ledger(Config.read(toml), toml.with_suffix(".sqlite"))
    page, none = toml.with_suffix(".html"), re.compile('<p id="none">(.*?)</p>')
    for replays, says in ((9, "No game is finished yet."), (0, "No replays were asked for.")):
        write_report(ledger, page, replays=replays)
        assert none.findall(page.read_text()) == [says]
        run(ledger)
    write_report(ledger, page)
    assert none.findall(page.read_text()) == ["Replays need JavaScript."]  # which hides it


def test_what_a_game_that_was_cut_off_earned_is_nothing(tmp_path: Path) -> None:
    """And neither less nor more: -0 would be kept, exported and shown."""
    config = Config.of({"env": "connect_four", "players": dict.fromkeys("ab", "random"), "max_plies": 3})
    ledger = open_ledger(config, tmp_path / "a.sqlite")
    run(ledger)
    assert not ledger.played().returns.signbit().any()
    write_report(ledger, tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text().count("<td>0, 0</td>") == 2


DRAWS = torch.Generator().manual_seed(0)


def own_generator(turn) -> torch.Tensor:
    """Draws from a generator that no seed of the tournament reaches."""
    return torch.multinomial(turn.legal.float(), 1, generator=DRAWS).squeeze(1)


@pytest.mark.slow
def test_players_who_do_not_play_by_the_seed_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'env = "tic_tac_toe"\ncycles = 3\n[players]\na = "random"\nb = "mcts"\n'
    for last, says in (
        ("", "all games came out the same"),
        ('c = "test_report:own_generator"\n', "'c' does not play by"),
    ):
        (tmp_path / "t.toml").write_text(text + last)
        ledger = tmp_path / f"{len(last)}.sqlite"
        main(["tournament", "run", str(tmp_path / "t.toml"), "--ledger", str(ledger)])
        before = Ledger(ledger).played().digest
        assert main(["tournament", "verify", str(ledger), "--games", "100"]) == 0
        assert says in capsys.readouterr().out
        assert torch.equal(Ledger(ledger).played().digest, before)


def goes(speed: float):
    return lambda turn: torch.full((*turn.data.batch_size, 2), speed)


@pytest.mark.slow
def test_wide_tables_scroll_and_do_not_widen_the_page(toml: Path) -> None:
    ledger = open_ledger(Config.read(toml), toml.with_suffix(".sqlite"))
    run(ledger)
    write_report(ledger, toml.with_suffix(".html"))
    page = toml.with_suffix(".html").read_text()
    assert page.count("<table") == page.count('<div class="wide"><table') == page.count("</table></div>") >= 5
    assert ".wide { overflow-x: auto; }" in page
    assert "select { max-width: 100%; }" in page


@pytest.mark.slow
def test_a_browser_steps_through_a_game(toml: Path) -> None:
    """Chromium itself: forward and back by button and by key, the ends, another game; and nothing in its log."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("needs chromium: apt install chromium")
    main(["tournament", "run", str(toml)])
    main(["tournament", "report", str(toml.with_suffix(".sqlite"))])
    page = toml.with_suffix(".html")
    script = """<script>
    const said = [], board = () => find("board").innerHTML, note = () => said.push(find("where").textContent, board());
    onerror = (text) => said.push("error " + text);
    note(); find("forward").click(); note(); find("forward").click(); find("back").click(); note();
    dispatchKey = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
    dispatchKey("ArrowRight"); dispatchKey("ArrowLeft"); note();
    find("last").click(); note(); find("first").click(); note();
    find("game").value = 1; find("game").onchange(); note(); find("forward").click();
    const out = { id: "said", textContent: JSON.stringify(said) };
    document.body.append(Object.assign(document.createElement("pre"), out));
    </script></body>"""
    page.write_text(page.read_text().replace("</body>", script))
    shot = toml.with_suffix(".png")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--enable-logging=stderr"]
    command = [browser, *flags, "--window-size=900,2200"]
    done = subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    dom = done.stdout
    assert "CONSOLE" not in done.stderr
    said = json.loads(html.unescape(re.search(r'<pre id="said">(.*?)</pre>', dom, re.S)[1]))
    where, boards = said[::2], said[1::2]
    length = int(re.match(r"0 of (\d+)", where[0])[1])
    assert [text.split()[0] for text in where] == ["0", "1", "1", "1", str(length), "0", "0"]
    assert ": over, returns" in where[4]
    assert boards[0] == boards[5] != boards[1] == boards[2] == boards[3] != boards[4]
    assert all("<svg" in board for board in boards)
    assert dom.count('class="now"') == 1
    assert 'id="none" hidden' in dom
    subprocess.run([*command, f"--screenshot={shot}", page.as_uri()], capture_output=True, timeout=120, check=True)
    from PIL import Image

    with Image.open(shot) as picture:  # something is drawn where the standings, the graph and the board are
        grey = picture.convert("L")
        height = grey.height // 3
        thirds = [grey.crop((0, k * height, grey.width, (k + 1) * height)).getextrema() for k in range(3)]
    assert all(low < 80 < 250 < high for low, high in thirds)


@pytest.mark.slow
def test_pgn_is_what_was_played(tmp_path: Path) -> None:
    chess = pytest.importorskip("chess.pgn")
    text = 'env = "chess"\ncycles = 1\nrows = 4\nmax_plies = 30\n[players]\nada = "random"\nbob = "random"\n'
    (tmp_path / "t.toml").write_text(text)
    main(["tournament", "run", str(tmp_path / "t.toml")])
    main(["tournament", "export", str(tmp_path / "t.sqlite"), "--out", str(tmp_path / "t.pgn")])
    with (tmp_path / "t.pgn").open() as file:
        games = [chess.read_game(file), chess.read_game(file)]
    assert [game.headers["White"] for game in games] == ["bob", "ada"] or [g.headers["White"] for g in games] == [
        "ada",
        "bob",
    ]
    assert all(not game.errors and len(list(game.mainline_moves())) == 30 for game in games)
    assert all(game.headers["Termination"] == "unterminated" and game.headers["Result"] == "*" for game in games)


def pgn_starts(tmp_path: Path, player: str, **more) -> list[str]:
    """Where the games of a player against itself begin, as python-chess reads their PGN."""
    chess = pytest.importorskip("chess.pgn")
    config = Config.of({"env": "chess", "players": dict.fromkeys("ab", player), "max_plies": 1, **more})
    ledger = open_ledger(config, tmp_path / f"{player.partition(':')[2]}.sqlite")
    run(ledger)
    return [chess.read_game(io.StringIO(text)).board().fen() for text in pgn(ledger)]


def test_pgn_of_games_without_moves_tells_where_they_began(tmp_path: Path) -> None:
    fen = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"
    assert pgn_starts(tmp_path, "test_report:resigns", openings=[["fen " + fen]]) == [fen, fen]


def test_pgn_of_games_without_moves_has_the_position_of_chess960(tmp_path: Path) -> None:
    starts = [
        pgn_starts(tmp_path, player, options={"chess960": True}, seed=3)
        for player in ("test_report:resigns", "test_report:first_legal")
    ]
    assert starts[0] == starts[1]
    assert not any(fen.startswith("rnbqkbnr") for fen in starts[0])


@pytest.mark.full
@pytest.mark.slow
def test_who_thinks_about_all_of_tic_tac_toe_never_loses() -> None:
    """Perfect play is a draw, so two that think long enough draw; and who thinks does not lose to chance."""
    players = {"mcts": MCTSPlayer(400), "random": random_player}
    games = [Game(k, seats) for k, seats in enumerate([("mcts", "random"), ("random", "mcts")] * 6)]
    played = Arena(TicTacToe(), players).play(games)
    assert all(s in (0.5, 1.0) for s in played.scores()[::2].tolist())
    assert all(s in (0.5, 0.0) for s in played.scores()[1::2].tolist())
    long = {"mcts": MCTSPlayer(1600), "again": MCTSPlayer(1600)}
    assert Arena(TicTacToe(), long).play([Game(k, ("mcts", "again")) for k in range(4)]).scores().tolist() == [0.5] * 4


def test_its_moves_do_not_depend_on_other_rows() -> None:
    players = {"mcts": MCTSPlayer(12), "random": random_player}
    games = round_robin(list(players), double=True, cycles=1)
    digests = [Arena(TicTacToe(), players, rows=rows).play(games).digest for rows in (1, 5)]
    assert torch.equal(*digests)
    with pytest.raises(Unsupported, match="all see everything and move in turn; got KuhnPoker"):
        Arena(KuhnPoker(), players).play([Game(0, ("mcts", "random"))])


def first_legal(turn) -> torch.Tensor:
    return turn.legal.int().argmax(-1)


@pytest.mark.parametrize(
    ("games", "says"),
    [
        ([("a", "b", 1), ("b", "a", 0.5), ("a", "b", 0)] * 20, []),
        ([("a", "b", 1), ("b", "c", 1), ("c", "a", 1)] * 20, ["they win in a circle.*'a' over 'b' over 'c' over 'a'"]),
        ([("a", "b", 1), ("b", "a", 1)] * 20, ["who sits first scores 100% against equals"]),
        ([("a", "b", 1), ("b", "a", 0), ("c", "d", 0.5)] * 20, ["no game links these groups.*'a', 'b'; 'c', 'd'"]),
    ],
)
def test_planted_defects_give_exactly_their_warnings(games, says: list[str]) -> None:
    found = defects(blank([], 2), Results.of(games))
    assert len(found) == len(says)
    assert all(re.match(pattern, warning) for pattern, warning in zip(says, found, strict=True))


def test_a_player_that_is_entered_twice_is_noticed() -> None:
    spread = TabularPlayer(lambda turn: torch.zeros_like(turn.seat), torch.ones(1, 9))
    players = {
        "first": first_legal,
        "copy": first_legal,
        "last": lambda t: 8 - t.legal.flip(-1).int().argmax(-1),
        "s": spread,
    }
    played = Arena(TicTacToe(), players).play(round_robin(["first", "copy", "last"], double=True))
    found = defects(played, played.results())
    says = "'copy' and 'first' play alike, move by move, against all whom both met, as one player that is entered twice"
    assert found == [says]
    varied = Arena(TicTacToe(), players).play(round_robin(["first", "s", "last"], double=True, cycles=10))
    assert not [w for w in defects(varied, varied.results()) if "play alike" in w]


def test_players_of_a_small_game_in_which_everything_comes_up_are_not_one() -> None:
    tables = {"rocky": [0.6, 0.2, 0.2], "even": [1.0, 1.0, 1.0], "paper": [0.2, 0.6, 0.2]}
    players = {
        name: TabularPlayer(lambda turn: torch.zeros_like(turn.seat), torch.tensor([w])) for name, w in tables.items()
    }
    played = Arena(MatrixGame("rock_paper_scissors"), players).play(round_robin(list(players), cycles=200))
    assert played.digest.unique().numel() == 9
    assert not [w for w in defects(played, played.results()) if "play alike" in w]


def test_who_has_not_played_has_no_score() -> None:
    played = Arena(TicTacToe(), {"a": first_legal, "b": random_player}).play(round_robin(["a", "b"]))
    rows, note = standings(played, ["a", "b", "idle"])
    assert rows[-1] == {"player": "idle", "games": "0", "score": "-", "mean return": "-"}
    assert "no game links" in note


def test_forfeits_are_told() -> None:
    players = {"bad": lambda turn: torch.full_like(turn.seat, 99), "first": first_legal}
    played = Arena(TicTacToe(), players, forfeits=True).play(round_robin(list(players), double=True))
    assert "'bad' forfeited 2 games: illegal move" in defects(played, played.results())


def test_places_where_nothing_can_be_written_are_named(toml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger, folder = str(open_ledger(Config.read(toml), toml.with_suffix(".sqlite")).path), toml.parent
    for verb, name in (("report", "page.html"), ("export", "games.jsonl")):
        gone = folder / "gone" / name
        for out, says in ((gone, f"there is no folder {gone.parent}; make it"), (folder, "that is a folder; name a")):
            if verb == "report" or out != folder:
                with pytest.raises(SystemExit):
                    main(["tournament", verb, ledger, "--out", str(out)])
                assert f"{verb} {out}: {says}" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["tournament", "report", ledger, "--replays", "-1"])
    assert "report: replays must be an integer from 0 on, got -1" in capsys.readouterr().err
    assert not list(folder.glob("**/*.draft"))
