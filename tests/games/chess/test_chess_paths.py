"""The torch path, the numba path and the compiled path give the same bits; a batch is a stack of singles."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from chess_reference import ODD_STARTS
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDictBase

import marlenv
from marlenv.errors import DtypeError, IllegalAction, ShapeError, UnknownName
from marlenv.games.chess import Chess, State
from marlenv.games.chess.bits import sample, unpack
from marlenv.games.chess.fast import paths
from marlenv.games.parts.bits import counted
from marlenv.games.rules import where
from marlenv.optional import has
from marlenv.rng import RowRNG
from marlenv.testing.comparison import differences

needs_numba = pytest.mark.skipif(not has("numba"), reason="numba is not installed")


def equal(a: State, b: State) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def rolled(rules: Chess, rows: int, plies: int, seed: int = 0) -> State:
    """Positions after random moves from the usual and from odd beginnings."""
    rng = RowRNG(seed, [rows])
    state = rules.start(torch.Size([rows]), rng=rng)
    if not rules.chess960:
        odd = rules.from_fens([ODD_STARTS[i % len(ODD_STARTS)] for i in range(rows)])
        state = where(torch.arange(rows) % 2 == 0, state, odd)
    for _ in range(plies):
        state = rules.play(state, rules.sample(state, rng.bits([1]).squeeze(-1)))
        state = rules.restart(state, rules.over(state))
    return state


@pytest.mark.slow
@needs_numba
@pytest.mark.parametrize("chess960", [False, True], ids=["standard", "chess960"])
@pytest.mark.parametrize("draws", ["claim", "forced"])
def test_numba_equals_torch_in_long_games(draws: str, chess960: bool) -> None:
    slow, fast = (Chess(draws=draws, chess960=chess960, path=path) for path in ("torch", "numba"))
    state = rolled(fast, 128, 0)
    rng, ends = RowRNG(4, [128]), torch.zeros(len(fast.outcomes), dtype=torch.int64)
    for ply in range(150):
        bits = rng.bits([1]).squeeze(-1)
        action = fast.sample(state, bits)
        assert torch.equal(action, slow.sample(state, bits))
        action[ply % 128] = (1, -1, 4672, 292 + 64 * ply)[ply % 4]  # not legal, or not even an action
        assert torch.equal(fast.permits(state, action), slow.permits(state, action))
        after = fast.play(state, action)
        assert equal(after, slow.play(state, action))
        ends += torch.bincount(fast.outcome(after).to(torch.int64), minlength=len(ends))
        over = fast.over(after)
        state = fast.restart(after, over)
        assert equal(state, slow.restart(after, over))
    assert torch.equal(fast.legal(state), slow.legal(state))
    assert ends[1:].sum() > 0


@needs_numba
def test_numba_equals_torch_from_fens() -> None:
    slow, fast = Chess(path="torch"), Chess(path="numba")
    assert equal(slow.from_fens(ODD_STARTS), fast.from_fens(ODD_STARTS))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
@pytest.mark.filterwarnings("ignore")  # inductor imports parts of torch that warn
@pytest.mark.parametrize("chess960", [False, True], ids=["standard", "chess960"])
def test_compiled_without_graph_breaks(backend: str, chess960: bool) -> None:
    rules = Chess(chess960=chess960)
    fresh = rules.start(torch.Size())

    def step(state: State, bits: torch.Tensor) -> tuple[State, torch.Tensor, torch.Tensor, torch.Tensor]:
        after = rules.play(state, rules.sample(state, bits))
        return (
            rules.restart(after, rules.over(after), fresh),
            rules.legal(after),
            rules.returns(after),
            rules.observe(after),
        )

    torch.compiler.reset()
    # one number at a time: torch 2.13's vectors of int64 are wrong on processors with AVX2 and no AVX-512
    options = {"cpp.simdlen": 1} if backend == "inductor" else None
    compiled = torch.compile(step, fullgraph=True, backend=backend, options=options)
    state, rng = rolled(rules, 32, 12), RowRNG(5, [32])
    for _ in range(4):
        bits = rng.bits([1]).squeeze(-1)
        (next_state, *rest), (expected, *others) = compiled(state, bits), step(state, bits)
        assert equal(next_state, expected)
        assert all(torch.equal(a, b) for a, b in zip(rest, others, strict=True))
        state = next_state


def test_nothing_looks_at_the_data() -> None:
    rules = Chess()
    state = State(*(part.to("meta") for part in rules.start(torch.Size([4]))))  # a device without any data
    after = rules.play(state, rules.sample(state, torch.zeros(4, dtype=torch.int64, device="meta")))
    assert rules.restart(after, rules.over(after), State(*(part[0] for part in state))).history.shape == (4, 101)
    assert rules.legal(after).shape == (4, 4672)
    assert rules.observe(after).shape == (4, 2, 23, 8, 8)
    assert rules.permits(after, rules.player(after)).shape == rules.outcome(after).shape == (4,)


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), plies=st.integers(0, 40), chess960=st.booleans(), numba=st.booleans())
def test_a_batch_is_a_stack_of_singles(seed: int, plies: int, chess960: bool, numba: bool) -> None:
    rules = Chess(chess960=chess960, path="numba" if numba and has("numba") else "torch")
    state = rolled(rules, 6, plies, seed)
    bits = RowRNG(seed, [6]).bits([1]).squeeze(-1)
    action = rules.sample(state, bits)
    after, mask, seen = rules.play(state, action), rules.legal(state), rules.observe(state)
    for row in range(6):
        one = State(*(part[row] for part in state))
        assert rules.sample(one, bits[row]) == action[row]
        assert equal(rules.play(one, action[row]), State(*(part[row] for part in after)))
        assert torch.equal(rules.legal(one), mask[row])
        assert torch.equal(rules.observe(one), seen[row])
    folded = State(*(part.reshape(2, 3, -1) for part in state))
    assert equal(rules.play(folded, action.reshape(2, 3)), State(*(part.reshape(2, 3, -1) for part in after)))


def test_one_position_is_branched_by_expanding(path: str) -> None:
    rules = Chess(path=path)
    one = rules.start(torch.Size())
    legal = rules.legal(one).nonzero().flatten()
    after = rules.play(State(*(part.expand(len(legal), -1) for part in one)), legal)
    assert len(set(rules.fens(after))) == 20
    assert equal(one, rules.start(torch.Size()))


def test_play_writes_to_out_and_in_place(path: str) -> None:
    rules = Chess(path=path)
    state = rolled(rules, 16, 20)
    action = rules.sample(state, RowRNG(1, [16]).bits([1]).squeeze(-1))
    expected = rules.play(state, action)
    out = State(*(torch.full_like(part, -7) for part in state))
    assert rules.play(state, action, out=out) is out
    assert equal(out, expected)
    over = torch.arange(16) % 3 == 0
    renewed = rules.restart(expected, over)
    assert equal(rules.restart(out, over, out=out), renewed)
    assert equal(rules.play(state, action, out=state), expected)


def test_finished_and_illegal_rows_stay_as_they_are(path: str) -> None:
    rules = Chess(path=path)
    state = rules.from_fens(
        ["7k/5Q2/6K1/8/8/8/8/8 w - - 0 1", "7k/8/6QK/8/8/8/8/8 b - - 0 1", "k7/8/8/8/8/8/8/7K w - - 0 1"]
    )
    state = State(*(torch.cat((part, part)) for part in state))
    state = rules.play(state, rules.read_ucis(State(*(p[:1] for p in state)), ["f7g7"]).expand(6).clone())
    assert [rules.outcomes[code] for code in rules.outcome(state)] == [
        "checkmate",
        "stalemate",
        "insufficient material",
    ] * 2
    assert not rules.legal(state).any()
    assert not rules.sample(state, torch.full((6,), -1)).any()
    for action in (0, 6 * 64 + 12, -1, 4671, 10**9):
        assert equal(rules.play(state, torch.full((6,), action)), state)


def test_a_mask_is_written_to_a_given_buffer(path: str) -> None:
    rules = Chess(path=path)
    state = rolled(rules, 8, 10)
    out = torch.ones(8, 4672, dtype=torch.bool)
    assert rules.legal(state, out=out) is out
    assert torch.equal(out, rules.legal(state))
    assert torch.equal(out.sum(-1), counted(state.moves).sum(-1))


def test_sampling_is_uniform(path: str) -> None:
    rules = Chess(path=path)
    state = State(*(part.expand(20_000, -1) for part in rules.start(torch.Size())))
    drawn = rules.sample(state, RowRNG(3, [20_000]).bits([1]).squeeze(-1))
    counts = torch.bincount(drawn, minlength=4672)
    assert counts[rules.legal(rules.start(torch.Size()))].min() > 850  # 1000 expected, standard deviation 31
    assert counts.sum() == counts[rules.legal(rules.start(torch.Size()))].sum()


@given(words=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=73, max_size=73), high=st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_sample_takes_the_bit_of_a_rank(words: list[int], high: int) -> None:
    moves = torch.tensor(words)
    listed = unpack(moves).nonzero().flatten().tolist()
    bits = torch.tensor((high << 32) - (1 << 64) if high >> 31 else high << 32)
    expected = listed[high * len(listed) >> 32] if listed else 0
    assert sample(moves, bits) == expected
    if has("numba"):
        assert paths.sample(moves, bits, "numba") == expected


def test_shapes_and_names_are_checked(path: str) -> None:
    rules = Chess(path=path)
    state = rules.start(torch.Size([3]))
    with pytest.raises(ShapeError, match=r"chess.play: one action per position, \[3\]; got \[2\]"):
        rules.play(state, torch.zeros(2, dtype=torch.int64))
    with pytest.raises(DtypeError, match="chess.play: actions are int64, got torch.int32"):
        rules.play(state, torch.zeros(3, dtype=torch.int32))
    with pytest.raises(ShapeError, match=r"sample: bits must be int64 \[3\]"):
        rules.sample(state, torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ShapeError, match=r"unpack: out must be contiguous bool \[3, 4672\]"):
        rules.legal(state, out=torch.zeros(3, 4671, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"chess.restart: where must be bool \[3\]"):
        rules.restart(state, torch.zeros(3))
    with pytest.raises(ShapeError, match=r"chess: out must be contiguous int64 \[3, 16\]"):
        rules.play(state, torch.zeros(3, dtype=torch.int64), out=rules.start(torch.Size([2])))
    with pytest.raises(UnknownName, match="path='nunba'; did you mean 'numba'"):
        Chess(path="nunba")  # type: ignore[arg-type]


def test_rules_and_states_are_values() -> None:
    rules = Chess(draws="forced", chess960=True, number=7)
    assert pickle.loads(pickle.dumps(rules)) == rules
    assert copy.deepcopy(rules) == rules
    assert hash(rules) == hash(Chess(draws="forced", chess960=True, number=7))


# --- whole steps of an env -----------------------------------------------------------------------


def same(a: TensorDictBase, b: TensorDictBase) -> bool:
    return not differences(a, b)


@pytest.mark.slow
@needs_numba
@pytest.mark.parametrize("chess960", [False, True], ids=["standard", "chess960"])
@pytest.mark.parametrize("mask", ["bits", "bool"])
def test_an_env_says_the_same_whatever_plays_in_it(mask: str, chess960: bool) -> None:
    rows = 48  # few enough to be played, and to be left alone when they are over
    slow, fast = (
        marlenv.make("chess", batch_size=[rows], mask=mask, chess960=chess960, path=path) for path in ("torch", "numba")
    )
    for env in (slow, fast):
        env.set_seed(3)
    a, b = slow.reset(), fast.reset()
    begun = rolled(Chess(chess960=chess960), rows, 120)
    for td in (a, b):
        for name, part in zip(State._fields, begun, strict=True):
            td["state", name] = part.clone()
    a, b = slow.reset(a, set_state=True), fast.reset(b, set_state=True)
    held, ended, left = [], 0, 0
    for ply in range(200):
        a, b = slow.rand_action(a), fast.rand_action(b)
        assert same(a, b), f"actions of ply {ply}"
        if ply % 40 < 10:  # games that are over stay so
            a, b = slow.step(a), fast.step(b)
            after, then = slow.step_mdp(a), fast.step_mdp(b)
            left += int((a["done"] & a["next", "done"]).sum())
            if ply % 40 == 9:
                after, then = slow.maybe_reset(after), fast.maybe_reset(then)
        else:
            a, after = slow.step_and_maybe_reset(a)
            b, then = fast.step_and_maybe_reset(b)
        assert same(a, b), f"what is told of ply {ply}"
        assert same(after, then), f"what follows ply {ply}"
        ended += int(a["next", "done"].sum())
        held.append((a, a.clone()))
        a, b = after, then
    assert ended > 0
    assert left > 0
    assert all(same(td, copied) for td, copied in held), "data that were handed out were written again"


@pytest.mark.slow
@pytest.mark.parametrize("path", ["torch", "auto"])
def test_an_illegal_move_is_not_played(path: str) -> None:
    env = marlenv.make("chess", batch_size=[3], path=path)
    td = env.rand_action(env.reset())
    td["white", "action"][1] = 4671
    before = td.clone()
    with pytest.raises(IllegalAction, match="row \\[1\\]"):
        env.step(td)
    assert same(td, before)


@pytest.mark.parametrize("path", ["torch", "auto"])
def test_a_game_that_was_drawn_by_repetition_stays_drawn(path: str) -> None:
    env = marlenv.make("chess", batch_size=[2], path=path)
    rules, td = env.rules, env.reset()
    for san in ["Nf3", "Nf6", "Ng1", "Ng8"] * 2:
        for player in ("white", "black"):
            td[player, "action"] = rules.read_sans(env.read(td), [san] * 2).unsqueeze(-1)
        td = env.step_mdp(env.step(td))
    assert rules.outcomes[int(td["outcome"][0])] == "threefold repetition"
    again = env.step(td.clone())["next"]
    assert same(again["state"], td["state"])
    assert torch.equal(again["outcome"], td["outcome"])
