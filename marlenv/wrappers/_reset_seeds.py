"""``SeededResets``: the base of wrappers of simulators that take their seed with a reset."""

from __future__ import annotations

from abc import abstractmethod

from tensordict import TensorDict, TensorDictBase

from marlenv.wrappers._roster import AgentsWrapper


class SeededResets(AgentsWrapper):
    """An env around a simulator with several agents that takes its seed with a reset. Abstract."""

    _sim_seed: int | None = None
    """What the next reset of the simulator is given."""

    @abstractmethod
    def _begin(self, tensordict: TensorDictBase | None) -> TensorDict:
        """Starts an episode; returns its first data."""

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDict:
        seed = self._sim_seed
        try:
            out = self._begin(tensordict)
        except BaseException:  # a reset that the simulator refuses uses up no seed
            self._sim_seed = seed
            raise
        if not self._began:
            self._began = True
        return out

    def _set_seed(self, seed: int | None) -> None:
        self._sim_seed = seed

    def _take_seed(self) -> int | None:
        """The seed for the next reset of the simulator: given once after every ``set_seed``."""
        seed, self._sim_seed = self._sim_seed, None
        return seed
