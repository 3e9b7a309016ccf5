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
    """Writes a run of MLflow, its own whichever run is active.

    It is the active run, to which ``mlflow.log_artifact`` and the like write, unless another one is already.

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
        self.client = self.mlflow.MlflowClient(self.log_dir)
        found = self.client.get_experiment_by_name(self.exp_name)
        self.id = (
            self.client.create_experiment(self.exp_name, artifact_location=self.artifact_location)
            if found is None
            else found.experiment_id
        )
        run = self._run(dict(self.tags or {}))
        self.run_id: str = run.info.run_id
        return run

    def _run(self, tags: dict[str, Any]) -> Any:
        """The run: MLflow's active one, unless another is."""
        if self.mlflow.active_run() is not None and self.options.keys() <= {"run_name"}:
            return self.client.create_run(self.id, tags=tags, **self.options)
        self.mlflow.set_tracking_uri(self.log_dir)
        return self.mlflow.start_run(experiment_id=self.id, tags=tags, **self.options)

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Writes a number."""
        self.client.log_metric(self.run_id, name, float(value), step=self._next(name, step))

    def log_video(self, name: str, video: Tensor, step: int | None = None, **kwargs: Any) -> None:
        """Writes a film ``[N, T, C, H, W]`` as an artifact, ``videos/<name>_<step>.mp4``."""
        check_video("MLFlowLogger", video)
        place, _, leaf = f"videos/{name}".rpartition("/")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{leaf}_{self._next(f'video {name}', step)}.mp4"
            write_video(path, as_frames(video), **{"fps": self.video_fps, **kwargs})
            self.client.log_artifact(self.run_id, str(path), place)

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Writes the options."""
        for name, value in cfg.items():
            self.client.log_param(self.run_id, name, value)

    def log_histogram(self, name: str, data: Sequence[float] | Tensor, **kwargs: Any) -> None:
        """Not possible in MLflow."""
        raise Unsupported("MLFlowLogger: MLflow has no histograms; log numbers")

    def close(self) -> None:
        """Ends the run."""
        active = self.mlflow.active_run()
        if active is not None and active.info.run_id == self.run_id:
            self.mlflow.end_run()
        else:
            self.client.set_terminated(self.run_id)
