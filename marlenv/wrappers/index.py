"""The names of the wrappers' envs; ``"family/task"`` makes a task of a family."""

from __future__ import annotations

from marlenv.envs.registry import Registration

WHERE = "marlenv.wrappers"
WRAPPERS = [
    Registration(
        "pettingzoo",
        "wrapper",
        f"{WHERE}.pettingzoo:PettingZooEnv",
        needs="pettingzoo",
        task_option="task",
        filmed={"render_mode": "rgb_array"},
        summary="PettingZoo tasks: pettingzoo/pistonball_v6, pettingzoo/simple_spread_v3",
    ),
    Registration(
        "open_spiel",
        "wrapper",
        f"{WHERE}.open_spiel:OpenSpielEnv",
        needs="pyspiel",
        task_option="game_string",
        summary="OpenSpiel's games: open_spiel/leduc_poker, open_spiel/goofspiel(num_cards=4)",
    ),
    Registration(
        "gym",
        "wrapper",
        f"{WHERE}.gym:GymEnv",
        needs="gymnasium",
        task_option="env_name",
        filmed={"render_mode": "rgb_array"},
        summary="Gymnasium's envs: gym/CartPole-v1, gym/ALE/Pong-v5",
    ),
    Registration(
        "dm_control",
        "wrapper",
        f"{WHERE}.dm_control:DMControlEnv",
        needs="dm_control",
        task_option="env_name",
        summary="DeepMind Control's suite: dm_control/cheetah/run",
    ),
    Registration(
        "dm_soccer",
        "wrapper",
        f"{WHERE}.dm_control:DMSoccerEnv",
        needs="dm_control",
        summary="DeepMind Control's soccer of two teams: team_size=2, walker_type='ANT'",
    ),
    Registration(
        "vmas",
        "wrapper",
        f"{WHERE}.vmas:VmasEnv",
        needs="vmas",
        task_option="scenario",
        batched=True,
        summary="VMAS scenarios: vmas/balance, vmas/simple_tag",
    ),
    Registration(
        "meltingpot",
        "wrapper",
        f"{WHERE}.meltingpot:MeltingpotEnv",
        needs="meltingpot",
        task_option="substrate",
        summary="Melting Pot's substrates: meltingpot/commons_harvest__open",
    ),
    Registration(
        "smacv2",
        "wrapper",
        f"{WHERE}.smacv2:SMACv2Env",
        needs="smacv2",
        task_option="map_name",
        summary="StarCraft battles of SMACv2: smacv2/10gen_terran",
    ),
    Registration(
        "jaxmarl",
        "wrapper",
        f"{WHERE}.jaxmarl:JaxMARLEnv",
        needs="jaxmarl",
        task_option="task",
        batched=True,
        summary="JaxMARL's envs: jaxmarl/MPE_simple_spread_v3, jaxmarl/HeuristicEnemySMAX",
    ),
]
