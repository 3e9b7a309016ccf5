"""``marlenv rollout --video``: a film that others can read, with the first and last picture of every episode."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from test_commands import run

import marlenv
from marlenv.cli.film import Film
from marlenv.cli.rollout import play
from marlenv.errors import SpecError
from marlenv.optional import has
from marlenv.testing import CountingEnv


@pytest.mark.slow
def test_a_gif_shows_the_episode_from_its_start_to_its_end(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    imageio = pytest.importorskip("imageio.v3")
    file = tmp_path / "new" / "film.gif"
    words = ["rollout", "navigation", "--steps", "6", "--max-steps", "3", "--seed", "5", "--video", str(file)]
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert "film.gif  (8 frames)" in out
    frames = imageio.imread(file, index=None)
    env = marlenv.make("navigation", 1, seed=5, max_steps=3, compile="none")
    td = env.reset()
    pictures = [env.render()]
    for step in range(6):
        data = env.step(env.rand_action(td))
        pictures.append(env.render())
        td = env.maybe_reset(env.step_mdp(data))
        if step == 2:  # the first picture of the second episode
            pictures.append(env.render())
    assert frames.shape == (8, 600, 600, 3)
    for frame, picture in zip(frames, pictures, strict=True):  # a gif has 256 colours
        assert np.abs(frame.astype(int) - picture.astype(int)).mean() < 3
    assert np.abs(pictures[3].astype(int) - pictures[4].astype(int)).mean() > 3  # another episode begins


@pytest.mark.slow
def test_what_stands_still_stays_at_the_same_pixels_through_a_film(tmp_path: Path) -> None:
    imageio = pytest.importorskip("imageio.v3")
    env = marlenv.make("simple_spread", 3, seed=2, compile="none")
    push = torch.tensor([1.0, 0.0]).expand(3, 3, 2)
    with Film(env, tmp_path / "film.gif") as film:
        play(env, lambda td: td.set(("agents", "action"), push), 60, None, film)
    assert env.get_state()["pos"][0, 0, :3].max() > 1.5  # agents leave what the first picture shows
    frames = imageio.imread(tmp_path / "film.gif", index=None).astype(int)
    landmarks = (np.abs(frames - 197).max(-1) < 10).reshape(61, -1)
    ever = landmarks.sum(0)
    shown = landmarks.sum(1)
    assert shown.max() > 60
    assert (ever > 0).sum() < 1.3 * shown.max()  # always at the same places, though agents may stand before them
    assert (np.abs(frames[..., 2] - 191).min((1, 2)) < 10).all()  # agents are in every picture


@pytest.mark.skipif(not has("imageio_ffmpeg"), reason="imageio-ffmpeg, which writes mp4 files, is not installed")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # imageio-ffmpeg leaves pipes open
def test_an_mp4_can_be_read_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import imageio.v3

    file = tmp_path / "film.mp4"
    code, out, _ = run(capsys, "rollout", "simple_spread", "--steps", "9", "--video", str(file))
    assert code == 0, out
    with imageio.v3.imopen(file, "r", plugin="FFMPEG") as film:
        assert film.read(index=...).shape == (10, 600, 600, 3)


def test_what_cannot_be_filmed_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = run(capsys, "rollout", "navigation", "--steps", "2", "--video", str(tmp_path / "film.avi"))
    assert code == 2
    assert "the file must end in .gif or .mp4" in err
    with pytest.raises(SpecError, match=r"CountingEnv has no render\(\)"):
        Film(CountingEnv(), tmp_path / "film.gif")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["gif", "mp4"])
@pytest.mark.parametrize(
    ("pictures", "text"),
    [
        ([np.full((6, 8, 3), 0.5)], r"of uint8, 0 to 255, got \[6, 8, 3\] of float64"),
        ([np.zeros((6, 8, 2), np.uint8)], r"got \[6, 8, 2\] of uint8"),
        ([np.zeros((6, 8, 3), np.uint8), np.zeros((6, 10, 3), np.uint8)],
         r"\[6, 8, 3\] as the first, got \[6, 10, 3\] of uint8"),
        ([None], r"pixels \[H, W, 3\], got NoneType"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # imageio-ffmpeg leaves pipes open
def test_what_render_gives_is_looked_at(tmp_path: Path, ending: str, pictures: list[object], text: str) -> None:
    if ending == "mp4":
        pytest.importorskip("imageio_ffmpeg")
    env, given = CountingEnv(), iter(pictures)
    env.render = lambda: next(given)
    with (  # noqa: PT012
        pytest.raises(SpecError, match=rf"film.{ending}: render\(\) of CountingEnv must give .*{text}"),
        Film(env, tmp_path / f"film.{ending}") as film,
    ):
        for _ in pictures:
            film.add(env.reset())


@pytest.mark.parametrize("ending", ["gif", "mp4"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # imageio-ffmpeg leaves pipes open
def test_a_film_that_ends_in_an_error_leaves_the_older_one(tmp_path: Path, ending: str) -> None:
    imageio = pytest.importorskip("imageio.v3")
    if ending == "mp4":
        pytest.importorskip("imageio_ffmpeg")
    env, path = CountingEnv(), tmp_path / f"film.{ending}"

    def film(*widths: int) -> None:
        given = iter(widths)
        env.render = lambda: np.random.default_rng(0).integers(0, 255, (16, next(given), 3), np.uint8)
        with Film(env, path) as film:
            for _ in widths:
                film.add(env.reset())

    with pytest.raises(SpecError, match=r"\[16, 16, 3\] as the first, got \[16, 18, 3\]"):
        film(16, 16, 18)
    before = path.read_bytes()  # where there was no film, the frames before the error are one
    assert imageio.imread(path, index=0).shape == (16, 16, 3)
    with pytest.raises(SpecError):
        film(32, 18)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    film(32, 32)
    assert imageio.imread(path, index=0).shape == (16, 32, 3)


@pytest.mark.parametrize("make", [torch.as_tensor, lambda x: x[..., :1], lambda x: x[..., [0, 1, 2, 2]]])
def test_tensors_and_other_numbers_of_colours_are_filmed(tmp_path: Path, make: Callable[..., object]) -> None:
    imageio = pytest.importorskip("imageio.v3")
    env = CountingEnv()
    env.render = lambda: make(np.full((6, 8, 3), 255, np.uint8))
    with Film(env, tmp_path / "film.gif") as film:
        film.add(env.reset())
    assert (imageio.imread(tmp_path / "film.gif", index=0)[..., :3] == 255).all()


@pytest.mark.slow
def test_films_of_one_name_made_at_once_have_drafts_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last that ends is the film; another process stands for the other maker."""
    pytest.importorskip("imageio")
    env = marlenv.make("simple_spread", 1, seed=0, compile="none")
    with Film(env, tmp_path / "a.gif") as film:
        film.add(env.reset())
        here = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: here + 1)
        with Film(env, tmp_path / "a.gif") as other:
            assert film._draft != other._draft  # mp4 is written while it is filmed
            other.add(env.reset())
        film.add(env.reset())
    assert [file.name for file in tmp_path.iterdir()] == ["a.gif"]
