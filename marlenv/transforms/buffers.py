"""Transforms of stored data: burning in, cropping, and the reward that is still to come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from marlenv.envs.seeding import fresh_seed
from marlenv.errors import ShapeError, SpecError, SpecTypeError, Unsupported, whole
from marlenv.keys import NestedKey, nested, path, under
from marlenv.specs.discrete import pick
from marlenv.tensordicts import fetch
from marlenv.transforms.base import Transform


class _OnStoredData(Transform):
    """A transform of stored data, which no env can have. Abstract."""

    def join(self, env: Any) -> None:
        """Refuses.

        Raises:
            Unsupported: always.
        """
        raise Unsupported(
            f"{type(self).__name__}: transforms stored data, transform(td); an env has no past to look at"
        )


class BurnInTransform(_OnStoredData):
    """Plays recurrent modules over the first steps of stored data; the rest begins with the states they end in.

    Args:
        modules: tensordict modules that read and write hidden states.
        burn_in: how many steps.
        out_keys: the states; what the modules write under ``"next"`` when left out.

    >>> data = TensorDict({"x": torch.zeros(1, 3, 1), "next": {"x": torch.ones(1, 3, 1)}}, [1, 3])
    >>> BurnInTransform([], 2)(data).shape
    torch.Size([1, 1])
    """

    def __init__(
        self,
        modules: TensorDictModuleBase | Sequence[TensorDictModuleBase],
        burn_in: int,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__()
        given = list(modules) if isinstance(modules, Sequence) else [modules]
        for module in given:
            if not isinstance(module, TensorDictModuleBase):
                raise SpecTypeError(f"BurnInTransform: modules must be tensordict modules, got {type(module).__name__}")
        self.modules_played = nn.ModuleList(given)
        self.burn_in = whole("BurnInTransform", "burn_in", burn_in, 0)
        made = [key for module in given for key in module.out_keys if path(key)[0] == "next"]
        states = [path(key) for key in (made if out_keys is None else out_keys)]
        self.states = [nested(key[1:] if key[0] == "next" else key) for key in states]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The steps behind the first ones, whose states are those that the modules ended in."""
        if self.burn_in == 0:
            return tensordict
        steps = tensordict.shape[-1] if tensordict.ndim else 0
        if steps <= self.burn_in:
            raise ShapeError(
                f"BurnInTransform: burn_in is {self.burn_in}, but the data have {steps} steps only; take a lower one, "
                f"so that some are left"
            )
        first, rest = tensordict[..., : self.burn_in], tensordict[..., self.burn_in :].clone()
        with torch.no_grad():
            for module in self.modules_played:
                first = module(first)
        for key in self.states:
            state = fetch(first, under("next", key))
            if state is None:
                raise self.no_entry(under("next", key), first.keys(True, True), "the data and the modules have")
            if fetch(rest, key) is None:
                rest.set(key, state.new_zeros((*rest.batch_size, *state.shape[rest.ndim :])))
            rest[..., 0].get(key).copy_(state.select(rest.ndim - 1, -1))
        return rest

    def __repr__(self) -> str:
        return f"BurnInTransform(burn_in={self.burn_in}, states={self.states})"


