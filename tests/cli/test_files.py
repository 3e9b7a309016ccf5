"""What commands write: found out to be possible before the work, and never half of it without a word."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict

from marlenv.cli.__main__ import COMMANDS, main
from marlenv.cli.tournament import TAKES
from marlenv.registration import make

POLICIES = """
class Fails:
    def __init__(self, env):
        self.env, self.left = env, 4

    def __call__(self, td):
        self.left -= 1
        if self.left < 0:
            raise {error}("enough")
        return self.env.rand_action(td)
"""


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    try:
        code = main(words)
    except SystemExit as stop:
        code = int(stop.code or 0)
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.slow
@pytest.mark.parametrize(("error", "code"), [("RuntimeError", 2), ("KeyboardInterrupt", 130)])
@pytest.mark.parametrize("name", ["simple_spread", "marlenv:ChessEnv"])  # chess has text in its data
def test_a_rollout_that_stops_leaves_the_steps_that_it_played(
    name: str,
    error: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / f"stops_{error}.py").write_text(POLICIES.format(error=error))
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "data"
    texts = ["--set", "include_fen=True"] * (name != "simple_spread")
    words = ["rollout", name, "--envs", "2", "--steps", "10", "--seed", "0", "--out", str(out), *texts]
    got, _, err = run(capsys, *words, "--policy", f"stops_{error}:Fails")
    assert got == code
    assert f"data of the 4 steps before: {out}" in err
    note = json.loads((out / "rollout.json").read_text())
    assert (note["steps"], note["complete"], note["env"]) == (4, False, name)
    kept = TensorDict.load_memmap(out)
    env = make(name, num_envs=2, seed=0, **{"include_fen": True} if texts else {})
    direct = env.rollout(4, break_when_any_done=False)
    assert kept.batch_size == direct.batch_size
    assert set(kept.keys(True, True)) == set(direct.keys(True, True))
    for key, value in direct.items(True, True):
        if isinstance(value, torch.Tensor):
            assert torch.equal(kept[key], value), key
        else:
            assert kept[key] == value, key


def test_a_rollout_that_fails_at_once_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fails_at_once.py").write_text(POLICIES.format(error="RuntimeError").replace("= env, 4", "= env, 0"))
    monkeypatch.syspath_prepend(tmp_path)
    words = ["rollout", "simple_spread", "--steps", "3", "--out", str(tmp_path / "data")]
    assert run(capsys, *words, "--policy", "fails_at_once:Fails")[0] == 2
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("left", [0, 2])
def test_the_working_directory_stays_where_it_is(
    left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policies = POLICIES.format(error="RuntimeError").replace("= env, 4", f"= env, {left}")
    (tmp_path / f"fails_here_{left}.py").write_text(policies)
    monkeypatch.syspath_prepend(tmp_path)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    words = ["rollout", "simple_spread", "--steps", "3", "--out", ".", "--policy", f"fails_here_{left}:Fails"]
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "error: RuntimeError: enough" in err
    assert here.samefile(Path.cwd())
    assert TensorDict.load_memmap(here).batch_size == (1, left) if left else not any(here.iterdir())


def test_a_finished_rollout_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "rollout", "simple_spread", "--steps", "3", "--out", str(tmp_path / "data"))[0] == 0
    note = json.loads((tmp_path / "data" / "rollout.json").read_text())
    assert (note["steps"], note["complete"]) == (3, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["rollout", "simple_spread", "--out", "{file}"], "--out {file}: no folder can be made there"),
        (["rollout", "simple_spread", "--out", "/proc/marlenv"], "--out /proc/marlenv: no folder can be made there"),
        (
            ["bench", "specs", "--json", "{file}/x.json"],
            "--json {file}/x.json: no file can be written there: Not a dir",
        ),
        (["bench", "specs", "--json", "{folder}"], "--json {folder}: no file can be written there: Is a directory"),
        (["rollout", "simple_spread", "--video", "{file}/x.gif"], "--video {file}/x.gif: no file can be written there"),
        (["rollout", "simple_spread", "--video", "/proc/x.gif"], "--video /proc/x.gif: no file can be written there"),
        (["play", "tic_tac_toe", "--save", "/proc/x.json"], "--save /proc/x.json: no file can be written there"),
        (["profile", "simple_spread", "--out", "/proc/x.svg"], "--out /proc/x.svg: no file can be written there"),
        (["bench", "interop", "--only", "nope"], "bench interop: nothing has 'nope' in its name; there are to_"),
        (["bench", "wrappers", "--only", "nope"], "bench wrappers: nothing has 'nope' in its name; there are "),
        (["bench", "vector", "--only", "nope"], "bench vector: nothing has 'nope' in its name; there are 8 cart-poles"),
        (["tournament", "nope", "x"], "verb: unknown choice 'nope'; known: ['export', 'rate', 'report', 'resume', "),
        (["tournament", "run", "x.toml", "--draws", "runn"], "--draws: unknown choice 'runn'; known: ['davidson', "),
        (["tournament", "run", "x.toml", "--out", "y"], "tournament run: takes no --out, which is for report and exp"),
        (["tournament", "report", "."], "ledger .: that is a folder; name a file in it"),
        (["tournament", "export", "."], "ledger .: that is a folder; name a file in it"),
        (["tournament", "status", "x", "--no-seat"], "tournament status: takes no --no-seat, which is for run and "),
        (["rollout", "simple_spread", "--set", "n_agents=2", "--set", "n_agents=3"], "n_agents was given before, as 2"),
        (["rollout", "simple_spread", "--set", "batch_size=[2]"], "has no option 'batch_size'. Its options: n_agents="),
    ],
)
def test_what_cannot_be_done_is_said_before_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], says: str
) -> None:
    file, folder = tmp_path / "file.txt", tmp_path / "folder"
    file.write_text("keep me"), folder.mkdir()
    code, out, err = run(capsys, *(word.format(file=file, folder=folder) for word in words))
    assert code == 2
    assert says.format(file=file, folder=folder) in err
    assert "finished" not in out
    assert "us/" not in out
    assert file.read_text() == "keep me"
    assert not any(folder.iterdir())


def test_options_of_tournament_are_all_of_some_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "tournament", "--help")
    known = {name.replace("-", "_") for name in re.findall(r"--([a-z-]+)", out)} - {"help"}
    assert known == TAKES.keys()


@pytest.mark.slow
def test_an_output_that_lacks_a_letter_costs_no_data(tmp_path: Path) -> None:
    words = ["rollout", "tic_tac_toe", "--steps", "7", "--out", str(tmp_path / "data")]
    code = f"import sys; from marlenv.cli.__main__ import main; sys.exit(main({words}))"
    env = {"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, env=env, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert b"return per agent" in done.stdout
    assert (tmp_path / "data" / "rollout.json").exists()


def test_every_command_has_its_place_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "rooms" / "cli.md").read_text()
    assert COMMANDS.keys() <= set(re.findall(r"^## (\w+)$", page, flags=re.M))


def test_no_report_or_export_takes_the_place_of_its_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = 'env = "tic_tac_toe"\nschedule = "round_robin"\n[players]\na = "random"\nb = "random"\n'
    Path("t.toml").write_text(text)
    assert main(["tournament", "run", "t.toml", "--ledger", "games.jsonl"]) == 0
    Path("link.html").symlink_to("games.jsonl")
    for words in (["report", "--out", "games.jsonl"], ["report", "--out", "link.html"], ["export"]):
        with pytest.raises(SystemExit):
            main(["tournament", words[0], "games.jsonl", *words[1:]])
        assert "that is the ledger, and its games would be lost; name another file" in capsys.readouterr().err
    assert main(["tournament", "rate", "games.jsonl"]) == 0
