"""What people type, and what they read: tables, summaries, files, and errors of one line with exit code 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv.cli.__main__ import main
from marlenv.cli.summary import Summary
from marlenv.testing import CountingEnv, GroupedEnv
from marlenv.testing.comparison import differences


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    try:
        code = main(list(words))
    except SystemExit as stop:
        code = int(stop.code or 0)
    out = capsys.readouterr()
    return code, out.out, out.err


def test_list_names_every_env_and_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "list")
    assert code == 0
    for name in marlenv.available():
        assert any(line.split()[:1] == [name] for line in out.splitlines()), name
    _, games, _ = run(capsys, "list", "--kind", "game")
    assert "tic_tac_toe" in games
    assert "simple_spread" not in games


def test_ctrl_c_while_a_command_is_loaded_is_one_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("marlenv.cli.__main__.build_parser", stops)
    assert run(capsys, "list") == (130, "", "stopped\n")


def test_show_prints_groups_and_specs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "show", "simple_spread", "--envs", "4", "--set", "n_agents=2")
    assert code == 0
    assert "agents  2     agent_0 agent_1" in out
    assert any("action" in line and "[4, 2, 2]" in line and "-1..1" in line for line in out.splitlines())


@pytest.mark.slow
def test_check_passes_a_sound_env_and_explains_a_broken_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run(capsys, "check", "marlenv.testing:CountingEnv")
    assert code == 0
    assert "0 broken" in out
    (tmp_path / "my_envs_for_check.py").write_text(
        "import torch\nfrom marlenv.testing import CountingEnv\n"
        "class Broken(CountingEnv):\n"
        "    def _step(self, td):\n"
        "        torch.rand(1)\n"
        "        return super()._step(td)\n"
    )
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "check", "my_envs_for_check:Broken", "--quiet")
    assert code == 1
    assert "BROKEN  global generators stay where they are" in out
    assert "the global generator of torch was moved" in out
    assert "RowRNG" in out  # how to mend it
    assert out.splitlines()[-1].endswith(" clauses hold, 1 broken, 13 not reached, 0 skipped")
    code, out, _ = run(capsys, "check", "my_envs_for_check:Broken", "--steps", "2", "--envs", "2")
    assert "not reached  equal seeds give equal episodes  (global generators stay where they are is broken)" in out
    assert run(capsys, "check", "marlenv.testing:UnevenEnv", "--envs", "2", "--quiet")[0] == 0


def test_rollout_keeps_the_very_data_and_prints_their_summary(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out_dir = tmp_path / "data"
    words = [
        "rollout",
        "simple_spread",
        "--envs",
        "8",
        "--steps",
        "20",
        "--max-steps",
        "10",
        "--seed",
        "3",
        "--out",
        str(out_dir),
    ]
    code, out, _ = run(capsys, *words)
    assert code == 0
    kept = TensorDict.load_memmap(out_dir)
    env = marlenv.make("simple_spread", num_envs=8, seed=3, max_steps=10)
    direct = env.rollout(20, break_when_any_done=False)
    assert kept.batch_size == direct.batch_size == torch.Size([8, 20])
    assert not differences(kept, direct)
    returns = direct["next", "agents", "reward"].squeeze(-1).double()
    mean = returns.reshape(8, 2, 10, 3).sum(2).mean()
    row = next(line.split() for line in out.splitlines() if line.startswith("agents"))
    assert float(row[2].replace(",", "")) == pytest.approx(float(mean), rel=5e-3)
    assert row[-2:] == ["10", "0.1"]
    assert "env-steps/s" in out
    assert "agent-steps/s" in out


def test_rollout_takes_a_policy_and_a_group_map(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_policies.py").write_text(
        "import torch\ndef first_free(td):\n"
        "    mask = td['agents', 'action_mask']\n"
        "    return td.set(('agents', 'action'), mask.int().argmax(-1))\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["rollout", "tic_tac_toe", "--envs", "4", "--steps", "14", "--policy", "my_policies:first_free"]
    code, out, _ = run(capsys, *words, "--group-map", "all_in_one_group")
    assert code == 0
    assert "8 finished episodes" in out  # first free cells: x wins after 7 plies
    assert "agents       2  0 ± 1" in out


def test_the_summary_counts_finished_episodes_only() -> None:
    env = CountingEnv(max_steps=3, batch_size=[2])  # row 0 ends after 3 steps, row 1 after 4
    summary = Summary(env)
    td = env.reset()
    for _ in range(7):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        summary.add(data)
    assert summary.ends == 3
    assert summary.rows()[0][2:] == ["3.33 ± 0.471", "3.33", "0.214"]


def test_the_summary_has_a_line_per_group() -> None:
    env = GroupedEnv({"wolves": ["a", "b"], "sheep": {"young": ["c"]}}, terminate={"a": 2}, batch_size=[3])
    summary = Summary(env)
    summary.add(env.rand_step(env.reset()))
    assert [row[:2] for row in summary.rows()] == [["wolves", "2"], ["sheep/young", "1"]]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["lst"], "marlenv: COMMAND: unknown choice 'lst'; did you mean 'list'?"),
        (["list", "--kid", "game"], "unknown option '--kid'; did you mean '--kind'?"),
        (["list", "pettingzoo", "more"], "marlenv list: unexpected argument 'more'"),
        (["show", "simple_spread", "n_agents=4"], "unexpected argument 'n_agents=4'; write --set n_agents=4"),
        (["list", "--kind", "gam"], "unknown choice 'gam'; did you mean 'game'?"),
        (["show", "simple_sprd"], "no env is called 'simple_sprd'; did you mean 'simple_spread'?"),
        (["rollout", "simple_spread", "--set", "n_agent=3"], "has no option 'n_agent'; did you mean 'n_agents'?"),
        (["rollout", "simple_spread", "--steps", "0"], "--steps must be an integer from 1 on, got 0"),
        (["bench", "specs", "--rounds", "0"], "bench specs: --rounds must be an integer from 1 on, got 0"),
        (["rollout", "simple_spread", "--steps", "ten"], "argument --steps: invalid int value: 'ten'"),
        (
            ["rollout", "simple_spread", "--set", "max_steps=5"],
            "--set max_steps= is said by an option of its own: --max-steps",
        ),
        (["rollout", "simple_spread", "--set", "n_agents"], "--set takes name=value, got 'n_agents'"),
        (
            ["rollout", "simple_spread", "--policy", "greedy"],
            "--policy must be 'random' or module:callable, got 'greedy'",
        ),
        (["rollout", "simple_spread", "--policy", "no_module:f"], "no module is called 'no_module'"),
        (
            ["rollout", "tic_tac_toe", "--group-map", "all_in_one_grp"],
            "no rule is called 'all_in_one_grp'; did you mean 'all_in_one_group'?",
        ),
        (["rollout", "tic_tac_toe", "--group-map", '{"a": ["x"]}'], "agents in no group: ['o']"),
        (["check", "nothing_like_it"], "no env is called 'nothing_like_it'"),
        (["check", "marlenv.testing:CountingEnvs"], "has no 'CountingEnvs'; did you mean 'CountingEnv'?"),
        (["bench", "overhed"], "unknown choice 'overhed'; did you mean 'overhead'?"),
        (["rollout", "pettingzoo/simple_sprd_v3"], "no task is called 'simple_sprd_v3'; did you mean"),
    ],
)
def test_errors_are_one_line_with_the_nearest_name_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    code, out, err = run(capsys, *words)
    assert code == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in out + err


def test_a_folder_that_is_in_use_is_not_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    code, _, err = run(capsys, "rollout", "simple_spread", "--steps", "2", "--out", str(tmp_path))
    assert code == 2
    assert "the folder is not empty" in err
    assert (tmp_path / "mine.txt").read_text() == "keep me"


def test_the_installed_command_runs() -> None:
    command = Path(sys.executable).parent / "marlenv"
    out = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert out.stdout == f"marlenv {marlenv.__version__}\n"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("suite", ["games", "physics"])
def test_bench_says_that_there_is_no_gpu(suite: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "bench", suite, "--device", "cuda")
    assert code != 0
    assert f"bench {suite}: device 'cuda' needs a CUDA device, and there is none" in err


def test_bench_prints_both_sides_and_their_ratio(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "bench", "specs", "--rounds", "1", "--json", str(tmp_path / "figures.json"))
    assert code == 0
    line = next(line for line in out.splitlines() if line.startswith("Composite of 10 leaves: zero"))
    assert "(torchrl)" in line
    assert line.split()[-2].endswith("x")
    assert "peer" in (tmp_path / "figures.json").read_text()
