"""A scenario in VMAS and in ours, side by side; for tests that compare the two."""

from __future__ import annotations

import warnings

import torch
from marlenv.scenarios.index import SCENARIOS

from marlenv.envs.registry import load
from marlenv.physics import Simulation
from marlenv.physics.env import ScenarioEnv
from marlenv.rng import RowRNG

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import vmas
    from torchrl.envs.libs.vmas import VmasEnv
    from vmas.simulator import core

WHERE = {entry.name: entry.options["scenario"] for entry in SCENARIOS}
OURS = {"commons", "predator_prey", "rescue", "skirmish", "territory"}
"""Scenarios that VMAS does not have."""
IN_VMAS = sorted(WHERE.keys() - OURS)
QUIET = {"asym_joint": {"obs_noise": 0}, "road_traffic": {"is_add_noise": False}}
"""Options without which what agents observe is random, by default."""
AS_FORCES = {"het_mass": {"mass", "f_range"}}
"""What a scenario of ours makes of the forces, as it differs between rows; the rest compares what comes of it."""
BODY = (
    "mass",
    "movable",
    "rotatable",
    "collide",
    "max_speed",
    "v_range",
    "drag",
    "linear_friction",
    "angular_friction",
)
ACTING = ("f_range", "max_f", "t_range", "max_t", "silent", "u_noise", "c_noise")
LAWS = ("dt", "substeps", "drag", "linear_friction", "angular_friction", "x_semidim", "y_semidim", "collision_force",
        "joint_force", "torque_constraint_force", "contact_margin")  # fmt: skip


def without_gate(self, a, b):
    """VMAS's ``World.collides`` without its look at the whole batch."""
    if a is b or not a.collides(b) or not b.collides(a):
        return False
    if not (a.movable or a.rotatable or b.movable or b.rotatable):
        return False
    return {type(a.shape), type(b.shape)} in self._collidable_pairs


def make(name, rows, *, seed=0, max_steps=None, **options):
    """Our env of a scenario, by separate operations: the other tiers are compared with them elsewhere."""
    return ScenarioEnv(load(WHERE[name])(**options), rows, seed=seed, max_steps=max_steps, compile="none")


class Luck:
    """Random numbers of scripted players, the same in VMAS and here: for all players and rows, new in each step."""

    def __init__(self):
        self.step = 0

    def randn(self, *shape, device=None):
        shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        few = torch.randn(torch.Size(shape[1:]).numel(), generator=torch.Generator().manual_seed(self.step))
        return few.reshape(shape[1:]).expand(shape).clone()

    def given_to_vmas(self, env):
        """VMAS's players draw from it; and the rows do not go where those of others would."""
        scope = type(env.scenario).make_world.__globals__
        if "AgentPolicy" not in scope or isinstance(scope["torch"], Torch):
            return
        scope["torch"], policy = Torch(self), scope["AgentPolicy"]
        among_rows = policy.check_better_positions

        def row_by_row(self, agent, env_index):
            rows = torch.nonzero(env_index).flatten().tolist()
            every = torch.arange(len(env_index))
            found = [among_rows(self, agent, every == row) for row in rows]
            return torch.cat(found) if found else torch.zeros(0, 2)

        policy.check_better_positions = row_by_row

    def given_to_us(self, scenario):
        def normal(*shape):  # agents first, where there are two dimensions or more
            return self.randn(scenario.rows * (shape[0] if len(shape) > 1 else 1), *shape[1:] or shape).reshape(
                scenario.rows, *shape
            )

        scenario.__dict__["normal"] = normal


class Torch:
    """PyTorch with the random numbers of :class:`Luck`."""

    def __init__(self, luck):
        self.randn = luck.randn

    def __getattr__(self, name):
        return getattr(torch, name)


