"""What scenario files say of their agents by machine code: the same as their own code says, or not used at all."""

from pathlib import Path

import pytest
import torch
from compat import FILES
from sizes import compiled, first

from marlenv.physics.vmas_compat import load

THERE = sorted(Path(__file__).parent.joinpath("vmas_files").glob("*.py"))
MINE = {path.stem: path for path in THERE if "class Scenario(" in path.read_text()}
QUICK = ["simple_spread", "balance"]
RESULTS = {
    "simple_spread", "balance", "navigation", "simple", "simple_push", "simple_reference", "wheel",
}  # fmt: skip
"""Files of which it is known that they are results by machine code, unless its compiler takes too long; more may be."""
FILE = """
import torch
from vmas.simulator.core import Agent, Landmark, Sphere, World
from vmas.simulator.scenario import BaseScenario

COUNTS = [0]

class Scenario(BaseScenario):
    shared = 0

    def make_world(self, batch_dim, device, **kwargs):
        world = World(batch_dim, device)
        for i in range(2):
            world.add_agent(Agent(name=f"agent_{{i}}", shape=Sphere(0.1)))
        self.factor, self.log, self.count, self.table = 1.0, [], 0, torch.tensor([1.0, 2.0, 3.0])
        self.rew = torch.zeros(batch_dim)
        return world

    def reset_world_at(self, env_index=None):
        for i, agent in enumerate(self.world.agents):
            agent.set_pos(torch.tensor([0.5 * i, 0.1]), env_index)

    def reward(self, agent):
        rew = self.factor * agent.state.pos[:, 0] + self.table[1]
        {line}
        return rew

    def observation(self, agent):
        return torch.cat([agent.state.pos, agent.state.vel], -1)
"""


def written(line, folder, name="mine"):
    """A file with a line in its reward."""
    path = folder / f"{name}.py"
    path.write_text(FILE.format(line=line))
    return path


def played(path, rows=7, steps=8, compile="auto", **options):
    env = load(path, rows, seed=0, compile=compile, **options)
    td = env.reset()
    for _ in range(steps):
        td = env.step_mdp(env.step(env.rand_action(td)))
    return env, td


def leaves(x):
    if isinstance(x, torch.Tensor):
        return [x]
    return [leaf for one in (x.values() if isinstance(x, dict) else x) for leaf in leaves(one)]


def both_say(env):
    """What the file's own code says, and what machine code says, where the world is; and the values that they leave."""
    environment, compiled = env.environment, env.environment._compiled_results
    holders, engine = compiled.pure.holders, next(iter(env.world._engines.values()))
    before, out = [holder.copied() for holder in holders], []
    for say in (environment.results, lambda: compiled(engine.motion())):
        for entry in compiled.pure.entries:  # the file may write into them
            entry.holder[entry.key] = entry.holder[entry.key].clone()
        said = say()
        values = (
            said
            if isinstance(said, tuple) and not hasattr(said, "over")
            else (said.observations, said.infos, said.rewards, said.over)
        )
        left = [entry.holder[entry.key] for entry in compiled.pure.entries]
        out.append([x.clone() for x in leaves([*values, left])])
        for holder, content in zip(holders, before, strict=True):
            holder.restore(content)
    return out


def compared(path, steps, rows=19):
    """Whether machine code tells of a file; raises where it is wrong."""
    env, td = played(path, rows)
    if env.environment._compiled_results is None:
        return False
    for _ in range(steps):
        td = env.step_mdp(env.step(env.rand_action(td)))
        assert env.environment._compiled_results is not None
        for one, other in zip(*both_say(env), strict=True):
            assert one.dtype == other.dtype
            torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", first(QUICK, 2))
def test_machine_code_says_what_a_file_says(name):
    assert compared(FILES[name], 10)


@pytest.mark.filterwarnings("ignore")  # of files, and of motions that are no machine code, which other tests are about
@pytest.mark.parametrize("name", compiled(sorted({*FILES, *MINE} - set(QUICK)), 8, pytest.mark.slow))
def test_machine_code_says_what_every_file_says(name):
    results = compared({**FILES, **MINE}[name], 30)
    assert results or name not in RESULTS


@pytest.mark.slow
def test_reward_and_observation_of_a_file_are_not_run_any_more(tmp_path):
    env, td = played(written("pass", tmp_path))
    calls, kind = [], type(env.scenario)
    real = kind.reward
    try:
        kind.reward = lambda self, agent: calls.append(agent) or real(self, agent)
        env.step(env.rand_action(td))
        assert calls  # the file is another one now: its own code tells again
        calls.clear()
    finally:
        kind.reward = real
    env, td = played(written("pass", tmp_path))
    env.environment.results = None
    env.step(env.rand_action(td))


def left_by(env):
    """What a file has changed besides values of rows."""
    scenario = env.scenario
    return (
        scenario.count,
        scenario.log,
        scenario.shared,
        type(scenario).reward.__globals__["COUNTS"],
        scenario.table.tolist(),
    )


