"""Send the lines of train.jsonl to TensorBoard, Weights & Biases or MLflow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from nearsight.core import UserError, suggestion

TRACKERS = ("tensorboard", "wandb", "mlflow")


@runtime_checkable
class Tracker(Protocol):
    """The interface of a tracker."""

    def log(self, epoch: int, values: dict[str, float]) -> None:
        """Log the values of an epoch by name."""

    def close(self) -> None:
        """Finish the tracker's own run."""


class _TensorBoard:
    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def log(self, epoch: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, epoch)

    def close(self) -> None:
        self.writer.close()


class _Wandb:
    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        import wandb

        self.run = wandb.init(
            project="nearsight", dir=str(folder), name=folder.name, config=_settings(record)
        )

    def log(self, epoch: int, values: dict[str, float]) -> None:
        self.run.log(values, step=epoch)

    def close(self) -> None:
        self.run.finish()


class _Mlflow:
    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        import mlflow

        self.mlflow = mlflow
        mlflow.set_experiment("nearsight")
        mlflow.start_run(run_name=folder.name)
        mlflow.log_dict(_settings(record), "protocol.json")

    def log(self, epoch: int, values: dict[str, float]) -> None:
        self.mlflow.log_metrics(values, step=epoch)

    def close(self) -> None:
        self.mlflow.end_run()


_OPENERS: dict[str, Callable[[Path, dict[str, Any]], Tracker]] = {
    "tensorboard": _TensorBoard,
    "wandb": _Wandb,
    "mlflow": _Mlflow,
}


def _settings(record: dict[str, Any]) -> dict[str, Any]:
    return {"seed": record["seed"], **record["protocol"]}


def open_tracker(name: str, folder: Path, record: dict[str, Any]) -> Tracker:
    """Open a tracker by name.

    Raises:
        UserError: If the name is unknown or the tracker is not installed.
    """
    if name not in _OPENERS:
        known, close = ", ".join(TRACKERS), suggestion(name, TRACKERS)
        raise UserError(f"--track is {name!r}, but it must be one of {known}{close}")
    try:
        return _OPENERS[name](folder, record)
    except ImportError:
        raise UserError(
            f"--track {name} needs a package that is not installed; run pip install '.[{name}]' "
            "in nearsight's folder"
        ) from None


def tracked_values(line: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of a line of train.jsonl that trackers show as curves."""
    scores = [name for name in line if name.startswith("validation_")]
    names = ("lr", "train_loss", "train_accuracy", *scores)
    return {name: float(line[name]) for name in names if line[name] is not None}