class Pair:
    """Both, with the start of VMAS.

    Args:
        name: of the scenario.
        options: for both.
        rows: how many.
        memory: what ours must remember from the start: a function of VMAS's scenario.
        done: VMAS's ``done`` where its own mixes rows up: likewise.
        rest: rows (bool ``[B]``) in which VMAS moved something at random in this step: likewise.
        mode: the kind of actions.
        infos: whether the infos of VMAS are right; else only their names are compared.
        late: whether that happens when all have seen what came before, and changes what is remembered.
        stiff: whether a step may also end ten times as far away as one that begins a last bit away.
    """

    def __init__(
        self, name, options=None, rows=64, memory=None, done=None, rest=None, mode="continuous", stiff=False,
        infos=True, late=False,
    ):  # fmt: skip
        self.name, options = name, {**QUIET.get(name, {}), **(options or {})}
        kind = {"continuous_actions": mode == "continuous", "multidiscrete_actions": mode == "multidiscrete"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.theirs = vmas.make_env(name, num_envs=rows, seed=0, **kind, **options)
        self.luck = Luck()
        self.luck.given_to_vmas(self.theirs)
        self.theirs.reset()
        self.memory, self.done, self.rest, self.stiff, self.infos = memory, done, rest, stiff, infos
        self.late = late
        self.sim = Simulation(load(WHERE[name])(**options), mode)
        if name == "football":
            self.luck.given_to_us(self.sim.scenario)
        self.numbers = mode == "continuous"
        ours = sorted((e for b in self.sim.world.groups.values() for e in b.entities), key=lambda e: e.order)
        real = [body for body in self.theirs.world.entities if "Trajectory" not in body.name]  # not in pictures only
        self.bodies = list(zip(ours, real, strict=True))
        self.groups = {name: self.sim.groups[name].names for name in self.sim.controls}
        self.agents = {agent.name: agent for agent in self.theirs.world.agents}
        self.state = self.spawned()
        self.errors = dict.fromkeys(("over", "pos", "vel", "rot", "observation", "reward", "info"), 0.0)
        self.coin = torch.Generator().manual_seed(0)
        self.paid = 0.0
        """The largest reward so far: how much a change of rewards would show."""

    def spawned(self):
        """Our state when an episode begins in all rows where VMAS is."""
        self.state = self.sim.start(RowRNG(rows=[self.theirs.num_envs]))
        self.follow()
        for entry, value in (self.memory(self.theirs.scenario) if self.memory else {}).items():
            self.state[f"memory.{entry}"] = value.movedim(0, -1).contiguous()
        moment = self.sim.world.stage.open(self.state)
        links = self.sim.world.stepper.links
        if links is not None and len(links.inferred):
            moment.state["bends"] = links.spawned(moment.state["rot"])
        self.sim.scenario.after_spawn()
        state = moment.close()
        self.sim.world.stage.shut()
        return state

    def restart(self, row):
        """Both begin a new episode in one row, where VMAS does; returns VMAS's observations and infos, by agent."""
        said = self.theirs.reset_at(row, return_info=True)
        old = self.state
        own = {name: x for name, x in self.sim.start(RowRNG(rows=[self.theirs.num_envs])).items() if "gravity" in name}
        new, here = {**self.spawned(), **own}, torch.arange(self.theirs.num_envs) == row
        self.state = {name: torch.where(here, new[name], old[name]) for name in old}
        return said

    def follow(self):
        """Puts our state where VMAS is."""
        state, place = dict(self.state), self.sim.stepper.plan.place
        for name in ("pos", "vel", "rot", "ang_vel"):
            state[name] = state[name].clone()
        for ours, body in self.bodies:
            at = place[ours.name]
            state["pos"][:, at], state["vel"][:, at] = body.state.pos.T, body.state.vel.T
            state["rot"][at], state["ang_vel"][at] = body.state.rot[:, 0], body.state.ang_vel[:, 0]
        for group, names in self.groups.items():
            agents = [self.agents[name] for name in names]
            if f"comm.{group}" in state:
                state[f"comm.{group}"] = torch.stack([agent.state.c.T for agent in agents], 1)
            if f"inner.{group}" in state:
                state[f"inner.{group}"] = torch.stack([agent.dynamics.drone_state.T for agent in agents], 1)
            if f"gravity.{group}" in state:
                pulls = [agent.gravity.expand(self.theirs.num_envs, 2).T for agent in agents]
                state[f"gravity.{group}"] = torch.stack(pulls, 1)
        self.state = state

    def check_world(self):
        """Raises unless both worlds hold the same bodies under the same laws, and the groups are those of TorchRL."""
        world, theirs = self.sim.world, self.theirs.world
        assert self.groups == {
            g: tuple(n) for g, n in VmasEnv._get_default_group_map(None, list(self.agents_acting())).items()
        }
        assert {at: getattr(world.laws, at) for at in LAWS} == {at: getattr(theirs, f"_{at}") for at in LAWS}
        assert torch.equal(torch.tensor(world.laws.gravity), theirs._gravity)
        for ours, body in self.bodies:
            acting = ACTING if isinstance(body, core.Agent) else ()
            for at in [at for at in (*BODY, *acting) if at not in AS_FORCES.get(self.name, ())]:
                values = [getattr(which, at) for which in (ours.kind, body)]
                if at in LAWS:  # the world's, where a body has none of its own
                    values = [getattr(world.laws, at) if value is None else value for value in values]
                assert values[0] == values[1], (ours.name, at, values)
            size = {
                at: getattr(ours.shape, at) for at in ("radius", "length", "width", "hollow") if hasattr(ours.shape, at)
            }
            assert size == {at: getattr(body.shape, at) for at in size}, ours.name
            assert type(ours.shape).__name__ == type(body.shape).__name__
        touching = {
            frozenset(e.name for e in pair) for pairs in self.sim.stepper.plan.pairs.values() for pair in pairs.entities
        }
        joined = {frozenset((j.entity_a, j.entity_b)) for j in theirs.joints}
        named = [(ours.name, body) for ours, body in self.bodies]
        for i, (name, body) in enumerate(named):
            for other, second in named[i + 1 :]:
                meets = without_gate(theirs, body, second) and frozenset((body, second)) not in joined
                assert bool(meets) == (frozenset((name, other)) in touching), (name, other)

    def agents_acting(self):
        return [agent.name for agent in self.theirs.agents]

    def step(self, actions):
        """Both take a step; raises unless they agree."""
        self.luck.step += 1
        seen, rewards, dones, infos = self.theirs.step([action.clone() for action in actions])
        data = {a: each for a, *each in zip(self.agents_acting(), actions, seen, rewards, infos, strict=True)}
        acts = {group: torch.stack([data[name][0] for name in names], 1) for group, names in self.groups.items()}
        self.before = self.state, acts
        self.state, observed, gained, over, told = self.sim.transition(self.state, acts)
        self._compare("over", over, dones if self.done is None else self.done(self.theirs.scenario))
        fixed = torch.ones_like(over) if self.rest is None else ~self.rest(self.theirs.scenario)
        for ours, body in self.bodies:
            at = self.sim.stepper.plan.place[ours.name]
            self._compare("pos", self.state["pos"][:, at].T[fixed], body.state.pos[fixed])
            turned = fixed if self.late else torch.ones_like(fixed)
            self._compare("vel", self.state["vel"][:, at].T[turned], body.state.vel[turned])
            self._compare("rot", self.state["rot"][at, :, None][turned], body.state.rot[turned])
        for group, names in self.groups.items():
            whole = observed[group]
            for part, seen in (whole if isinstance(whole, dict) else {"": whole}).items():
                wanted = torch.stack([data[n][1][part] if part else data[n][1] for n in names], 1)
                shown = torch.ones_like(fixed) if self.late else fixed
                self._compare("observation", seen[shown], wanted[shown])
            rewards = torch.stack([data[n][2].flatten() for n in names], 1)
            self.paid = max(self.paid, rewards.abs().max().item())
            self._compare("reward", gained[group], rewards)
            info = told.get(group, {})
            assert set(info) == set(data[names[0]][3])
            for key, value in info.items() if self.infos else ():
                theirs = torch.stack([data[n][3][key].reshape(len(over), -1) for n in names], 1)
                self._compare("info", value.reshape(theirs.shape), theirs)
        self.follow()
        for entry, value in self.memory(self.theirs.scenario).items() if self.late else ():
            old = self.state[f"memory.{entry}"]
            self.state[f"memory.{entry}"] = torch.where(fixed, old, value.movedim(0, -1).to(old.dtype))

    def _compare(self, what, ours, theirs):
        ours, theirs = ours.float(), theirs.float()
        worst = ((ours - theirs).abs() / theirs.abs().clamp(min=1.0)).max().item() if ours.numel() else 0.0
        most = 1e-4 if what == "observation" else 1e-5
        assert worst <= most or (self.stiff and worst <= 10 * self._twin()), (what, worst)
        self.errors[what] = max(self.errors[what], worst)

    def _twin(self):
        """How far a step ends elsewhere when it begins a last bit away."""
        state, acts = self.before
        either = {name: torch.rand(state[name].shape, generator=self.coin) - 0.5 for name in ("pos", "vel", "rot")}
        up = {name: torch.nextafter(state[name], 1e9 * way) for name, way in either.items()}
        one, other = self.sim.transition(state, acts), self.sim.transition({**state, **up}, acts)
        return max(
            *((one[0][name] - other[0][name]).abs().max().item() for name in up),
            *((one[2][group] - other[2][group]).abs().max().item() for group in one[2]),
        )

    def crowd(self, share):
        """Moves all that moves towards the middle, in both: what is remembered stays, and rewards are large."""
        for body in self.theirs.world.entities:
            if body.movable or isinstance(body.shape, core.Sphere):
                body.state.pos = body.state.pos * share
        self.follow()

    def aimed(self, t):
        """Random actions, but for every other ten steps to the middle, where the others are."""
        actions = [x if x.ndim > 1 else x.unsqueeze(-1) for x in self.theirs.get_random_actions()]
        if t // 10 % 2 and self.numbers:
            for action, agent in zip(actions, self.theirs.agents, strict=True):
                if agent.movable:
                    action[:, :2] = (-3 * agent.state.pos).clamp(-1, 1) * agent.action.u_range_tensor[:2].clamp(max=1)
        return actions

    def run(self, steps=100):
        """Both take many steps; raises unless they agree in all of them."""
        self.check_world()
        with torch.no_grad():
            for t in range(steps):
                self.step(self.aimed(t))
        return self.errors
