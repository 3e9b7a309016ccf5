"""A block of a pool's envs, and the process that it lives in."""

from __future__ import annotations

import random
import select
import signal
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from typing import Any, Literal

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.envs.resetting import check_reset_options, maybe_reset
from marlenv.envs.seeding import fresh_seed
from marlenv.envs.stepping import STEP, advance, finish
from marlenv.keys import Path
from marlenv.tensordicts import get
from marlenv.vector.base import MakeEnv, Options
from marlenv.vector.buffers import ANSWER, AT, COMMAND, DONE, KNOWN, SENT, Bell, Buffers, Handle, Layout, masked, write
from marlenv.vector.protocol import Answer, Command, Description, Failure, dump, load
from marlenv.vector.serial import SerialEnv


@dataclass
class Recipe:
    """What a block is made from; can be sent to another process.

    Args:
        makers: make its envs.
        options: their keyword arguments.
        assigned: attributes that were set in them.
        first: the number of the first env in the pool.
        on_failure: as in :class:`~marlenv.SerialEnv`.
        seeds: those of its envs, where the pool was seeded before.
        loaded: what its envs have loaded, by their places.
    """

    makers: list[MakeEnv]
    options: list[Options]
    assigned: list[Options]
    first: int
    on_failure: Literal["raise", "restart"] = "raise"
    seeds: list[int | None] | None = None
    loaded: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)


class SerialBlock(SerialEnv):
    """The envs of a block. The pool says, once they are described, whether they go together.

    Args:
        recipe: what they are.
        at: where to note which of them is at work.
    """

    _checks, _caught = True, BaseException

    def __init__(self, recipe: Recipe, at: Any) -> None:
        makers, options = recipe.makers, recipe.options
        self.__dict__.update(_first=recipe.first, _at=at, _assigned=recipe.assigned, _loaded=recipe.loaded)
        super().__init__(len(makers), makers, create_env_kwargs=options, on_failure=recipe.on_failure)

    def _adopt(self, children: Sequence[EnvBase | Description]) -> None:
        with suppress(Exception):
            super()._adopt(children)

    def _check_alike(self, children: Sequence[EnvBase | Description]) -> None:
        """Nothing: the pool does that."""


class Block:
    """Some neighbouring envs of a pool, stepped one after the other.

    Args:
        recipe: what they are.
        alone: whether it lives in a process of the pool, whose global generators nobody else draws from.
        at: where to note which env is at work; a place of its own when left out.
    """

    env: SerialEnv

    def __init__(self, recipe: Recipe, *, alone: bool = False, at: Any = None) -> None:
        self.recipe, self.first, self.alone = recipe, recipe.first, alone
        self._at = [0] if at is None else at

    def start(self) -> None:
        """Makes the envs."""
        seeds = self.recipe.seeds or []
        known = next((seed for seed in seeds if seed is not None), None)
        if self.alone:
            seed_process(known)
        self.env = SerialBlock(self.recipe, self._at)
        for i, seed in enumerate(seeds):
            if seed is not None:
                with self.env._turn(i):
                    self.env.children_envs[i].set_seed(seed)
                self.env._seeds[i] = seed
        if self.alone and known is not None:
            seed_process(known)
        self.env.start()

    def use(self, failures: Tensor, at: Any) -> None:
        """Notes in other memory how often envs failed, and which is at work."""
        self.env.__dict__["failures"] = failures
        self._at = self.env._at = at

    @property
    def at(self) -> int:
        """The number of the env that is at work."""
        return self.first + int(self._at[0])

    def among(self, rows: list[int], name: str, args: tuple[Any, ...]) -> Any:
        """What a block of some of the envs does."""
        part = copy(self)
        part.env = self.env[rows]
        part.env._checks, part.env._caught = True, BaseException
        return getattr(part, name)(*args)

    def ready(self) -> None:
        """Nothing: the block is there."""

    def describe(self) -> list[Description]:
        """What the envs are."""
        return [Description.of(child) for child in self.env.children_envs]

    def described(self) -> list[Description]:
        """The same, of a pool that runs: workers that are lost are replaced."""
        return self.describe()

    def step(self, td: TensorDictBase) -> TensorDictBase:
        """The "next" data of all envs, or of those that ``"_step"`` marks."""
        return self.env._step(td)

    def step_and_maybe_reset(self, td: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase | None]:
        """The "next" data of all envs; and those to go on from, where anything was done and is reset."""
        env = self.env
        following = finish(env, env.plan, env._step(td), td)
        td.set("next", following)
        td = advance(td, env.plan.reward_tree)
        return following, maybe_reset(env, td) if env.plan.done.any_done(td) else None

    def check_options(self, options: list[Options]) -> None:
        """Raises if an env does not know keyword arguments that it is to be reset with."""
        self.env._each(check_reset_options, options)

    def check_waiting(self, td: TensorDictBase) -> None:
        """Raises if an env would move rows that are to wait."""
        self.env._check_waiting(td, self.env._any_row(get(td, STEP), td))

    def reset(self, td: TensorDictBase | None, options: Options) -> TensorDictBase:
        """Resets all envs, or those that masks mark."""
        return self.env._reset(td, **options)

    def reset_rows(self, request: TensorDictBase, td: TensorDictBase) -> TensorDictBase:
        """The same after a step."""
        return self.env._reset_rows(request, td)

    def seed(self, seed: int | None, static: bool) -> tuple[int | None, list[int | None]]:
        """Seeds the envs, and their process; returns the seed that comes next, and those that they got."""
        after, own = self.env.set_seed(seed, static_seed=static), self.env._seeds
        if self.alone:
            seed_process(own[0])
        return after, own

    def get_state(self, td: TensorDictBase | None) -> TensorDictBase:
        """The state of all envs."""
        return self.env._get_state(td)

    def state_of(self, state: TensorDictBase, mask: Tensor, td: TensorDictBase | None) -> TensorDictBase:
        """``state`` where the mask says so, and elsewhere the one that the envs are in."""
        return self.env._state_of(state, mask, td)

    def set_state(self, state: TensorDictBase) -> TensorDictBase:
        """Puts all envs into a state."""
        return self.env._set_state(state)

    def action_seed(self) -> int:
        """The seed of random actions of the first env."""
        return self.env._action_seed()

    def get(self, name: str) -> list[Any] | None:
        """An attribute of the envs; None where it is to be called."""
        return self.env._read_children(name)

    def call(self, name: str, args: tuple[Any, ...], kwargs: Options) -> list[Any]:
        """What a method of the envs answers."""
        return self.env._call_children(name, args, kwargs)

    def set(self, name: str, value: Any) -> None:
        """Sets an attribute of the envs, also of those that are made anew."""
        self.env._assign(name, value)

    def load(self, states: list[Any], strict: bool, assign: bool) -> None:
        """Loads parameters and buffers into the envs."""
        self.env._load(states, strict, assign)

    def close(self) -> None:
        """Closes the envs; all of them, even if one fails to."""
        if "env" in self.__dict__:
            self.env.close(raise_if_closed=False)


