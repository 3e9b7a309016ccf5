"""PGN: round trips, python-chess reads what we write and we read what it writes, exact errors, no other error."""

from __future__ import annotations

import contextlib
import io
import random

import chess
import chess.pgn
import pytest
import torch
from chess_reference import action_of
from hypothesis import given, settings
from hypothesis import strategies as st

from marlenv.errors import BadNotation, DtypeError, IllegalAction, UnknownName
from marlenv.games.chess import Chess, Game, Ply, read_pgn, record, write_pgn

OPERA = """[Event "Casual game"]
[Site "Paris FRA"]
[Date "1858.??.??"]
[Round "?"]
[White "Morphy, Paul"]
[Black "Duke Karl / Count \\"Isouard\\""]
[Result "1-0"]
[ECO "C41"]

1.e4 e5 2.Nf3 d6 3.d4 Bg4 $6 {This is a weak move
already.} (3...exd4 4.Nxd4 (4. Qxd4 Nc6) 4...Nf6) 4.dxe5 Bxf3 5.Qxf3 dxe5 6.Bc4 Nf6 7.Qb3 Qe7
8.Nc3 c6 ; a comment to the end of the line
9.Bg5 b5?! 10.Nxb5! cxb5 11.Bxb5+ Nbd7 12.O-O-O Rd8 13.Rxd7!! Rxd7 14.Rd1 Qe6
% this line is of no account
15.Bxd7+ Nxd7 16.Qb8+ Nxb8 17.Rd8# 1-0
"""


def test_a_famous_game_is_read() -> None:
    (game,) = read_pgn(OPERA)
    assert len(game.plies) == 33
    assert game.result == "1-0"
    assert game.tags["Black"] == 'Duke Karl / Count "Isouard"'
    assert [ply.san for ply in game.plies[-3:]] == ["Qb8+", "Nxb8", "Rd8#"]
    assert game.plies[5].nags == [6]
    assert game.plies[5].after == "This is a weak move already."
    (line,) = game.plies[5].variations
    assert [ply.san for ply in line] == ["exd4", "Nxd4", "Nf6"]
    assert [ply.san for ply in line[1].variations[0]] == ["Qxd4", "Nc6"]
    assert game.plies[15].after == "a comment to the end of the line"
    assert [game.plies[i].nags for i in (17, 18, 24)] == [[6], [1], [3]]


def test_actions_of_a_game_can_be_played() -> None:
    (game,) = read_pgn(OPERA, variations=False)
    assert not any(ply.variations for ply in game.plies)
    rules = Chess()
    state = rules.start(torch.Size())
    for action in game.actions:
        state = rules.play(state, torch.tensor(action))
    assert rules.outcomes[rules.outcome(state)] == "checkmate"
    assert record(game.actions).result == "1-0"
    assert [ply.san for ply in record(game.actions).plies] == [ply.san for ply in game.plies]


def test_what_is_written_is_read_again() -> None:
    games = read_pgn(OPERA + "\n" + OPERA.replace("1-0", "*"))
    text = write_pgn(games)
    assert read_pgn(text) == games
    assert write_pgn(read_pgn(text)) == text
    assert max(map(len, text.splitlines())) < 80


@pytest.mark.reference
def test_python_chess_reads_what_we_write() -> None:
    theirs = chess.pgn.read_game(io.StringIO(write_pgn(read_pgn(OPERA))))
    assert not theirs.errors
    assert [move.uci() for move in theirs.mainline_moves()][-1] == "d1d8"
    assert theirs.headers["ECO"] == "C41"
    assert (
        theirs.variations[0].variations[0].variations[0].variations[0].variations[0].variations[1].move.uci() == "e5d4"
    )


