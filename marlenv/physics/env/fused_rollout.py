"""Rollouts of scenarios that write into memory allocated once, with as few operations per step as can be.

The data are those of the rollout of any env, entry by entry, whatever the policy does: what it is given are tensors of
its own, and where it does more to the data than write entries of its own, the rollout goes on step by step
(:func:`_unfused`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs.policies import as_policy, ask
from marlenv.envs.rollout import RolloutOptions, finish, go_on, start
from marlenv.envs.stepping import STEP, check_actions
from marlenv.keys import Path
from marlenv.physics.env.layout import Layout, StepForm
from marlenv.physics.env.rollout_buffer import RolloutBuffer
from marlenv.physics.env.simulation_env import SimulationEnv
from marlenv.physics.env.staging_buffer import Shown, StagingBuffer
from marlenv.physics.jit.kernel import Act, MachineKernel, Room
from marlenv.physics.jit.tiers import Compiled, MachineCode
from marlenv.physics.simulation import leaves
from marlenv.tensordicts import plant, shallow

HELD = 2  # references to the data of a step that nobody else keeps: by the one who counts, and for counting
CHUNK = 64  # steps that machine code plays before it looks whether any row is done


def fused(env: SimulationEnv, layout: Layout, steps: int, policy: Any, options: RolloutOptions) -> TensorDictBase:
    """A rollout that :func:`fits` accepts."""
    act = env.rand_action if policy is None else as_policy(policy, env, options.trust_policy)
    td = start(env, options)
    env.check_began("rollout")
    drawn = policy is None and env.draws_actions()
    kernel = env.engine.kernel if isinstance(env.engine, MachineCode) and not drawn else None
    buffer = RolloutBuffer(env, layout, env.pool, steps, compact=options.compact, by_rows=not drawn, kernel=kernel)
    values = buffer.start(td, anew=options.auto_reset and options.tensordict is None)
    if drawn:
        played, ended = _drawn(env, buffer, steps, options.stops)
        buffer.share_flags(played, ended)
        return finish(env, buffer.whole(played), options)
    return _Acting(env, buffer, kernel, act, options).play(td, values)


def _drawn(env: SimulationEnv, buffer: RolloutBuffer, steps: int, stop: bool) -> tuple[int, Tensor | None]:
    """Random actions, all in machine code; how many steps, and which of them ended any row, if that can be looked at
    without waiting for a device.
    """
    engine = env.engine
    kernel, stream = engine.kernel, env.action_stream
    ended = torch.zeros(steps, dtype=torch.uint8, device=env.device)
    at, length = 0, min(CHUNK, steps) if stop else steps
    while at < steps:
        state = env.own_state()
        keys, used = stream.rng(env.batch_size).key, stream.used
        places = kernel.bind(state, buffer.actions, buffer.after, buffer.row_flags, buffer.observations, keys)
        kept = {name: x.clone() for name, x in state.items()} if stop else None
        end = min(at + length, steps)
        options = {"last": steps - 1, "drawn": used, "most": env.max_steps}
        kernel.run(env.num_envs, places, ended, at, end, restart=not stop, **options)
        over = ended[at:end].nonzero() if stop else ended[:0]
        if kept is not None and len(over) and (first := at + int(over[0])) + 1 < end:
            for name, x in state.items():  # once more, no further than the first end
                x.copy_(kept[name])
            end = first + 1
            kernel.run(env.num_envs, places, ended, at, end, restart=False, **options)
        stream.skip((end - at) * kernel.draws)
        at = end
        if len(over):
            break
    return at, ended if isinstance(engine, Compiled) else None


class _Acting:
    """A rollout with a policy, step by step.

    Args:
        env: whose.
        buffer: memory for the steps.
        kernel: machine code that plays them, if there is any.
        act: the policy.
        options: of the rollout.
    """

    def __init__(
        self, env: SimulationEnv, buffer: RolloutBuffer, kernel: MachineKernel | None, act: Any, options: RolloutOptions
    ) -> None:
        self.env, self.buffer, self.kernel, self.act, self.options = env, buffer, kernel, act, options
        self.stop = options.stops
        self.ended = torch.zeros(buffer.steps, dtype=torch.uint8, device=env.device)
        self._looks = self.ended.is_cpu
        """Whether it can be seen which steps ended any row without waiting for a device."""
        self._ended = self.ended.numpy().data if self._looks else self.ended
        self.paths: list[Path] = []
        """All that the policy writes, or that it finds written in the step before."""
        self.written: list[list[Tensor]] = []
        """Of every step, in the order of :attr:`paths`."""
        self._form: StepForm | None = None
        """Of the data, once it is known what the policy writes."""
        self.groups = [field.name[0] for field in buffer.action_fields]
        self.actions: list[int] = []
        """The places of the groups' actions in what is written."""
        self.values: Sequence[Tensor] = ()
        """What is shown before the next step, tensors of its own, as a step gives them."""
        self.watched: Sequence[Tensor] = ()
        """Tensors whose versions tell whether anybody wrote into it."""
        self._shown: Shown | None = None
        self._watch = env.engine.watch if kernel is not None else None
        self._state: Any = None
        self._most: int | None = None
        self._numbers = kernel is not None and all(field.dtype.is_floating_point for field in buffer.action_fields)
        """Whether machine code looks at the actions itself."""
        self._played: Act | None = None
        """Plays a step of the staging buffer in machine code, by its number there."""

    def play(self, td: TensorDictBase, values: list[Tensor]) -> TensorDictBase:
        """The data of the rollout.

        Args:
            td: what the first step starts from.
            values: its entries, as :meth:`RolloutBuffer.start` gives them.
        """
        env, buffer = self.env, self.buffer
        td, self.values, self.watched, first = shallow(td), values, values, values
        fresh = False  # whether the data of this step are others than those that followed on the step before
        for t in range(buffer.steps):
            values, watched = self.values, self.watched
            if self._form is not None:
                td = self._form.filled(values, self.written[-1])
            versions = [x._version for x in watched]
            td = ask(self.act, td, f"{type(env).__name__}.rollout")
            if not t:  # later ones are like the first
                check_actions(env, env.plan, td)
            found = self._found(td, values)
            if (
                found is None
                or versions != [x._version for x in watched]
                or sys.getrefcount(td) > HELD
                or (self._watch is not None and not self._watch.stays() and env.renew())
            ):
                return self._unfused(t, td, values, fresh, first)
            self.written.append(found)
            actions = [found[i] for i in self.actions]
            if not self._numbers:
                self._check(actions)
            if self.kernel is None and t:
                buffer.note(t, values, followed=not fresh)
            fresh = self._step(t, actions, last=t == buffer.steps - 1)
            if self.stop and fresh:
                break
        buffer.note(0, first)
        return self._whole(t + 1)

    def _found(self, td: TensorDictBase, values: Sequence[Tensor]) -> list[Tensor] | None:
        """What the policy wrote; None where it did more, where that is not like what it wrote before, or where its
        actions are not as a step reads them.
        """
        if self._form is not None:
            return self._form.written(td, values)
        layout = self.buffer.layout
        found = layout.added(td, values)
        fields = [((*layout.paths[field.name[0]], "action"), field) for field in self.buffer.action_fields]
        if found is None or (STEP,) in found:  # some rows wait
            return None
        if not all(where in found and found[where].dtype == field.dtype for where, field in fields):
            return None
        self.paths = list(found)
        self.actions = [self.paths.index(where) for where, _ in fields]
        self._form = layout.form(found)
        return list(found.values())

    def _check(self, actions: Sequence[Tensor]) -> None:
        self.env.check_values(dict(zip(self.groups, actions, strict=True)))

    def _step(self, t: int, actions: Sequence[Tensor], *, last: bool) -> bool:
        """Plays a step, and makes what is shown before the next one, if there is one; whether any row ended."""
        if self.kernel is not None:
            return self._run(self.kernel, t, actions)
        own = {group: x.clone() for group, x in zip(self.groups, actions, strict=True)}  # the state may keep them
        ended, shown = _moved(self.env, self.buffer, own, t, last=last, stop=self.stop)
        self.values = self.watched = [] if last else shown + self.buffer.unended()
        return ended

    def _run(self, kernel: MachineKernel, t: int, actions: Sequence[Tensor]) -> bool:
        """The same by machine code."""
        env, buffer = self.env, self.buffer
        staging: StagingBuffer = buffer.staging  # type: ignore[assignment]
        if t == staging.stop:
            self._turn(t)
        if self._shown is None:
            self._shown, self._played = staging.show(min(staging.stop, buffer.steps) - t), None
            self.watched = self._shown.watched
        if (
            self._played is None
            or env.last_state is not self._state  # a policy may put the env into another state
            or env.max_steps != self._most
        ):
            self._state, self._most = env.own_state(), env.max_steps
            flags = [x[staging.start :] for x in buffer.row_flags]
            room = Room(staging.after, flags, staging.before, self._shown.memory, self.ended[staging.start :])
            last = buffer.steps - 1 - staging.start
            self._played = kernel.acting(self._state, room, last=last, most=self._most, restart=not self.stop)
        at = t - staging.start
        if not self._played(at, actions):
            self._check(actions)
        self.values = self._shown.values[at]
        return bool(self._ended[t]) if self._looks or self.stop else True

    def _turn(self, played: int) -> None:
        """Brings the steps up to ``played`` to where the rollout lies row by row."""
        if self.buffer.staging is not None and self._shown is not None:
            self.buffer.staging.turn(played, self._shown.memory, self.ended.tolist() if self._looks else [])
            self._shown = None

    def _whole(self, played: int) -> TensorDictBase:
        self._turn(played)
        self._share_flags(played)
        td = self.buffer.whole(played)
        entries = list(zip(*self.written, strict=True))
        stacks = [torch.stack(parts, 1) for parts in entries] if self.kernel is None else self.kernel.stacked(entries)
        for where, x in zip(self.paths, stacks, strict=True):
            plant(td, where, x)
        return finish(self.env, td, self.options)

    def _share_flags(self, played: int) -> None:
        self.buffer.share_flags(played, self.ended if self.kernel is not None and self._looks else None)

    def _unfused(
        self, t: int, td: TensorDictBase, values: Sequence[Tensor], fresh: bool, first: Sequence[Tensor]
    ) -> TensorDictBase:
        """The data of a rollout that goes on as that of any env, from where the policy acted in step ``t``."""
        env, buffer, layout = self.env, self.buffer, self.buffer.layout
        buffer.note(0, first)
        self._turn(t)
        self._share_flags(t)
        kept = [buffer.step(i) for i in range(t)]
        for step, written in zip(kept, self.written, strict=True):
            for where, x in zip(self.paths, written, strict=True):
                plant(step, where, x)
        if kept and not fresh:  # the policy was given what followed on the step before
            layout.put_observed(kept[-1]["next"], values)
        return go_on(env, td, self.act, kept, buffer.steps - t, self.options)