@dataclass
class Setup:
    """What a worker process gets when it starts."""

    recipe: bytes
    number: int
    """Of the worker."""
    count: int
    """How many envs it has."""
    first: int
    envs: int
    """How many envs the pool has."""
    workers: int
    pipe: Connection
    go: Handle
    done: Handle
    flags: Handle
    threads: int
    quiet: bool
    """Whether warnings are not shown."""


class Worker:
    """The loop of a worker process."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.pipe, self.block = setup, setup.pipe, None
        self.go, self.done = Bell.of(setup.go), Bell.of(setup.done)
        self.use(Buffers(None, setup.envs, setup.workers, setup.flags))
        self.last: dict[Path, Tensor] = {}

    block: Block | None

    def use(self, buffers: Buffers) -> None:
        """Takes shared memory into use."""
        a, b = self.setup.first, self.setup.first + self.setup.count
        self.buffers, self.flags = buffers, buffers.flags[self.setup.number]
        self.failures = buffers.failures[a:b]
        self.there = {area: there[self.setup.number] for area, there in buffers.there.items()}
        self.rows = buffers.rows(a, b)

    def make(self) -> None:
        """Makes the envs."""
        block = Block(load(self.setup.recipe), alone=True, at=self.flags[AT : AT + 1])
        block.start()
        self.block = block
        self.relink()

    def serve(self) -> None:
        """Answers commands until it is told to close, or the pool's process is gone."""
        parent = parent_process()
        poll = select.poll()
        poll.register(self.go.ear.fd, select.POLLIN)
        if parent is not None:
            poll.register(parent.sentinel, select.POLLIN)
        self.answer(self.make)
        while True:
            rung = [fd for fd, _ in poll.poll()]
            if self.go.ear.fd not in rung:
                break
            self.go.hush()
            command = int(self.flags[COMMAND])
            if command == Command.CLOSE:
                self.answer(self.close)
                return
            self.answer(lambda command=command: self.run(command))
        self.close()

    def close(self) -> None:
        """Closes the envs."""
        if self.block is not None:
            self.block.close()

    def answer(self, run: Any) -> None:
        """Does something and says that it is done, or how it failed."""
        try:
            result = run()
            data = None if result is None else dump(result.answer)
        except BaseException as error:
            at = self.setup.first + int(self.flags[AT])
            self.flags[ANSWER], data = Answer.FAILED, dump(Failure.of(error, at))
        else:
            self.flags[ANSWER] = Answer.BUFFERS if result is None else Answer.PIPE
        self.done.ring()
        if data is not None:
            with suppress(OSError):  # the pool's process is gone, as waiting for it will show
                self.pipe.send_bytes(data)

    def run(self, command: int) -> Said | None:
        """Does what a command says."""
        if command == Command.PIPE:
            name, args = load(self.pipe.recv_bytes())
            if name == "layout":
                self.use(Buffers(args[0], self.setup.envs, self.setup.workers, self.setup.flags))
                self.relink()
                return Said(None)
            return Said(getattr(self.block, name)(*args))
        if command == Command.NONE:
            return None
        block, layout = self.block, self.buffers.layout
        assert block is not None
        assert layout is not None
        env = block.env
        if command == Command.RESET:
            self.begin(env, block.reset(None, {}))
            return None
        masks = self.masks(layout)
        if command == Command.RESET_SOME:
            self.begin(env, block.reset(masked(self.data(layout), layout, masks), {}))
        elif command == Command.RESET_ROWS:
            request = masked(layout.build([], self.setup.count), layout, masks)
            self.begin(env, block.reset_rows(request, self.data(layout)))
        else:
            self.step(env, masked(self.data(layout), layout, masks), command == Command.STEP_AND_RESET)
        return None

    def relink(self) -> None:
        """Shows the envs where to count, after the shared memory has changed."""
        if self.block is not None:
            self.block.use(self.failures, self.flags[AT : AT + 1])

    def step(self, env: EnvBase, td: TensorDictBase, resets: bool) -> None:
        """Steps the envs, and resets them if asked for and done."""
        layout = self.buffers.layout
        assert layout is not None
        following = finish(env, env.plan, env._step(td), td)
        write(layout.following, self.rows["following"], self.there["following"], following, self.who)
        td.set("next", following)
        td = advance(td, env.plan.reward_tree)
        self.flags[DONE] = 0
        if resets and env.plan.done.any_done(td):
            self.flags[DONE] = 1
            td = maybe_reset(env, td)
            write(layout.root, self.rows["root"], self.there["root"], td, self.who)
        self.keep(layout, td)

    who = "ParallelEnv"

    def begin(self, env: EnvBase, fresh: TensorDictBase) -> None:
        """Gives the data of a reset."""
        layout = self.buffers.layout
        assert layout is not None
        fresh = env.plan.done.complete(fresh)
        write(layout.root, self.rows["root"], self.there["root"], fresh, self.who)
        self.keep(layout, fresh)

    def keep(self, layout: Layout, td: TensorDictBase) -> None:
        """Remembers the data, so that they need not be sent back."""
        for one in layout.root:
            value: Any = td
            for name in one.path:
                value = None if value is None else get(value, name)
            if value is not None:
                self.last[one.path] = value

    def data(self, layout: Layout) -> TensorDictBase:
        """The data that the pool has sent, and where it sent none, those that it has from here."""
        leaves = []
        for i, one in enumerate(layout.inputs):
            state = self.there["inputs"][i]
            if state == SENT:
                leaves.append((one.path, self.rows["inputs"][i].clone()))
            elif state == KNOWN:
                leaves.append((one.path, self.last[one.path]))
        return layout.build(leaves, self.setup.count)

    def masks(self, layout: Layout) -> dict[Path, Tensor]:
        """The masks that the pool has sent."""
        sent = zip(layout.masks, self.there["masks"], self.rows["masks"], strict=True)
        return {one.path: block.clone() for one, there, block in sent if there}


@dataclass
class Said:
    """An answer that goes through the pipe."""

    answer: Any


def seed_process(seed: int | None) -> None:
    """Seeds the global generators of this process, all of which begin alike in processes that are forked.

    Args:
        seed: of the first env; one of the operating system's when None.
    """
    seed = fresh_seed() if seed is None else seed
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed % 2**63)


def begin_process(quiet: bool) -> None:
    """What a process of a pool does first.

    Args:
        quiet: whether warnings are not shown, here and in processes that it starts.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pool's process hears it, and ends its workers
    hush(quiet)


def wants_quiet() -> bool:
    """Whether warnings in workers are not shown, as ``marlenv.filter_warnings_subprocess`` says."""
    return bool(sys.modules["marlenv"].filter_warnings_subprocess)


def hush(quiet: bool) -> None:
    """Shows no more warnings, if so."""
    vars(sys.modules["marlenv"])["filter_warnings_subprocess"] = quiet
    if quiet:
        warnings.simplefilter("ignore")


def serve(setup: Setup) -> None:
    """What a worker process runs."""
    begin_process(setup.quiet)
    torch.set_num_threads(setup.threads)
    Worker(setup).serve()
