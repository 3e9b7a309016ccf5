"""What is kept of an experiment: data, films, and loggers."""

from marlenv.record.loggers import CSVLogger, Logger, MLFlowLogger, TensorboardLogger, WandbLogger
from marlenv.record.recorder import PixelRenderTransform, TensorDictRecorder, VideoRecorder
from marlenv.record.video import read_video, write_video

__all__ = [
    "CSVLogger",
    "Logger",
    "MLFlowLogger",
    "PixelRenderTransform",
    "TensorDictRecorder",
    "TensorboardLogger",
    "VideoRecorder",
    "WandbLogger",
    "read_video",
    "write_video",
]
