"""The names of the wrappers' envs; ``"family/task"`` makes a task of a family."""

from __future__ import annotations

from typing import Any

from marlenv.envs.registry import Registration


def _wrapper(name: str, factory: str, summary: str, *, needs: str | None = None, **options: Any) -> Registration:
    """An entry of the table.

    Args:
        name: what users write.
        factory: who makes the env: a module in ``marlenv.wrappers``, and a class.
        summary: a line that names tasks.
        needs: the module that must be installed; that of the same name when None.
        **options: others of :class:`Registration`.
    """
    where = f"marlenv.wrappers.{factory}"
    return Registration(name, "wrapper", where, needs=needs or name, summary=summary, **options)


WRAPPERS = [
    _wrapper(
        "pettingzoo",
        "pettingzoo:PettingZooEnv",
        "PettingZoo tasks: pettingzoo/pistonball_v6, pettingzoo/simple_spread_v3",
        task_option="task",
        filmed={"render_mode": "rgb_array"},
    ),
    _wrapper(
        "open_spiel",
        "open_spiel:OpenSpielEnv",
        "OpenSpiel's games: open_spiel/leduc_poker, open_spiel/goofspiel(num_cards=4)",
        needs="pyspiel",
        task_option="game_string",
    ),
    _wrapper(
        "gym",
        "gym:GymEnv",
        "Gymnasium's envs: gym/CartPole-v1, gym/ALE/Pong-v5",
        needs="gymnasium",
        task_option="env_name",
        filmed={"render_mode": "rgb_array"},
    ),
    _wrapper(
        "dm_control",
        "dm_control:DMControlEnv",
        "DeepMind Control's suite: dm_control/cheetah/run",
        task_option="env_name",
    ),
    _wrapper(
        "dm_soccer",
        "dm_control:DMSoccerEnv",
        "DeepMind Control's soccer of two teams: team_size=2, walker_type='ANT'",
        needs="dm_control",
    ),
    _wrapper(
        "habitat", "gym:HabitatEnv", "Habitat's tasks at home: habitat/HabitatRenderPick-v0", task_option="env_name"
    ),
    _wrapper(
        "robohive",
        "gym:RoboHiveEnv",
        "RoboHive's tasks of robots: robohive/FrankaReachRandom-v0",
        task_option="env_name",
    ),
    _wrapper(
        "openml",
        "openml:OpenMLEnv",
        "Data sets of OpenML as bandits: openml/mushroom_onehot, openml/magic",
        needs="sklearn",
        task_option="dataset_name",
    ),
    _wrapper(
        "procgen",
        "procgen:ProcgenEnv",
        "Procgen's games, drawn anew level by level: procgen/coinrun, procgen/bigfish",
        task_option="env_name",
        batched=True,
    ),
    _wrapper(
        "vmas", "vmas:VmasEnv", "VMAS scenarios: vmas/balance, vmas/simple_tag", task_option="scenario", batched=True
    ),
    _wrapper(
        "meltingpot",
        "meltingpot:MeltingpotEnv",
        "Melting Pot's substrates: meltingpot/commons_harvest__open",
        task_option="substrate",
    ),
    _wrapper("smacv2", "smacv2:SMACv2Env", "StarCraft battles of SMACv2: smacv2/10gen_terran", task_option="map_name"),
    _wrapper(
        "jaxmarl",
        "jaxmarl:JaxMARLEnv",
        "JaxMARL's envs: jaxmarl/MPE_simple_spread_v3, jaxmarl/HeuristicEnemySMAX",
        task_option="task",
        batched=True,
    ),
    _wrapper(
        "brax",
        "brax:BraxEnv",
        "Brax's robots: brax/inverted_pendulum, brax/ant, brax/humanoid",
        task_option="env_name",
        batched=True,
    ),
    _wrapper(
        "jumanji",
        "jumanji:JumanjiEnv",
        "Jumanji's games and tasks for teams: jumanji/Snake-v1, jumanji/LevelBasedForaging-v0",
        task_option="env_name",
        batched=True,
    ),
    _wrapper(
        "pgx",
        "pgx:PgxEnv",
        "Pgx's games: pgx/go_9x9, pgx/shogi, pgx/sparrow_mahjong, pgx/minatar-breakout",
        task_option="env_id",
        batched=True,
    ),
    _wrapper(
        "envpool",
        "envpool:MultiThreadedEnv",
        "EnvPool's tasks, whose players are groups: envpool/LeducHoldem-v1, envpool/CartPole-v1",
        task_option="env_name",
        count_option="num_workers",
        batched=True,
    ),
    _wrapper(
        "unity_mlagents",
        "unity_mlagents:UnityMLAgentsEnv",
        "Unity's builds with ML-Agents, by their files: unity_mlagents/builds/3DBall.x86_64",
        needs="mlagents_envs",
        task_option="file_name",
    ),
    _wrapper(
        "isaacgym",
        "isaacgym:IsaacGymEnv",
        "Robots of IsaacGymEnvs, on the GPU: isaacgym/Ant, isaacgym/ShadowHand",
        needs="isaacgymenvs",
        task_option="task",
        batched=True,
    ),
    _wrapper(
        "isaac_lab",
        "isaac_lab:IsaacLabWrapper",
        "An env of Isaac Lab's that gymnasium.make made, on the GPU",
        needs="isaaclab",
        batched=True,
    ),
]
