"""Reading ends of trajectories: reset masks from done flags, and rollouts cut into trajectories."""

from __future__ import annotations

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase
from torch import Tensor

from marlenv.errors import KeyMissing, ShapeError
from marlenv.keys import DONE_NAMES, NestedKey, beside, under
from marlenv.specs import Composite
from marlenv.tensordicts import entries, get, is_nested


def terminated_or_truncated(
    data: TensorDictBase,
    full_done_spec: Composite | None = None,
    key: str | None = "_reset",
    write_full_false: bool = False,
) -> bool:
    """Whether anything is done; writes the union of the done flags of every level beside them.

    Args:
        data: data of one step, without ``"next"``.
        full_done_spec: says where the flags are; ``done``, ``terminated`` and ``truncated`` are looked for when left
            out.
        key: what the union is called; nothing is written when None.
        write_full_false: write it even when nothing is done.

    >>> from tensordict import TensorDict
    >>> data = TensorDict({"done": torch.tensor([False, True])}, [2])
    >>> terminated_or_truncated(data), data["_reset"]
    (True, tensor([False,  True]))
    """
    found: list[tuple[TensorDictBase, Tensor]] = []
    _unions(data, full_done_spec, found)
    anything = any(bool(union.any()) for _, union in found)
    if key is not None and (anything or write_full_false):
        for node, union in found:
            node.set(key, union)
    return anything


def _unions(data: TensorDictBase, spec: Composite | None, found: list[tuple[TensorDictBase, Tensor]]) -> None:
    union: Tensor | None = None
    names = (
        [n for n in DONE_NAMES if get(data, n) is not None]
        if spec is None
        else [n for n in spec if not isinstance(spec[n], Composite)]
    )
    for name in names:
        flag = get(data, name)
        if flag is None and spec is not None:
            flag = spec[name].zero(data.batch_size[: data.ndim - spec.ndim])
        union = flag if union is None else union | flag
    if union is not None:
        found.append((data, union.clone()))
    for name, value in entries(data):
        below = None if spec is None else spec.get(name, None)
        if is_nested(value) and name != "next" and (spec is None or isinstance(below, Composite)):
            _unions(value, below, found)


def split_trajectories(
    rollout_tensordict: TensorDictBase,
    *,
    prefix: NestedKey | None = None,
    trajectory_key: NestedKey | None = None,
    done_key: NestedKey | None = None,
    as_nested: bool = False,
) -> TensorDictBase:
    """Cuts a rollout at the ends of its trajectories and pads them to one length.

    Args:
        rollout_tensordict: steps along the last dimension, ``[*B, T]``.
        prefix: where ``traj_ids`` and ``mask`` are read and written; ``"collector"`` when there is such an entry.
        trajectory_key: an entry with the number of the trajectory of every step.
        done_key: the flag that ends a trajectory, when there are no numbers; where it is named, numbers count only
            under a ``prefix`` or a ``trajectory_key`` that is named too. Those of TorchRL's collectors begin anew in
            every step once an agent is done whose episode goes on.
        as_nested: do not pad; the tensors are nested (jagged) ones and there is no mask.

    Returns:
        A tensordict ``[N, T']`` with a bool ``mask`` of the steps that are not padding.

    Raises:
        KeyMissing: there are neither numbers nor flags.
        ShapeError: there are several flags per step; unite them first.

    >>> from tensordict import TensorDict
    >>> done = torch.tensor([False, True, False])
    >>> split_trajectories(TensorDict({"next": {"done": done}}, [3]))["mask"]
    tensor([[ True,  True],
            [ True, False]])
    """
    td, named = rollout_tensordict.copy(), prefix is not None or trajectory_key is not None
    if trajectory_key is None:
        if prefix is None and "collector" in td.keys():
            prefix = "collector"
        trajectory_key = "traj_ids" if prefix is None else under(prefix, "traj_ids")
    mask_key = beside(trajectory_key, "mask")
    ids = td.get(trajectory_key, None)
    if ids is None or (done_key is not None and not named):
        ids = _trajectory_ids(td, done_key)
        td.set(trajectory_key, ids)
    flat = ids.reshape(ids.shape[: td.ndim]).reshape(-1)
    lengths = flat.unique_consecutive(return_counts=True)[1].tolist()
    pieces = td.reshape(-1).split(lengths, 0)
    if as_nested:
        return LazyStackedTensorDict(*pieces, stack_dim=0).densify(layout=torch.jagged)
    longest = max(lengths)
    out: TensorDictBase = torch.stack([_padded(piece, longest) for piece in pieces], 0)
    steps = torch.arange(longest, device=flat.device)
    out.set(mask_key, steps < torch.tensor(lengths, device=flat.device).unsqueeze(-1))
    return out


def _trajectory_ids(td: TensorDictBase, done_key: NestedKey | None) -> Tensor:
    """Numbers the trajectories of ``[*B, T]``, row after row."""
    where = under("next", "done" if done_key is None else done_key)
    done = td.get(where, None)
    if done is None:
        raise KeyMissing(
            f"split_trajectories: neither trajectory ids nor {where!r} in {sorted(map(str, td.keys(True, True)))}"
        )
    if done.numel() != td.numel():
        raise ShapeError(
            f"split_trajectories: {where!r} must have one flag per step, {list(td.shape)} or {[*td.shape, 1]}, got "
            f"{list(done.shape)}; unite the agents' flags first (marlenv.groups.aggregate), or use the flag at the root"
        )
    done = done.reshape(td.shape)
    before = torch.zeros_like(done)
    before[..., 1:] = done[..., :-1]
    within = before.cumsum(-1).reshape(-1, td.shape[-1])
    offset = (within[:, -1] + 1).cumsum(0) - (within[:, -1] + 1)
    return (within + offset.unsqueeze(-1)).reshape(td.shape)


def _padded(piece: TensorDictBase, length: int) -> TensorDictBase:
    missing = length - piece.batch_size[0]
    if not missing:
        return piece
    blank = piece[:1].apply(torch.zeros_like).expand(missing, *piece.batch_size[1:])
    return torch.cat([piece, blank], 0)
