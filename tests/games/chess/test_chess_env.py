"""ChessEnv: TorchRL's data on the same games, both layouts, both paths, what is kept and what is refused."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import chess
import pytest
import torch
from chess_reference import ODD_STARTS, number
from sizes import first
from tensordict import TensorDict
from torch import Tensor

import marlenv
from marlenv.errors import BadNotation, KeyMissing, SpecError
from marlenv.games.chess import Chess, ChessEnv
from marlenv.games.chess.numberings.san import numbered, san_moves
from marlenv.games.chess.pictures import sprites
from marlenv.optional import has
from marlenv.testing import run_contract
from marlenv.testing.comparison import differences, leaves

ALL = {"include_san": True, "include_fen": True, "include_pgn": True, "include_legal_moves": True, "include_hash": True}
FOOLS = ["f3", "e5", "g4", "Qh4#"]


def play(env: Any, sans: list[str], td: Any = None) -> Any:
    """The data after these moves."""
    td = env.reset() if td is None else td
    for san in sans:
        td = env.step_mdp(env.step(td.set("action", number(san))))
    return td


# --- TorchRL -------------------------------------------------------------------------------------


def peer(**options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchrl.envs import ChessEnv as Peer

        return Peer(**options)


@pytest.mark.reference
def test_the_moves_are_numbered_as_torchrls() -> None:
    assert list(san_moves()) == peer().san_moves


def same(theirs: Any, ours: Any) -> None:
    theirs, ours = leaves(theirs), leaves(ours.exclude("state"))
    assert theirs.keys() == ours.keys()
    for key, a in theirs.items():
        b = ours[key]
        if key == "legal_moves":  # the same moves, in the order of our actions
            a, b = a.sort()[0], b.sort()[0]
        assert (torch.equal(a, b) and a.dtype == b.dtype) if isinstance(a, Tensor) else a == b, key


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize(
    "options",
    [
        {},
        ALL,
        {"include_fen": True, "include_san": True, "stateful": False},
        {"include_pgn": True, "stateful": False, "mask_actions": False},
    ],
    ids=["default", "all", "stateless, fen", "stateless, pgn"],
)
def test_torchrl_says_the_same_about_the_same_game(options: dict[str, Any]) -> None:
    theirs, ours = peer(**options), ChessEnv(**options)
    choose = random.Random(7)
    a, b = theirs.reset(), ours.reset()
    same(a, b)
    for _ in range(60 if options else 200):
        action = torch.tensor(choose.choice([san_moves().index(m) for m in ours.get_legal_moves(b)]))
        a, b = theirs.step(a.set("action", action)), ours.step(b.set("action", action))
        same(a["next"], b["next"])
        if bool(a["next", "done"]):
            break
        a, b = theirs.step_mdp(a), ours.step_mdp(b)


@pytest.mark.reference
def test_torchrl_ends_games_alike() -> None:
    knights = ["Nf3", "Nf6", "Ng1", "Ng8"] * 5
    for sans in (FOOLS, knights):
        theirs, ours = peer(**ALL), ChessEnv(**ALL)
        a, b = theirs.reset(), ours.reset()
        for san in sans:
            a, b = theirs.step(a.set("action", number(san))), ours.step(b.set("action", number(san)))
            same(a["next"], b["next"])
            if bool(a["next", "done"]):
                break
            a, b = theirs.step_mdp(a), ours.step_mdp(b)
        assert bool(b["next", "done"])


@pytest.mark.reference
@pytest.mark.parametrize("options", [{}, ALL, {"include_hash": True, "include_hash_inv": True, "include_fen": True}])
def test_the_specs_have_torchrls_keys_and_dtypes(options: dict[str, Any]) -> None:
    theirs, ours = peer(**options), ChessEnv(**options)
    for family in ("observation", "reward", "done", "action", "state"):
        want = {k: (s.shape, s.dtype) for k, s in getattr(theirs, f"full_{family}_spec").items(True, True)}
        got = {k: (s.shape, s.dtype) for k, s in getattr(ours, f"full_{family}_spec").items(True, True)}
        if "legal_moves" in want:  # the peer's spec has one less than its data
            want["legal_moves"] = (torch.Size([219]), torch.int64)
        assert want == got, family


@pytest.mark.reference
def test_pixels_have_torchrls_shape() -> None:
    env = ChessEnv(pixels=True)
    assert (env.reset()["pixels"].shape, env.reset()["pixels"].dtype) == (
        (3, 390, 390),
        torch.uint8,
    )  # as its spec says


# --- texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stateful", [True, False])
def test_a_game_begins_where_the_text_says(stateful: bool) -> None:
    env = ChessEnv(include_fen=True, include_san=True, stateful=stateful)
    fen = "4k3/4P3/4K3/8/8/8/8/8 w - - 0 1"
    td = env.reset(TensorDict({"fen": fen}, []), set_state=True)
    assert (td["fen"], td["san"], bool(td["turn"])) == (fen, "<start>", True)
    out = env.step(td.set("action", number("Kd6")))["next"]
    assert out["fen"] == "4k3/4P3/3K4/8/8/8/8/8 b - - 1 1"
    assert env.reset(TensorDict({"fen": fen}, []))["fen"] == fen
    assert env.reset(TensorDict({"fen": fen}, []), set_state=False)["fen"] == chess.STARTING_FEN
    for asked in (True, None):
        with pytest.raises(
            BadNotation, match=r"the game is over \(stalemate\) in '4k3/4P3/4K3/8/8/8/8/8 b - - 0 1'"
        ) as caught:
            env.reset(TensorDict({"fen": fen.replace(" w ", " b ")}, []), set_state=asked)
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("stateful", [True, False])
def test_a_mask_asks_for_a_new_game_whatever_the_text(stateful: bool) -> None:
    env = ChessEnv(include_fen=True, stateful=stateful)
    td = env.step(env.reset().set("action", number("e4")))["next"]
    assert env.reset(td.clone())["fen"] == td["fen"]
    assert env.reset(td.set("_reset", torch.tensor([True])))["fen"] == chess.STARTING_FEN


def test_before_the_first_reset_all_moves_are_there() -> None:
    for env in (ChessEnv(), ChessEnv(stateful=False)):
        assert env.all_actions()["action"].tolist() == list(range(29275))
        assert env.cardinality() == 29275
    env = ChessEnv(include_fen=True)
    env.reset()
    fen = "4k3/4P3/4K3/8/8/8/8/8 w - - 0 1"
    assert (
        len(env.all_actions(TensorDict({"fen": fen}, []))) == len(env.get_legal_moves()) == 5
    )  # the env is there then
    assert len(env.all_actions()) == 5


def test_a_game_goes_on_from_its_pgn() -> None:
    env = ChessEnv(include_pgn=True, include_san=True)
    td = play(env, FOOLS[:3])
    other = ChessEnv(include_pgn=True, include_san=True)
    begun = other.reset(TensorDict({"pgn": td["pgn"]}, []), set_state=True)
    assert (begun["san"], begun["pgn"]) == ("g4", td["pgn"])
    out = other.step(begun.set("action", number("Qh4#")))["next"]
    assert out["pgn"].splitlines()[-1] == "1. f3 e5 2. g4 Qh4# 0-1"
    assert (float(out["reward"]), bool(out["terminated"])) == (1.0, True)


def test_another_position_in_the_data_is_where_a_stateless_game_goes_on() -> None:
    env = ChessEnv(include_fen=True, stateful=False)
    td = env.reset()
    td["fen"] = "7k/7p/8/8/8/8/8/K7 w - - 0 1"
    out = env.step(td.set("action", number("Kb1")))["next"]
    assert out["fen"] == "7k/7p/8/8/8/8/8/1K6 b - - 1 1"
    bare = TensorDict({"fen": "7k/8/8/8/8/8/6p1/K7 b - - 0 1", "action": number("g1=Q+")}, [])
    assert env.step(bare)["next", "fen"] == "7k/8/8/8/8/8/8/K5q1 w - - 0 2"


def test_hashes_stand_for_texts() -> None:
    env = ChessEnv(include_fen=True, include_hash=True, include_hash_inv=True, stateful=False)
    td = play(env, ["e4", "e5"])
    begun = env.reset(TensorDict({"fen_hash": td["fen_hash"]}, []), set_state=True)
    assert begun["fen"] == td["fen"]
    with pytest.raises(KeyMissing, match="no text of this env has the fen_hash"):
        env.reset(TensorDict({"fen_hash": td["fen_hash"] ^ 1}, []), set_state=True)
    with pytest.raises(SpecError, match="include_hash_inv=True needs include_hash=True"):
        ChessEnv(include_hash_inv=True)


def test_rows_have_texts_of_their_own() -> None:
    env = ChessEnv(include_san=True, include_pgn=True, include_fen=True, batch_size=[2, 2])
    td = env.reset()
    td = env.step(td.set("action", torch.stack([number(s) for s in ("e4", "d4", "c4", "Nf3")]).reshape(2, 2)))["next"]
    assert td["san"] == [["e4", "d4"], ["c4", "Nf3"]]
    assert td["pgn"][1][1].endswith("1. Nf3 *")


def test_the_legal_moves_of_the_env() -> None:
    env = ChessEnv()
    env.reset()
    assert env.cardinality() == len(env.get_legal_moves()) == 20
    assert {san_moves()[a] for a in env.all_actions()["action"].tolist()} == set(env.get_legal_moves())
    assert set(env.get_legal_moves(uci=True)) == {m.uci() for m in chess.Board().legal_moves}


# --- the same games everywhere -------------------------------------------------------------------

MODES: dict[str, Callable[[str], Any]] = {
    "torchrl": lambda draws: ChessEnv(draws=draws),
    "torchrl, stateless": lambda draws: ChessEnv(draws=draws, stateful=False),
    "torchrl, stateless text": lambda draws: ChessEnv(draws=draws, stateful=False, include_fen=True),
    "grouped": lambda draws: marlenv.make("chess", draws=draws),
    "grouped, bools": lambda draws: marlenv.make("chess", draws=draws, mask="bool"),
    "grouped, torch": lambda draws: marlenv.make("chess", draws=draws, path="torch"),
    "grouped, batch": lambda draws: marlenv.make("chess", draws=draws, batch_size=[2]),
    "one group": lambda draws: marlenv.make("chess", draws=draws, group_map="all_in_one_group"),
    "san": lambda draws: marlenv.make("chess", draws=draws).append_transform(marlenv.transforms.ChessActions(to="san")),
}
SHUFFLE = ["Nf3", "Nf6", "Ng1", "Ng8"] * 5
GAMES = {
    "mate": (FOOLS, {"claim": 4, "forced": 4}),
    "repetition": (SHUFFLE, {"claim": 8, "forced": 16}),
    "stalemate": (
        [
            "e3",
            "a5",
            "Qh5",
            "Ra6",
            "Qxa5",
            "h5",
            "h4",
            "Rah6",
            "Qxc7",
            "f6",
            "Qxd7+",
            "Kf7",
            "Qxb7",
            "Qd3",
            "Qxb8",
            "Qh7",
            "Qxc8",
            "Kg6",
            "Qe6",
        ],
        {"claim": 19, "forced": 19},
    ),
}


def ends_at(env: Any, sans: list[str]) -> int | None:
    """The ply at which a game ends."""
    td, rules = env.reset(), Chess(draws="forced")
    state = rules.start(torch.Size([1]))
    for ply, san in enumerate(sans, 1):
        action = rules.read_sans(state, [san])
        coded = numbered(state, False).number(action)
        whole = torch.Size([*env.batch_size])
        if list(env.action_keys) == ["action"]:
            td["action"] = coded[0]
        else:
            for key in env.action_keys:
                one = coded if env.full_action_spec[key].n > 5000 else action
                td[key] = (
                    one.reshape([1] * len(whole) + [1]).expand(*whole, env.full_action_spec[key].shape[-1]).clone()
                )
        td = env.step(td)
        state = rules.play(state, action)
        if bool(td["next", "done"].all()):
            return ply
        td = env.step_mdp(td)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_game_ends_at_the_same_ply_in_every_mode(mode: str) -> None:
    for sans, plies in GAMES.values():
        for draws, ply in plies.items():
            assert ends_at(MODES[mode](draws), sans) == ply


def rolled(seed: int, steps: int, **options: Any) -> Any:
    env = marlenv.make("chess", **options)
    env.set_seed(seed)
    return env.rollout(steps, break_when_any_done=False)


def equal(a: Any, b: Any) -> None:
    assert not differences(a, b)


@pytest.mark.skipif(not has("numba"), reason="compares numba with torch")
@pytest.mark.parametrize("options", [{}, {"mask": "bool"}, {"chess960": True}, {"draws": "forced"}], ids=str)
def test_both_paths_give_the_same_data(options: dict[str, Any]) -> None:
    starts = [fen for fen in ODD_STARTS if not Chess(draws="forced").over(Chess(draws="forced").from_fens([fen])).any()]
    data = []
    for path in ("numba", "torch"):
        env = marlenv.make("chess", batch_size=[len(starts)], path=path, **options)
        env.set_seed(5)
        td = env.reset()
        if not options.get("chess960"):
            rules = Chess(draws=options.get("draws", "claim"))
            state = rules.from_fens(starts)
            begun = rules.restart(state, rules.over(state))
            td = env.reset(TensorDict({"state": begun._asdict()}, [len(starts)]), set_state=True)
        seen = []
        for _ in range(45):
            step, td = env.step_and_maybe_reset(env.rand_action(td))
            seen.append(step)
        data.append(torch.stack(seen, -1))
    equal(*data)
    assert options.get("chess960") or bool(data[0]["next", "done"].any())


@pytest.mark.parametrize("stateful", [True, False])
def test_a_game_that_ends_pays_against_an_opponent_whatever_other_rows_do(stateful: bool) -> None:
    """A mate was worth 0 beside a game that went on: the opponent's answer there was the last move of the batch."""
    fens = ["6k1/5ppp/8/8/8/8/8/R6K w - - 0 1", chess.STARTING_FEN, "7k/8/6Q1/8/8/8/8/K7 w - - 0 1"]
    env = ChessEnv(opponent="random", stateful=stateful, include_fen=True, batch_size=[3], seed=0)
    td = env.reset(TensorDict({}, [3]).set("fen", fens))
    out = env.step(td.set("action", torch.stack([number(san) for san in ("Ra8#", "e4", "Qf7")])))["next"]
    assert out["reward"].flatten().tolist() == [1.0, 0.0, 0.5]
    assert out["done"].flatten().tolist() == [True, False, True]


