"""Films of games, of simulators that draw themselves, and of envs under transforms or in series."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from test_commands import run

import marlenv
from marlenv import StepCounter, TransformedEnv
from marlenv.cli import svg
from marlenv.cli.film import Film
from marlenv.cli.rollout import play
from marlenv.errors import SpecError, Unsupported
from marlenv.optional import has
from marlenv.testing import CountingEnv

WHITE, RED, BLUE = (255, 255, 255), (255, 0, 0), (0, 0, 255)


def close(picture: np.ndarray, other: np.ndarray) -> bool:
    """Whether two pictures are the same but for the 256 colours of a gif."""
    return picture.shape == other.shape and float(np.abs(picture.astype(int) - other.astype(int)).mean()) < 4


def test_shapes_are_where_a_picture_says() -> None:
    picture = svg.pixels(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 50"><rect width="100" height="50" fill="#00f"/>'
        '<defs><g id="S"><path d="M0 0h10v10H0z"/></g></defs><use href="#S" x="20" y="30" fill="#f00"/>'
        '<circle cx="70" cy="20" r="10" fill="none" stroke="#f00" stroke-width="4"/></svg>',
        (200, 200),
    )
    assert picture.shape == (200, 200, 3)  # twice as large, in the middle: from row 50 to row 150
    colors = {(20, 100): WHITE, (60, 10): BLUE, (120, 50): RED, (120, 38): BLUE, (90, 140): BLUE, (90, 160): RED}
    for where, color in colors.items():
        assert tuple(picture[where]) == color, where
    red = picture[50:150, :, 0].sum() / 255  # a square of 20 pixels, and a ring from 16 to 24 pixels
    assert red == pytest.approx(20**2 + np.pi * (24**2 - 16**2), rel=0.05)


def test_curves_of_paths_are_those_of_bezier() -> None:
    ((points, closed),) = svg.pieces("M0 0c0 4 4 4 4 0z")
    assert closed
    for i, point in enumerate(points):
        t = i / svg.BEND
        assert point == pytest.approx((12 * t**2 - 8 * t**3, 12 * t * (1 - t)))


def test_shapes_that_it_does_not_know_are_refused() -> None:
    with pytest.raises(Unsupported, match="a picture with <ellipse> cannot be filmed"):
        svg.pixels('<svg viewBox="0 0 1 1"><ellipse/></svg>', (9, 9))


@pytest.mark.slow
@pytest.mark.parametrize("game", marlenv.available("game"))
def test_a_film_of_a_game_shows_its_boards(game: str, tmp_path: Path) -> None:
    imageio = pytest.importorskip("imageio.v3")
    env = marlenv.make(game, 2, seed=3)
    rolled = marlenv.make(game, 2, seed=3).rollout(3, break_when_any_done=False)
    file = tmp_path / "film.gif"
    with Film(env, file) as film:
        play(env, env.rand_action, 3, None, film)
    frames = imageio.imread(file, index=None)
    begins = [i for i in range(3) if not i or rolled["next", "done"][0, i - 1]]
    assert film.frames == 3 + len(begins)
    states = [td for i in range(3) for td in (*([rolled[0, i]] if i in begins else []), rolled["next"][0, i])]
    pictures = [svg.pixels(env.rules.svg(env.read(td)), (600, 600)) for td in states]
    assert close(frames[0], pictures[0])
    assert close(frames[-1], pictures[-1])
    shown = np.abs(np.diff(np.stack(pictures).astype(int), axis=0)).sum((1, 2, 3)) > 0
    assert len(frames) == 1 + shown.sum()  # a gif keeps a picture that stays for longer


@pytest.mark.slow
def test_scenarios_under_transforms_and_in_series_are_filmed_as_they_are(tmp_path: Path) -> None:
    imageio = pytest.importorskip("imageio.v3")
    make = lambda: marlenv.make("navigation", 2, seed=5)  # noqa: E731
    films = []
    for i, env in enumerate([make(), TransformedEnv(make(), StepCounter()), marlenv.SerialEnv(1, make)]):
        file, still = tmp_path / f"{i}.gif", torch.zeros(*env.batch_size, 4, 2)
        with Film(env, file) as film:
            play(env, lambda td, still=still: td.set(("agents", "action"), still), 2, None, film)
        films.append(imageio.imread(file, index=None))
    assert all(np.array_equal(films[0], film) for film in films)


@pytest.mark.skipif(not has("pettingzoo"), reason="pettingzoo is not installed")
@pytest.mark.parametrize("task", ["mpe/simple_spread_v3", "classic/tictactoe_v3"])
def test_simulators_that_draw_are_filmed(task: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    imageio = pytest.importorskip("imageio.v3")
    file = tmp_path / "film.gif"
    words = ["rollout", f"pettingzoo/{task}", "--steps", "2", "--seed", "1", "--video", str(file)]
    code, out, err = run(capsys, *words)
    assert code == 0, err
    assert "film.gif  (3 frames)" in out
    env = marlenv.make(f"pettingzoo/{task}", 1, seed=1, render_mode="rgb_array")
    env.reset()
    assert close(imageio.imread(file, index=0), env.children_envs[0].render())


def test_what_a_simulator_says_when_it_cannot_draw_is_one_line(tmp_path: Path) -> None:
    class Blind(CountingEnv):
        def render(self, mode: str = "human") -> None:
            if mode == "rgb_array":
                raise OSError("no screen")

    class Text(CountingEnv):
        def render(self) -> str:
            return "a board"

    for kind, says in ((Blind, "Blind failed here with OSError: no screen"), (Text, r"pixels \[H, W, 3\], got str")):
        env = kind()
        with pytest.raises(SpecError, match=says), Film(env, tmp_path / "film.gif") as film:
            film.add(env.reset())
