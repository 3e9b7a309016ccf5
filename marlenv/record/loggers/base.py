"""What every logger is: scalars, films, options and histograms of an experiment, by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import DtypeError, ShapeError, SpecTypeError


class Logger(ABC):
    """Where an experiment is written down. Abstract.

    Args:
        exp_name: the name of the experiment.
        log_dir: the folder.
    """

    def __init__(self, exp_name: str, log_dir: str) -> None:
        self.exp_name, self.log_dir = exp_name, log_dir
        self.counts: dict[str, int] = {}
        self.experiment = self._create_experiment()

    @abstractmethod
    def _create_experiment(self) -> Any:
        """What the logger's library writes with."""

    def _next(self, name: str, step: int | None) -> int:
        """The step, or how often the name was written before where none is given."""
        self.counts[name] = self.counts.get(name, -1) + 1
        return self.counts[name] if step is None else step

    @abstractmethod
    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Writes a number."""

    @abstractmethod
    def log_video(self, name: str, video: Tensor, step: int | None = None, **kwargs: Any) -> None:
        """Writes a film ``[N, T, C, H, W]``."""

    @abstractmethod
    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Writes the options of the experiment."""

    @abstractmethod
    def log_histogram(self, name: str, data: Sequence[float] | Tensor, **kwargs: Any) -> None:
        """Writes how numbers are distributed."""

    def log_metrics(
        self, metrics: Mapping[str, Any] | TensorDictBase, step: int | None = None, *, keys_sep: str = "/"
    ) -> dict[str, float]:
        """Writes many numbers: of tensors the mean; returns what was written.

        Raises:
            DtypeError: one of them is no number; nothing is written.
        """
        if isinstance(metrics, TensorDictBase):
            pairs = {keys_sep.join([k] if isinstance(k, str) else k): v for k, v in metrics.items(True, True)}
        else:
            pairs = dict(metrics)
        written = {name: _mean(type(self).__name__, name, value) for name, value in pairs.items()}
        for name, value in written.items():
            self.log_scalar(name, value, step)
        return written

    def flush(self) -> None:
        """Sees to it that all is written."""
        if callable(flush := getattr(self.experiment, "flush", None)):
            flush()

    def close(self) -> None:
        """Ends the experiment."""
        self.flush()
        for name in ("finish", "close"):
            if callable(end := getattr(self.experiment, name, None)):
                end()
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.exp_name!r}, log_dir={self.log_dir!r})"


def _mean(who: str, name: str, value: Any) -> float:
    """A number, or the mean of a tensor of them."""
    try:
        if isinstance(value, Tensor) and value.is_complex():
            raise TypeError("complex numbers have no order")
        return float(value.cpu().double().mean() if isinstance(value, Tensor) else value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DtypeError(
            f"{who}.log_metrics: {name!r} must be a number or a tensor of numbers, got {value!r:.60}; leave it out, or "
            f"note it with log_hparams"
        ) from error


def check_video(who: str, video: Tensor, *, drawn: bool = True) -> None:
    """Raises unless a film is ``[N, T, C, H, W]`` of 1 or 3 colours, in bytes.

    Args:
        who: the logger.
        video: the film.
        drawn: whether pictures are made of it; else its numbers are kept as they are.

    Raises:
        SpecTypeError: it is no tensor.
        ShapeError: it has another shape.
        DtypeError: it is not uint8.
    """
    if not isinstance(video, Tensor):
        got = type(video).__name__
        raise SpecTypeError(f"{who}.log_video: expected a tensor, got {got}; torch.as_tensor makes one of arrays")
    if video.ndim != 5 or video.shape[2] not in (1, 3):
        raise ShapeError(f"{who}.log_video: expected [N, T, C, H, W] of 1 or 3 colours, got {list(video.shape)}")
    if drawn and video.dtype != torch.uint8:
        raise DtypeError(f"{who}.log_video: expected uint8, 0 to 255, got {video.dtype}; scale and convert it")
