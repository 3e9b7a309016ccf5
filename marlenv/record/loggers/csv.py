"""A logger of plain files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from tensordict import MemoryMappedTensor
from torch import Tensor

from marlenv.errors import SpecError, Unsupported
from marlenv.record.loggers.base import Logger, check_video
from marlenv.record.video import as_frames, write_video

FORMATS = ("pt", "memmap", "mp4", "gif")


class CSVExperiment:
    """The files of an experiment: ``scalars/``, ``videos/`` and ``texts/`` in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts: dict[str, int] = defaultdict(int)
        for name in ("scalars", "videos", "texts"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def next(self, name: str, step: int | None) -> int:
        """The step, or how often there was none before."""
        self.counts[name] += 1
        return self.counts[name] - 1 if step is None else step


class CSVLogger(Logger):
    """Writes numbers into csv files, films into files of their own.

    Args:
        exp_name: the name of the experiment.
        log_dir: the folder; ``csv_logs`` when left out.
        video_format: ``"pt"``, ``"memmap"``, ``"mp4"`` or ``"gif"``.
        video_fps: frames per second.
    """

    def __init__(
        self,
        exp_name: str,
        log_dir: str | None = None,
        video_format: Literal["pt", "memmap", "mp4", "gif"] = "pt",
        video_fps: int = 30,
    ) -> None:
        if video_format not in FORMATS:
            raise SpecError(f"CSVLogger: video_format must be one of {list(FORMATS)}, got {video_format!r}")
        self.video_format, self.video_fps = video_format, video_fps
        super().__init__(exp_name, "csv_logs" if log_dir is None else str(log_dir))

    def _create_experiment(self) -> CSVExperiment:
        return CSVExperiment(Path(self.log_dir) / self.exp_name)

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Writes a line ``step,value`` into ``scalars/<name>.csv``."""
        path = self.experiment.folder / "scalars" / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(f"{self.experiment.next(f'scalar {name}', step)},{float(value)}\n")

    def log_video(self, name: str, video: Tensor, step: int | None = None, **kwargs: Any) -> None:
        """Writes a film ``[N, T, C, H, W]`` into ``videos/<name>_<step>.<format>``."""
        check_video("CSVLogger", video)
        number = self.experiment.next(f"video {name}", step)
        path = self.experiment.folder / "videos" / f"{name}_{number}.{self.video_format}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.video_format == "pt":
            torch.save(video, path)
        elif self.video_format == "memmap":
            MemoryMappedTensor.from_tensor(video, filename=str(path))
        else:
            write_video(path, as_frames(video), **{"fps": self.video_fps, **kwargs})

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Writes a line per option into ``texts/hparams<number>.txt``."""
        path = self.experiment.folder / "texts" / f"hparams{self.experiment.next('hparams', None)}.txt"
        path.write_text("\n".join(f"{key}: {value}" for key, value in sorted(cfg.items())))

    def log_histogram(self, name: str, data: Sequence[float] | Tensor, **kwargs: Any) -> None:
        """Not possible in csv files."""
        raise Unsupported("CSVLogger: csv files have no histograms; log numbers")
