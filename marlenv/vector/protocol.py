"""What a pool and its workers say to each other: commands, answers, and how both are packed.

A command is a number in shared memory and one ring of the worker's bell; so is the answer. Only what has no fixed size
(functions, attributes, states, data of unknown sizes) goes through a pipe, pickled, with tensors as arrays.
"""

from __future__ import annotations

import io
import pickle
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import torch
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.envs import EnvBase
from marlenv.envs.access import SIDE
from marlenv.envs.attributes import names
from marlenv.envs.stepping import holds_rows
from marlenv.errors import NeedsReset, WorkerFailed, users_line
from marlenv.keys import NestedKey
from marlenv.specs import Composite


class Command:
    """What a worker is told to do, in plain numbers: NumPy asks enums for attributes, and loses interrupts then."""

    NONE = 0
    """Answer, and do nothing."""
    STEP = 1
    """Step the children from the data in the buffers."""
    STEP_AND_RESET = 2
    """The same, and reset what is done."""
    RESET = 3
    """Reset all children."""
    RESET_SOME = 4
    """Reset what the masks in the buffers mark."""
    RESET_ROWS = 5
    """The same after a step."""
    PIPE = 6
    """Do what stands in the pipe: a method of the block and its arguments."""
    CLOSE = 7


class Answer:
    """What a worker answers; a plain number, too."""

    NONE = 0
    BUFFERS = 1
    """The data are in the buffers."""
    PIPE = 2
    """The answer is in the pipe."""
    FAILED = 3
    """A :class:`Failure` is in the pipe."""


QUESTIONS = frozenset(
    (
        *("get", "call", "set", "load", "described", "seed", "set_seed", "action_seed"),
        *("get_state", "state_of", "set_state", "check_options", "check_waiting"),
    )
)
"""What is asked of envs between steps. An env may refuse it, and goes on."""


@dataclass
class Failure:
    """An error in a worker, for the pool to raise."""

    index: int
    """The env in which it happened."""
    summary: str
    """What happened, in a line."""
    text: str
    """The traceback."""
    error: BaseException | None
    """The error itself, if it can be sent."""
    lost: bool = False
    """Whether the worker is no more."""

    @staticmethod
    def of(error: BaseException, index: int) -> Failure:
        """The error that was caught while env ``index`` was at work."""
        text = "".join(traceback.format_exception(error)).strip()
        try:
            summary = f"{type(error).__name__}: {error}"
        except Exception:  # of an error that cannot say what it is
            summary = type(error).__name__
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return Failure(index, summary, text, None)
        return Failure(index, summary, text, error)

    def refuses(self, what: str) -> bool:
        """Whether the env has refused a question, and its worker goes on."""
        return what in QUESTIONS and not self.lost

    def goes_on(self, what: str) -> bool:
        """The same, or the env is to be reset first."""
        return self.refuses(what) or (isinstance(self.error, NeedsReset) and not self.lost)

    def refusal(self, who: str, what: str) -> BaseException:
        """What the pool raises then: the error of the env, as a series raises it."""
        if not isinstance(self.error, Exception):
            return self.raised(who, what)
        self.error.add_note(f"In its worker:\n{self.text}")
        return self.error

    def raised(self, who: str, what: str) -> WorkerFailed:
        """What the pool raises."""
        more = f"\n\nIn its worker:\n{self.text}" if self.text else ""
        failed = WorkerFailed(f"{who}: env {self.index} failed in {what!r}: {self.summary}{more}")
        failed.__cause__ = self.error
        return failed


def refuse_unclosed(who: str, failures: Sequence[Failure]) -> None:
    """Raises where envs have failed to close, for the first of them.

    Args:
        who: their pool.
        failures: how.

    Raises:
        WorkerFailed: there are some.
    """
    if failures:
        error = failures[0].raised(who, "close")
        for other in failures[1:]:
            error.add_note(f"env {other.index} failed, too: {other.summary}")
        raise error


def warn_unclosed(who: str, failures: Sequence[Failure]) -> None:
    """Warns of the same, where nobody is there to be told."""
    for one in failures:
        warnings.warn(f"{who}: env {one.index} failed in 'close': {one.summary}", stacklevel=users_line())


@dataclass
class Description:
    """What a pool must know of a child without having it."""

    batch_size: Size
    device: torch.device | None
    specs: dict[str, Composite] = field(repr=False)
    group_map: Any
    tree: Any
    supports_set_state: bool
    _allow_done_after_reset: bool
    name: str
    remembered: list[NestedKey]
    _mask_keys: dict[NestedKey, NestedKey]
    holds_rows: bool
    names: frozenset[str]
    """Its attributes."""

    @staticmethod
    def of(env: EnvBase) -> Description:
        """What there is to know of an env."""
        specs = {f"full_{kind}_spec": getattr(env, f"full_{kind}_spec").clone() for kind in SIDE}
        groups, tree = getattr(env, "group_map", None), getattr(env, "tree", None)
        may = env._allow_done_after_reset
        known = env.supports_set_state, may, repr(env), list(env.remembered), dict(env._mask_keys), holds_rows(env)
        return Description(env.batch_size, env.device, specs, groups, tree, *known, names(env))

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["specs"][name]
        except KeyError:
            raise AttributeError(name) from None


class _Pickler(cloudpickle.Pickler):
    """Tensors as arrays: without the storage of which they are a part, and without shared memory."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is Tensor and obj.device.type == "cpu" and obj.layout is torch.strided:
            plain = obj.detach()
            if plain.dtype is torch.bfloat16:
                return _restore, (plain.view(torch.int16).numpy(), plain.dtype)
            return _restore, (plain.resolve_conj().resolve_neg().numpy(), plain.dtype)
        return super().reducer_override(obj)


def _restore(array: Any, dtype: torch.dtype) -> Tensor:
    tensor = torch.from_numpy(array.copy() if not array.flags.writeable else array)
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def dump(value: Any) -> bytes:
    """Anything as bytes; functions and classes of the main script too.

    >>> load(dump({"x": torch.ones(2)}))
    {'x': tensor([1., 1.])}
    """
    memory = io.BytesIO()
    _Pickler(memory, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return memory.getvalue()


def load(data: bytes) -> Any:
    """What :func:`dump` packed."""
    return pickle.loads(data)


def plain(td: TensorDictBase | None) -> TensorDictBase | None:
    """Data on the CPU, cut off from gradients, as they are sent."""
    if td is None:
        return None
    td = td.detach()
    return td if td.device is None or td.device.type == "cpu" else td.cpu()
