"""Turn-based envs that go on while those who are done leave: they pay others, end them, or let somebody come."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pettingzoo", reason="needs PettingZoo: pip install -e '.[pettingzoo]'")
from zoo_turn_game import TurnGame  # noqa: E402 -- it needs PettingZoo

from marlenv import PettingZooWrapper  # noqa: E402

ACTION = 2


class Heirs(TurnGame):
    """When an agent that is done leaves, the first of the others is paid 10.

    Args:
        then: what else happens to the heir, ``"terminations"`` or ``"truncations"``.
        born: who comes then.
        **plans: of the game.
    """

    def __init__(self, then: str | None = None, born: str | None = None, **plans: Any) -> None:
        super().__init__(**plans)
        self.then, self.born = then, born

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        dead = self.terminations[agent] or self.truncations[agent]
        if not dead:
            self._cumulative_rewards[agent] = 0.0
        super().step(action)
        if not dead:
            self._accumulate_rewards()
        heir = next((a for a in self.agents if not (self.terminations[a] or self.truncations[a])), None)
        if not dead or heir is None:
            return
        self.rewards[heir] = 10.0
        self._accumulate_rewards()
        if self.then is not None:
            getattr(self, self.then)[heir] = True
            others = [a for a in self.agents if not (self.terminations[a] or self.truncations[a])]
            self.agent_selection = (others or self.agents)[0]
            self._deads_step_first()
        if self.born is not None and self.born not in self.agents:
            self.agents.append(self.born)
            self._start([self.born], clear=False)


def theirs(game: Any) -> tuple[list[str], dict[str, float], dict[str, tuple[bool, bool]]]:
    """PettingZoo's own loop: who acted, what ``last()`` told each that it got, and how each ended."""
    game.reset(seed=0)
    acted, paid, ends = [], dict[str, float](), dict[str, tuple[bool, bool]]()
    for agent in game.agent_iter(40):
        _, reward, terminated, truncated, _ = game.last()
        paid[agent] = paid.get(agent, 0.0) + float(reward)
        if terminated or truncated:
            ends[agent] = (terminated, truncated)
        else:
            acted.append(agent)
        game.step(None if terminated or truncated else ACTION)
    return acted, paid, ends


def ours(env: Any) -> tuple[list[str], dict[str, float], dict[str, tuple[bool, bool]]]:
    """The same of our wrapper."""
    td, acted, paid = env.reset(), [], dict.fromkeys(env.agent_names, 0.0)
    places = {agent: (group, i) for group, agents in env.group_map.items() for i, agent in enumerate(agents)}
    ends: dict[str, tuple[bool, bool]] = {}
    while not td["done"]:
        acted += [agent for agent, (group, i) in places.items() if td[group, "mask"][i]]
        td = env.step(env.full_action_spec.zero().update(td).update(_all(env, ACTION)))["next"]
        for agent, (group, i) in places.items():
            paid[agent] += float(td[group, "reward"][i])
            if td[group, "done"][i]:
                ends[agent] = (bool(td[group, "terminated"][i]), bool(td[group, "truncated"][i]))
    return acted, paid, ends


def _all(env: Any, action: int) -> Any:
    actions = env.full_action_spec.zero()
    for group in env.group_map:
        actions[group, "action"][:] = action - 1  # the game counts from 1
    return actions


@pytest.mark.parametrize(
    "game",
    [
        {"terminate": {"wolf_0": 2, "wolf_1": 7, "sheep_0": 7}},
        {"truncate": {"sheep_0": 1}, "terminate": {"wolf_0": 4, "wolf_1": 9}},
        {"terminate": {"wolf_1": 2, "wolf_0": 6, "sheep_0": 6}, "then": "truncations"},
        {"terminate": {"sheep_0": 3, "wolf_1": 8}, "then": "terminations"},
        {"terminate": {"wolf_0": 2, "wolf_1": 9, "sheep_0": 9}, "spawn": {"sheep_0": 99}, "born": "sheep_0"},
        {"terminate": {"wolf_0": 2, "wolf_1": 2}, "then": "terminations"},
    ],
)
def test_what_happens_while_the_dead_leave_is_not_lost(game: dict[str, Any]) -> None:
    acted, paid, ends = theirs(Heirs(**game))
    assert any(reward >= 9 for reward in paid.values())  # somebody inherits
    got = ours(PettingZooWrapper(Heirs(**game)))
    assert got == (acted, {**dict.fromkeys(got[1], 0.0), **paid}, ends)
