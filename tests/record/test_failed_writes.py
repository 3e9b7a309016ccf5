"""What recorders and loggers cannot write is said with the name of the file, and leaves what was there before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from full_disks import full_disk

from marlenv import CSVLogger, PixelRenderTransform, SerialEnv, TensorDictRecorder, TransformedEnv, VideoRecorder
from marlenv.errors import SpecError, SpecTypeError
from marlenv.record import write_video
from marlenv.testing.mocks import CountingEnv

NOISE = torch.randint(0, 255, (1, 20, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def files(folder: Path) -> dict[str, bytes]:
    """What is in a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_data_that_cannot_be_written_are_kept(tmp_path: Path) -> None:
    env = TransformedEnv(CountingEnv(max_steps=200), TensorDictRecorder(str(tmp_path / "run"), skip=1))
    env.rollout(5)
    path = env.transform.dump()
    before = files(tmp_path)
    env.rollout(100)
    with (
        full_disk(1000),
        pytest.raises(OSError, match=rf"{path} cannot be written: File too large; .*dump again"),
    ):
        env.transform.dump()
    assert files(tmp_path) == before
    assert torch.load(path, weights_only=False)["observation"].flatten().tolist() == [1, 2, 3, 4, 5]
    env.transform.dump()
    assert torch.load(path, weights_only=False)["observation"].flatten().tolist() == list(range(1, 101))


@pytest.mark.parametrize("ending", ["pt", "memmap", "gif", "mp4"])
def test_films_that_cannot_be_written_leave_those_of_before(tmp_path: Path, ending: str) -> None:
    if ending == "mp4":
        pytest.importorskip("av")
    logger = CSVLogger("run", str(tmp_path), video_format=ending)
    logger.log_video("film", NOISE)
    before = files(tmp_path)
    for step in (0, None):
        name = f"film_{1 if step is None else step}.{ending}"
        with full_disk(20_000), pytest.raises(OSError, match=rf"{name} cannot be written: File too large; an older"):
            logger.log_video("film", 255 - NOISE, step=step)
        assert files(tmp_path) == before
    logger.log_video("film", NOISE)
    assert files(tmp_path) == {**before, f"run/videos/film_1.{ending}": before[f"run/videos/film_0.{ending}"]}


def test_a_film_that_cannot_be_written_grows_on(tmp_path: Path) -> None:
    logger = CSVLogger("run", str(tmp_path))
    recorder = VideoRecorder(logger, "film", skip=1)
    for image in NOISE[0, :3]:
        recorder._apply_transform(image)
    with full_disk(20_000), pytest.raises(OSError, match="cannot be written"):
        recorder.dump()
    recorder._apply_transform(NOISE[0, 3])
    recorder.dump()
    assert torch.equal(torch.load(tmp_path / "run" / "videos" / "film_0.pt"), NOISE[:, :4])


def test_rows_that_cannot_be_written_leave_nothing(tmp_path: Path) -> None:
    logger = CSVLogger("run", str(tmp_path))
    logger.log_scalar("loss", 1.0)
    path = tmp_path / "run" / "scalars" / "loss.csv"
    with full_disk(len("0,1.0\n") + 3):  # room for a part of the next one
        for _ in range(2):
            with pytest.raises(OSError, match=rf"log_scalar: {path} cannot be written: File too large"):
                logger.log_scalar("loss", 123.456)
    assert path.read_text() == "0,1.0\n"
    logger.log_scalar("loss", 7.0)
    assert path.read_text() == "0,1.0\n1,7.0\n"


@pytest.mark.slow
def test_options_are_written_in_any_locale(tmp_path: Path) -> None:
    code = (
        "from marlenv import CSVLogger; import sys; CSVLogger('run', sys.argv[1]).log_hparams({'name': '\\xe9\\u2713'})"
    )
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=plain)
    assert files(tmp_path) == {"run/texts/hparams0.txt": b"name: \xc3\xa9\xe2\x9c\x93"}


class Blind(CountingEnv):
    """Draws nothing, as an env of Gymnasium that was made without ``render_mode``."""

    def render(self) -> None:
        return None


@pytest.mark.parametrize("rows", [0, 2])
def test_envs_that_draw_nothing_are_named(rows: int) -> None:
    env = SerialEnv(rows, Blind) if rows else Blind()
    name = type(env).__name__
    with pytest.raises(SpecError, match=rf"{name}.render\(\) returned None .*render_mode=\"rgb_array\""):
        env.append_transform(PixelRenderTransform()).rollout(3)


def test_frames_that_are_no_tensors_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecTypeError, match=r"write_video: expected frames in a tensor, got ndarray; torch.as_tensor"):
        write_video(tmp_path / "a.gif", np.zeros((3, 4, 8, 3), dtype=np.uint8))
