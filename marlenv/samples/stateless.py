"""Envs without a memory: the state, what physics or markets are like, and randomness travel in the data."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.envs import EnvBase, make_composite_from_td
from marlenv.envs.seeding import fresh_seed
from marlenv.errors import KeyMissing, SpecError
from marlenv.rng import RowRNG
from marlenv.specs import Composite, Unbounded


class StatelessEnv(EnvBase):
    """An env whose state is in its data, under keys that are observations and inputs at once. Abstract.

    Besides the state there are ``"params"``, whatever a subclass's ``gen_params`` makes, which may differ between rows;
    and ``"rng"``, int64 ``[*B, 2]``, what each row draws from. Any batch size is taken.

    Args:
        td_params: parameters of rows that bring none; those of ``gen_params()`` when left out. Without batch
            dimensions.
        seed: of the rows that bring no ``"rng"``; one from the operating system when left out.
        device: where the data live.
    """

    batch_locked = False
    supports_set_state = True

    def __init__(
        self, td_params: TensorDictBase | None, seed: int | None, device: torch.device | str | int | None
    ) -> None:
        super().__init__(device=device)
        params = self.gen_params() if td_params is None else td_params
        if params.batch_size or params["params"].batch_size:
            raise SpecError(
                f"{type(self).__name__}: td_params must have no batch dimensions, got batch size "
                f"{list(params.batch_size)}; "
                f"give parameters that differ between rows to reset: env.reset(env.gen_params(batch_size=[...]))"
            )
        self.params: TensorDictBase = params["params"].to(self.device) if self.device else params["params"]
        self._make_spec(self.params)
        self.observation_spec["params"] = make_composite_from_td(self.params, unsqueeze_null_shapes=False)
        self.observation_spec["rng"] = Unbounded((2,), dtype=torch.int64)
        self.state_spec = self.observation_spec.clone()
        self.set_seed(fresh_seed() if seed is None else seed)

    # --- hooks -----------------------------------------------------------------------------------

    @staticmethod
    @abstractmethod
    def gen_params() -> TensorDictBase:
        """The parameters, under ``"params"``."""

    @abstractmethod
    def _make_spec(self, params: TensorDictBase) -> None:
        """Assigns specs of the state (as observations), actions, rewards and flags."""

    @abstractmethod
    def fresh(self, params: TensorDictBase, rng: RowRNG) -> dict[str, Tensor]:
        """The state at the start of an episode."""

    @abstractmethod
    def advance(self, tensordict: TensorDictBase, rng: RowRNG) -> dict[str, Tensor]:
        """State, reward and flags one step later."""

    # --- EnvBase ---------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None, *, set_state: bool | None = None) -> TensorDictBase:
        batch = self.batch_size if tensordict is None else tensordict.batch_size
        if set_state and tensordict is not None:
            return self._set_state(tensordict)
        rng = self._streams(tensordict, batch)
        params = None if tensordict is None else tensordict.get("params", None)
        params = (self.params.expand(batch) if params is None else params).clone()
        return self._data({**self.fresh(params, rng), "params": params}, rng, batch)

    def _reset_rows(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
        return self._reset(tensordict)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        state = tensordict.get("rng", None)
        rng = self._seeded(tensordict.batch_size) if state is None else RowRNG.from_state(state)
        following = self.advance(tensordict, rng)
        out = self._data({**following, "params": tensordict["params"].clone()}, rng, tensordict.batch_size)
        return out if state is not None else out.exclude("rng")  # data of one's own are alike in all steps

    def _data(self, data: dict[str, Any], rng: RowRNG, batch: Size) -> TensorDictBase:
        return TensorDict({**data, "rng": rng.state}, batch, device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        self._seed, self._episode = fresh_seed() if seed is None else seed, 0

    def _seeded(self, batch: Size) -> RowRNG:
        """What rows draw from that bring nothing; something else each time."""
        rng = RowRNG(self._seed, batch, self.device).fork(self._episode)
        self._episode += 1
        return rng

    def _streams(self, tensordict: TensorDictBase | None, batch: Size) -> RowRNG:
        """What new episodes draw from: the streams of the episodes before, where there are any."""
        state = None if tensordict is None else tensordict.get("rng", None)
        return self._seeded(batch) if state is None else RowRNG.from_state(state).fork(0)

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        if tensordict is None:
            raise SpecError(f"{type(self).__name__}.get_state: the state travels in the data; pass it, get_state(td)")
        return tensordict.select(*self.state_keys).clone()

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        spec: Composite = self.full_state_spec
        data = {name: state.get(name, None) for name in spec.keys()}
        if data["params"] is None:
            data["params"] = self.params.expand(state.batch_size).clone()
        if data["rng"] is None:
            data["rng"] = self._seeded(state.batch_size).state
        if missing := sorted(name for name, value in data.items() if value is None):
            raise KeyMissing(
                f"{type(self).__name__}: no state to start from: {missing} missing; the data has "
                f"{sorted(map(str, state.keys()))}"
            )
        return TensorDict(data, state.batch_size, device=self.device).clone()
