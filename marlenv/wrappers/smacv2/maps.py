"""Maps of SMACv2, for ``SMACv2Env``: their names, what the 10gen maps draw when nothing is said, and seeds for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from marlenv.errors import MissingExtra, UnknownName, nearest
from marlenv.optional import need

WHO = "SMACv2Env"
UNITS = {
    "10gen_protoss": ("stalker", "zealot", "colossus"),
    "10gen_terran": ("marine", "marauder", "medivac"),
    "10gen_zerg": ("zergling", "hydralisk", "baneling"),
}
"""Kinds of units that the 10gen maps draw; the last one is rare, and no team consists of it alone."""
WEIGHTS = (0.45, 0.45, 0.1)
SIDE = 32  # of those maps, in StarCraft's units of length
TEAM = 5  # units on either side


def library(module: str) -> Any:
    """A module of smacv2.

    Raises:
        MissingExtra: says where smacv2 comes from, which is on no package index.
    """
    try:
        return need(module, WHO)
    except MissingExtra as error:
        raise MissingExtra(
            "SMACv2Env needs 'smacv2', which is on no package index, and StarCraft II; "
            "pip install git+https://github.com/oxwhirl/smacv2.git"
        ) from error


def map_names() -> list[str]:
    """The names of all maps."""
    return sorted(library("smacv2.env.starcraft2.maps.smac_maps").get_smac_map_registry())


def check_map(name: str) -> None:
    """Raises if no map has that name; names the nearest."""
    if name not in (known := map_names()):
        raise UnknownName(f"{WHO}: no map is called {name!r}; {nearest(name, known)}")


def default_capabilities(map_name: str) -> dict[str, Any] | None:
    """What a 10gen map draws in every episode in smacv2's examples; None for other maps, which draw nothing.

    >>> default_capabilities("10gen_terran")["team_gen"]["unit_types"]
    ['marine', 'marauder', 'medivac']
    """
    if map_name not in UNITS:
        return None
    kinds = UNITS[map_name]
    return {
        "n_units": TEAM,
        "n_enemies": TEAM,
        "team_gen": {
            "dist_type": "weighted_teams",
            "unit_types": list(kinds),
            "weights": list(WEIGHTS),
            "exception_unit_types": [kinds[-1]],
            "observe": True,
        },
        "start_positions": {"dist_type": "surrounded_and_reflect", "p": 0.5, "map_x": SIDE, "map_y": SIDE},
    }


def seed_distributions(sim: Any, seed: int | None) -> None:
    """Seeds what draws teams and positions: each distribution has a generator of its own, which smacv2 never seeds.

    Args:
        sim: a ``StarCraftCapabilityEnvWrapper``; another env draws nothing.
        seed: of all of them together; None leaves them as they are.
    """
    found = getattr(sim, "env_key_to_distribution_map", {})
    if seed is None:
        return
    for i, name in enumerate(sorted(found)):
        _seed(found[name], [seed % (1 << 64), i])


def _seed(distribution: Any, seed: list[int]) -> None:
    for i, (name, value) in enumerate(sorted(vars(distribution).items())):
        if isinstance(value, np.random.Generator):
            setattr(distribution, name, np.random.default_rng([*seed, i]))
        elif hasattr(value, "generate"):  # a distribution that another one draws from
            _seed(value, [*seed, i])
