"""OpenSpiel's games through the wrapper, compared entry by entry with raw states stepped by hand."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from beside_simulator import Spiel, follow, groups_by
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sizes import some

import marlenv
from marlenv.errors import DtypeError, IllegalAction, SpecError, UnknownName, Unsupported
from marlenv.optional import need
from marlenv.testing import run_contract
from marlenv.wrappers.open_spiel import OpenSpielEnv, OpenSpielWrapper
from marlenv.wrappers.open_spiel.games import reseeded
from marlenv.wrappers.open_spiel.match import Match

pytestmark = pytest.mark.sim

FAST = ["tic_tac_toe", "kuhn_poker", "leduc_poker", "goofspiel", "matrix_rps", "matching_pennies_3p", "pig", "2048"]
ENDLESS = 300  # steps; longer games are compared up to here
SHORT = int(os.environ.get("MARLENV_FUZZ_STEPS", "60"))  # of longer games the episodes of the fuzz are cut off
MOVES = 8  # after so many
QUICK = {
    "bridge": "bridge(use_double_dummy_result=false)",  # no search for the best play at the end of the bidding
    "yacht": "yacht(num_dice=3)",  # 216 outcomes of a throw instead of 7776
}
CONTRACT_EXEMPT = {
    "global_generators_stay_where_they_are": "games that are written in Python draw from numpy's global generator"
}

WRITTEN_OVER = "its observer keeps what earlier games wrote"
GAME_EXEMPT = {
    "python_ant_foraging": {
        "making_and_seeding_move_no_global_generator": "the game draws its board from numpy's generator"
    },
    "python_dynamic_routing": {"resets_start_afresh": WRITTEN_OVER, "states_can_be_put_back": WRITTEN_OVER},
}


def beside(env: OpenSpielWrapper, seed: int) -> Spiel:
    """The same game by hand, with a generator of its own that draws the same chance."""
    match = Match(env.game, None, "by hand")
    match.rng = np.random.default_rng(seed)

    def draw(state: Any) -> None:
        match.state = state
        match.draw_chance()

    return Spiel(reseeded(env.game, seed), draw, match.tensors.shapes, match.actions)


def maps(players: int) -> Any:
    names = [f"player_{i}" for i in range(players)]
    return st.sampled_from(
        [None, "all_in_one_group", {"last": names[-1:], "rest": {"of_them": names[:-1]}} if players > 1 else None]
    )


@pytest.mark.slow
@settings(max_examples=25)
@given(st.data(), st.sampled_from(FAST), st.integers(0, 1 << 40), st.booleans())
def test_every_number_is_the_games(data: Any, name: str, seed: int, categorical: bool) -> None:
    game = need("pyspiel", "test").load_game(name)
    env = OpenSpielEnv(name, group_map=data.draw(maps(game.num_players())), categorical_actions=categorical)
    assert follow(env, beside(env, seed), seed, episodes=4, max_steps=40) > 0


@pytest.mark.parametrize("name", [*FAST, "backgammon", "hanabi"])
def test_rewards_of_a_game_add_up_to_its_returns(name: str) -> None:
    env = OpenSpielEnv(name)
    env.set_seed(3)
    for _ in range(3):
        td, total = env.reset(), torch.zeros(env.game.num_players())
        for _ in range(2000):
            td = env.rand_step(td)
            total += td["next", "agents", "reward"].squeeze(-1)
            td = env.step_mdp(td)
            if bool(td["done"]):
                break
        assert torch.allclose(total, torch.tensor(env._env.returns(), dtype=torch.float32), atol=1e-3)


def test_all_actions_of_simultaneous_games_are_drawn() -> None:
    env = OpenSpielEnv("matrix_rps", categorical_actions=True)
    env.set_seed(0)
    drawn = {tuple(env.rollout(1)["agents", "action"][0].tolist()) for _ in range(60)}
    assert len(drawn) == 9


def test_chance_is_seeded_and_may_be_chosen() -> None:
    rolls = []
    for seed in (1, 1, 2, -1, 2**64 - 1):
        env = OpenSpielEnv("backgammon", return_state=True, categorical_actions=True)
        env.set_seed(seed)
        rolls.append([env.reset()["state"] for _ in range(3)])
        seeded = OpenSpielEnv("backgammon", return_state=True, seed=seed)
        assert [seeded.reset()["state"] for _ in range(3)] == rolls[-1]
    assert rolls[0] == rolls[1] != rolls[2] != rolls[3]
    assert rolls[3] == rolls[4]  # as numbers of 64 bits they are one
    asked: list[Any] = []

    def first(outcomes: Any, chances: Any) -> int:
        asked.append((len(outcomes), round(sum(chances), 6)))
        return outcomes[0]

    env = OpenSpielEnv("kuhn_poker", chance_sampler=first)
    assert torch.equal(env.reset()["agents", "information_state"], env.reset()["agents", "information_state"])
    assert asked[-2:] == [(3, 1.0), (2, 1.0)]


def test_a_reset_goes_on_from_a_serialized_state() -> None:
    env = OpenSpielEnv("tic_tac_toe", return_state=True, categorical_actions=True)
    td = env.reset()
    for action in (4, 0):
        td["agents", "action"] = torch.full((2,), action)
        td = env.step_mdp(env.step(td))
    again = OpenSpielEnv("tic_tac_toe", return_state=True, categorical_actions=True).reset(td.select("state"))
    assert torch.equal(again["agents", "observation"], td["agents", "observation"])
    assert again["agents", "action_mask"][0].int().tolist() == [0, 1, 1, 1, 0, 1, 1, 1, 1]
    assert env.reset()["agents", "action_mask"][0].all()


@pytest.mark.parametrize("name", ["backgammon", "leduc_poker", "goofspiel", "hearts(pass_cards=False)"])
def test_a_state_is_a_value(name: str) -> None:
    env = OpenSpielEnv(name, max_steps=9)
    env.set_seed(5)
    td = env.step_mdp(env.rand_step(env.reset()))
    state, action = env.get_state(), env.rand_action(td.clone())
    first = env.step(action.clone())["next"]
    second = env.step(env.set_state(state).update(action.select(*env.action_keys)))["next"]
    assert bool((first == second).all())


def test_a_state_where_the_game_is_over_says_so() -> None:
    env = OpenSpielEnv("matrix_rps")
    env.rand_step(env.reset())
    assert bool(env.set_state(env.get_state())["done"])


def test_a_state_in_which_a_game_was_cut_off_says_so() -> None:
    env = OpenSpielEnv("tic_tac_toe", max_steps=3)
    last = env.rollout(9)["next"][-1]
    again = env.set_state(env.get_state())
    assert bool(again["truncated"])
    assert not again["agents", "mask"].any()
    assert bool((last.select(*again.keys(True, True)) == again).all())
    assert bool(env.rand_step(again)["next", "truncated"])


def test_the_player_who_acts_is_told_at_the_root_until_the_end() -> None:
    env = OpenSpielEnv("tic_tac_toe")
    data = env.rollout(9)
    assert data["current_player"].tolist() == [i % 2 for i in range(len(data))]
    assert int(data["next", "current_player"][-1]) == -4


def test_an_illegal_move_names_the_player() -> None:
    env = OpenSpielEnv("tic_tac_toe", categorical_actions=True)
    td = env.reset()
    for action in (4, 4):
        td["agents", "action"] = torch.full((2,), action)
        if bool((td["agents", "action_mask"][:, action]).all()):
            td = env.step_mdp(env.step(td))
    with pytest.raises(
        IllegalAction, match=r"OpenSpielEnv: action 4 of agent 'player_1' is illegal; legal are \[0, 1, 2, 3, 5"
    ):
        env.step(td.set(("agents", "action"), torch.full((2,), 4)))


def test_nothing_happens_after_the_end() -> None:
    env = OpenSpielEnv("matrix_rps", categorical_actions=True)
    td = env.step_mdp(env.rand_step(env.reset()))
    again = env.rand_step(td)["next"]
    assert bool(again["done"])
    assert not again["agents", "reward"].any()


def test_observe_acting_leaves_those_who_wait_alone() -> None:
    data = OpenSpielEnv("tic_tac_toe", observe="acting").rollout(3)
    seen = data["next", "agents", "observation"]
    assert torch.equal(seen[0, 0], data["agents", "observation"][0, 0])
    assert not torch.equal(seen[0, 1], data["agents", "observation"][0, 1])


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: OpenSpielEnv("tic_tac_to"), UnknownName, "no game is called 'tic_tac_to'; did you mean 'tic_tac_toe'"),
        (
            lambda: OpenSpielEnv("coin_game"),
            Unsupported,
            "'coin_game' gives neither observation nor information-state tensors",
        ),
        (lambda: OpenSpielEnv("crossword"), Unsupported, "'crossword' does not list its legal actions"),
        (lambda: OpenSpielEnv("mfg_crowd_modelling"), Unsupported, "'mfg_crowd_modelling' is a mean-field game"),
        (
            lambda: OpenSpielEnv("tic_tac_toe", batch_size=[2]),
            SpecError,
            r"batch_size must be empty, got \[2\]; use SerialEnv",
        ),
        (lambda: OpenSpielWrapper(3), SpecError, "expected a pyspiel.State, got int"),
        (
            lambda: OpenSpielWrapper(need("pyspiel", "test").load_game("kuhn_poker")),
            SpecError,
            r"expected a pyspiel.State, got Game; pass game.new_initial_state\(\)",
        ),
        (
            lambda: OpenSpielEnv(need("pyspiel", "test").load_game("kuhn_poker")),
            DtypeError,
            r"expected the name of a game, got Game; .* make OpenSpielWrapper\(game.new_initial_state\(\)\)",
        ),
        (
            lambda: OpenSpielEnv("kuhn_poker(players=4)", {"players": 3}),
            SpecError,
            r"in the name or beside it, not in both; got 'kuhn_poker\(players=4\)' and {'players': 3}",
        ),
        (lambda: OpenSpielEnv("kuhn_poker", [3]), SpecError, r"parameters must map their names to values, got \[3\]"),
        (lambda: OpenSpielEnv("kuhn_poker", {"players": object()}), SpecError, "a parameter is no number, text,"),
        (lambda: OpenSpielEnv("misere(game=kuhn())"), SpecError, "cannot be loaded: Unknown game 'kuhn'.; its param"),
        (
            lambda: marlenv.make("open_spiel/kuhn_poker", players=3),
            TypeError,
            "no option 'players', which is a parameter of the game; pass parameters={'players': 3}",
        ),
        (
            lambda: OpenSpielEnv("kuhn_poker", chance_sampler="x"),
            SpecError,
            "OpenSpielEnv: chance_sampler must be a function, got 'x'",
        ),
        (
            lambda: OpenSpielEnv("tic_tac_toe", observe="none"),
            SpecError,
            "observe must be 'acting' or 'all', got 'none'",
        ),
        (
            lambda: OpenSpielEnv("tic_tac_toe", categorial_actions=True),
            TypeError,
            "^OpenSpielEnv has no option 'categorial_actions'; did you mean 'categorical_actions'",
        ),
    ],
)
def test_bad_input_is_named(make: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        make()


@cache
def colored_trails() -> Any:
    """The game that reads a file of boards for half a second, loaded once."""
    return need("pyspiel", "test").load_game("colored_trails")


def make(name: str, **options: Any) -> OpenSpielWrapper:
    """A game as it is, or quicker to play."""
    if name == "colored_trails":
        return OpenSpielWrapper(colored_trails().new_initial_state(), **options)
    return OpenSpielEnv(QUICK.get(name, name), **options)


def broken(name: str, **options: Any) -> list[str]:
    exempt = {**CONTRACT_EXEMPT, **GAME_EXEMPT.get(name, {})}
    found = run_contract(lambda: make(name, max_steps=50, **options), exempt)
    return [f"{r.name}: {r.says}" for r in found if r.verdict == "broken"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tic_tac_toe", "goofspiel", "leduc_poker"])
def test_the_contract_holds(name: str) -> None:
    assert not broken(name, return_state=name != "goofspiel")


LAZY = {"bridge_uncontested_bidding": "takes minutes to load"}


def why_not(name: str) -> str | None:
    """Why a game cannot be played raw with default parameters, for as long as a few moves."""
    spiel = need("pyspiel", "test")
    try:
        game = spiel.load_game(name)
        if game.get_type().dynamics == spiel.GameType.Dynamics.MEAN_FIELD:
            return "is a mean-field game"
        state = game.new_initial_state()
        for _ in range(20):
            if state.is_terminal():
                break
            if state.is_chance_node():
                state.apply_action(state.chance_outcomes()[0][0])
            elif state.is_simultaneous_node():
                state.apply_actions([(state.legal_actions(i) or [0])[0] for i in range(game.num_players())])
            else:
                state.apply_action(state.legal_actions()[0])
    except (spiel.SpielError, IndexError, RuntimeError, ValueError) as error:
        return f"does not run raw with default parameters: {type(error).__name__}"
    return None


def all_games() -> list[str]:
    try:
        return OpenSpielEnv.available_envs
    except ImportError:
        return []


def skip_unless_played(name: str) -> None:
    if (reason := LAZY.get(name) or why_not(name)) is not None:
        pytest.skip(reason)


@pytest.mark.slow
@pytest.mark.parametrize("name", some(all_games(), 3))
def test_every_game_keeps_the_contract(name: str) -> None:
    skip_unless_played(name)
    if gives_tensors(name):
        assert not broken(name)
    else:
        with pytest.raises(Unsupported, match="neither observation nor information-state tensors"):
            OpenSpielEnv(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", some(all_games(), 2))
def test_fuzz(name: str, sized: Callable) -> None:
    """A whole game, and 10 or 200 random episodes in random groups, beside the raw game; long ones are cut off.

    With ``MARLENV_FUZZ_STEPS=300`` in the environment all are played to the end, or to 300 steps; that takes ten
    minutes.
    """
    skip_unless_played(name)
    if not gives_tensors(name):  # nothing to play: that it is refused stands in the contract's test
        return
    whole = OpenSpielEnv(name)
    names = whole.agent_names
    length = follow(whole, beside(whole, 11), 11, episodes=1, max_steps=ENDLESS)
    most = ENDLESS if length <= SHORT else MOVES

    @settings(max_examples=sized(2, 10), suppress_health_check=list(HealthCheck))
    @given(
        st.integers(0, 1 << 40), st.lists(st.integers(0, 2), min_size=len(names), max_size=len(names)), st.booleans()
    )
    def play(seed: int, labels: list[int], categorical: bool) -> None:
        env = make(name, group_map=groups_by(labels, names), categorical_actions=categorical)
        assert follow(env, beside(env, seed), seed, episodes=sized(5, 20), max_steps=most) > 0

    play()


def gives_tensors(name: str) -> bool:
    """Whether the first player sees a tensor in the first position that is not chance's."""
    spiel = need("pyspiel", "test")
    state, rng = spiel.load_game(name).new_initial_state(), np.random.default_rng(0)
    while state.is_chance_node():
        state.apply_action(int(rng.choice([outcome for outcome, _ in state.chance_outcomes()])))
    kind = state.get_game().get_type()
    for entry in ("observation", "information_state"):
        try:
            if getattr(kind, f"provides_{entry}_tensor") and len(getattr(state, f"{entry}_tensor")(0)):
                return True
        except (spiel.SpielError, NotImplementedError):
            continue
    return False


