"""``GymLikeEnv``: the base of wrappers of simulators with gym's interface: ``reset() -> obs, info`` and ``step(action)
-> obs, reward, ..., info``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.errors import ResetError, SpecTypeError
from marlenv.keys import path
from marlenv.tensordicts import fetch, new, put
from marlenv.wrappers._base import EnvWrapper
from marlenv.wrappers._choices import check_choices
from marlenv.wrappers._info_dicts import default_info_dict_reader, told_by
from marlenv.wrappers._info_places import places, with_infos, without
from marlenv.wrappers._numbers import added
from marlenv.wrappers._reading import check_all_there, earned, observed
from marlenv.wrappers._step_flags import flag_of, flags_of

FLAGS = ("terminated", "truncated", "done")


class GymLikeEnv(EnvWrapper):
    """An env around a simulator with gym's interface. Abstract.

    A subclass says how to read the tuples that ``step`` and ``reset`` of the simulator return
    (:meth:`_output_transform`, :meth:`_reset_output_transform`), and the hooks of :class:`EnvWrapper`.
    """

    reads_all: ClassVar[bool] = False
    """Whether :meth:`read_obs` itself raises where an observation is missing."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        env = super().__new__(cls, *args, **kwargs)
        env.__dict__["_info_dict_reader"], env.__dict__["_info_paths"] = [], set()
        return env

    @abstractmethod
    def _output_transform(self, step_outputs_tuple: tuple[Any, ...]) -> tuple[Any, Any, Any, Any, Any, Any]:
        """Observation, reward, terminated, truncated, done and info of a step; flags that do not exist are None."""

    @abstractmethod
    def _reset_output_transform(self, reset_outputs_tuple: Any) -> tuple[Any, Any]:
        """Observation and info of a reset."""

    # --- reading ---------------------------------------------------------------------------------

    def read_action(self, action: Any) -> Any:
        """The action as the simulator takes it."""
        spec, keys = self.full_action_spec, self.action_keys
        for key in keys:
            check_choices(type(self).__name__, spec[key], action if len(keys) == 1 else action.get(key))
        return (spec[keys[0]] if len(keys) == 1 else spec).to_numpy(action)

    def read_done(self, terminated: Any = None, truncated: Any = None, done: Any = None) -> tuple[Any, Any, Any, bool]:
        """The three flags as bool tensors, or None, and whether frame skipping stops here."""
        if type(terminated) is bool and type(truncated) is bool and done is None:
            over = terminated or truncated
            return flag_of(terminated), flag_of(truncated), flag_of(over), over
        return flags_of(type(self).__name__, terminated, truncated, done)

    def read_reward(self, reward: Any) -> Tensor:
        """The reward as a tensor of its spec."""
        return earned(type(self).__name__, self.reward_spec, reward)

    def read_obs(self, observations: Any) -> dict[str, Any]:
        """The observations as a dict of tensors of their specs; a lone observation gets the first key of the spec."""
        spec, who = self.full_observation_spec, type(self).__name__
        if not isinstance(observations, Mapping):
            key = next(iter(spec.keys(True, True)))
            return TensorDict({key: observed(who, spec[key], observations, path(key))}, self.batch_size).to_dict()
        if "state" in observations and "observation" not in observations and "state" not in spec:
            observations = {("observation" if k == "state" else k): v for k, v in observations.items()}
        return {n: observed(who, spec[n], value, (n,)) for n, value in observations.items() if n in spec}

    # --- stepping --------------------------------------------------------------------------------

    def _action(self, tensordict: TensorDictBase) -> Any:
        """The action in the data, or a tensordict of several."""
        keys = self.action_keys
        return fetch(tensordict, keys[0]) if len(keys) == 1 else tensordict.select(*keys)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._check_began("step")
        action = self.read_action(self._action(tensordict))
        total: Any = None
        for _ in range(self.wrapper_frame_skip):
            obs, reward, terminated, truncated, done, info = self._output_transform(self._env.step(action))
            total = total if reward is None else added(type(self).__name__, total, reward)
            flags = self.read_done(terminated=terminated, truncated=truncated, done=done)
            if flags[3]:
                break
        data = self.read_obs(obs)
        known = self.plan.done_keys
        for name, flag in zip(FLAGS, flags, strict=False):
            if flag is not None and (name != "truncated" or name in known):
                data[name] = flag
        out, where, reward = self._tensordict(data), self.reward_key, self.read_reward(0 if total is None else total)
        if type(where) is str:
            put(out, where, reward)
        else:
            out.set(where, reward)
        return self._with_info(out, info)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is not None and not bool(mask.all()):
            raise ResetError(
                f"{type(self).__name__}: this simulator resets all its envs or none, got {mask.flatten().tolist()}"
            )
        obs, info = self._reset_output_transform(self._env.reset(**kwargs))
        self._began = True
        return self._with_info(self._tensordict(self.read_obs(obs)), info)

    def _tensordict(self, data: dict[str, Any]) -> TensorDict:
        for value in data.values():
            if type(value) is not Tensor and type(value) is not TensorDict:
                return TensorDict(data, batch_size=self.batch_size)
        return new(data, self.batch_size)

    def _with_info(self, out: TensorDictBase, info: Any) -> TensorDictBase:
        for reader in self.info_dict_reader:
            read = reader(info or {}, out)
            out = out if read is None else read
        if not self.reads_all:
            check_all_there(type(self).__name__, self.full_observation_spec, out, self.__dict__["_info_paths"])
        return out if self.device is None else out.to(self.device)

    # --- infos -----------------------------------------------------------------------------------

    @property
    def info_dict_reader(self) -> list[Any]:
        """What reads info dicts."""
        return self.__dict__["_info_dict_reader"]

    def set_info_dict_reader(self, info_dict_reader: Any = None, ignore_private: bool = True) -> Self:
        """Adds a reader of info dicts, and its entries to the observation specs; returns the env.

        A reader that learns its entries leaves out those with the names of other entries of the env, with a warning.

        Args:
            info_dict_reader: a :class:`default_info_dict_reader`, or a function of info dict and tensordict. A default
                reader that learns its entries from one reset and one step when left out.
            ignore_private: leave out entries that begin with an underscore.

        Raises:
            SpecTypeError: the reader cannot be called.
            KeyCollision: it writes to another entry of the env.
        """
        default = default_info_dict_reader(ignore_private=ignore_private)
        reader = default if info_dict_reader is None else info_dict_reader
        if not callable(reader):
            wanted = "a function of info dict and tensordict, such as a default_info_dict_reader"
            raise SpecTypeError(f"{type(self).__name__}.set_info_dict_reader: expected {wanted}, got {reader!r}")
        who, own = type(self).__name__, places(self) - self.__dict__["_info_paths"]
        spec = getattr(reader, "info_spec", None)
        if spec is None and isinstance(reader, default_info_dict_reader):
            reader.learn(without(who, self._example_info(), own), self.batch_size)
            spec = reader.info_spec
        if spec is not None:
            leaves = {path(key): leaf for key, leaf in spec.items(True, True)}
            self.full_observation_spec = with_infos(who, self.full_observation_spec, leaves, own)
            self.__dict__["_info_paths"].update(leaves)
        self.info_dict_reader.append(reader)
        return self

    def auto_register_info_dict(self, ignore_private: bool = True, *, info_dict_reader: Any = None) -> Self:
        """Adds a reader that learns its entries by itself; returns the env."""
        return self.set_info_dict_reader(info_dict_reader, ignore_private)

    def _example_info(self) -> dict[str, Any]:
        """The infos of one reset and one random step."""
        _, first = self._reset_output_transform(self._env.reset())
        action = self.read_action(self._action(self.rand_action()))
        second = self._output_transform(self._env.step(action))[5]
        return told_by(type(self).__name__, first, second)
