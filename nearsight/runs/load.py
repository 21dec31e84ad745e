"""Load a trained run: its model with the best weights, its protocol, and its input transform."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nearsight.core import UserError
from nearsight.protocol import Protocol, protocol_from

if TYPE_CHECKING:
    from torch import nn

    from nearsight.data.input import InputTransform
from nearsight.runs.files import RECORD, WEIGHTS, file_hash, read_record
from nearsight.runs.records import TrainedRun


@dataclass(frozen=True, repr=False)
class LoadedRun:
    """A trained run; ``model`` has its best weights and is in evaluation mode."""

    path: Path
    protocol: Protocol
    model: nn.Module
    transform: InputTransform  # uint8 [n, 3, h, w] -> the model's input
    record: TrainedRun

    def __repr__(self) -> str:
        kind = f"{self.protocol.name}, {self.protocol.model.name} on {self.protocol.data.name}"
        return f"LoadedRun {self.path}: {kind}; .model, .transform, .protocol, .record"


def load_run(path: str | Path, device: str = "cpu") -> LoadedRun:
    """Load a trained run: its model with the best weights, its protocol and its input transform.

    Args:
        path: The run folder that ``nearsight train`` or ``train_run`` wrote.
        device: Where to put the model, for example "cpu" or "cuda".

    Returns:
        A ``LoadedRun``: ``run.model(run.transform(images))`` takes uint8 images [n, 3, h, w].

    Raises:
        UserError: If the folder has no weights, or its files do not belong together.

    >>> run = load_run("runs/baseline-0")  # doctest: +SKIP
    >>> run.model(run.transform(images)).argmax(-1)  # doctest: +SKIP
    """
    from nearsight.data.input import InputTransform
    from nearsight.models.load import load_weights, model_for

    folder = Path(path)
    record = read_record(folder)
    if not isinstance(record, TrainedRun):
        raise UserError(
            f"{folder} is a model that was only measured; give the folder of a run that "
            "`nearsight train` wrote"
        )
    if not (folder / WEIGHTS).is_file():
        reason = (
            "an exported run is stored without them; copy them from the original or train it again"
            if record.is_finished
            else "its first epoch is not finished; wait for it, or continue the training"
        )
        raise UserError(f"{folder} has no {WEIGHTS}: {reason}")
    if record.weights_sha256 and file_hash(folder / WEIGHTS) != record.weights_sha256[:16]:
        raise UserError(
            f"{folder / WEIGHTS} is damaged or belongs to another run: its sha256 is not the one "
            f"in {RECORD}; restore it from a copy, or train again into another folder"
        )
    protocol = protocol_from(record.protocol)
    data = record.data
    model, size = model_for(protocol.model, record.model.num_classes, data.image_size)
    if changed := load_weights(model, folder / WEIGHTS):
        raise UserError(
            f"{folder / WEIGHTS} does not belong to this run: {changed[0]}; restore it from a "
            "copy, or train again into another folder"
        )
    transform = InputTransform(data.mean, data.std, size)
    return LoadedRun(folder, protocol, model.eval().to(device), transform, record)
