"""Envs and policies of one's own on the command line: ``module:callable``, and names that stand for many envs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from marlenv.scenarios.mpe.simple_spread import SimpleSpread
from tensordict import TensorDict
from test_commands import run

import marlenv
from marlenv.errors import DeviceError, SpecError, UnknownName
from marlenv.games import TicTacToe
from marlenv.optional import has
from marlenv.testing import CountingEnv

ENVS = """
from dataclasses import dataclass
from marlenv import Composite, NonTensor, StepCounter, TransformedEnv, Unbounded, make
from marlenv.scenarios.mpe.simple_spread import SimpleSpread
from marlenv.testing import CountingEnv, GroupedEnv

class Own(CountingEnv):
    "Counts on its own."

class Says(CountingEnv):
    def __init__(self):
        super().__init__(max_steps=3)
        self.observation_spec = Composite(self.full_observation_spec, text=NonTensor((), example_data=""))
    def _reset(self, td=None, **kwargs):
        return super()._reset(td, **kwargs).set("text", "start")
    def _step(self, td):
        out = super()._step(td)
        return out.set("text", f"step {int(out['observation'])}")

class Grows(CountingEnv):
    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(observation=Unbounded((-1,)))

class ManyRows(CountingEnv):
    def __init__(self, num_envs=1, max_steps=4):
        super().__init__(max_steps=max_steps, batch_size=[num_envs])

def three(): return CountingEnv(max_steps=3)
def wrapped(): return TransformedEnv(make("simple_spread", 2, n_agents=2), StepCounter())
def needs(n): return CountingEnv(max_steps=n)
def thing(): return object()
def breaks(): raise ValueError("out of luck")
def looks_up(): return {}["a map"]
an_env = CountingEnv()

@dataclass(eq=False)
class Two(SimpleSpread):
    n_agents: int = 2
"""

POLICIES = """
import torch
from tensordict.nn import TensorDictModule

def first_free(td):
    return td.set(("agents", "action"), td["agents", "action_mask"].int().argmax(-1))
def in_place(td):
    first_free(td)
class Plain:
    def __call__(self, td): return first_free(td)
class Asks:
    def __init__(self, env):
        self.cells = env.full_action_spec["agents", "action"].n
    def __call__(self, td):
        assert self.cells == 9
        return first_free(td)
class MayAsk(Asks):
    def __init__(self, env=None):
        super().__init__(env)
class Module(torch.nn.Module):
    def forward(self, agents_action_mask):
        return agents_action_mask.int().argmax(-1)
def make_plain(): return Plain()
def make_asking(env, unused=1): return Asks(env)
def with_default(td=None): return first_free(td)
instance = Plain()
module = TensorDictModule(Module(), in_keys=[("agents", "action_mask")], out_keys=[("agents", "action")])

class Needs:
    def __init__(self, hidden): pass
def nothing(): pass
def odd_sum(td):
    return 1 + "one"
def unmade(td):
    return object().net
def noted(td):
    try:
        return odd_sum(td)
    except TypeError as error:
        error.add_note("the sum of a policy")
        raise
number = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with modules of one's own."""
    (tmp_path / "own_envs.py").write_text(ENVS)
    (tmp_path / "own_policies.py").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


GOOD = [
    "first_free",
    "in_place",
    "Plain",
    "Asks",
    "MayAsk",
    "Module",
    "make_plain",
    "make_asking",
    "with_default",
    "instance",
    "module",
]