def random_tree(choose: random.Random, node: chess.pgn.GameNode, plies: int, depth: int) -> None:
    """Random moves, comments, annotations and variations below a node."""
    for _ in range(plies):
        moves = list(node.board().legal_moves)
        if not moves:
            return
        choose.shuffle(moves)
        first = node.add_main_variation(moves[0])
        if choose.random() < 0.2:
            first.comment = choose.choice(["good", "a ( b ) c", "[%clk 1:00:00]", "x " * 50])
        if choose.random() < 0.2:
            first.nags.add(choose.randrange(1, 140))
        if depth and len(moves) > 1 and choose.random() < 0.2:
            side = node.add_variation(moves[1], starting_comment=choose.choice(["", "or"]))
            random_tree(choose, side, choose.randrange(4), depth - 1)
        node = first


@pytest.mark.reference
@pytest.mark.parametrize("number", [None, 0, 518, 700])
def test_we_read_what_python_chess_writes(number: int | None) -> None:
    choose = random.Random(number or 1)
    for _ in range(5):
        theirs = chess.pgn.Game()
        if number is not None:
            theirs.setup(chess.Board.from_chess960_pos(number))
        random_tree(choose, theirs, 40, 2)
        (game,) = read_pgn(str(theirs))
        assert game.chess960 is (number is not None)
        board, actions = theirs.board(), []
        for move in theirs.mainline_moves():
            actions.append(action_of(move, board))
            board.push(move)
        assert game.actions == actions
        assert read_pgn(write_pgn([game]))[0].plies == game.plies
        again = chess.pgn.read_game(io.StringIO(write_pgn([game])))
        assert not again.errors
        ours, known = (str(one.accept(chess.pgn.StringExporter(headers=False))).split() for one in (again, theirs))
        assert ours == known


def test_games_may_follow_each_other() -> None:
    games = read_pgn('1. e4 * 1. d4 1-0\n[White "x"] 1. c4 [White "y"] {only words} 1/2-1/2 {words} *')
    assert [(len(game.plies), game.result) for game in games] == [
        (1, "*"),
        (1, "1-0"),
        (1, "*"),
        (0, "1/2-1/2"),
        (0, "*"),
    ]
    assert games[3].comment == "only words"
    assert read_pgn(write_pgn(games))[3].comment == "only words"
    assert read_pgn("") == read_pgn(" \n% nothing\n") == []
    assert read_pgn('\ufeff[Result "0-1"]\n')[0].result == "0-1"


def test_games_go_on_after_a_draw() -> None:
    game = record([], fen="4k3/8/8/8/8/8/8/4K3 w - - 0 1")
    assert game.result == "*"
    long = read_pgn("1. Nf3 Nf6 " + "2. Ng1 Ng8 3. Nf3 Nf6 " * 4 + "e.p. 1/2-1/2")[0]
    assert len(long.plies) == 18


def test_numbers_begin_where_the_position_does() -> None:
    game = record([6 * 64 + 12], fen="rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 7", tags={"White": "a"})
    assert write_pgn([game]).splitlines()[-1] == "7... e5 *"
    assert '[SetUp "1"]' in str(game)
    assert read_pgn(str(game))[0].actions == game.actions


ENDING = "8/8/8/4k3/8/8/4P3/4K3 w - - 5 40"


def test_tags_that_say_another_game_are_refused() -> None:
    with pytest.raises(BadNotation, match=rf"record: the tag 'FEN' is '{ENDING}', but fen='rnbq.*leave the tag out"):
        record([], tags={"FEN": ENDING})
    for variant, chess960 in (("Chess960", False), ("Standard", True)):
        with pytest.raises(BadNotation, match=f"record: the tag 'Variant' is '{variant}', but chess960={chess960}"):
            record([], tags={"Variant": variant}, chess960=chess960)
    for make in (lambda tags: record([], tags=tags), lambda tags: write_pgn([Game(tags)])):
        with pytest.raises(BadNotation, match="the tag 'Variant' is Standard or Chess960, got 'Crazyhouse'"):
            make({"Variant": "Crazyhouse"})
        with pytest.raises(DtypeError, match="PGN: the tag 'Round': expected a str, got int 3"):
            make({"Round": 3})
    tags = {"FEN": ENDING.replace(" 40", " 40 "), "Variant": "fischerandom", "White": "me"}
    game = record([], fen=ENDING, chess960=True, tags=tags)
    assert read_pgn(str(game))[0].tags["FEN"] == ENDING
    with pytest.raises(DtypeError, match=r"PGN: the tag 'Round': expected a str, got int 3"):
        Chess().score_sheet([], [], {"round": 3})  # type: ignore[dict-item]


