"""``AgentsEnv``: the base of wrappers of simulators with several agents: groups, masks, flags that last, time limits,
packing.

A wrapper says what each agent sees and does, and hands over what every agent got. An agent is *absent* before it
spawns and after its last step: its data are zeros, ``alive`` and ``mask`` are False, and its flags stay as they were.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase

from marlenv.envs.resetting import checked
from marlenv.errors import whole
from marlenv.groups import GroupTree, MarlGroupMapType, Packer, group_specs, resolve
from marlenv.groups.maps import GroupMap
from marlenv.groups.specs import Unequal, pad_masks
from marlenv.keys import DONE_NAMES
from marlenv.specs import Binary, Composite
from marlenv.tensordicts import get, put
from marlenv.wrappers._agent import AgentSpecs, AgentStep, with_shared_infos, with_shared_masks
from marlenv.wrappers._agent_data import AgentData
from marlenv.wrappers._answers import Answers, checked_specs, observed_by, paid_by
from marlenv.wrappers._choices import Choices
from marlenv.wrappers._episode_flags import EpisodeFlags
from marlenv.wrappers._reset_seeds import SeededResets
from marlenv.wrappers._root_data import RootData

ActionsOf = Callable[[Any, set[str]], dict[str, Any]]


class AgentsEnv(SeededResets):
    """An env around a simulator with several agents. Abstract; derive from :class:`~marlenv.wrappers.ParallelSimEnv` or
    :class:`~marlenv.wrappers.TurnSimEnv`.

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
    """Whether the agents share one reward, which stands at the root: what each of them got."""
    drops_infos: ClassVar[bool] = False
    """Whether infos that :meth:`agent_specs` does not declare are left out; they are an error otherwise."""
    skips_frames = False
    resets_in_one = True

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

    @abstractmethod
    def _play(self, actions_of: ActionsOf, source: Any) -> tuple[Mapping[str, AgentStep], Collection[str] | None]:
        """Plays a step; returns what the agents got, and who acts next: everybody who is alive where that is None.

        Args:
            actions_of: gives the actions of some agents, of what holds those of all.
            source: what it takes them from.
        """

    # --- specs -----------------------------------------------------------------------------------

    def _make_specs(self, env: Any) -> None:
        agents = checked_specs(type(self).__name__, self.agent_specs())
        whole = {a: Composite(observations=s.observations, action=s.action) for a, s in agents.items()}
        self.group_map = resolve(self._asked_groups, list(agents), default=self.default_groups, specs=whole)
        self.tree, self.agent_names = GroupTree(self.group_map), list(agents)
        self._agent_specs = agents = with_shared_masks(self.tree, with_shared_infos(self.tree, agents))
        observed = {a: Composite(e) for a, e in observed_by(type(self).__name__, agents, masks=self.use_mask).items()}
        acted = {a: self._action_entries(s) for a, s in agents.items()}
        self._choices = Choices(type(self).__name__, self.tree, acted, unequal=self._unequal)
        pay = paid_by(type(self).__name__, self.tree, agents, self._unequal)
        rewards = None if self.team_reward else {a: Composite(reward=spec) for a, spec in pay.items()}
        self._root = RootData(type(self).__name__, self.root_specs())
        told = pad_masks(self.tree, observed, acted, rewards or {}) if self._unequal == "pad" else {}
        grouped_by = partial(group_specs, self.tree, unequal=self._unequal)
        self.full_observation_spec = grouped_by(observed, masks=told).update(self._root.specs)
        flags = Composite({name: Binary(shape=(1,), dtype=torch.bool) for name in DONE_NAMES})
        self.full_done_spec = group_specs(self.tree, dict.fromkeys(agents, flags)).update(flags)
        self.full_action_spec = grouped_by(acted, masks={})
        self.full_reward_spec = grouped_by(rewards, masks={}) if rewards else Composite(reward=pay[self.agent_names[0]])
        self._action_packer = Packer(self.tree, acted, unequal=self._unequal, masks={})
        self._answers = Answers(type(self).__name__, agents, drops_infos=self.drops_infos)
        self._data = AgentData(type(self).__name__, self.tree, agents, rewards, unequal=self._unequal, masks=told)
        self._flags = EpisodeFlags(self.tree, "any" if self.done_on_any else "all", masks=self.use_mask)

    # --- an episode ------------------------------------------------------------------------------

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        self._check_began("step")
        return self._emit(*self._play(self._actions_of, tensordict), first=False)

    def _step_and_reset(self, tensordict: TensorDictBase) -> tuple[TensorDict, TensorDict | None] | None:
        if get(tensordict, "next") is not None:  # values that the reset would have to keep
            return None
        following = self._step(tensordict)
        if not self._flags.over:
            return following, None
        fresh = self._reset(None)
        return following, checked(self, self.plan.done, fresh, None, {}) if self._flags.ended else fresh

    @staticmethod
    def _action_entries(specs: AgentSpecs) -> Composite:
        """All entries of what an agent does."""
        return Composite(action=specs.action)

    def _actions_of(self, tensordict: TensorDictBase, agents: set[str]) -> dict[str, Any]:
        """The actions of some agents, as the simulator takes them."""
        acts = self._choices.checked(self._action_packer.unpack(tensordict, agents, as_vectors=True))
        return {agent: data["action"] for agent, data in acts.items()}

    def _emit(self, got: Mapping[str, AgentStep], acting: Collection[str] | None, *, first: bool) -> TensorDict:
        """The tensordict of one step or reset.

        Args:
            got: what the agents got; an agent that is left out is absent, or has left with its last step.
            acting: whose actions are read next; everybody's who is alive when None.
            first: whether this is a reset: then there are no rewards.
        """
        flags = self._flags
        if self._answers.unseen[first]:
            self._answers.check(got, step=None if first else flags.steps)
        gone = set(flags.ended) if flags.ended else ()
        cut = self.max_steps is not None and flags.steps >= self.max_steps
        flags.note(got, cut=cut)
        acts = flags.living if acting is None else flags.living.intersection(acting)
        out = self._data.pack(got, gone, acts, step=None if first else flags.steps)
        flags.write(out, acts)
        self._root.write(out, self.root_data(), step=None if first else flags.steps)
        if self.team_reward and not first:
            put(out, "reward", torch.tensor([next((float(step.reward) for step in got.values()), 0.0)]))
        return out if self.device is None or self.device.type == "cpu" else out.to(self.device)