WRONG = {
    "a counter": "self.count += 1",
    "a list": "self.log.append(1)",
    "a table, in place": "self.table += 1",
    "a list of the module": "COUNTS[0] += 1",
    "a class": "type(self).shared += 1",
    "a look at numbers": "rew = rew if rew.sum() > 0 else -rew",
    "an item": "rew = rew + agent.state.pos[0, 0].item()",
    "other rows": "rew = rew - rew.mean()",
    "the order of rows": "rew = rew.flip(0)",
    "printing": "print(end='')",
    "moving": "agent.set_pos(agent.state.pos + 0.01, None)",
    "writing into positions": "agent.state.pos.add_(0.01)",
    "a view that is written": "x = rew.unsqueeze(-1); x[:, 0] += 1",
    "random numbers": "rew = rew + torch.rand(self.world.batch_dim)",
    "a set": "self.some = {1}",
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_shown_to_be_the_same_is_not_used(what, tmp_path):
    path = written(WRONG[what], tmp_path)
    env, td = played(path)
    assert env.environment._compiled_results is None
    other, same = played(path, compile="none")
    seen, expected = (x["agents", "observation"] for x in (td, same))
    assert what == "random numbers" or torch.allclose(seen, expected, atol=1e-5)
    for one, two in zip(left_by(env), left_by(other), strict=True):
        assert one == two


RIGHT = {
    "masks": "rew[agent.state.pos[:, 1] > 0.1] -= 1",
    "masks of both": "self.rew[:] = 0; self.rew[rew > 0.2] += rew[rew > 0.2]; rew = rew + self.rew",
    "memory": "self.rew = self.rew * 0.5 + rew; rew = self.rew",
    "overlaps": "rew[self.world.is_overlapping(*self.world.agents)] = -5",
    "distances": "rew = rew - self.world.get_distance(*self.world.agents)",
    "where": "rew = torch.where(rew > 0, rew, self.table[0])",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", RIGHT)
def test_idioms_become_machine_code(what, tmp_path):
    assert compared(written(RIGHT[what], tmp_path), 10)


@pytest.mark.parametrize(
    "change",
    [
        lambda env: setattr(env.scenario, "factor", 3.0),
        lambda env: env.scenario.table.mul_(2.0),
        lambda env: setattr(env.scenario, "table", torch.tensor([9.0, 8.0, 7.0])),
        lambda env: setattr(env.scenario, "rew", torch.ones(7, dtype=torch.float64)),
        lambda env: setattr(env.scenario, "rew", 2.0),
        lambda env: setattr(type(env.scenario), "reward", lambda self, agent: self.rew + 7.0),
        lambda env: setattr(env.scenario, "reward", lambda agent: env.scenario.rew + 8.0),
        lambda env: env.world.agents.reverse(),
        lambda env: env.world.agents[0].set_pos(torch.tensor([4.0, 4.0]), None),
        lambda env: env.world.agents[0].state.pos.add_(1.0),
    ],
    ids=[
        "a number",
        "a table, in place",
        "a table",
        "a dtype",
        "no tensor",
        "a method",
        "a function",
        "a list",
        "a place",
        "a place in place",
    ],
)
def test_what_is_changed_later_is_heeded(change, tmp_path):
    path = written("rew = rew + self.rew", tmp_path)
    after = []
    for tier in ("auto", "none"):
        env, td = played(path, compile=tier)
        assert (env.environment._compiled_results is not None) is (tier == "auto")
        change(env)
        after.append(env.step(env.rand_action(td))["next"])
    for key in (("agents", "reward"), ("agents", "observation")):
        torch.testing.assert_close(after[0][key], after[1][key], rtol=1e-5, atol=1e-5)


def test_partial_resets_and_ends_go_on_as_without(tmp_path):
    data = []
    for tier in ("auto", "none"):
        env = load(FILES["simple_spread"], 6, seed=3, compile=tier, max_steps=7)
        env.set_seed(1)
        td, kept = env.reset(), []
        g = torch.Generator().manual_seed(0)
        for t in range(20):
            td["agents", "action"] = torch.rand(6, 3, 2, generator=g) * 2 - 1
            step, td = env.step_and_maybe_reset(td)
            if t == 4:  # some rows only
                td["_reset"] = torch.tensor([[True], [False]] * 3)
                td = env.reset(td)
            kept.append(step)
        data.append(torch.stack(kept, 1))
        assert (env.environment._compiled_results is not None) is (tier == "auto")
    for key in data[0].keys(True, True):
        torch.testing.assert_close(data[0][key], data[1][key], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_row_says_the_same_in_a_batch_of_any_size(tmp_path):
    rows = {}
    for count in (1, 3, 64):
        env = load(FILES["simple_spread"], count, seed=5)
        td = env.reset()
        for _ in range(8):
            td["agents", "action"] = torch.full((count, 3, 2), 0.3)
            td = env.step_mdp(env.step(td))
        assert env.environment._compiled_results is not None
        rows[count] = td[0]["agents", "observation"]
    assert torch.equal(rows[1], rows[3])
    assert torch.equal(rows[1], rows[64])