@pytest.mark.slow
def test_the_count_of_games() -> None:
    """Of 136 games 118 run raw with default parameters; 109 of them give tensors, and are played above."""
    raw = [name for name in all_games() if name not in LAZY and why_not(name) is None]
    seen = [name for name in raw if gives_tensors(name)]
    print(f"OpenSpiel: {len(all_games())} games, {len(raw)} run raw with default parameters, {len(seen)} give tensors")
    assert (len(all_games()), len(raw), len(seen)) == (136, 118, 109)


JUNK = ["not a state", "99", "-5", "0\n0\n0", "4\n4", "9" * 30, "1.5", "0 1 2 3 4 5 6 7 8 0"]
CRASHES = """
import sys, torch
from marlenv import OpenSpielEnv
from marlenv.errors import SpecError
from tensordict import NonTensorData, TensorDict
env = OpenSpielEnv(sys.argv[1], return_state=True)
env.reset()
for text in sys.argv[2:]:
    try:
        env.reset(TensorDict({"state": NonTensorData(text)}))
    except SpecError as error:
        assert "is not a state of" in str(error), error
        continue
    sys.exit(f"{text!r} was taken for a state")
"""


@pytest.mark.parametrize(
    "name",
    [
        "tic_tac_toe",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("kuhn_poker", "goofspiel")),
        *(pytest.param(name, marks=pytest.mark.full) for name in ("hanabi", "python_tic_tac_toe")),
    ],
)
def test_a_text_that_is_no_state_is_an_error_and_not_the_end_of_the_process(name: str) -> None:
    """In a process of its own; raw, ``deserialize_state("-5")`` of tic-tac-toe ends it."""
    legal = {
        "goofspiel": {"0\n0\n0"},
        "hanabi": {"0\n0\n0", JUNK[-1]},
    }  # a card of the prizes, and a move of each; three cards dealt
    texts = [text for text in JUNK if text not in legal.get(name, ())]
    texts = texts[:2] if name.startswith("python") else texts  # what writes states of its own is tried in a third one
    ran = subprocess.run([sys.executable, "-c", CRASHES, name, *texts], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-800:]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["goofspiel", "leduc_poker", "chess", "python_kuhn_poker", "hearts(pass_cards=False,jd_bonus=True)"]
)
def test_a_reset_from_a_given_state_is_torchrls(name: str) -> None:
    """The position is the same as ``deserialize_state`` makes of the text, which is what TorchRL's reset calls."""
    env = OpenSpielEnv(name, return_state=True)
    env.set_seed(2)
    td = env.rollout(1)[-1]["next"]
    text = td["state"]
    raw = env.game.deserialize_state(text)
    fresh = OpenSpielEnv(name, return_state=True)
    again = fresh.reset(td.select("state"))
    assert again["state"] == text
    assert str(fresh._env) == str(raw)
    assert int(again["current_player"]) == raw.current_player()
    without = OpenSpielEnv(name)  # it takes a state that it does not emit
    without.reset(td.select("state"))
    assert str(without._env) == str(raw)


