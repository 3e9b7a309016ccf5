"""What wrappers of multi-agent simulators share: groups, masks, flags that last, time limits and packing.

A wrapper says what each agent sees and does, and hands over what every agent got. An agent is *absent* before it
spawns and after its last step: its data are zeros, ``alive`` and ``mask`` are False, and its flags stay as they were.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from tensordict import TensorDict

from marlenv.errors import SpecError, whole
from marlenv.groups import GroupTree, MarlGroupMapType, group_specs, resolve
from marlenv.groups.maps import GroupMap
from marlenv.groups.specs import Unequal
from marlenv.keys import DONE_NAMES
from marlenv.specs import Binary, Composite, NonTensor, Unbounded
from marlenv.tensordicts import put
from marlenv.wrappers._agent import AgentSpecs, AgentStep, seen_of, with_shared_infos
from marlenv.wrappers._base import EnvWrapper
from marlenv.wrappers._board import Board
from marlenv.wrappers._moments import Actions, Moments

FLAG = (1,)


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

    gives_all_flags = True
    default_groups: ClassVar[MarlGroupMapType] = MarlGroupMapType.BY_NAME_PREFIX
    default_rule: ClassVar[bool] = True
    """Whether the episode ends with the first agent that is done, when nothing is said."""
    team_reward: ClassVar[bool] = False
    """Whether the agents share one reward, which stands at the root; a wrapper then writes :meth:`earned`."""

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
        if max_steps is not None:
            whole(type(self).__name__, "max_steps", max_steps, 1)
        self._asked_groups, self._unequal, self.use_mask = group_map, unequal, use_mask
        self.max_steps, self.done_on_any = max_steps, self.default_rule if done_on_any is None else done_on_any
        self._sim_seed: int | None = None
        super().__init__(**kwargs)

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

    def earned(self) -> float:
        """What the last step brought the team, where the agents share one reward."""
        return 0.0

    # --- specs -----------------------------------------------------------------------------------

    def _make_specs(self, env: Any) -> None:
        agents = self.agent_specs()
        if not agents:
            raise SpecError(f"{type(self).__name__}: the simulator has no agents")
        whole = {a: Composite(seen=s.seen, action=s.action) for a, s in agents.items()}
        self.group_map = resolve(self._asked_groups, list(agents), default=self.default_groups, specs=whole)
        self.tree = GroupTree(self.group_map)
        self.agents_names = list(agents)
        agents = with_shared_infos(self.tree, agents)
        seen = {agent: Composite(seen_of(specs)) for agent, specs in agents.items()}
        acted = {a: Composite(action=s.action) for a, s in agents.items()}
        masks = dict.fromkeys(("alive", "mask"), Binary(shape=(), dtype=torch.bool)) if self.use_mask else {}
        shown = {a: Composite({**dict(s.items()), **masks}) for a, s in seen.items()}
        self._root_specs = self.root_specs()
        self._root_kinds = {
            name: (torch.empty(0, dtype=spec.dtype).numpy().dtype, tuple(spec.shape))
            for name, spec in self._root_specs.items()
            if spec.dtype and not isinstance(spec, NonTensor)
        }
        self.full_observation_spec = group_specs(self.tree, shown, unequal=self._unequal).update(self._root_specs)
        flags = {a: Composite({n: Binary(shape=FLAG, dtype=torch.bool) for n in DONE_NAMES}) for a in agents}
        self.full_done_spec = group_specs(self.tree, flags).update(
            {n: flags[self.agents_names[0]][n] for n in DONE_NAMES}
        )
        self.full_action_spec = group_specs(self.tree, acted, unequal=self._unequal)
        self._at_reset = self._after_step = Moments(self.tree, seen, unequal=self._unequal)
        if self.team_reward:
            self.full_reward_spec = Composite(reward=Unbounded(FLAG))
        else:
            won = {a: Composite(reward=s.reward or Unbounded(FLAG)) for a, s in agents.items()}
            self.full_reward_spec = group_specs(self.tree, won, unequal=self._unequal)
            both = {a: Composite({**dict(seen[a].items()), **dict(won[a].items())}) for a in agents}
            self._after_step = Moments(self.tree, both, unequal=self._unequal)
        self._reader = Actions(self.tree, {a: s.action for a, s in agents.items()}, unequal=self._unequal)
        self._anything = {a: np.ones(s.actions, dtype=np.bool_) for a, s in agents.items() if s.actions is not None}
        self._board = Board(self.tree, "any" if self.done_on_any else "all", masks=self.use_mask)

    # --- one moment ------------------------------------------------------------------------------

    def _played(self, tensordict: Any, agents: set[str]) -> dict[str, Any]:
        """The actions of some agents, as the simulator takes them."""
        return self._reader.read(tensordict, agents)

    def _emit(self, got: Mapping[str, AgentStep], acting: Collection[str] | None, *, first: bool) -> TensorDict:
        """The tensordict of one moment.

        Args:
            got: what the agents got; an agent that is left out is absent, or has left with its last step.
            acting: whose actions are read next; everybody's who is alive when None.
            first: whether this is a reset: then there are no rewards.
        """
        board, anything = self._board, self._anything
        limit = not first and self.max_steps is not None and board.steps >= self.max_steps
        before = set(board.ended) if board.ended else ()
        board.note({a: (bool(s.terminated), bool(s.truncated) or (limit and not s.terminated)) for a, s in got.items()})
        acts = board.living if acting is None else board.living.intersection(acting)
        data: dict[str, dict[str, Any]] = {}
        for agent in self.agents_names:
            step = None if agent in before else got.get(agent)
            entries = {} if step is None else {**step.seen, "reward": step.reward, "info": step.info}
            if agent in anything:
                legal = None if step is None or agent not in acts else step.action_mask
                entries["action_mask"] = anything[agent] if legal is None else _legal(legal, anything[agent])
            data[agent] = entries
        out = (self._at_reset if first else self._after_step).pack(data)
        board.write(out, acts)
        for name, value in self.root_data().items():
            put(out, name, self._root_value(name, value))
        if self.team_reward and not first:
            put(out, "reward", torch.tensor([float(self.earned())]))
        return out if self.device is None or self.device.type == "cpu" else out.to(self.device)

    def _root_value(self, name: str, value: Any) -> Any:
        """An entry of the root; a copy, because the simulator may go on writing to it."""
        kind = self._root_kinds.get(name)
        if kind is not None and type(value) is not TensorDict:
            array, shape = np.array(value, dtype=kind[0]), kind[1]
            return torch.from_numpy(array if array.shape == shape else array.reshape(shape))
        return value if type(value) is TensorDict else self._root_specs[name].encode(value)

    def _set_seed(self, seed: int | None) -> None:
        self._sim_seed = seed

    def _take_seed(self) -> int | None:
        """The seed for the next reset of the simulator: given once after every ``set_seed``."""
        seed, self._sim_seed = self._sim_seed, None
        return seed


def _legal(mask: Any, anything: Any) -> Any:
    """The legal actions of an agent; everything is allowed to one who has nothing that is legal."""
    legal = np.asarray(mask, dtype=np.bool_)
    return legal if np.count_nonzero(legal) else anything
