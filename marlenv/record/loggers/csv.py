"""A logger of plain files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from marlenv.errors import SpecError, Unsupported
from marlenv.files import save, whole_file
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

    def place(self, kind: str, name: str) -> Path:
        """Where a file is.

        Raises:
            SpecError: its name leads out of the experiment's folder.
        """
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise SpecError(
                f"CSVLogger: names must stay in the experiment's folder, got {name!r}; leave '..' and a first '/' out"
            )
        return self.folder / kind / name

    @contextmanager
    def numbered(self, name: str, step: int | None) -> Iterator[int]:
        """The step, or how often the name was written before; this time is counted when it is written."""
        yield self.counts[name] if step is None else step
        self.counts[name] += 1


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
        path = self.experiment.place("scalars", f"{name}.csv")
        path.parent.mkdir(parents=True, exist_ok=True)
        with self.experiment.numbered(f"scalar {name}", step) as number:
            _append(path, f"{number},{float(value)}\n".encode())

    def log_video(self, name: str, video: Tensor, step: int | None = None, **kwargs: Any) -> None:
        """Writes a film ``[N, T, C, H, W]`` into ``videos/<name>_<step>.<format>``."""
        check_video("CSVLogger", video, drawn=self.video_format in ("mp4", "gif"))
        with self.experiment.numbered(f"video {name}", step) as number:
            path = self.experiment.place("videos", f"{name}_{number}.{self.video_format}")
            if self.video_format in ("mp4", "gif"):
                write_video(path, as_frames(video), **{"fps": self.video_fps, **kwargs})
                return
            with whole_file("CSVLogger.log_video", path) as draft:
                if self.video_format == "memmap":
                    draft.write_bytes(video.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
                else:
                    save(video, draft)

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Writes a line per option into ``texts/hparams<number>.txt``."""
        with self.experiment.numbered("hparams", None) as number:
            path = self.experiment.folder / "texts" / f"hparams{number}.txt"
            with whole_file("CSVLogger.log_hparams", path) as draft:
                draft.write_text(
                    "\n".join(f"{key}: {value}" for key, value in sorted(cfg.items(), key=_name)), encoding="utf-8"
                )

    def log_histogram(self, name: str, data: Sequence[float] | Tensor, **kwargs: Any) -> None:
        """Not possible in csv files."""
        raise Unsupported("CSVLogger: csv files have no histograms; log numbers")


def _name(option: tuple[Any, Any]) -> str:
    """What options are sorted by: not all names need be text."""
    return str(option[0])


def _append(path: Path, row: bytes) -> None:
    """Writes a row at the end of a file, whole or not at all."""
    with path.open("ab", buffering=0) as file:
        size = file.tell()
        try:
            while row:
                row = row[file.write(row) :]
        except OSError as error:
            file.truncate(size)
            raise OSError(
                f"CSVLogger.log_scalar: {path} cannot be written: {error.strerror}; the rows before are kept"
            ) from error
