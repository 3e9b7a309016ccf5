"""Two teams play football; one of them may be scripted.

Source: ``football`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from marlenv.scenarios.football.coach import Coach
from marlenv.scenarios.football.drawing import draw_paths, draw_pitch, draw_reach
from marlenv.scenarios.football.observing import Observer
from marlenv.scenarios.football.options import FootballOptions
from marlenv.scenarios.football.pitch import Pitch
from marlenv.scenarios.football.players import Skill
from marlenv.scenarios.football.scores import WAYS, Score
from marlenv.scenarios.football.shooting import in_front, kicks
from marlenv.scenarios.football.teams import ROLES, Build, Gifts, formation, players
from torch import Tensor

from marlenv.physics import Agent, Picture, Sphere, World, join


@dataclass(eq=False)
class Football(FootballOptions):
    """Blue plays to the right, red to the left: for red everything is mirrored, what it observes and what it does;
    but the rotation that it observes is turned by half a turn, as in VMAS, and not mirrored; and where red starts in
    formation, it faces its own goal, as in VMAS, and must turn before it can shoot ahead.

    - observation: own force; where the agent is, seen from the ball, and its velocity relative to it; where the ball
      is, seen from the goal to score in; the ball's velocity and force; with ``enable_shooting`` the own rotation;
      where the agent is, seen from the goal; its velocity; for each adversary, then for each teammate: where the
      agent is, seen from it, its velocity relative to it, the velocity and the force of the other.
    - reward, shared by a team: ``scoring_reward`` for a goal, and minus that for a goal against it; if dense, how much
      nearer the ball gets to the goal, and the nearest player to the ball while it lies far from all.
    - ends: with a goal.
    - action: a force; with ``enable_shooting`` a torque and a shot too. The player nearest to the ball shoots, where
      it is in reach, in front of it.
    - VMAS: players and ball feel walls and goals only if the circles around both overlap in some row of the batch;
      here from 6.7 mm on, whatever other rows do. A scripted player without the ball may go where those of another row
      would go; and where the formation is random, all rows have the same one.

    Args:
        n_blue_agents: how many, from 1 on.
        n_red_agents: how many, from 0 on; from 1 on where they are not scripted.
        ai_red_agents: whether the red ones are scripted.
        ai_blue_agents: whether the blue ones are; not both teams.
        physically_different: two small and fast attackers, two defenders and a large keeper; for 5 blue agents.
            Attackers push 0.1 N more and shoot with 0.2 less (of ``u_shoot_multiplier``), the keeper pushes 0.05 N
            less and is 0.1 m/s slower; with ``enable_shooting`` its torque is 0.2 N m higher, as in VMAS, some 670
            times that of others, so that it spins and cannot aim.
        spawn_in_formation: whether blue starts in columns, rather than anywhere.
        only_blue_formation: whether red does not.
        formation_agents_per_column: from 1 on.
        randomise_formation_indices: whether who stands where is random.
        formation_noise: how far from its place a player may start, metres in all.
        n_traj_points: of the paths of scripted players in pictures, from 0 on.
        ai_strength: how fast scripted players are, from 0 to 1; or that of blue and that of red.
        ai_decision_strength: how well they choose who goes for the ball, and places, from 0 to 1; likewise.
        ai_precision_strength: how well they get where they want to, from 0 to 1; likewise.
        disable_ai_red: whether scripted red players stand still.
        agent_size: the radius of players, metres, above 0.
        goal_size: how wide goals are, metres, above 0.
        goal_depth: how deep, metres, above 0.
        pitch_length: metres, above 0.
        pitch_width: metres, above 0; above the goals' with a player's size on both sides.
        ball_mass: kg, above 0.
        ball_size: its radius, metres, above 0.
        u_multiplier: of forces, newtons; with ``physically_different`` from 0.05 on.
        enable_shooting: whether players turn and shoot.
        u_rot_multiplier: of torques, newton metres.
        u_shoot_multiplier: of shots: the force of one is 2.67 times the square of it, newtons; with
            ``physically_different`` from 0.2 on.
        shooting_radius: how near the ball must be, metres.
        shooting_angle: in which angle in front of the player, radians.
        max_speed: of players, m/s, from 0 on; with ``physically_different`` from 0.1 on.
        ball_max_speed: m/s, from 0 on.
        dense_reward: whether getting nearer is rewarded; otherwise infos about distances stay as at the start.
        pos_shaping_factor_ball_goal: reward per metre that the ball gets nearer to the goal.
        pos_shaping_factor_agent_ball: reward per metre that the nearest player gets nearer to the ball.
        distance_to_ball_trigger: and only from this distance on, metres.
        scoring_reward: for a goal.
        observe_teammates: whether agents observe them.
        observe_adversaries: likewise.
        dict_obs: whether observations come in parts, ``obs``, ``pos``, ``vel``, ``adversaries``, ``teammates``.

    """

    def build(self) -> World:
        self.pitch = Pitch(self.pitch_length, self.pitch_width, self.goal_size, self.goal_depth, self.agent_size)
        x, y = self.pitch_length / 2 + self.goal_depth - self.agent_size, self.pitch_width / 2 - self.agent_size
        world = World(dt=0.1, drag=0.05, x_semidim=x, y_semidim=y, substeps=2)
        self.walls, self.nets = self.pitch.add_to(world)
        build = Build(
            self.agent_size, self.u_multiplier, self.max_speed, self.u_rot_multiplier, self.u_shoot_multiplier
        )
        scripted = {"blue": self.ai_blue_agents, "red": self.ai_red_agents}
        blue = list(ROLES) if self.physically_different else [Gifts()] * self.n_blue_agents
        gifts = {"blue": blue, "red": [Gifts()] * self.n_red_agents}
        self.sides = {}
        for team, ai in scripted.items():
            turns = self.enable_shooting and not (ai and team == "red")
            self.sides[team] = world.add(
                f"agent_{team}", players(team, gifts[team], build, shooting=turns, scripted=ai)
            )
        size, mass, speed = self.ball_size, self.ball_mass, self.ball_max_speed
        ball = Agent(Sphere(size), name="Ball", scripted=True, max_speed=speed, mass=mass, color="black")
        self.ball = world.add("ball", [ball])[0]
        self.coaches = [
            Coach(self, world, team, Skill(*self.skill(team)), self.pitch, self.n_traj_points)
            for team, ai in scripted.items()
            if ai and len(self.sides[team]) and not (team == "red" and self.disable_ai_red)
        ]
        self.learners = {team: side for team, side in self.sides.items() if not scripted[team]}
        self.scores = {team: Score(self, world, team) for team in self.learners}
        self.observer = Observer(self, world)
        world.note(scored=0.0)
        return world

    def spawn(self) -> None:
        self.pitch.place(self.walls, self.nets)
        size = self.tensor([self.pitch_length / 2, self.pitch_width])
        for team, side in self.sides.items():
            if self.spawn_in_formation and (team == "blue" or not self.only_blue_formation):
                deep = -WAYS[team] * (self.pitch_length / 2 + self.goal_depth)
                spots = self.tensor(formation(len(side), self.formation_agents_per_column, deep, self.pitch_width))
                places = spots.expand(self.rows, -1, -1)
                if self.randomise_formation_indices:
                    order = self.permutation(len(side)).unsqueeze(-1)
                    places = places.gather(1, order.expand(-1, -1, 2))
                side.pos = places + self.uniform(-0.5, 0.5, len(side), 2) * self.formation_noise
            else:
                left = self.agent_size - self.pitch_length / 2 if team == "blue" else -self.agent_size
                side.pos = self.uniform(0, 1, len(side), 2) * size + self.tensor([left, -self.pitch_width / 2])
                side.rot = 0.0 if team == "blue" else torch.pi

    def after_spawn(self) -> None:
        for score in self.scores.values():
            self.keep(score.distances())

    def before_step(self) -> None:
        if "red" in self.learners:
            mirrored = self.learners["red"].u * self.tensor([-1.0, 1.0, -1.0, 1.0][: 2 + 2 * self.enable_shooting])
            self.learners["red"].u = mirrored
        for coach in self.coaches:
            coach.drive()
        force = self.pitch.off_walls(self.ball.pos, self.ball.vel)
        if self.enable_shooting:
            reach = self.shooting_radius, self.shooting_angle, self.u_shoot_multiplier
            force = force + kicks([*self.sides.values()], [*self.learners.values()], self.ball, *reach)
        self.ball.alone.u = force.unsqueeze(1)

    def after_step(self) -> None:
        self.observer.keep()

    def observe(self) -> Mapping[str, Tensor | dict[str, Tensor]]:
        found: dict[str, Tensor | dict[str, Tensor]] = {}
        for team, score in self.scores.items():
            parts = self.observer.parts(team, score)
            apart = {name: join(*pieces) if len(pieces) > 1 else pieces[0] for name, pieces in parts.items()}
            found[score.group] = apart if self.dict_obs else join(*(x for pieces in parts.values() for x in pieces))
        return found

    def rewards(self) -> Mapping[str, Tensor]:
        right, left = self.pitch.scored(self.ball.pos, self.ball_size)
        self.note(scored=self.scoring_reward * right.float() - self.scoring_reward * left.float())
        return {score.group: score.reward(self.notes.scored).unsqueeze(1) for score in self.scores.values()}

    def over(self) -> Tensor:
        right, left = self.pitch.scored(self.ball.pos, self.ball_size)
        return right | left

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {score.group: score.info(self.notes.scored) for score in self.scores.values()}

    def draw(self, picture: Picture) -> None:
        """The pitch; with options, paths and where players can shoot from."""
        draw_pitch(picture, self.pitch)
        for coach in self.coaches if self.n_traj_points else ():
            draw_paths(picture, getattr(self.memory, coach.path)[0], self.n_traj_points)
        for side in self.learners.values() if self.enable_shooting else ():
            ready = in_front(side, self.ball, self.shooting_radius, self.shooting_angle)
            draw_reach(picture, side, ready, self.shooting_radius, self.shooting_angle)