@pytest.mark.parametrize("policy", GOOD)
def test_a_policy_may_be_there_or_be_made(here: Path, capsys: pytest.CaptureFixture[str], policy: str) -> None:
    words = ["rollout", "tic_tac_toe", "--envs", "4", "--steps", "14", "--group-map", "all_in_one_group"]
    code, out, err = run(capsys, *words, "--policy", f"own_policies:{policy}")
    assert code == 0, err
    assert "8 finished episodes" in out  # first free cells: x wins after 7 plies


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ("Needs", "Needs needs hidden, which nobody knows here; name a function that makes it"),
        ("nothing", "made None, which is no policy"),
        ("number", "expected a policy, or what makes one, got int"),
    ],
)
def test_what_is_no_policy_is_one_line(here: Path, capsys: pytest.CaptureFixture[str], policy: str, says: str) -> None:
    for words in (["rollout", "tic_tac_toe", "--policy"], ["play", "tic_tac_toe", "--opponent"]):
        code, _, err = run(capsys, *words, f"own_policies:{policy}")
        assert code == 2
        assert f"{words[-1]} own_policies:{policy}: {says}" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["show", "own_envs:breaks"],
            ("ValueError: out of luck (", "own_envs.py:", ", in breaks; MARLENV_TRACEBACK=1"),
        ),
        (
            ["rollout", "tic_tac_toe", "--policy", "own_policies:noted"],
            ("TypeError: unsupported operand", "; the sum of a policy (", "own_policies.py:", ", in odd_sum; "),
        ),
        (["check", "own_envs:looks_up"], ("KeyError: 'a map' (", "own_envs.py:", ", in looks_up; ")),
        (
            ["rollout", "tic_tac_toe", "--policy", "own_policies:unmade"],
            ("AttributeError: ", "has no attribute 'net' (", "own_policies.py:", ", in unmade; "),
        ),
    ],
)
def test_an_error_of_ones_own_code_says_where_it_is(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: tuple[str, ...]
) -> None:
    code, _, err = run(capsys, *words)
    assert code == 2
    assert all(part in err for part in says), err
    assert len(err.strip().splitlines()) == 1


def test_a_rollout_keeps_the_text_of_every_step(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "rollout", "own_envs:Says", "--envs", "2", "--steps", "5", "--out", "data")
    assert code == 0, err
    kept = TensorDict.load_memmap(here / "data")
    assert kept.batch_size == (2, 5)
    assert kept["next", "observation"].squeeze(-1).tolist() == [[1, 2, 3, 1, 2]] * 2
    assert list(kept["text"]) == [["start", "step 1", "step 2", "start", "step 1"]] * 2
    assert list(kept["next", "text"]) == [["step 1", "step 2", "step 3", "step 1", "step 2"]] * 2


def test_steps_that_differ_in_shape_are_refused_before_they_are_played(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "rollout", "own_envs:Grows", "--steps", "5", "--out", "data")
    assert (code, out) == (2, "")
    assert "--out data: observation has sizes of -1, got [1, -1], so that steps differ in shape" in err
    assert not (here / "data").exists()
    for env in ("own_envs:Grows", "marlenv.testing:UnevenEnv --out uneven"):  # parts that differ are files of their own
        assert run(capsys, "rollout", *env.split(), "--steps", "5")[0] == 0


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import no_such", "ModuleNotFoundError: No module named 'no_such' ("),
        ("from marlenv import NoSuch", "ImportError: cannot import name 'NoSuch' from 'marlenv'"),
    ],
)
def test_an_import_that_fails_in_ones_own_module_is_named(
    here: Path, capsys: pytest.CaptureFixture[str], code: str, says: str
) -> None:
    name = f"no_such_{len(code)}"
    (here / f"{name}.py").write_text(code)
    for words in (["show", f"{name}:Env"], ["rollout", "tic_tac_toe", "--policy", f"{name}:policy"]):
        exit_code, _, err = run(capsys, *words)
        assert exit_code == 2
        assert f"error: {says}" in err
        assert f"{name}.py:1, in <module>" in err
        assert len(err.strip().splitlines()) == 1


