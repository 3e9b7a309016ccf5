"""A logger of TensorBoard's files."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from marlenv.optional import need
from marlenv.record.loggers.base import Logger, check_video
from marlenv.record.video import as_frames, write_gif


class TensorboardLogger(Logger):
    """Writes what TensorBoard shows.

    Args:
        exp_name: the name of the experiment.
        log_dir: the folder.
    """

    def __init__(self, exp_name: str, log_dir: str = "tb_logs") -> None:
        super().__init__(exp_name, str(log_dir))

    def _create_experiment(self) -> Any:
        need("tensorboard", "TensorboardLogger")
        return need("torch.utils.tensorboard", "TensorboardLogger").SummaryWriter(
            str(Path(self.log_dir) / self.exp_name)
        )

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Writes a number."""
        self.experiment.add_scalar(name, float(value), global_step=self._next(name, step))

    def log_video(self, name: str, video: Tensor, step: int | None = None, **kwargs: Any) -> None:
        """Writes a film ``[N, T, C, H, W]``, as an animated gif."""
        check_video("TensorboardLogger", video)
        summary = need("tensorboard.compat.proto.summary_pb2", "TensorboardLogger")
        film = io.BytesIO()
        write_gif(film, as_frames(video), kwargs.get("fps", 6))
        image = summary.Summary.Image(
            height=video.shape[-2], width=video.shape[-1], colorspace=3, encoded_image_string=film.getvalue()
        )
        made = summary.Summary(value=[summary.Summary.Value(tag=name, image=image)])
        self.experiment.file_writer.add_summary(made, self._next(name, step))

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Writes the options; what is no number, text or bool as text."""
        plain = {k: v if isinstance(v, (int, float, str, bool)) else str(v) for k, v in cfg.items()}
        self.experiment.add_hparams(plain, {})

    def log_histogram(self, name: str, data: Sequence[float] | Tensor, **kwargs: Any) -> None:
        """Writes how numbers are distributed."""
        step = self._next(name, kwargs.pop("step", None))
        self.experiment.add_histogram(name, torch.as_tensor(data), global_step=step, **kwargs)
