"""A logger of Weights & Biases."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from marlenv.optional import need
from marlenv.record.loggers.base import Logger, check_video
from marlenv.record.video import as_frames, write_video


class WandbLogger(Logger):
    """Writes a run of Weights & Biases.

    Args:
        exp_name: the name of the run.
        offline: write files only, which ``wandb sync`` may upload later.
        save_dir: the folder.
        id: of the run, which goes on where there is one with it; a new one when left out.
        project: its project.
        base_url: of the server.
        video_fps: frames per second.
        log_env_packages: note Python and the packages installed, with their versions, as the option ``env``.
        **kwargs: handed to ``wandb.init``.
    """

    def __init__(
        self,
        exp_name: str,
        offline: bool = False,
        save_dir: str | None = None,
        id: str | None = None,
        project: str | None = None,
        base_url: str | None = None,
        *,
        video_fps: int = 32,
        log_env_packages: bool = True,
        **kwargs: Any,
    ) -> None:
        self.offline, self.video_fps = offline, video_fps
        folder = save_dir or kwargs.pop("log_dir", None) or "wandb_logs"
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.options = {"name": exp_name, "dir": str(folder), "id": id, "project": project, "resume": "allow", **kwargs}
        self.base_url = base_url
        super().__init__(exp_name, str(folder))
        if log_env_packages:
            self.log_hparams({"env": installed()})

    def _create_experiment(self) -> Any:
        wandb = need("wandb", "WandbLogger")
        settings = wandb.Settings(**({"base_url": self.base_url} if self.base_url else {}))
        return wandb.init(mode="offline" if self.offline else None, settings=settings, **self.options)

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Writes a number."""
        self.experiment.log({name: float(value), **({} if step is None else {"trainer/step": step})})

    def log_video(self, name: str, video: Tensor, step: int | None = None, **kwargs: Any) -> None:
        """Writes a film ``[N, T, C, H, W]``, as an mp4."""
        check_video("WandbLogger", video)
        wandb = need("wandb", "WandbLogger")
        fps = kwargs.pop("fps", self.video_fps)
        path = Path(tempfile.mkdtemp(dir=self.log_dir)) / "film.mp4"
        write_video(path, as_frames(video), fps=fps)
        made = wandb.Video(str(path), format="mp4", **kwargs)
        self.experiment.log({name: made, **({} if step is None else {"trainer/step": step})})

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Writes the options."""
        self.experiment.config.update(dict(cfg), allow_val_change=True)

    def log_histogram(self, name: str, data: Sequence[float] | Tensor, **kwargs: Any) -> None:
        """Writes how numbers are distributed."""
        wandb, step = need("wandb", "WandbLogger"), kwargs.pop("step", None)
        made = wandb.Histogram(torch.as_tensor(data).flatten().tolist(), **kwargs)
        self.experiment.log({name: made, **({} if step is None else {"trainer/step": step})})

    def log_str(self, name: str, value: str, step: int | None = None) -> None:
        """Writes a text."""
        html = need("wandb", "WandbLogger").Html(value)
        self.experiment.log({name: html, **({} if step is None else {"trainer/step": step})})


def installed() -> dict[str, Any]:
    """What runs here: Python, the platform, and the version of every package.

    >>> installed()["packages"]["torch"].split(".")[0]
    '2'
    """
    packages = {found.name: found.version for found in metadata.distributions() if found.name}
    python = {"version": platform.python_version(), "platform": platform.platform()}
    return {"python": python, "packages": dict(sorted(packages.items()))}