def test_a_state_that_is_no_text_is_refused() -> None:
    env = OpenSpielEnv("tic_tac_toe", return_state=True)
    with pytest.raises(SpecError, match="OpenSpielEnv: a state is the text that state.serialize.. gives, got Tensor"):
        env.reset(env.reset().set("state", torch.tensor([3])))
    with pytest.raises(
        SpecError, match=r"'4\\n4\\n' is not a state of 'tic_tac_toe': move \[4\] \(number 1\) is illegal"
    ):
        env.set_state(env.get_state().set("state", "4\n4\n"))


@pytest.mark.parametrize("outcome", [99, -1, 3, 0.5, float("nan"), "x", None])
def test_an_outcome_of_chance_that_there_is_not_is_refused(outcome: Any) -> None:
    chosen: list[Any] = []
    env = OpenSpielEnv("kuhn_poker", chance_sampler=lambda outcomes, _: chosen.pop() if chosen else outcomes[0])
    env.reset()
    chosen.append(outcome)
    says = rf"OpenSpielEnv: chance_sampler must return one of \[0, 1, 2\], got {outcome!r}"
    with pytest.raises(SpecError, match=says):
        env.reset()


WRITTEN_IN_PYTHON = ["chat_game", "python_ant_foraging", "python_hangman", "python_liars_poker", "python_kuhn_poker"]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
@pytest.mark.parametrize("name", [*WRITTEN_IN_PYTHON, "kuhn_poker", "negotiation"])
def test_a_copy_goes_on_where_the_original_was_and_starts_new_games(name: str, copied: Any) -> None:
    env = OpenSpielEnv(name, categorical_actions=True)
    env.set_seed(3)
    td = env.reset()
    td = env.step_mdp(env.step(env.rand_action(td)))
    twin = copied(env)
    assert str(twin._env) == str(env._env)
    assert twin._env is not env._env
    assert str(twin.game) == str(env.game)
    chosen, before = env.rand_action(td), str(env._env)
    twin.step(chosen.clone())
    assert str(env._env) == before  # the copy plays its own game
    env.step(chosen)
    assert str(twin._env) == str(env._env)
    for one in (twin, env):
        one.set_seed(5)
        one.reset()
    assert str(twin._env) == str(env._env)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("normal_form_extensive_game(game=kuhn_poker())", r"'normal_form_extensive_game\(\).*Missing parameter game"),
        ("restricted_nash_response(game=kuhn_poker(),fixed_player=1,p=0.5)", "'rnr_kuhn_poker.*Unknown game 'rnr_kuhn"),
    ],
)
def test_games_that_open_spiel_cannot_copy_are_named(name: str, says: str, copied: Any) -> None:
    env = OpenSpielEnv(name)
    env.reset()
    with pytest.raises(Unsupported, match=f"OpenSpielEnv: {says}.*make another env instead"):
        copied(env)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["negotiation", "bargaining", "python_hangman"])