def test_what_is_written_can_be_read_whatever_the_tags_hold() -> None:
    for text in ("a\rb", "a\r\nb", "a\nb"):
        written = str(record([6 * 64 + 12], tags={"Event": text}))
        assert read_pgn(written)[0].tags["Event"] == "a b"
        peer = chess.pgn.read_game(io.StringIO(written))
        assert peer is not None
        assert (peer.headers["Event"], str(peer.mainline_moves())) == ("a b", "1. e4")


def test_the_result_tag_says_how_a_game_ended() -> None:
    assert str(record([6 * 64 + 12], tags={"Result": "1-0"})).splitlines()[6:] == ['[Result "1-0"]', "", "1. e4 1-0"]
    assert record([], tags={"Result": "1-0"}, result="0-1").result == "0-1"
    assert record([], fen="7k/6Q1/6K1/8/8/8/8/8 b - - 1 1", tags={"Result": "*"}).result == "1-0"
    with pytest.raises(BadNotation, match="a result is one of 1-0 0-1 1/2-1/2 [*], got 'won'"):
        record([], tags={"Result": "won"})


def test_actions_may_be_the_elements_of_a_tensor() -> None:
    actions = [6 * 64 + 12, 6 * 64 + 12]
    assert str(record(torch.tensor(actions))).splitlines()[-1] == "1. e4 e5 *"  # type: ignore[arg-type]
    assert record(torch.tensor(actions).numpy()).actions == actions
    with pytest.raises(DtypeError, match="record: an action is a whole number, got float 396.0"):
        record([396.0])  # type: ignore[list-item]
    with pytest.raises(DtypeError, match=r"write_pgn: expected a list of games, got one Game: write \[game\]"):
        write_pgn(record([]))  # type: ignore[arg-type]


def test_results_are_read_from_the_last_position() -> None:
    assert record([6 * 64 + 12]).result == "*"
    rules = Chess()
    state = rules.from_fens(["7k/8/8/5QK1/8/8/8/8 w - - 0 1"])
    stalemate = int(rules.read_sans(state, ["Qf7"])[0])
    assert record([stalemate], fen="7k/8/8/5QK1/8/8/8/8 w - - 0 1").result == "1/2-1/2"
    assert record([], fen="7k/5Q2/6K1/8/8/8/8/8 b - - 0 1").result == "1/2-1/2"
    assert record([], fen="7k/6Q1/6K1/8/8/8/8/8 b - - 0 1").result == "1-0"
    assert record([], result="1/2-1/2").result == "1/2-1/2"
    with pytest.raises(BadNotation, match="a result is one of 1-0 0-1 1/2-1/2 [*], got 'won'"):
        record([], result="won")
    with pytest.raises(BadNotation, match="a result is one of"):
        write_pgn([Game(result="won")])
    with pytest.raises(BadNotation, match="the name of a tag is letters, digits and _, got 'a b'"):
        write_pgn([Game({"a b": "c"})])
    with pytest.raises(IllegalAction, match=r"e2f2 \(action 12\) is not legal in rnbqkbnr"):
        record([12])