def test_rewards_add_up_to_zero_and_the_final_position_is_kept() -> None:
    env = marlenv.make("chess", batch_size=[2])
    rules = env.rules
    begun = rules.from_fens(["7k/5Q2/6K1/8/8/8/8/8 w - - 0 1", "4k3/8/8/8/8/8/8/4K2R w K - 3 7"])
    td = env.reset(TensorDict({"state": begun._asdict()}, [2]), set_state=True)
    actions = rules.read_sans(begun, ["Qg7", "O-O"]).unsqueeze(-1)
    td["white", "action"] = td["black", "action"] = actions
    step, after = env.step_and_maybe_reset(td)
    out = step["next"]
    assert out["white", "reward"].flatten().tolist() == [1.0, 0.0]
    assert out["black", "reward"].flatten().tolist() == [-1.0, 0.0]
    assert env.outcomes[out["outcome"][0]] == "checkmate"
    assert rules.fens(env.read(out)) == ["7k/6Q1/6K1/8/8/8/8/8 b - - 1 1", "4k3/8/8/8/8/8/8/5RK1 b - - 4 7"]
    assert rules.fens(env.read(after)) == [chess.STARTING_FEN, "4k3/8/8/8/8/8/8/5RK1 b - - 4 7"]
    assert bool((out["white", "action_mask"][0] == -1).all() and (out["black", "action_mask"][0] == -1).all())


