"""Agents that die while their row goes on: what they observe and get, whose actions count, who is done."""

from dataclasses import dataclass

import pytest
import torch

from marlenv.errors import KeyMissing
from marlenv.physics import Agent, Scenario, Sphere, World, join
from marlenv.physics.env import ScenarioEnv
from marlenv.testing import run_contract


@dataclass(eq=False)
class Mortals(Scenario):
    """Agents live for as many steps as their number says, plus one; the last group for ever. Dead, they rise again."""

    revive: int = 0
    parts: bool = False

    def build(self):
        world = World(channels=1)
        kinds = [Agent(Sphere(0.05), collide=False, silent=False)]
        self.mortals = world.add("mortals", kinds * 3)
        self.gods = world.add("gods", kinds * 2)
        return world

    def spawn(self):
        self.mortals.pos = self.uniform(-1, 1, 3, 2)

    def alive(self):
        age = self.steps.unsqueeze(-1)
        dead = age > self.tensor([1, 2, 30])
        return {"mortals": ~dead | ((age >= self.revive) & (self.revive > 0))}

    def observe(self):
        whole = join(self.mortals.pos + 5, self.mortals.said)
        return {"mortals": {"all": whole} if self.parts else whole, "gods": join(self.gods.pos + 5)}

    def rewards(self):
        return {"mortals": self.tensor([1.0, 2.0, 3.0]).expand(self.rows, -1), "gods": self.zeros(1) + 1}

    def over(self):
        return self.steps >= 6


def env_of(rows=4, tier="none", **options):
    own = {name: options.pop(name) for name in ("max_steps", "group_map") if name in options}
    return ScenarioEnv(Mortals(**options), rows, seed=0, compile=tier, **own)


def play(env, steps):
    return env.rollout(steps, break_when_any_done=False)["next"]


def column(data, *key):
    return data[key].squeeze(-1)[0].int().tolist()


def test_the_dead_observe_nothing_and_get_what_the_step_of_their_death_was_worth():
    data = play(env_of(), 6)
    assert column(data, "mortals", "alive") == [[1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]]
    assert torch.equal(data["mortals", "mask"], data["mortals", "alive"])
    assert column(data, "mortals", "reward") == [[1, 2, 3], [1, 2, 3], [0, 2, 3], [0, 0, 3], [0, 0, 3], [0, 0, 3]]
    zero = (data["mortals", "observation"] == 0).all(-1)
    assert torch.equal(zero[:, :5], ~data["mortals", "alive"][:, :5])
    assert zero[0, 5].tolist() == [True, True, False]  # who lives to the end observes it
    assert torch.equal(data["gods", "alive"], ~data["done"].expand(4, 6, 2))
    parts = play(env_of(parts=True), 6)
    assert torch.equal(parts["mortals", "observation", "all"], data["mortals", "observation"])


def test_the_dead_are_terminated_their_row_goes_on_and_its_end_is_that_of_the_others():
    data = play(env_of(), 6)
    gone = torch.arange(6).unsqueeze(-1) >= torch.tensor([1, 2, 30])
    last = torch.arange(6) == 5
    assert torch.equal(data["done"].squeeze(-1), last.expand(4, -1))
    for flag in ("done", "terminated"):
        assert torch.equal(data["mortals", flag].squeeze(-1), (gone | last[:, None]).expand(4, 6, 3))
        assert torch.equal(data["gods", flag].squeeze(-1), last[:, None].expand(4, -1, 2))
    assert not data["mortals", "truncated"].any()


def test_a_time_limit_truncates_the_living_alone():
    data = play(env_of(max_steps=4), 4)
    assert data["truncated"].squeeze(-1)[0].tolist() == [False, False, False, True]
    assert column(data, "mortals", "truncated")[-1] == [0, 0, 1]
    assert column(data, "mortals", "terminated")[-1] == [1, 1, 0]
    assert column(data, "mortals", "done")[-1] == [1, 1, 1]


