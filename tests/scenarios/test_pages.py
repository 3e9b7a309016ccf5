"""What the pages of scenarios say about actions, compared with their specs and with what actions do."""

import re
from pathlib import Path

import harness
import pytest
import torch

import marlenv

PAGES = Path(__file__).parents[2] / "docs" / "envs"
UNLIKE = ("road_traffic", "kinematic_bicycle", "simple_crypto", "simple_reference", "simple_speaker_listener")
"""Scenarios of whose actions not all numbers have the same range."""


def told(name):
    """Group -> the lowest and highest number of each place of its action, as its page has them."""
    text = (PAGES / f"{name}.md").read_text().partition("## Action")[2].partition("## ")[0]
    line = r'^\| `\(("?\w+"?), "action"\)` \| float32 `.* (\d+)\]`, (.*) \| .* \|$'
    for group, width, ranges in re.findall(line, text, re.M):
        parts = re.findall(r"(?:`(\d+):(\d+)` )?(-?[\d.e-]+)\.\.(-?[\d.e-]+)", ranges)
        bounds = torch.full((int(width), 2), torch.nan)
        for first, end, low, high in parts:
            bounds[int(first or 0) : int(end or width)] = torch.tensor([float(low), float(high)])
        yield group.strip('"'), bounds


@pytest.mark.parametrize(
    "name", sorted({*UNLIKE, "balance", "drone", "football", "simple_world_comm", "wind_flocking"})
)
def test_a_page_says_the_range_of_every_number_of_an_action(name):
    env, found = harness.make(name, 1), dict(told(name))
    groups = [group for group, *_ in env.action_keys]
    assert set(found) in ({*groups}, {"group"})
    for key in env.action_keys:
        space = env.full_action_spec[key].space
        said = found.get(key[0], found.get("group"))
        torch.testing.assert_close(said, torch.stack((space.low[0, 0], space.high[0, 0]), -1), rtol=2e-3, atol=0.0)


@pytest.mark.parametrize("name", ["simple_crypto", "simple_reference", "simple_speaker_listener", "simple_world_comm"])
def test_a_page_says_which_numbers_of_an_action_are_words(name):
    env, page = harness.make(name, 1), (PAGES / f"{name}.md").read_text()
    ((first, end, groups),) = re.findall(r"a number for each channel, is `(\d+):(\d+)` of (.*?);", page)
    env.reset()
    for group in re.findall(r"`(\w+)`", groups):
        action = torch.linspace(0.1, 0.9, int(end)).expand(env.full_action_spec[group, "action"].shape)
        assert action.shape[-1] == int(end)
        env.step(env.full_action_spec.zero().set((group, "action"), action.clone()))
        said = env.get_state()[f"comm.{group}"]  # [B, channels, A]
        torch.testing.assert_close(said.mT, action[..., int(first) :])


def test_choices_are_counted_as_pages_say():
    """Of two numbers choice 2 is 0 (nothing) and 2 (its highest): up; choice 3 is 1 (its lowest) and 0: left."""
    assert "of two numbers, choice 2 is 0 and 2" in (PAGES / "simple.md").read_text()
    env = marlenv.make("simple", 9, seed=0, continuous_actions=False, compile="none")
    env.reset()
    action = env.full_action_spec.zero()
    action["agents", "action"][:, 0] = torch.arange(9)
    env.step(action)
    moved = env.get_state()["vel"][:, :, 0].sign().int().tolist()
    assert moved == [[x, y] for x in (0, -1, 1) for y in (0, -1, 1)]