def test_a_class_in_place_of_a_policy_is_named_in_a_rollout() -> None:
    class Greedy:
        def __init__(self, env: object) -> None: ...

    for env in (CountingEnv(), marlenv.make("simple_spread", 2), marlenv.make("tic_tac_toe", 2)):
        with pytest.raises(SpecError, match=r"the policy is the class Greedy; make one, Greedy\(...\)"):
            env.rollout(3, Greedy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "batch", "lengths"),
    [
        ("Own", "[2]", "6"),
        ("ManyRows", "[2]", "4"),
        ("three", "[2]", "3"),
        ("wrapped", "[2, 2]", "6"),
        ("Two", "[2]", "6"),
    ],
)
def test_envs_of_ones_own_are_shown_played_and_checked(
    here: Path, capsys: pytest.CaptureFixture[str], env: str, batch: str, lengths: str
) -> None:
    name = f"own_envs:{env}"
    code, out, err = run(capsys, "show", name, "--envs", "2")
    assert code == 0, err
    assert f"batch size {batch}" in out
    assert ("agents  2     agent_0 agent_1" in out) == (env in ("wrapped", "Two"))
    assert ("Counts on its own." in out) == (env == "Own")
    code, out, err = run(capsys, "rollout", name, "--envs", "2", "--steps", "12", "--max-steps", "6", "--seed", "3")
    assert code == 0, err
    rows = 4 if env == "wrapped" else 2
    assert out.splitlines()[0] == f"{name}, {rows} envs x 12 steps, policy random"
    assert out.splitlines()[1].startswith(f"{12 * rows} env-steps in ")
    if env != "ManyRows":  # row i of ManyRows ends i steps later
        assert f"  {lengths}  " in out.splitlines()[4]
    code, out, err = run(capsys, "check", name, "--envs", "2", "--quiet")
    assert code == 0, err
    assert "0 broken" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["show", "own_envs:thing"], "own_envs:thing'): made a object; expected an env"),
        (["check", "own_envs:an_env"], "expected a class or a function that makes an env, got CountingEnv"),
        (["show", "own_envs:needs"], "missing 1 required positional argument: 'n'"),
        (["show", "own_envs:Twoo"], "has no 'Twoo'; did you mean 'Two'?"),
        (["show", "own_envs.Two"], "an env of your own is 'module:callable'"),
        (["show", "own_envs:Two", "--set", "n_agent=3"], "Two has no option 'n_agent'; did you mean 'n_agents'?"),
        (
            ["show", "own_envs:Own", "--set", "max_step=3"],
            "error: Own has no option 'max_step'; did you mean 'max_steps'?",
        ),
        (["rollout", "own_envs:Own", "--set", "banana=3"], "error: Own has no option 'banana'; known: ["),
        (["rollout", "own_envs:ManyRows", "--set", "max_stepp=3"], "ManyRows has no option 'max_stepp'; did you mean"),
        (["check", "own_envs:needs", "--set", "m=3"], "error: needs has no option 'm'; known: ['n']"),
        (["show", "simple_spread", "--group-map", "{a: [agent_0]}"], "no JSON object (Expecting property name"),
        (["show", "simple_spread", "--device", "banana"], "'banana' is no device; use 'cpu', 'cuda'"),
        (["check", "simple_spread", "--device", "banana"], "'banana' is no device"),
        (["rollout", "own_envs:three", "--device", "banana"], "'banana' is no device"),
        (["bench", "physics", "--device", "banana"], "'banana' is no device"),
        (["list", "petingzoo"], "no family of envs is called 'petingzoo'; did you mean 'pettingzoo'?"),
        (["list", "vmas", "--kind", "game"], "do not go together"),
        (["show", "tic_tac_toe/hard"], "no env is called 'tic_tac_toe/hard'; did you mean 'tic_tac_toe'?"),
        (["show", "pettingzo/simple_tag_v3"], "no env is called 'pettingzo/simple_tag_v3'; did you mean 'pettingzoo'?"),
    ],
)
def test_mistakes_with_names_are_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    code, _, err = run(capsys, *words)
    assert code == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.slow