def test_actions_and_words_of_the_dead_do_nothing():
    envs = [env_of(2), env_of(2)]
    tds = [env.reset() for env in envs]
    for t in range(5):
        for k, (env, td) in enumerate(zip(envs, tds, strict=True)):
            action = torch.full((2, 3, 3), 0.5)
            action[:, 0, :] = k if t > 2 else 0.5  # dead since the second step
            td["mortals", "action"], td["gods", "action"] = action, torch.zeros(2, 2, 3)
            tds[k] = env.step_mdp(env.step(td))
    one, other = (env.get_state() for env in envs)
    assert torch.equal(one["vel"], other["vel"])
    assert one["comm.mortals"][:, :, 0].eq(0).all()
    assert one["comm.mortals"][:, :, 2].eq(0.5).all()


def test_who_lives_again_begins_anew():
    data = play(env_of(revive=4), 5)
    assert column(data, "mortals", "alive") == [[1, 1, 1], [0, 1, 1], [0, 0, 1], [1, 1, 1], [1, 1, 1]]
    assert column(data, "mortals", "done") == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert column(data, "mortals", "reward") == [[1, 2, 3], [1, 2, 3], [0, 2, 3], [0, 0, 3], [1, 2, 3]]


def test_a_reset_of_a_row_brings_its_dead_back_and_leaves_the_others():
    env = env_of(3)
    td = env.reset()
    for _ in range(3):
        td = env.step_mdp(env.rand_step(td))
    where = torch.tensor([[True], [False], [False]])
    new = env.reset(td.clone().set("_reset", where))
    assert new["mortals", "alive"].tolist() == [[True] * 3, *[[False, False, True]] * 2]
    assert not new["mortals", "done"][0].any()
    assert torch.equal(new["mortals", "done"][1:], td["mortals", "done"][1:])
    assert torch.equal(new["mortals", "observation"][1:], td["mortals", "observation"][1:])


def test_groups_of_ones_own_have_their_own_dead():
    teams = {"left": {"a": ["mortal_0", "god_0"], "b": ["mortal_1"]}, "right": ["mortal_2", "god_1"]}
    plain, nested = play(env_of(), 6), play(env_of(group_map=teams), 6)
    for path, agents in {("left", "a"): [0, None], ("left", "b"): [1], ("right",): [2, None]}.items():
        for i, agent in enumerate(agents):
            for entry in ("alive", "mask", "done", "terminated", "truncated", "reward"):
                own = nested[(*path, entry)][:, :, i]
                wanted = plain["gods", entry][:, :, 0] if agent is None else plain["mortals", entry][:, :, agent]
                assert torch.equal(own, wanted), (path, entry)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"revive": 3}, {"revive": 5}, {"parts": True}], ids=str)
def test_the_contract_holds(options):
    make = lambda num_envs=3: env_of(num_envs, max_steps=5, **options)  # noqa: E731
    assert [r for r in run_contract(make, steps=16) if r.verdict == "broken"] == []


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["aot"])
def test_machine_code_kills_the_same(tier):
    slow, fast = play(env_of(7), 14), play(env_of(7, tier), 14)
    for key, x in slow.items(True, True):
        torch.testing.assert_close(fast[key], x)


class Stillborn(Mortals):
    def alive(self):
        return {"mortals": self.zeros(3) > 0}


class Headless(Mortals):
    def alive(self):
        return {"mortals": self.zeros() == 0}


class Named(Mortals):
    def info(self):
        return {"gods": {"mask": self.zeros(2)}}


def test_what_cannot_be_is_refused_in_words():
    with pytest.raises(
        ValueError, match=r"Stillborn.alive: expected bool .* all True when an episode begins, got 'mor"
    ):
        ScenarioEnv(Stillborn(), 2)
    with pytest.raises(ValueError, match=r"Headless.alive: expected bool \[B, A\] .*: torch.bool \[11\], 11 of 11"):
        ScenarioEnv(Headless(), 2)
    with pytest.raises(KeyMissing, match=r"Named.info: \['mask'\] are given by Named.alive"):
        ScenarioEnv(Named(), 2)
