"""Every env of PettingZoo's classic, butterfly and sisl, of mpe2, and two atari games, through both interfaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from beside_simulator import Parallel, Turns, follow, groups_by
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sizes import some

from marlenv import PettingZooEnv
from marlenv.testing import run_contract
from marlenv.wrappers.pettingzoo.tasks import make_task, tasks

pytestmark = [pytest.mark.sim, pytest.mark.slow]

ATARI = ("atari/pong_v3", "atari/space_invaders_v2")
OPTIONS: dict[str, dict[str, Any]] = {
    "butterfly/pistonball_v6": {"n_pistons": 3, "max_cycles": 6},
    "butterfly/cooperative_pong_v6": {"max_cycles": 4},
    "butterfly/knights_archers_zombies_v11": {"max_cycles": 12},
    "sisl/pursuit_v5": {"max_cycles": 6, "n_pursuers": 3},
    "sisl/multiwalker_v9": {"max_cycles": 6},
    **dict.fromkeys(ATARI, {"max_cycles": 6}),
}
GLOBAL = "the simulator draws from numpy's global generator"
EXEMPT = {
    "butterfly/knights_archers_zombies_v11": {
        "global_generators_stay_where_they_are": GLOBAL,
        "resets_start_afresh": "the simulator counts on to its next zombie through a reset",
    }
}
# examples, episodes of each, and how many of those begin with a seed
FEW, FEW_ATARI = (2, 5, 5), (2, 5, 2)
PLAYED = (10, 20, 20)
PLAYED_ATARI = (4, 50, 2)  # a seed makes ALE load its ROM anew, 0.2 s, and changes nothing: actions are not sticky


def cases() -> list[tuple[str, bool]]:
    """Tasks and interfaces."""
    try:
        known = tasks()
    except ImportError:
        return []
    wanted = [t for t in known if not t.startswith("atari") or t in ATARI]
    return [(task, kind == "parallel") for task in sorted(wanted) for kind in sorted(known[task])]


def options_of(task: str) -> dict[str, Any]:
    return OPTIONS.get(task, {"max_cycles": 4} if task.startswith("mpe/") else {})


def test_all_families_are_there() -> None:
    families = [task.split("/")[0] for task, _ in cases()]
    assert {name: families.count(name) for name in set(families)} == {
        "classic": 10,
        "butterfly": 6,
        "sisl": 4,
        "mpe": 24,
        "atari": 4,
    }


@pytest.mark.parametrize(("task", "parallel"), some(cases(), 6))
def test_the_contract_holds(task: str, parallel: bool, sized: Callable) -> None:
    make = lambda: PettingZooEnv(task, parallel=parallel, max_steps=30, **options_of(task))  # noqa: E731
    found = run_contract(make, EXEMPT.get(task), steps=sized(35, 64))
    broken = [f"{r.name}: {r.says}" for r in found if r.verdict == "broken"]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(("task", "parallel"), some(cases(), 3))
def test_fuzz(task: str, parallel: bool, sized: Callable) -> None:
    """10 or 200 random episodes in random groups, beside the raw simulator."""
    options, player = options_of(task), Parallel if parallel else Turns
    names = PettingZooEnv(task, parallel=parallel, **options).agent_names
    few, many = (FEW_ATARI, PLAYED_ATARI) if task in ATARI else (FEW, PLAYED)
    examples, episodes, seeded = sized(few, many)

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.integers(0, (1 << 31) - 1),
        st.lists(st.integers(0, 2), min_size=len(names), max_size=len(names)),
        st.booleans(),
    )
    def play(seed: int, labels: list[int], done_on_any: bool) -> None:
        env = PettingZooEnv(
            task, parallel=parallel, group_map=groups_by(labels, names), done_on_any=done_on_any, **options
        )
        by_hand = player(make_task(task, parallel, options))
        steps = follow(env, by_hand, seed, seeded, max_steps=20)
        env._set_seed(None)  # the simulator's; the actions go on being drawn from the seed
        by_hand.seed = None
        steps += follow(env, by_hand, None, episodes - seeded, max_steps=20)
        assert steps >= episodes

    play()
