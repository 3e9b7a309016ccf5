"""What a transform asks of the entries that it reads: of one size, tensors, and as it left them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import KeyMissing, ShapeError, SpecError, SpecTypeError, Unsupported
from marlenv.keys import NestedKey, level, path
from marlenv.specs import Composite, NonTensor, Stacked, TensorSpec
from marlenv.tensordicts import fetch

if TYPE_CHECKING:
    from marlenv.envs import EnvBase
    from marlenv.transforms.base import Transform

HOOKS = ("_call", "_reset", "_step", "_inv_call", "_each")
START = "start from env.reset(), and hand on what it gives"


def check_keys(transform: Transform, in_env: bool = False) -> None:
    """Raises unless there are as many keys to read as to write, where one is written for each.

    Args:
        transform: whose keys; those that an env will say are not known yet where they are None.
        in_env: for use in an env, where neither ``forward`` nor ``inv`` is called.

    Raises:
        SpecError: there are not.
    """
    writes, who = transform._writes, type(transform).__name__
    steps = writes("_call", "_step") or (writes("_reset") and not writes("_apply_transform"))
    for ins, outs, free, outside, hook in (
        ("in_keys", "out_keys", steps, "forward", "_call"),
        ("in_keys_inv", "out_keys_inv", writes("_inv_call"), "inv", "_inv_call"),
    ):
        read, written = getattr(transform, ins), getattr(transform, outs)
        if read is None or written is None or len(read) == len(written):
            continue
        own = writes(outside)
        if transform.one_for_each or not (free or (own and not in_env)):
            tell = f"; an env does not call {outside}: write {hook} for it" if own and in_env else ""
            raise SpecError(f"{who}: {ins} and {outs} must be as many, got {read} and {written}{tell}")


def check_entries(
    transform: Transform, keys: Iterable[NestedKey], specs: Sequence[Composite], *, tensors: bool
) -> None:
    """Raises where a transform that takes no lists reads entries whose size differs from agent to agent.

    Args:
        transform: the transform.
        keys: what it reads.
        specs: of the env.
        tensors: raise where it reads texts, too.

    Raises:
        Unsupported: the sizes differ.
        SpecTypeError: an entry is no tensor.
    """
    for key in keys:
        held = next((spec[key] for spec in specs if key in spec), None)
        if tensors and is_text(held) and not transform.of_users:
            raise takes_tensors(transform, key)
        if isinstance(held, Stacked) and -1 in held.shape:
            raise Unsupported(
                f"{type(transform).__name__}: {key!r} differs in size from agent to agent; take unequal='pad' in the "
                f"env"
            )


def check_states(transform: Transform, env: EnvBase) -> None:
    """Raises where a transform would change part of a game's position, which steps read again, and does not undo it.

    Asked neither of states outside ``"state"``, which users may change as TorchRL's envs let them, nor of users' hooks
    on whole steps, which need not write what they name.

    Raises:
        SpecError: it would.
    """
    if transform.of_users and transform._writes(*HOOKS):
        return
    read = [key for key in env.state_keys if path(key)[0] == "state" and level(key)]
    for key in transform.out_keys or ():
        if key in read and key not in transform.in_keys_inv:
            raise SpecError(
                f"{type(transform).__name__}: {key!r} is part of a position, which the env's next step reads again; "
                f"it must stay as the env wrote it: leave it out of in_keys, or give out_keys of other names"
            )


def derived(transform: Transform, key: NestedKey, spec: TensorSpec) -> TensorSpec:
    """The spec of an entry after a transform of single values.

    Raises:
        SpecTypeError: the entry is no tensor, and the transform knows tensors only.
    """
    if not is_text(spec) or transform.takes_texts or transform.of_users:
        return transform.derive(spec)
    try:
        made = transform.derive(spec)
    except SpecError:
        raise
    except (AttributeError, TypeError, RuntimeError) as error:
        raise takes_tensors(transform, key) from error
    if not is_text(made):
        raise takes_tensors(transform, key)
    return made


def place(transform: Transform, specs: Composite, key: NestedKey, made: TensorSpec, keys: str) -> None:
    """Puts the spec of what a transform makes where it is written, as its ``keys`` say (``"out_keys"`` ...).

    Raises:
        ShapeError: entries there begin with rows and agents, and what is made does not.
    """
    try:
        specs[key] = made
    except ShapeError as error:
        front = path(key)[:-1]
        room = specs.get(front, specs) if front else specs
        which, above = "rows", ""
        if front:
            which, above = "rows and agents", f", or write it above them, {keys}=[{path(key)[-1]!r}]"
        raise ShapeError(
            f"{type(transform).__name__}: would make {key!r} of shape {list(made.shape)}, and entries there must begin "
            f"with {list(room.shape)}, the {which}; name other dimensions{above}"
        ) from error


def is_text(spec: object) -> bool:
    """Whether a spec is of values that are no tensors, such as texts."""
    return any(isinstance(part, NonTensor) for part in getattr(spec, "parts", [spec]))


def takes_tensors(transform: Transform, key: NestedKey) -> SpecTypeError:
    """The error of a transform that was told to read a text."""
    return SpecTypeError(
        f"{type(transform).__name__}: takes tensors, and {key!r} is none (NonTensor); name other entries, or make a "
        f"tensor of it first, as Hash and Tokenizer do"
    )


def remembered(who: str, td: TensorDictBase, key: NestedKey, size: int, dim: int = -1) -> Tensor:
    """What a transform with memory finds in the data that a step begins with.

    Args:
        who: the transform.
        td: the data.
        key: where it stands.
        size: how large it must be along a dimension; else another transform kept it.
        dim: the dimension.

    Raises:
        KeyMissing: it is not there, or not of that size.
    """
    value = fetch(td, key)
    if value is None:
        raise KeyMissing(f"{who}: no entry {key!r} in the data; {START}")
    if value.shape[dim] != size:
        raise KeyMissing(
            f"{who}: {key!r} in the data must have size {size} along dimension {dim}, got {value.shape[dim]}, which "
            f"is not what it kept; {START}"
        )
    return value


def called(who: str, name: str, value: Any) -> Any:
    """An option that is called.

    Raises:
        SpecTypeError: it cannot be.
    """
    if not callable(value):
        raise SpecTypeError(f"{who}: {name} must be a function, got {value!r}")
    return value
