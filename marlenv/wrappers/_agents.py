"""What wrappers of multi-agent simulators share: groups, masks, flags that last, time limits and packing.

A wrapper says what each agent sees and does, and hands over what every agent got. An agent is *absent* before it
spawns and after its last step: its data are zeros, ``alive`` and ``mask`` are False, and its flags stay as they were.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from marlenv.errors import SpecError
from marlenv.groups import Flags, GroupTree, MarlGroupMapType, Packer, aggregate, group_specs, resolve
from marlenv.groups.done import Rule
from marlenv.groups.maps import GroupMap
from marlenv.groups.specs import Unequal
from marlenv.keys import DONE_NAMES
from marlenv.specs import Binary, Composite, TensorSpec, Unbounded
from marlenv.wrappers._base import EnvWrapper

FLAG = (1,)


class AgentSpecs(NamedTuple):
    """What one agent sees and does; shapes without batch and agent dimensions."""

    seen: Composite
    """The entries that it observes, ``observation`` first of all."""
    action: TensorSpec
    actions: int | None = None
    """How many discrete actions there are, if the simulator says which are legal."""
    info: Composite | None = None
    reward: TensorSpec | None = None


class AgentStep(NamedTuple):
    """What one agent got at one moment."""

    seen: Mapping[str, Any]
    """The values of what it observes."""
    reward: Any = 0.0
    terminated: bool = False
    truncated: bool = False
    action_mask: Any = None
    info: Mapping[str, Any] | None = None


class AgentsEnv(EnvWrapper):
    """An env around a simulator with several agents. Abstract; see ``_parallel.py`` and ``_turns.py``.

    Args:
        group_map: group -> agents, a :class:`~marlenv.MarlGroupMapType` or its name; :attr:`default_groups` when None.
        done_on_any: whether the episode ends with the first agent that is done, or with the last.
        use_mask: emit ``mask`` and ``alive``.
        max_steps: cut episodes off after so many steps.
        unequal: what to do in a group whose agents differ: stack lazily, ``"pad"`` or ``"raise"``.
        **kwargs: see :class:`~marlenv.wrappers._base.EnvWrapper`.
    """

    default_groups: MarlGroupMapType | GroupMap = MarlGroupMapType.BY_NAME_PREFIX

    def __init__(
        self,
        *,
        group_map: GroupMap | MarlGroupMapType | str | None = None,
        done_on_any: bool | None = None,
        use_mask: bool = True,
        max_steps: int | None = None,
        unequal: Unequal = "stack",
        **kwargs: Any,
    ) -> None:
        if max_steps is not None and max_steps < 1:
            raise SpecError(f"{type(self).__name__}: max_steps must be at least 1, got {max_steps}")
        self._asked_groups, self._unequal, self.use_mask = group_map, unequal, use_mask
        self.max_steps, self.done_on_any = max_steps, self._default_rule() if done_on_any is None else done_on_any
        self._sim_seed: int | None = None
        super().__init__(**kwargs)

    def _default_rule(self) -> bool:
        return True

    # --- hooks -----------------------------------------------------------------------------------

    @abstractmethod
    def agent_specs(self) -> dict[str, AgentSpecs]:
        """Agent name -> what it sees and does, in the simulator's order."""

    def root_specs(self) -> Composite:
        """What is observed of the whole simulation, such as a global state."""
        return Composite()

    def root_data(self) -> Mapping[str, Any]:
        """The values of :meth:`root_specs` now."""
        return {}

    # --- specs -----------------------------------------------------------------------------------

    def _make_specs(self, env: Any) -> None:
        agents = self.agent_specs()
        if not agents:
            raise SpecError(f"{type(self).__name__}: the simulator has no agents")
        whole = {a: Composite(seen=s.seen, action=s.action) for a, s in agents.items()}
        self.group_map = resolve(self._asked_groups, list(agents), default=self.default_groups, specs=whole)
        self.tree = GroupTree(self.group_map)
        self.agents_names = list(agents)
        seen = {agent: self._seen(specs) for agent, specs in agents.items()}
        earned = {a: Composite(reward=s.reward or Unbounded(FLAG)) for a, s in agents.items()}
        flags = {a: Composite({n: Binary(shape=FLAG, dtype=torch.bool) for n in DONE_NAMES}) for a in agents}
        acted = {a: Composite(action=s.action) for a, s in agents.items()}
        self.full_observation_spec = group_specs(self.tree, seen, unequal=self._unequal).update(self.root_specs())
        self.full_reward_spec = group_specs(self.tree, earned, unequal=self._unequal)
        done = group_specs(self.tree, flags)
        for name in DONE_NAMES:
            done[name] = Binary(shape=FLAG, dtype=torch.bool)
        self.full_done_spec = done
        self.full_action_spec = group_specs(self.tree, acted, unequal=self._unequal)
        out = {
            a: Composite({**dict(seen[a].items()), **dict(earned[a].items()), **dict(flags[a].items())}) for a in agents
        }
        self._packer = Packer(self.tree, out, unequal=self._unequal)
        self._first_packer = Packer(
            self.tree,
            {a: Composite({**dict(seen[a].items()), **dict(flags[a].items())}) for a in agents},
            unequal=self._unequal,
        )
        self._unpacker = Packer(self.tree, acted, unequal=self._unequal)
        self._choices = {a: s.actions for a, s in agents.items()}

    def _seen(self, specs: AgentSpecs) -> Composite:
        entries: dict[str, TensorSpec] = dict(specs.seen.items())
        if specs.actions is not None:
            entries["action_mask"] = Binary(shape=(specs.actions,), dtype=torch.bool)
        if specs.info is not None and not specs.info.is_empty():
            entries["info"] = specs.info
        if self.use_mask:
            entries["alive"] = entries["mask"] = Binary(shape=(), dtype=torch.bool)
        return Composite(entries)

    # --- one moment ------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Forgets the last episode."""
        self._steps = 0
        self._ended: dict[str, tuple[bool, bool]] = {}
        self._existed: set[str] = set()

    def _emit(self, got: Mapping[str, AgentStep], acting: set[str] | None, *, first: bool) -> TensorDict:
        """The tensordict of one moment.

        Args:
            got: what the agents got; an agent that is left out is absent, or has left with its last step.
            acting: whose actions are read next; everybody's who is alive when None.
            first: whether this is a reset: then there are no rewards.
        """
        limit = not first and self.max_steps is not None and self._steps >= self.max_steps
        data: dict[str, dict[str, Any]] = {}
        for agent in self.agents_names:
            step = got.get(agent)
            if step is not None and agent not in self._ended:
                self._existed.add(agent)
                truncated = bool(step.truncated) or (limit and not step.terminated)
                over = (bool(step.terminated), truncated)
                if any(over):
                    self._ended[agent] = over
            elif agent in self._existed and agent not in self._ended:  # gone without a word
                over = self._ended[agent] = (True, False)
            else:
                over = self._ended.get(agent, (False, False))
            alive = agent in self._existed and not any(over)
            entries = self._entries(agent, step, alive, alive and (acting is None or agent in acting))
            entries["terminated"], entries["truncated"], entries["done"] = over[0], over[1], over[0] or over[1]
            data[agent] = entries
        out = (self._first_packer if first else self._packer).pack(data)
        return self._close(out)

    def _entries(self, agent: str, step: AgentStep | None, alive: bool, acts: bool) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        if step is not None:
            entries |= {**step.seen, "reward": step.reward, "info": step.info}
        if self.use_mask:
            entries["alive"], entries["mask"] = alive, acts
        choices = self._choices[agent]
        if choices is not None:
            legal = None if step is None or not acts else step.action_mask
            legal = np.ones(choices, dtype=bool) if legal is None else np.asarray(legal, dtype=bool)
            entries["action_mask"] = legal if legal.any() else ~legal
        return entries

    def _close(self, out: TensorDict) -> TensorDict:
        """Adds the root: flags that follow from the agents', and shared data."""
        flags = [self._ended.get(agent, (False, False)) for agent in self.agents_names if agent in self._existed]
        rule: Rule = "any" if self.done_on_any else "all"
        together = aggregate(Flags(*torch.tensor(flags or [(False, False)], dtype=torch.bool).unbind(-1)), rule)
        entries: dict[str, Tensor] = {
            "terminated": together.terminated,
            "truncated": together.truncated,
            "done": together.done,
        }
        plain = out._tensordict
        for name, value in entries.items():
            plain[name] = value.reshape(FLAG)
        root = self.full_observation_spec
        for name, value in self.root_data().items():
            plain[name] = root[name].encode(value, ignore_device=True)
        return out if self.device is None or self.device.type == "cpu" else out.to(self.device)

    def _set_seed(self, seed: int | None) -> None:
        self._sim_seed = seed

    def _take_seed(self) -> int | None:
        """The seed for the next reset of the simulator: given once after every ``set_seed``."""
        seed, self._sim_seed = self._sim_seed, None
        return seed