def test_show_takes_a_map_of_groups(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = '{"pair": ["agent_0", "agent_2"], "rest": {"one": ["agent_1"]}}'
    code, out, err = run(capsys, "show", "simple_spread", "--group-map", told)
    assert code == 0, err
    assert "pair      2     agent_0 agent_2" in out
    assert "rest/one  1     agent_1" in out
    code, out, err = run(capsys, "check", "simple_spread", "--envs", "2", "--group-map", told, "--quiet")
    assert (code, "0 broken" in out) == (0, True), err


@pytest.mark.skipif(not has("pettingzoo"), reason="pettingzoo is not installed")
def test_the_tasks_of_a_family_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    expected = [f"pettingzoo/{task}" for task in marlenv.PettingZooEnv.available_envs]
    assert run(capsys, "list", "pettingzoo")[1].split() == expected == marlenv.available("pettingzoo")
    out = run(capsys, "show", "pettingzoo")[1].splitlines()
    assert out[0] == f"pettingzoo: a family of {len(expected)} tasks"
    assert out[3:] == expected
    code, _, err = run(capsys, "rollout", "pettingzoo")
    assert (code, "'pettingzoo' is a family of tasks; name one, 'pettingzoo/TASK'" in err) == (2, True)


def test_a_game_of_tables_lists_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    names = marlenv.available("matrix_game")
    assert "matrix_game/stag_hunt" in names
    for name in names:
        marlenv.make(name, 2).close()
    assert "matrix_game: GameEnv" in run(capsys, "show", "matrix_game")[1]  # it has a table when nothing is said


def test_a_kind_that_there_is_not_is_an_error() -> None:
    with pytest.raises(UnknownName, match="no kind or family of envs is called 'scenarios'; did you mean 'scenario'?"):
        marlenv.available("scenarios")


@pytest.mark.slow
def test_classes_of_scenarios_and_of_rules_can_be_registered() -> None:
    marlenv.register("my_spread", SimpleSpread, options={"n_agents": 2})
    marlenv.register("my_game", TicTacToe)
    try:
        env = marlenv.make("my_spread", 3, max_steps=4, seed=1, group_map="one_group_per_agent")
        assert isinstance(env, marlenv.ScenarioEnv)
        assert env.group_map == {"agent_0": ["agent_0"], "agent_1": ["agent_1"]}
        assert env.rollout(9).batch_size == (3, 4)
        game = marlenv.make("my_game", 5)
        assert (type(game), game.batch_size) == (marlenv.GameEnv, (5,))
        with pytest.raises(TypeError, match=r"SimpleSpread has no option 'n_agent'; did you mean 'n_agents'\?"):
            marlenv.make("my_spread", n_agent=3)
    finally:
        marlenv.unregister("my_spread")
        marlenv.unregister("my_game")


def test_options_that_every_env_takes_are_no_mistakes() -> None:
    """Nor are those that a function hands on to who knows where."""
    assert isinstance(marlenv.make("marlenv.testing:CountingEnv", auto_reset=True), marlenv.AutoResetEnv)
    assert not marlenv.make("marlenv.testing:CountingEnv", spec_locked=False).is_spec_locked
    assert marlenv.make("marlenv.testing:CountingEnv", 2, run_type_checks=True, max_steps=3).batch_size == (2,)

    def handed_on(**options: Any) -> CountingEnv:
        return CountingEnv(**options)

    marlenv.register("handed_on", handed_on)
    marlenv.register("partly", partial(CountingEnv, max_steps=2))
    try:
        assert marlenv.make("handed_on", batch_size=[3]).batch_size == (3,)
        assert marlenv.make("partly", max_steps=4).rollout(9).batch_size == (4,)
        with pytest.raises(TypeError, match="CountingEnv has no option 'max_step'; did you mean 'max_steps'?"):
            marlenv.make("partly", max_step=4)
    finally:
        marlenv.unregister("handed_on")
        marlenv.unregister("partly")


@pytest.mark.parametrize("wrong", [3, SimpleSpread(), CountingEnv()], ids=["number", "scenario", "env"])
def test_what_makes_no_env_cannot_be_registered(wrong: object) -> None:
    with pytest.raises(SpecError, match="expected a class or a function that makes an env, got"):
        marlenv.register("broken", wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: CountingEnv().to("banana"),
        lambda: marlenv.EnvMetaData.metadata_from_env(CountingEnv()).to("banana"),
        lambda: marlenv.Unbounded((3,), device="banana"),
        lambda: marlenv.Unbounded((3,)).to("banana"),
        lambda: marlenv.make("chess", device="banana"),
        lambda: marlenv.SerialEnv(2, CountingEnv, device="banana"),
    ],
)
def test_a_device_that_is_none_is_named_everywhere(make) -> None:
    with pytest.raises(DeviceError, match="'banana' is no device"):
        make()
