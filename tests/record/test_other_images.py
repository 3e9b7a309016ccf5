"""Images that are no bytes, of other sizes or that stay for long: filmed as they look, or refused in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

from marlenv import CSVLogger, VideoRecorder
from marlenv.errors import DtypeError, MarlenvError, ShapeError, SpecError, SpecTypeError
from marlenv.record import write_video
from marlenv.record.video import read_video


def filmed(*images: Tensor) -> list[Tensor]:
    """What a recorder keeps of images."""
    recorder = VideoRecorder(None, "film", skip=1)
    for image in images:
        recorder._apply_transform(image)
    return recorder.frames


def test_bools_are_black_and_white_and_integers_what_they_say() -> None:
    image = torch.zeros(3, 5, 6, dtype=torch.bool)
    image[:, 2, 3] = True
    assert filmed(image)[0][:, 2, 3].tolist() == [255, 255, 255]
    assert filmed(image)[0].sum() == 3 * 255
    assert filmed(torch.full((3, 5, 6), 200))[0].unique().tolist() == [200]
    assert filmed(torch.full((3, 5, 6), 0.7))[0].unique().tolist() == [178]  # 178.5, to even
    for bad in (torch.full((3, 5, 6), 300), torch.full((3, 5, 6), -1, dtype=torch.int8), torch.ones(3, 5, 6) * 1j):
        with pytest.raises(DtypeError, match=r"VideoRecorder: expected images of uint8, floats 0 to 1"):
            filmed(bad)


@pytest.mark.parametrize("ending", ["mp4", "gif"])
@pytest.mark.parametrize(
    ("video", "error", "text"),
    [
        (torch.full((1, 3, 3, 8, 8), 0.7), DtypeError, "expected uint8, 0 to 255, got torch.float32"),
        (torch.full((1, 3, 3, 8, 8), 300), DtypeError, "expected uint8, 0 to 255, got torch.int64"),
        (np.zeros((1, 3, 3, 8, 8), np.uint8), SpecTypeError, "expected a tensor, got ndarray"),
    ],
)
def test_films_of_other_numbers_are_refused_by_loggers(
    tmp_path: Path, ending: str, video: Tensor, error: type[MarlenvError], text: str
) -> None:
    logger = CSVLogger("run", str(tmp_path), video_format=ending)
    with pytest.raises(error, match=f"CSVLogger.log_video: {text}"):
        logger.log_video("film", video)
    assert not list((tmp_path / "run" / "videos").iterdir())


def test_numbers_that_are_kept_as_they_are_may_be_any(tmp_path: Path) -> None:
    video = torch.linspace(0, 1, 192).reshape(1, 1, 3, 8, 8)
    CSVLogger("run", str(tmp_path), video_format="pt").log_video("film", video)
    [kept] = (tmp_path / "run" / "videos").iterdir()
    assert torch.equal(torch.load(kept), video)


@pytest.mark.parametrize("shape", [(3, 2, 2), (3, 3, 40), (1, 5, 2), (2, 2, 3), (5, 2, 1), (4, 3, 2, 2)])
def test_small_images_are_filmed(shape: tuple[int, ...]) -> None:
    image = torch.arange(torch.Size(shape).numel(), dtype=torch.uint8).reshape(shape)
    frames = filmed(image)
    rows = image.reshape(-1, *shape[-3:])
    colours_last = shape[-1] in (1, 3)
    for frame, row in zip(frames, rows, strict=True):
        height, width = (row.shape[:2]) if colours_last else row.shape[1:]
        assert frame.shape == (3, height, width)
        for y in range(height):
            for x in range(width):
                pixel = row[y, x] if colours_last else row[:, y, x]
                assert frame[:, y, x].tolist() == (pixel.tolist() * 3)[:3]


def test_images_of_another_size_are_refused_at_the_first_with_their_name() -> None:
    recorder = VideoRecorder(None, "film", ["left", "right"], skip=1)
    wide = {"left": torch.zeros(3, 8, 8, dtype=torch.uint8), "right": torch.zeros(3, 8, 9, dtype=torch.uint8)}
    with pytest.raises(ShapeError, match=r"\[8, 8\] as the first of the film, got \[8, 9\] of 'right'; give each"):
        recorder._call(TensorDict(wide, []))
    assert len(recorder.frames) == 1
    recorder.dump()


@pytest.mark.parametrize("colours", [(0, 0), (255, 255), (0, 255)])
def test_a_picture_that_stays_for_an_hour_is_read_again(tmp_path: Path, colours: tuple[int, int]) -> None:
    picture = torch.tensor(colours, dtype=torch.uint8)[:, None, None].expand(2, 4, 3)
    film = torch.cat([picture.expand(1400, 2, 4, 3), (picture // 2 + 40).expand(700, 2, 4, 3), picture[None]])
    path = write_video(tmp_path / "film.gif", film, fps=1)
    assert torch.equal(read_video(path), film)
    images = pytest.importorskip("PIL.Image")
    with images.open(path) as made:
        lasts = []
        for i in range(made.n_frames):
            made.seek(i)
            lasts.append(made.info["duration"])
    assert sum(lasts) == 2101 * 1000
    assert max(lasts) <= 655_350  # 16 bits of 1/100 s


@pytest.mark.parametrize("fps", [0.001, float("inf"), None, "x"])
def test_speeds_that_no_gif_has_are_refused(tmp_path: Path, fps: float) -> None:
    with pytest.raises(SpecError, match="fps"):
        write_video(tmp_path / "film.gif", torch.zeros(3, 4, 4, 3, dtype=torch.uint8), fps=fps)
    assert not list(tmp_path.iterdir())


def test_csv_files_take_options_of_any_name_and_stay_in_their_folder(tmp_path: Path) -> None:
    logger = CSVLogger("run", str(tmp_path / "logs"))
    logger.log_hparams({"a": 1, 3: 2})
    assert (tmp_path / "logs" / "run" / "texts" / "hparams0.txt").read_text() == "3: 2\na: 1"
    with pytest.raises(SpecError, match="must stay in the experiment's folder"):
        logger.log_scalar("../../../up", 1.0)
    assert [p.name for p in tmp_path.iterdir()] == ["logs"]
    with pytest.raises(DtypeError, match="'z' must be a number"):
        logger.log_metrics({"z": torch.tensor(1 + 2j)})