def _moved(
    env: SimulationEnv,
    buffer: RolloutBuffer,
    actions: Mapping[str, Tensor],
    t: int,
    *,
    last: bool,
    stop: bool,
) -> tuple[bool, list[Tensor]]:
    """One step by the simulation, and what follows from it: whether any row ended, and what is shown before the next
    step, if there is one.
    """
    with env.gradients():
        state, observations, rewards, over, infos = env.engine.transition(env.current_state, actions)
        env.last_state = state
        values = leaves(observations, infos, rewards)
        entries = (*buffer.layout.observations, *buffer.layout.rewards)
        for entry, target in zip(entries, buffer.after, strict=True):
            if target is not None:
                target[t].copy_(values[entry.field.name].movedim(0, -1))
        for flag, target in zip(env.row_flags(over, state["steps"]), buffer.row_flags, strict=True):
            target[t].copy_(flag)
        done = buffer.row_flags[2][t]
        ended = bool(done.any()) if stop or done.device.type == "cpu" else not stop
        if last or (stop and ended):
            return ended, []
        if ended and not stop:
            observations, infos = env.begin(done.clone(), leaves(observations, infos))
            values = leaves(observations, infos)
        shown = [values[entry.field.name] for entry in buffer.layout.observations]
        own = [x.clone(memory_format=torch.contiguous_format) for x in shown]  # as a step by hand gives them
        return ended, [entry.shaped(x) for entry, x in zip(buffer.layout.observations, own, strict=True)]


def fits(env: SimulationEnv, layout: Layout, policy: Any, options: RolloutOptions) -> bool:
    """Whether a rollout can be fused: the plain ones, with the groups of the world, where changes of data can be
    seen.
    """
    special = (options.callback, options.actions, options.storing_device, options.out)
    given = options.tensordict
    return (
        all(one is None for one in special)
        and not options.auto_cast_to_device
        and not options.break_when_all_done
        and options.return_contiguous is not False
        and not (env.grad_enabled and torch.is_grad_enabled())
        and not env.run_type_checks
        and not env.one_hot
        and (not torch.is_inference_mode_enabled() or (policy is None and env.draws_actions()))
        and (given is None if options.auto_reset else given is not None and _only_ours(env, layout, given))
    )


def _only_ours(env: SimulationEnv, layout: Layout, td: TensorDictBase) -> bool:
    """Whether data to go on from hold the env's entries and nothing else."""
    own = {*env.observation_keys, *env.done_keys}
    plain = layout.read(td) is not None and layout.read_flags(td) is not None
    return plain and own <= set(td.keys(True, True)) <= {*own, *env.action_keys}


__all__ = ["fits", "fused"]