def test_states_of_games_with_a_text_of_their_own_can_be_put_back(name: str) -> None:
    env = OpenSpielEnv(name, categorical_actions=True)
    env.set_seed(3)
    td = env.reset()
    for _ in range(4):
        state, shown, history = env.get_state(td), str(env._env), env._env.history()
        after = env.step_mdp(env.step(env.rand_action(td)))
        back = env.set_state(state)
        assert (str(env._env), env._env.history()) == (shown, history)
        assert torch.equal(back["agents", "action_mask"], td["agents", "action_mask"])
        other = OpenSpielEnv(name, categorical_actions=True)  # which has not seen the text: another process tries it
        other.set_state(state)
        assert str(other._env) == shown
        if bool(after["done"]):
            break
        td = env.step_mdp(env.step(env.rand_action(back)))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nfg_game", "'nfg_game' cannot be loaded: a parameter is missing; its parameters: filename"),
        ("misere", "'misere' cannot be loaded: Missing parameter game; its parameters: game"),
        ("kuhn_poker(player=3)", "cannot be loaded: Unknown parameter 'player'.*; its parameters: players"),
    ],
)
def test_a_game_that_needs_other_parameters_is_an_error_that_lists_them(name: str, says: str) -> None:
    with pytest.raises(SpecError, match=f"^OpenSpielEnv: .*{says}"):
        OpenSpielEnv(name)


def test_a_seed_that_was_not_used_yet_does_not_outlive_a_state() -> None:
    """The next deal after ``set_state`` came from it, and not from the generator in the state."""

    def deals(env: OpenSpielEnv, td: Any) -> list[Any]:
        seen = []
        for _ in range(12):
            mask = td["agents", "action_mask"]
            td["agents", "action"] = ((mask.cumsum(-1) == 1) & mask).long()
            td = env.step_and_maybe_reset(td)[1]
            seen.append(td["agents", "observation"].tolist())
        return seen

    env = OpenSpielEnv("kuhn_poker")
    env.set_seed(6)
    start = env.reset()
    state, want = env.get_state(), deals(env, start.clone())
    other = OpenSpielEnv("kuhn_poker")
    other.set_seed(99)
    assert deals(other, other.set_state(state)) == want