def test_comments_may_hold_anything() -> None:
    words = ["}", "{ }", "% off", "a; b", "(", "\n\n", "x" * 200, "]["]
    game = record([6 * 64 + 12, 6 * 64 + 12, 6 * 64 + 11])
    for word in words:
        game.plies[0].after = game.plies[1].before = word
        game.plies[2].variations = [[Ply(game.plies[2].action, game.plies[2].san, before=word, after=word)]]
        (again,) = read_pgn(write_pgn([game]))
        assert again.plies[0].after.split() == (word + " " + word).split()
        assert again.plies[2].variations[0][0].after.split() == word.split()


BAD = [
    (
        "1. e4 e5 2. Ke3",
        "line 1, column 13: expected a legal move (Ba6 Bb5 Bc4 Bd3 Be2 Ke2 Na3 Nc3 and 21 more), got 'Ke3'",
    ),
    ("1. e4\n  Nf9", "line 2, column 5: expected a move like e4, Nbxd7, e8=Q or O-O, got '9'"),
    ("1. e4 {never closed", "line 1, column 20: expected '}' that closes the comment, got the end"),
    ("1. e4 (1. d4", "line 1, column 13: expected ')' that closes 1 open variations, got the end"),
    ("1. e4 (1. d4 1-0", "line 1, column 14: expected ')' before the result, got '1-0'"),
    ("(1. d4) e4", "line 1, column 1: expected a move before its variation, got '('"),
    ("1. e4 ()", "line 1, column 8: expected a move, got ')'"),
    ("1. e4 )", "line 1, column 7: expected a move or the result, got ')'"),
    ("1. e4 $256", "line 1, column 7: expected an annotation from $0 to $255, got '$'"),
    ("$1 e4", "line 1, column 3: expected a move before its annotation, got ' '"),
    ("! e4", "line 1, column 1: expected a move before its annotation, got '!'"),
    ("1. e4 <x>", "line 1, column 7: expected a move, a comment, a variation or the result, got '<'"),
    ("1. e4 --", "line 1, column 8: expected a move like e4, Nbxd7, e8=Q or O-O, got '-'"),
    ('[White "a"', "line 1, column 11: expected ']' after the value of the tag, got the end"),
    ("[White a]", "line 1, column 8: expected '\"' before the value of the tag, got 'a'"),
    ("[White", "line 1, column 7: expected '\"' before the value of the tag, got the end"),
    ('[ "a"]', "line 1, column 3: expected the name of a tag, each once, got '\"'"),
    ('[A "a"]\n[A "b"]', "line 2, column 2: expected the name of a tag, each once, got 'A'"),
    ('[A "a\nb"]', "line 1, column 6: expected '\"' that closes the string of column 4, got '\\n'"),
    (
        '[Variant "Atomic"] 1. e4',
        "line 1, column 10: expected Standard or Chess960 as the variant, got 'Atomic'",
    ),
    ("1. e4 " + "(1. d4 " * 60, "line 1, column 357: expected at most 50 variations within each other, got '('"),
]


@pytest.mark.parametrize(("text", "says"), BAD)
def test_bad_pgn_is_explained(text: str, says: str) -> None:
    with pytest.raises(BadNotation) as caught:
        read_pgn(text)
    assert str(caught.value) == "PGN: " + says


def test_a_bad_fen_tag_says_where() -> None:
    with pytest.raises(BadNotation, match="FEN: line 1, column 1: expected") as caught:
        read_pgn('[SetUp "1"]\n[FEN "x"]\n\n1. e4')
    assert caught.value.__notes__[0] == "in the FEN tag of line 2"


