"""Seats of one group whose agents may do different things, and groups of different sizes, as a simulator has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from marlenv import PettingZooWrapper
from marlenv.errors import SpecError
from marlenv.tournament import ENDINGS, Arena, Game, Turn, random_player

spaces = pytest.importorskip("gymnasium.spaces")
pettingzoo = pytest.importorskip("pettingzoo")
STEPS = 5


class Recording(pettingzoo.ParallelEnv):
    """Ends after some steps, pays all agents the same, and notes what it was told."""

    metadata = {"name": "recording"}
    widths: dict[str, int] = {}  # of what is seen, where that is not 2

    def __init__(
        self, actions: dict[str, Any], told: list[dict[str, Any]], masks: dict[str, Any] | None = None
    ) -> None:
        self.possible_agents, self._actions, self.told, self._masks = list(actions), actions, told, masks

    def observation_space(self, agent: str) -> Any:
        seen = spaces.Box(-1, 1, (self.widths.get(agent, 2),), np.float32)
        if self._masks is None:
            return seen
        mask = spaces.Box(0, 1, (int(self._actions[agent].n),), np.int8)
        return spaces.Dict({"observation": seen, "action_mask": mask})

    def action_space(self, agent: str) -> Any:
        return self._actions[agent]

    def _seen(self, agents: list[str]) -> dict[str, Any]:
        zeros = {a: np.zeros(self.widths.get(a, 2), np.float32) for a in agents}
        if self._masks is None:
            return zeros
        return {a: {"observation": zeros[a], "action_mask": np.array(self._masks[a], np.int8)} for a in agents}

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        self.agents, self.time, self.draws = list(self.possible_agents), 0, np.random.default_rng(seed)
        return self._seen(self.agents), {a: {} for a in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[dict, ...]:
        self.told.append(dict(actions))
        self.time, agents = self.time + 1, self.agents
        over = self.time >= STEPS
        paid = float(self.draws.uniform())
        self.agents = [] if over else agents
        each = [dict.fromkeys(agents, value) for value in (paid, over, False)]
        return self._seen(agents), *each, {a: {} for a in agents}


def played(actions: dict[str, Any], player: Callable[[Turn], torch.Tensor], **more: Any) -> list[dict[str, Any]]:
    """What the simulator was told in some games; none of them ends early."""
    told: list[dict[str, Any]] = []
    masks = more.pop("masks", None)
    arena = Arena(
        lambda: PettingZooWrapper(Recording(actions, told, masks)), {"p": player}, rows=2, forfeits=True, **more
    )
    games = arena.play([Game(k, ("p",) * len(arena.seats)) for k in range(12)])
    assert {ENDINGS[k] for k in games.ending.tolist()} == {"over"}
    assert games.plies.tolist() == [STEPS] * 12
    return told


def box(limit: float) -> Any:
    return spaces.Box(-limit, limit, (2,), np.float32)


TWO = {"x": ["player_1"], "y": ["player_0"]}
BOTH = {"both": ["player_0", "player_1"]}


@pytest.mark.parametrize("seats", [None, TWO, BOTH], ids=["agents", "turned round", "one seat"])
@pytest.mark.parametrize("sizes", [(3, 5), (5, 3), (1, 4), (3, 3)], ids=str)
def test_each_agent_chooses_from_its_own_numbers(sizes: tuple[int, int], seats: dict | None) -> None:
    actions = {f"player_{k}": spaces.Discrete(n) for k, n in enumerate(sizes)}
    told = played(actions, random_player, seats=seats)
    for k, n in enumerate(sizes):
        assert {int(step[f"player_{k}"]) for step in told} == set(range(n))


@pytest.mark.parametrize("seats", [None, TWO, BOTH], ids=["agents", "turned round", "one seat"])
def test_masks_of_agents_with_different_numbers_are_their_own(seats: dict | None) -> None:
    actions = {"player_0": spaces.Discrete(3), "player_1": spaces.Discrete(5)}
    masks = {"player_0": [0, 1, 1], "player_1": [1, 0, 0, 0, 1]}
    told = played(actions, random_player, seats=seats, masks=masks)
    for agent, mask in masks.items():
        assert {int(step[agent]) for step in told} == set(np.flatnonzero(mask).tolist())


@pytest.mark.parametrize("seats", [None, TWO, BOTH], ids=["agents", "turned round", "one seat"])
def test_each_agent_has_its_own_bounds(seats: dict | None) -> None:
    def most(turn: Turn) -> torch.Tensor:
        return turn.spec.high.expand(len(turn), *turn.spec.shape[1:])

    for player in (most, random_player):
        told = played({"player_0": box(1.0), "player_1": box(5.0)}, player, seats=seats)
        for agent, limit in (("player_0", 1.0), ("player_1", 5.0)):
            largest = max(float(np.abs(step[agent]).max()) for step in told)
            assert largest == limit if player is most else 0.9 * limit < largest <= limit


def test_seats_that_are_shown_different_things_are_asked_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "widths", {"player_1": 3})
    seen = set()

    def looks(turn: Turn) -> torch.Tensor:
        shape = turn.data["observation"].shape
        seen.update((seat, *shape[1:]) for seat in turn.seat.tolist())
        return random_player(turn)

    actions = {f"player_{k}": spaces.Discrete(2) for k in range(3)}
    played(actions, looks)
    assert seen == {(0, 2), (1, 3), (2, 2)}
    seen.clear()
    played(actions, looks, seats={"a": ["player_2", "player_0"], "b": ["player_1"]})
    assert seen == {(0, 2, 2), (1, 1, 3)}


def test_what_is_beyond_the_bounds_of_one_agent_is_illegal_for_it_alone() -> None:
    def four(turn: Turn) -> torch.Tensor:
        return torch.full((len(turn), 2), 4.0)

    def env() -> PettingZooWrapper:
        return PettingZooWrapper(Recording({"player_0": box(1.0), "player_1": box(5.0)}, []))

    arena = Arena(env, {"four": four, "random": random_player}, rows=2, forfeits=True)
    games = arena.play([Game(0, ("four", "random")), Game(1, ("random", "four"))])
    assert [ENDINGS[k] for k in games.ending.tolist()] == ["illegal move", "over"]


def test_actions_of_different_sizes_in_one_group_are_refused_by_name() -> None:
    actions = {"player_0": box(1.0), "player_1": spaces.Box(-1, 1, (3,), np.float32)}
    with pytest.raises(SpecError, match=r"agents of 'player' must have actions of one size.*group_map='by_spec'"):
        Arena(lambda: PettingZooWrapper(Recording(actions, [])), {"p": random_player})


def test_groups_that_earn_the_same_are_level_however_many_their_agents_are() -> None:
    """A third of all numbers comes out otherwise when seven of them are averaged in float32."""
    actions = {f"scout_{k}": spaces.Discrete(2) for k in range(7)} | {"truck_0": spaces.Discrete(2)}
    arena = Arena(lambda: PettingZooWrapper(Recording(actions, [])), {"a": random_player, "b": random_player}, rows=4)
    games = arena.play([Game(k, ("a", "b")) for k in range(40)])
    assert list(arena.seats) == ["scout", "truck"]
    assert len(games.returns.unique()) == 40
    assert games.scores().tolist() == [0.5] * 40