class RandomCropTensorDict(_OnStoredData):
    """A random stretch of stored trajectories.

    Args:
        sub_seq_len: how many steps.
        sample_dim: the dimension of time.
        mask_key: marks the steps that are there, bool of the data's batch size; all steps of every stretch are such.
        generator: what the beginnings are drawn from; one of its own when left out.

    >>> data = TensorDict({"t": torch.arange(9)}, [9])
    >>> crop = RandomCropTensorDict(3, generator=torch.Generator().manual_seed(0))(data)["t"]
    >>> (crop - crop[0]).tolist()
    [0, 1, 2]
    """

    def __init__(
        self,
        sub_seq_len: int,
        sample_dim: int = -1,
        mask_key: NestedKey | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.sub_seq_len = whole("RandomCropTensorDict", "sub_seq_len", sub_seq_len, 1)
        self.sample_dim, self.mask_key = sample_dim, mask_key
        self.generator = torch.Generator().manual_seed(fresh_seed()) if generator is None else generator

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The stretches; each trajectory has its own beginning."""
        shape, dim, size = tensordict.batch_size, self.sample_dim, self.sub_seq_len
        if not shape:
            raise ShapeError("RandomCropTensorDict: the data need a dimension of time, got none")
        mask = None if self.mask_key is None else fetch(tensordict, self.mask_key)
        if mask is not None and mask.shape != shape:
            raise ShapeError(f"RandomCropTensorDict: the mask must be {list(shape)}, got {list(mask.shape)}")
        there = torch.ones(shape, dtype=torch.bool, device=tensordict.device) if mask is None else mask != 0
        self._check_lengths(there.sum(dim))
        begins = there.unfold(dim, size, 1).all(-1).movedim(dim, -1)
        if not bool(begins.any(-1).all()):
            raise ShapeError(
                f"RandomCropTensorDict: sub_seq_len is {size}, but {self.mask_key!r} marks no {size} steps in a row in "
                f"some trajectory; take a lower one"
            )
        drawn = torch.rand(begins.shape[:-1], generator=self.generator).to(begins.device)
        steps = torch.arange(size, device=begins.device)
        index = (pick(drawn, begins).unsqueeze(-1) + steps).movedim(-1, dim)
        return tensordict.gather(dim=dim, index=index)

    def _check_lengths(self, lengths: Tensor) -> None:
        """Raises where a trajectory has too few steps."""
        if bool((lengths < self.sub_seq_len).any()):
            raise ShapeError(
                f"RandomCropTensorDict: sub_seq_len is {self.sub_seq_len}, but a trajectory has {int(lengths.min())} "
                f"steps only; take a lower one"
            )

    def __repr__(self) -> str:
        return f"RandomCropTensorDict({self.sub_seq_len})"


class Reward2GoTransform(_OnStoredData):
    """The discounted reward from every step to the end of its episode, written when data are stored (``inv``).

    TorchRL's replay buffers call ``inv`` of :func:`marlenv.to_torchrl` of this transform, and of the transform itself
    never.

    Args:
        gamma: the discount of one step.
        in_keys: rewards; ``("next", "reward")`` when left out.
        out_keys: where the results go.
        done_key: the flag under ``"next"`` that ends an episode.

    >>> steps = {"reward": torch.ones(3, 1), "done": torch.tensor([[False], [False], [True]])}
    >>> Reward2GoTransform(0.5).inv(TensorDict({"next": steps}, [3]))["next", "reward"].squeeze(-1)
    tensor([1.7500, 1.5000, 1.0000])
    """

    def __init__(
        self,
        gamma: float | Tensor | None = 1.0,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        done_key: NestedKey | None = "done",
    ) -> None:
        keys = [("next", "reward")] if in_keys is None else in_keys
        super().__init__(keys, out_keys, keys, out_keys)
        self.done_key: NestedKey = done_key or "done"
        if not isinstance(gamma, (int, float, Tensor, type(None))):
            raise SpecTypeError(f"Reward2GoTransform: gamma must be a number, got {gamma!r}")
        self.gamma: Tensor
        self.register_buffer("gamma", torch.as_tensor(1.0 if gamma is None else gamma))

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """As it is: the results were written when the data were stored."""
        return tensordict

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        done = fetch(tensordict, under("next", self.done_key))
        if done is None:
            raise self.no_entry(under("next", self.done_key), tensordict.keys(True, True))
        time = tensordict.ndim - 1
        if not bool(done.any(time).all()):
            raise SpecError("Reward2GoTransform: an episode has no end in the data; store whole episodes")
        found = [(key, fetch(tensordict, key)) for key in self.in_keys_inv]
        if all(reward is None for _, reward in found):
            raise self.no_entry(self.in_keys_inv[0], tensordict.keys(True, True))
        for (_, reward), new in zip(found, self.out_keys_inv, strict=True):
            if reward is not None:
                tensordict.set(new, reward_to_go(reward, done, self.gamma, time))
        return tensordict


def reward_to_go(reward: Tensor, done: Tensor, gamma: Tensor, dim: int) -> Tensor:
    """The discounted sum from every step to the end of its episode, along ``dim``."""
    while done.ndim < reward.ndim:
        done = done.unsqueeze(-2)
    total, found = torch.zeros_like(reward.select(dim, 0)), []
    for now, ended in zip(reversed(reward.unbind(dim)), reversed(done.unbind(dim)), strict=True):
        total = now + gamma * torch.where(ended, 0, total)
        found.append(total)
    return torch.stack(found[::-1], dim)
