"""Pictures show the row that was asked for, smoothly, with what there is in it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from marlenv.scenarios.ball_passage import BallPassage
from marlenv.scenarios.debug.circle_trajectory import CircleTrajectory
from marlenv.scenarios.dispersion import Dispersion
from marlenv.scenarios.navigation import Navigation

from marlenv.errors import SpecError
from marlenv.physics import Agent, Box, Dynamics, Forward, Holonomic, Landmark, Line, Scenario, Sphere, View, World
from marlenv.physics.env import ScenarioEnv
from marlenv.physics.env.draw import draw_frames
from marlenv.physics.vmas_compat import load

RED, BLUE, BLACK = (191, 64, 64), (64, 64, 191), (38, 38, 38)


@dataclass(eq=False)
class Still(Scenario):
    """A ball at the left, a box at the right, a line above; the ball is elsewhere in the second row."""

    def build(self):
        world = World()
        self.ball = world.add("ball", [Agent(Sphere(0.2))])
        self.box = world.add("box", Landmark(Box(0.4, 0.2), color="red"))
        self.line = world.add("line", Landmark(Line(1.0), color="black"))
        world.add("ghost", Landmark(Sphere(0.3), color="red", collide=False, visible=False))
        return world

    def spawn(self):
        self.ball.pos = torch.stack([self.tensor([[-0.6, -0.6 * i]]) for i in range(self.rows)])
        self.box.pos, self.box.rot = (0.6, 0.0), torch.pi / 2
        self.line.pos = (0.0, 0.9)

    def observe(self):
        return {"ball": self.ball.pos}

    def rewards(self):
        return {"ball": self.ball.rot}


def at(pixels, x, y, half=1.2):
    """The pixel at a place of the world."""
    h, w, _ = pixels.shape
    scale = min(h, w) / (2 * half)
    return tuple(pixels[round(h / 2 - y * scale), round(w / 2 + x * scale)].tolist())


def test_bodies_are_where_they_are():
    env = ScenarioEnv(Still(), 2, compile="none")
    pixels = env.render(0, size=(300, 300))
    assert pixels.shape == (300, 300, 3)
    assert pixels.dtype == np.uint8
    assert at(pixels, -0.6, 0.0) == BLUE
    assert at(pixels, 0.6, 0.0) == RED
    assert at(pixels, 0.6, 0.15) == RED  # the box stands upright
    assert at(pixels, 0.75, 0.0) != RED
    assert at(pixels, 0.0, 0.9) == BLACK
    assert at(pixels, 0.0, 0.0) == (250, 250, 250)  # nothing: the ghost is not shown


def test_each_row_has_its_own_picture():
    env = ScenarioEnv(Still(), 2, compile="none")
    assert at(env.render(1, size=(200, 200)), -0.6, -0.6) == BLUE
    assert at(env.render(0, size=(200, 200)), -0.6, -0.6) != BLUE
    assert np.array_equal(env.render(-1), env.render(1))


def test_edges_are_smooth():
    pixels = ScenarioEnv(Still(), 1, compile="none").render(size=(300, 300)).reshape(-1, 3)
    assert len(np.unique(pixels, axis=0)) > 20


def test_pictures_change_nothing():
    env, twin = (ScenarioEnv(Navigation(), 2, seed=0, compile="none") for _ in range(2))
    env.reset(), twin.reset()
    for _ in range(3):
        one, two = env.rand_step(), twin.rand_step()
        env.render()
        assert torch.equal(one["next", "agents", "observation"], two["next", "agents", "observation"])


def test_what_is_eaten_or_a_gap_is_not_shown():
    env = ScenarioEnv(Dispersion(n_agents=1), 1, compile="none")
    env.reset()
    state = env.get_state()
    state["pos"][..., 1] = 0.5
    env.set_state(state)
    before = at(env.render(size=(400, 400)), 0.5, 0.5)
    state["memory.eaten"][:] = True
    env.set_state(state)
    assert before != (250, 250, 250) == at(env.render(size=(400, 400)), 0.5, 0.5)
    wall = ScenarioEnv(BallPassage(fixed_passage=True), 1, compile="none").render(size=(400, 400))
    assert at(wall, 0.5, 0.05) == RED
    assert at(wall, -0.0, 0.05) != RED


def test_lidars_and_edges_are_drawn():
    plain, wired = (
        ScenarioEnv(Navigation(comms_range=r), 1, seed=1, compile="none").render(size=(300, 300)) for r in (0.0, 5.0)
    )
    assert (plain != wired).any()


def test_a_row_that_is_not_there_is_an_error():
    with pytest.raises(SpecError, match="row must be an integer from -2 to 1, got 2"):
        ScenarioEnv(Still(), 2, compile="none").render(2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"row": 1.5}, "row must be an integer from -2 to 1, got 1.5"),
        ({"row": True}, "row must be an integer from -2 to 1, got True"),
        ({"size": 600}, "size must be the width and the height in pixels, got 600"),
        ({"size": (600, 0)}, "height must be an integer from 1 on, got 0"),
    ],
)
def test_impossible_pictures_are_errors(options, says):
    with pytest.raises(SpecError, match=f"render: {says}"):
        ScenarioEnv(Still(), 2, compile="none").render(**options)


@pytest.mark.parametrize("how", [{"mode": "rgb_array"}, {"mode": "human", "env_index": 1}])
def test_render_as_in_vmas_says_what_to_call(how):
    file = Path(__file__).parent / "vmas_files" / "chase.py"
    for env in (ScenarioEnv(Still(), 2, compile="none"), load(file, 2, compile="none")):
        with pytest.raises(TypeError, match=r"render has no option 'mode'.*instead of VMAS's .* render\(i\)"):
            env.render(**how)


def test_the_circle_that_an_agent_runs_along_is_in_the_picture():
    env = ScenarioEnv(CircleTrajectory(), 1, compile="none")
    env.reset()
    for far in (0.0, 1.5, 3.0):  # where the agent is
        state = env.get_state()
        state["pos"][:] = far
        env.set_state(state)
        pixels = env.render(size=(300, 300)).astype(int)
        black = (abs(pixels - BLACK).sum(-1) < 60).nonzero()
        assert all(0 < way.min() < way.max() < 299 for way in black)


class Drawn(Still):
    """Draws what a test says, in the view that it says."""

    def draw(self, picture):
        DRAWS["draw"](self, picture)

    def view(self):
        return DRAWS["view"]


DRAWS = {}


@pytest.fixture
def drawn(monkeypatch):
    """A picture on which something is drawn."""
    env = ScenarioEnv(Drawn(), 1, compile="none")

    def drawn(draw=lambda *_: None, view=None):
        monkeypatch.setitem(DRAWS, "draw", draw)
        monkeypatch.setitem(DRAWS, "view", view)
        return env.render(size=(300, 300))

    return drawn


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda _, p: p.circle((0, 0), 0.1, "redd"), "there is no color 'redd'; did you mean 'red'"),
        (lambda _, p: p.line((0, 0), (1, 1), (1.0, 0.0)), r"three numbers in \[0, 1\], got \(1.0, 0.0\)"),
        (lambda _, p: p.line((0, 0), (1, 1), (255, 0, 0)), r"three numbers in \[0, 1\], got \(255, 0, 0\)"),
        (lambda _, p: p.line((0, 0), (1, 1), None), "three numbers in .*, got None"),
        (lambda _, p: p.circle((0, 0), -0.1, "red"), "Picture.circle: radius must be 0 metres or more, got -0.1"),
        (lambda _, p: p.polygon([], "red"), r"Picture.polygon: corners must be two points at least, got \[\]"),
        (
            lambda _, p: p.heat(torch.ones(1, 4, 5), (1, 1)),
            r"Picture.heat: values must be \[nx, ny\].* got \[1, 4, 5\]",
        ),
        (lambda _, p: p.heat(torch.ones(4, 5), (0.0, 1)), r"Picture.heat: half must be .* above 0, got \(0.0, 1\)"),
        (lambda s, p: p.hide(s.ball, torch.tensor([True])), r"Picture.hide: where must be \[1, 1\].*, got \[1\]"),
        (lambda s, p: p.paint(s.ball, torch.ones(1, 2), "red"), r"Picture.paint: where must be \[1, 1\].* \[1, 2\]"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(drawn, draw, says):
    with pytest.raises(ValueError, match=says):
        drawn(draw)


def test_words_are_strings(drawn):
    with pytest.raises(TypeError, match=r"Picture.text: words must be a string, such as str\(5\), got 5"):
        drawn(lambda _, p: p.text((0, 0), 5))


def test_a_view_is_a_view_with_room_in_it(drawn):
    with pytest.raises(TypeError, match=r"Drawn.view: expected a View, such as .*, got \(1.0, 1.0\)"):
        drawn(view=(1.0, 1.0))
    for view in (View(0, 1), View(1, -1), View(float("nan"), 1), View(1, 1, float("inf"))):
        with pytest.raises(ValueError, match="Drawn.view: expected finite numbers, wide and high above 0, got View"):
            drawn(view=view)
    assert at(drawn(view=View(2.4, 2.4)), -0.6, 0.0, half=2.4) == BLUE


@dataclass(eq=False)
class BallAt(Still):
    """The ball lies far away, the box at the origin."""

    x: float = 0.0

    def spawn(self):
        super().spawn()
        self.box.pos, self.ball.pos = (0.0, 0.0), (self.x, 0.0)


@pytest.mark.parametrize(("x", "half"), [(19.0, 19.5), (21.0, 1.2)])
def test_a_view_of_everything_ends_at_20_metres(x, half):
    pixels = ScenarioEnv(BallAt(x=x), 1, compile="none").render(size=(1500, 1500))
    assert at(pixels, 0.0, 0.0, half) == RED
    assert (pixels == BLUE).all(-1).any() == (x < 20)
    assert at(pixels, 0.0, 0.9, half) != (250, 250, 250)  # the line, at this scale


@dataclass(eq=False)
class Thin(Still):
    """A rod, or a frame, that steers or not; it looks to the right."""

    shape: Line | Box = Line(1.0)
    dynamics: Dynamics = Forward()

    def build(self):
        world = World()
        self.ball = world.add("ball", [Agent(self.shape, dynamics=self.dynamics)])
        return world

    def spawn(self):
        self.ball.pos = (0.0, 0.0)


@pytest.mark.parametrize("shape", [Line(1.0), Box(1.0, 0.6, hollow=True)])
def test_the_front_of_thin_agents_is_marked_and_all_of_them_is_seen(shape):
    plain, steers = (
        ScenarioEnv(Thin(shape=shape, dynamics=how), 1, compile="none").render(size=(600, 600)).astype(int)
        for how in (Holonomic(), Forward())
    )
    lost = (plain != 250).any(-1) & (steers == 250).any(-1)
    assert not lost.any()  # nothing is drawn over with the colour of the paper
    ys, xs = (plain != steers).any(-1).nonzero()
    assert (xs.min(), xs.max()) == pytest.approx((425 - 4, 425 + 4), abs=2)  # 0.5 metres are 125 pixels
    assert (ys.min(), ys.max()) == pytest.approx((300 - 4, 300 + 4), abs=2)
    assert steers[300, 425].sum() < plain[300, 425].sum()


@dataclass(eq=False)
class Followed(Still):
    """The picture's middle is the ball."""

    def view(self):
        x, y = self.ball.pos[0, 0].tolist()
        return View(0.5, 0.5, x, y)


def test_films_show_all_that_any_of_their_pictures_shows():
    """The first picture's middle was that of all: who left it was in none of them."""
    env = ScenarioEnv(Followed(), num_envs=1, seed=0, compile="none")
    env.reset()
    near = {name: value.clone() for name, value in env.current_state.items()}
    far = near | {"pos": near["pos"].clone()}
    far["pos"][0, 0] = 2.0
    shown = draw_frames(env.simulation, [near, far], (200, 200))
    assert [(pixels == BLUE).all(-1).any() for pixels in shown] == [True, True]