@pytest.mark.parametrize("rows", [5, 512])  # masks of many games are written past the caches
@pytest.mark.parametrize("mask", ["bits", "bool"])
def test_masks_are_the_legal_moves_of_those_to_move(mask: str, rows: int) -> None:
    data = rolled(1, 30 if rows == 5 else 6, mask=mask, batch_size=[rows])
    rules = Chess()
    legal = rules.legal(rules.state_of(*(data["state", n] for n in ("board", "history", "moves"))))
    for seat, name in enumerate(rules.players):
        got = data[name, "action_mask"].squeeze(-2)
        if mask == "bits":
            got = ((got.unsqueeze(-1) >> torch.arange(64)) & 1).bool().flatten(-2)
        acts = data["turn"] == seat
        assert torch.equal(data[name, "mask"], acts)
        assert torch.equal(got, legal | ~acts)


@pytest.mark.parametrize("rows", [3, 512])
@pytest.mark.parametrize("mask", ["bits", "bool"])
def test_data_that_are_kept_are_not_written_to_again(mask: str, rows: int) -> None:
    env = marlenv.make("chess", mask=mask, batch_size=[rows])
    env.set_seed(0)
    td, kept = env.reset(), []
    for _ in range(12):
        step, td = env.step_and_maybe_reset(env.rand_action(td))
        whole = {**step["next"].flatten_keys(), **td.flatten_keys()}
        kept += [(x, x.clone()) for x in whole.values()][:: 1 if rows == 3 else 3]
        part = step["next", "state", "board"].numpy()[0]  # holds the memory, as everything that looks at it
        kept.append((torch.from_numpy(part), torch.from_numpy(part.copy())))
    assert all(torch.equal(a, b) for a, b in kept)


