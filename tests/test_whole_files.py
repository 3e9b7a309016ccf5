"""Files that are written whole or not at all, by recorders and at the command line."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from full_disks import full_disk

from marlenv.cli.__main__ import main
from marlenv.files import whole_file


def test_a_link_and_the_rights_of_a_file_stay(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    file, link = tmp_path / "there" / "a.txt", tmp_path / "latest.txt"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    with whole_file("test", link) as draft:
        draft.write_text("new")
        assert file.read_text() == "old"
    assert link.is_symlink()
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o640)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.txt", "latest.txt", "there"]


def test_a_pipe_is_written_to_itself(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole_file("test", pipe) as place:
        place.write_text("new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert pipe.is_fifo()


PROFILE = "profile tic_tac_toe --envs 2 --steps 2 --seconds 0.01 --out"
UNKEPT = {
    f"{PROFILE} a.svg": "profile: a.svg cannot be written: File too large; an older file is as it was",
    "play tic_tac_toe --seat all --save a.json": "play: a.json cannot be written: File too large; an older",
    "rollout tic_tac_toe --envs 2 --steps 9 --out data": "rollout: 9 steps of 9,936 bytes cannot be kept in data: ",
}


@pytest.mark.parametrize("command", UNKEPT)
def test_a_command_whose_file_cannot_be_written_names_it(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("quit\n"))
    with full_disk(4), pytest.raises(SystemExit):
        main(command.split())
    said = capsys.readouterr().err
    assert said.startswith(f"error: {UNKEPT[command]}")
    assert "File too large" in said
    assert not list(tmp_path.iterdir())
