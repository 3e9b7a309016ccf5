"""A logger of MLflow."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from marlenv.errors import Unsupported
from marlenv.optional import need
from marlenv.record.loggers.base import Logger, check_video
from marlenv.record.video import as_frames, write_video


class MLFlowLogger(Logger):
    """Writes a run of MLflow.

    Args:
        exp_name: the name of the experiment.
        tracking_uri: where runs are kept: a server, or a database, such as ``sqlite:////tmp/runs.db`` with SQLAlchemy
            and alembic installed. A folder, ``file:///tmp/runs``, is refused by newer MLflows unless
            ``MLFLOW_ALLOW_FILE_STORE=true`` stands in the environment.
        tags: of the run.
        artifact_location: where films are kept; beside the runs when left out.
        video_fps: frames per second.
        **kwargs: handed to ``mlflow.start_run``.
    """

    def __init__(
        self,
        exp_name: str,
        tracking_uri: str,
        tags: Mapping[str, Any] | None = None,
        *,
        artifact_location: str | None = None,
        video_fps: int = 30,
        **kwargs: Any,
    ) -> None:
        self.video_fps, self.tags, self.artifact_location, self.options = video_fps, tags, artifact_location, kwargs
        super().__init__(exp_name, tracking_uri)

    def _create_experiment(self) -> Any:
        self.mlflow = need("mlflow", "MLFlowLogger")
        self.mlflow.set_tracking_uri(self.log_dir)
        found = self.mlflow.get_experiment_by_name(self.exp_name)
        self.id = (
            self.mlflow.create_experiment(self.exp_name, artifact_location=self.artifact_location)
            if found is None
            else found.experiment_id
        )
        return self.mlflow.start_run(experiment_id=self.id, tags=dict(self.tags or {}), **self.options)

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Writes a number."""
        self.mlflow.log_metric(name, float(value), step=step)

    def log_video(self, name: str, video: Tensor, step: int | None = None, **kwargs: Any) -> None:
        """Writes a film ``[N, T, C, H, W]`` as an artifact, ``videos/<name>_<step>.mp4``."""
        check_video("MLFlowLogger", video)
        with tempfile.TemporaryDirectory() as folder:
            file = name.replace("/", "_") + ("" if step is None else f"_{step}") + ".mp4"
            path = write_video(Path(folder) / file, as_frames(video), **{"fps": self.video_fps, **kwargs})
            self.mlflow.log_artifact(str(path), "videos")

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Writes the options."""
        self.mlflow.log_params(dict(cfg))

    def log_histogram(self, name: str, data: Sequence[float] | Tensor, **kwargs: Any) -> None:
        """Not possible in MLflow."""
        raise Unsupported("MLFlowLogger: MLflow has no histograms; log numbers")

    def close(self) -> None:
        """Ends the run."""
        self.mlflow.end_run()
