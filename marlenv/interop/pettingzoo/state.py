"""What is known of a whole env, as PettingZoo's ``state()`` gives it: one array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensordict import TensorDictBase

from marlenv.interop.agents import Agents, lone
from marlenv.interop.spaces import space_of, value_of
from marlenv.optional import need


class GlobalState:
    """The env's own state, or where it has none the observations of all agents side by side.

    Own states of several entries, such as the position of a game, are one vector of them.

    Args:
        who: the adapter, for errors.
        agents: of the env.

    Raises:
        SpecError: PettingZoo cannot express an entry; the text says which.
    """

    def __init__(self, who: str, agents: Agents) -> None:
        self._who, self._agents = who, agents
        self._seeing = [name for name in agents.names if getattr(agents.observation_spaces[name], "spaces", True)]
        self._own = agents.env.full_observation_spec_unbatched.get("state", None)
        if self._own is not None:
            self._whole = space_of(who, "state", self._own)
        else:
            self._whole = self._spaces.Tuple([agents.observation_spaces[name] for name in self._seeing])
        box = isinstance(self._whole, self._spaces.Box)
        self.space = self._whole if box else self._spaces.flatten_space(self._whole)

    @property
    def _spaces(self) -> Any:
        return need("gymnasium.spaces", f"marlenv.{self._who}")

    def read(self, td: TensorDictBase) -> NDArray[Any]:
        """The state in data of the env."""
        if self._own is not None:
            value = value_of(self._whole, self._own.to_numpy(lone(td).get("state")))
        else:
            found = self._agents.observations(td)
            value = tuple(found[name] for name in self._seeing)
        flat = value if self.space is self._whole else self._spaces.flatten(self._whole, value)
        return np.asarray(flat, dtype=self.space.dtype)