FILE = """[Event "before"]

1. e4 *

[Event "null move"]
[Result "1-0"]

1. e4 -- {Black passes:
[%clk 0:01]} 2. d4 1-0

[Event "no position"]
[FEN "x"]
[Result "0-1"]

1. e4 0-1

[Event "after"]

1. d4 d5*
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_game_that_cannot_be_read_leaves_those_before_and_after(line_end: str) -> None:
    text = FILE.replace("\n", line_end)
    games = read_pgn(text, errors="keep")
    assert [(game.tags["Event"], [ply.san for ply in game.plies], game.result) for game in games] == [
        ("before", ["e4"], "*"),
        ("null move", ["e4"], "1-0"),
        ("no position", [], "*"),
        ("after", ["d4", "d5"], "*"),
    ]
    assert [str(game.error)[:24] for game in games] == [
        "None",
        "PGN: line 8, column 8: e",
        "FEN: line 1, column 1: e",
        "None",
    ]
    with pytest.raises(BadNotation) as caught:
        read_pgn(text)
    assert caught.value.__notes__ == ["read_pgn(text, errors='keep') reads the other games"]
    with pytest.raises(UnknownName, match="read_pgn: errors='ignore'; known: 'keep', 'raise'|errors='ignore'"):
        read_pgn(text, errors="ignore")  # type: ignore[arg-type]


def test_a_star_ends_a_game_wherever_it_stands() -> None:
    assert [(len(game.plies), game.result) for game in read_pgn("1. e4 e5*\n1. d4 *1. c4 2*")] == [
        (2, "*"),
        (1, "*"),
        (1, "*"),
    ]


def test_a_remark_ends_with_its_line_however_lines_end() -> None:
    (game,) = read_pgn('[White "a"]\r\r1. e4 ; best by test\re5 *\r')
    assert (len(game.plies), game.plies[0].after) == (2, "best by test")


def test_reading_looks_at_a_text_once_for_each_game() -> None:
    """Places of tags are counted in lines only where an error names them."""
    game = '[FEN "8/8/8/8/8/8/8/K1k5 w - - 0 1"]\n\n*\n\n'

    class Counted(str):
        counts = 0

        def count(self, *args: object) -> int:  # type: ignore[override]
            type(self).counts += 1
            return super().count(*args)  # type: ignore[arg-type]

    assert len(read_pgn(Counted(game * 50))) == 50
    assert Counted.counts == 0


def test_unclosed_variations_are_found_when_skipped() -> None:
    assert read_pgn("1. e4 (1. d4 {)} (nonsense) ;)\n) e5", variations=False)[0].actions == [6 * 64 + 12] * 2
    with pytest.raises(BadNotation, match="column 13: expected '[)]' that closes the variation of line 1, got the end"):
        read_pgn("1. e4 (1. d4", variations=False)


pieces = st.sampled_from(
    [
        "1.",
        "e4",
        "e5",
        "Nf3",
        "Nc6",
        "O-O",
        "(",
        ")",
        "{",
        "}",
        ";",
        "$",
        "$5",
        "!",
        "?!",
        "*",
        "1-0",
        "[",
        "]",
        '"',
        "\\",
    ]
    + ["\n", "%", "...", "2...", "[White", '"x"]', "FEN", "e8=Q", "--", "e.p.", "0-0", "½", "١", "\x00", "\ufeff"]
)


@settings(max_examples=400)
@given(words=st.lists(pieces, max_size=14), glue=st.sampled_from([" ", "", "\n"]), variations=st.booleans())
def test_any_text_is_pgn_or_bad_notation(words: list[str], glue: str, variations: bool) -> None:
    with contextlib.suppress(BadNotation):
        games = read_pgn(glue.join(words), variations=variations)
        again = read_pgn(write_pgn(games))
        assert [(game.plies, game.result) for game in again] == [(game.plies, game.result) for game in games]
        assert write_pgn(again) == write_pgn(games)


@settings(max_examples=200)
@given(text=st.text(max_size=40), at=st.integers(0, len(OPERA)), drop=st.integers(0, 6))
def test_any_damage_to_a_game_is_read_or_bad_notation(text: str, at: int, drop: int) -> None:
    damaged = OPERA[:at] + text + OPERA[at + drop :]
    kept = read_pgn(damaged + '\n\n[Event "next"]\n\n1. c4 *', errors="keep")
    found = None
    with contextlib.suppress(BadNotation):
        found = read_pgn(damaged)
    assert kept
    assert found is not None or any(game.error for game in kept)