def test_a_row_does_not_depend_on_the_others() -> None:
    many, one = rolled(2, 60, batch_size=[6]), rolled(2, 60, batch_size=[1])
    equal(many[:1], one)


def test_games_branch_from_a_state() -> None:
    env = marlenv.make("chess")
    env.set_seed(4)
    td = env.reset()
    for _ in range(9):
        _, td = env.step_and_maybe_reset(env.rand_action(td))
    many = env.set_state(env.get_state(td).expand(64).clone())
    assert len(set(map(tuple, env.rand_action(many)["white", "action"].tolist()))) > 5
    kept = ChessEnv(include_pgn=True)
    play(kept, ["e4", "e5"])
    state = kept.get_state()
    play(kept, ["Nf3"], kept.set_state(state))
    again = play(kept, ["Nc3"], kept.set_state(state))
    assert again["pgn"].endswith("1. e4 e5 2. Nc3 *")


def test_chess960_begins_anywhere_and_each_row_by_itself() -> None:
    env = marlenv.make("chess", chess960=True, batch_size=[40])
    env.set_seed(3)
    first = env.rules.fens(env.read(env.reset()))
    assert len(set(first)) > 30
    env.set_seed(3)
    assert env.rules.fens(env.read(env.reset())) == first
    fixed = marlenv.make("chess", chess960=True, number=0)
    assert fixed.rules.fens(fixed.read(fixed.reset()))[0].startswith("bbqnnrkr/")


