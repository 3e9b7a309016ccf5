"""The names of the wrappers' envs; ``"family/task"`` makes a task of a family."""

from __future__ import annotations

from marlenv.envs.registry import Entry

WHERE = "marlenv.wrappers"
ENTRIES = [
    Entry(
        "pettingzoo",
        "wrapper",
        f"{WHERE}.pettingzoo:PettingZooEnv",
        needs="pettingzoo",
        summary="PettingZoo tasks: pettingzoo/pistonball_v6, pettingzoo/simple_spread_v3",
    ),
    Entry(
        "open_spiel",
        "wrapper",
        f"{WHERE}.open_spiel:OpenSpielEnv",
        needs="pyspiel",
        task_option="game_string",
        summary="OpenSpiel's games: open_spiel/leduc_poker, open_spiel/goofspiel(num_cards=4)",
    ),
    Entry(
        "vmas",
        "wrapper",
        f"{WHERE}.vmas:VmasEnv",
        needs="vmas",
        task_option="scenario",
        batched=True,
        summary="VMAS scenarios: vmas/balance, vmas/simple_tag",
    ),
    Entry(
        "meltingpot",
        "wrapper",
        f"{WHERE}.meltingpot:MeltingpotEnv",
        needs="meltingpot",
        task_option="substrate",
        summary="Melting Pot's substrates: meltingpot/commons_harvest__open",
    ),
    Entry(
        "smacv2",
        "wrapper",
        f"{WHERE}.smacv2:SMACv2Env",
        needs="smacv2",
        task_option="map_name",
        summary="StarCraft battles of SMACv2: smacv2/10gen_terran",
    ),
    Entry(
        "jaxmarl",
        "wrapper",
        f"{WHERE}.jaxmarl:JaxMARLEnv",
        needs="jaxmarl",
        batched=True,
        summary="JaxMARL's envs: jaxmarl/MPE_simple_spread_v3, jaxmarl/HeuristicEnemySMAX",
    ),
]
