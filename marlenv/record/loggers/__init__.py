"""Where experiments are written down: files, TensorBoard, Weights & Biases, MLflow."""

from marlenv.record.loggers.base import Logger
from marlenv.record.loggers.csv import CSVLogger
from marlenv.record.loggers.mlflow import MLFlowLogger
from marlenv.record.loggers.tensorboard import TensorboardLogger
from marlenv.record.loggers.wandb import WandbLogger

__all__ = ["CSVLogger", "Logger", "MLFlowLogger", "TensorboardLogger", "WandbLogger"]