CONTRACT: dict[str, Callable[[], Any]] = {
    "texts": lambda: ChessEnv(**ALL, batch_size=[2]),
    "stateless": lambda: ChessEnv(stateful=False),
    "opponent": lambda: ChessEnv(opponent="random", batch_size=[2], max_plies=9),
    "grouped": lambda: marlenv.make("chess", 3),
    "bools, chess960": lambda: marlenv.make("chess", 2, mask="bool", chess960=True, max_steps=20),
    "numbers": lambda: marlenv.make("chess", 2).append_transform(marlenv.transforms.ChessActions(to="lc0")),
    "planes": lambda: marlenv.make("chess", 2).append_transform(marlenv.transforms.ChessPlanes(steps=2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", first(CONTRACT, 3))
def test_the_contract_holds(name: str) -> None:
    exempt = {"opponent": {"resetting_all_rows_is_a_reset": "with a mask, the opponent's stream goes on where it was"}}
    broken = [(r.name, r.says) for r in run_contract(CONTRACT[name], exempt.get(name)) if r.verdict == "broken"]
    assert not broken


# --- what is refused -----------------------------------------------------------------------------
# --- transforms, pictures ------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["uci", "lc0", "openspiel", "pettingzoo", "san"])
def test_other_numbers_play_the_same_game(to: str) -> None:
    plain = marlenv.make("chess", batch_size=[3])
    coded = marlenv.make("chess", batch_size=[3]).append_transform(marlenv.transforms.ChessActions(to=to))
    plain.set_seed(0)
    a, b = plain.reset(), coded.reset()
    numbering = plain.rules.numbering(to)
    for _ in range(12):
        state, a = plain.read(a), plain.rand_action(a)
        legal = torch.where(
            (a["turn"] == 0).unsqueeze(-1), b["white", "action_mask"], b["black", "action_mask"]
        ).squeeze(1)
        assert torch.equal(legal.sum(-1), plain.rules.legal(state).sum(-1))
        theirs = numbering.encode(state, a["white", "action"].squeeze(-1)).unsqueeze(-1)
        assert bool(legal.gather(-1, theirs).all())
        b["white", "action"], b["black", "action"] = theirs, theirs.clone()
        _, a = plain.step_and_maybe_reset(a)
        _, b = coded.step_and_maybe_reset(b)
        assert torch.equal(a["state", "board"], b["state", "board"])
    data = coded.rollout(20)
    assert data["white", "action"].max() < numbering.size
    with pytest.raises(SpecError, match='layout="grouped"'):
        ChessEnv().append_transform(marlenv.transforms.ChessActions(to=to))


def test_planes_hold_the_positions_of_the_last_moves() -> None:
    env = marlenv.make("chess", batch_size=[2]).append_transform(marlenv.transforms.ChessPlanes(steps=3))
    env.set_seed(0)
    data = env.rollout(8, break_when_any_done=False)
    rules = env.rules
    now = rules.observe(rules.state_of(*(data["state", n] for n in ("board", "history", "moves"))))
    for seat, name in enumerate(rules.players):
        planes = data[name, "planes"].squeeze(-4)
        assert torch.equal(planes[..., -9:, :, :], now[:, :, seat, 14:])
        for back in range(3):
            got = planes[:, :, 14 * back : 14 * back + 14]
            assert torch.equal(got[:, back:], now[:, : 8 - back, seat, :14])
            assert not got[:, :back].any()


def test_pictures_change_where_pieces_move() -> None:
    rules = Chess()
    state = rules.start(torch.Size([1]))
    after = rules.play(state, rules.read_sans(state, ["e4"]))
    before, now = sprites.pixels(state.board)[0], sprites.pixels(after.board)[0]
    changed = (before != now).any(0).nonzero()
    squares = {(int(x - 15) // 45, 7 - int(y - 15) // 45) for y, x in changed.tolist()}
    assert squares == {(4, 1), (4, 3)}  # e2, e4
    tile = lambda image, file, rank: image[:, 15 + 45 * (7 - rank) :, 15 + 45 * file :][:, :45, :45]  # noqa: E731
    assert torch.equal(tile(now, 4, 1), tile(now, 4, 5))  # an empty square of the same colour
    assert not torch.equal(tile(now, 4, 3), tile(before, 1, 1))  # a dark square
    assert torch.equal(tile(now, 4, 3), tile(before, 0, 1))  # a white pawn on a light square, as on a2
    assert torch.equal(sprites.pixels(torch.stack((state.board, after.board)))[:, 0], torch.stack((before, now)))


@pytest.mark.reference
@pytest.mark.parametrize("options", [{"include_fen": True}, {"include_fen": True, "batch_size": [2]}, {}], ids=str)
def test_torchrls_check_holds_where_games_travel_in_the_data(options):
    utils = pytest.importorskip("torchrl.envs.utils")
    for seed in range(6):
        utils.check_env_specs(ChessEnv(stateful=False, **options), seed=seed)


def test_random_actions_leave_the_spec_with_the_mask_of_their_data():
    env = ChessEnv(stateful=False)
    td = first = env.reset()
    for _ in range(3):
        td = env.step_mdp(env.rand_step(td.copy()))
    assert not torch.equal(env.action_spec.mask, first["action_mask"])
    env.rand_action(first)
    assert torch.equal(env.action_spec.mask, first["action_mask"])
