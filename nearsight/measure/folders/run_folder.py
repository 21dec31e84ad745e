"""Measure a trained run: its best weights, on test images, and write the files into its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.data import draws
from nearsight.data.sets import Dataset, load_dataset
from nearsight.measure.catalogue import DEFAULT_METRICS
from nearsight.measure.folders.source import MeasuredSource, create_folder, measure_folder
from nearsight.models.load import model_for
from nearsight.runs import (
    LOG,
    MEASURE,
    NUM_TEST_IMAGES,
    RECORD,
    WEIGHTS,
    LoadedRun,
    Stage,
    file_hash,
    load_run,
    read_record,
)
from nearsight.runs.records import TrainedRun

IMAGE_SEED = 0  # chooses the same images for every protocol and every seed


def chosen_images(num_available: int, num_images: int | None = None) -> np.ndarray:
    """Return the sorted indices of the test images to measure.

    They depend on nothing but these two numbers.

    Args:
        num_available: Number of test images.
        num_images: How many to choose; by default 5,000, or all if there are fewer.

    Raises:
        UserError: If there are fewer test images, or fewer than 2 are asked for.
    """
    wanted = min(NUM_TEST_IMAGES, num_available) if num_images is None else num_images
    if not 2 <= wanted <= num_available:
        raise UserError(
            f"--num-images is {wanted}, but it must be between 2 and {num_available}, the number "
            "of test images"
        )
    chosen = draws.sample("measured images", IMAGE_SEED, length=num_available, num=wanted)
    return chosen.numpy()


def finished_run(
    path: Path, device: str = "cpu", data_root: Path | None = None
) -> tuple[LoadedRun, Dataset]:
    """Return a run that was trained to the end, with the data it was trained on.

    Raises:
        UserError: If training has not finished, or the data set has changed since.
    """
    record = read_record(path)
    if isinstance(record, TrainedRun) and not record.is_finished:
        raise UserError(
            f"training in {path} has not finished; start its train command again, which continues "
            "where it stopped"
        )
    run = load_run(path, device)
    dataset = load_dataset(run.protocol.data, data_root)
    if dataset.hash != run.record.data.hash:
        raise UserError(
            f"{path} was trained on {run.record.data.name} with hash {run.record.data.hash}, but "
            f"the data set {dataset.name} now has hash {dataset.hash}; restore the data, or pass "
            "the folder that holds it as --data-root"
        )
    return run, dataset


class RunSource(MeasuredSource):
    """The best weights of a finished run, and images of its test set.

    Args:
        path: Folder of the run.
        num_images: How many test images to choose; None for 5,000, or all if there are fewer.
        device: Where to run the model.
        data_root: Folder of data sets; None for $NEARSIGHT_DATA or ~/.cache/nearsight/data.
        batch_size: Images per batch.
    """

    def __init__(
        self,
        path: Path,
        num_images: int | None,
        device: str,
        data_root: Path | None,
        batch_size: int,
    ) -> None:
        self.path, self.device, self.batch_size = path, device, batch_size
        self.run, self.dataset = finished_run(path, device, data_root)
        self.model = self.run.model
        self.chosen = chosen_images(len(self.dataset.test.images), num_images)
        self.names = [f"test/{index}" for index in self.chosen]
        self.copied: tuple[str, ...] = ()  # files to copy if the measurement goes elsewhere

    def batches(self, positions: Sequence[int]) -> Iterator[Tensor]:
        """Yield the test images at these positions in ``names`` as batches of the model's input."""
        indices = self.chosen[list(positions)]
        for start in range(0, len(indices), self.batch_size):
            images = self.dataset.test.images[indices[start : start + self.batch_size]]
            yield self.run.transform(torch.from_numpy(images)).to(self.device)

    def pictures(self, positions: Sequence[int]) -> list[np.ndarray]:
        """Return the test images at these positions as pixels."""
        images = self.dataset.test.images[self.chosen[list(positions)]]
        return list(images.transpose(0, 2, 3, 1))

    def fresh_model(self) -> nn.Module:
        """Return the model as it was before training, with the weights of the run's seed."""
        settings = self.run.protocol.model
        num_classes = settings.num_classes or len(self.dataset.classes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.run.record.seed)
            fresh, _ = model_for(settings, num_classes, self.dataset.test.images.shape[-2:])
        return fresh.to(self.device)

    def own_files(self) -> dict[str, bytes]:
        """Return the run's record and log if the measurement goes to another folder."""
        return {name: (self.path / name).read_bytes() for name in self.copied}

    def facts(self) -> dict[str, Any]:
        """Return what measure.json records about the model and its images."""
        return {
            "num_available": len(self.dataset.test.images),
            "image_seed": IMAGE_SEED,
            "split": "test",
            "data": {"name": self.dataset.name, "hash": self.dataset.hash},
            "weights": {"file": WEIGHTS, "sha256": file_hash(self.path / WEIGHTS)},
        }


def measure_run(
    path: Path,
    num_images: int | None = None,
    device: str = "cpu",
    data_root: Path | None = None,
    batch_size: int = 64,
    convention: str = "paper",
    metrics: Sequence[str] | str = DEFAULT_METRICS,
    out: Path | None = None,
    force: bool = False,
    nulls: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Measure the best weights of a finished run and write ``measure.json`` into its folder.

    Under torchrun every process measures its share of the images, and the first one writes.

    Args:
        path: Folder of the run.
        num_images: How many test images to choose by a fixed seed, the same for every protocol; by
            default 5,000, or all if there are fewer.
        device: Where to run the model.
        data_root: Folder of data sets; by default $NEARSIGHT_DATA or ~/.cache/nearsight/data.
        batch_size: Images per batch.
        convention: How distances are counted.
        metrics: Names of metrics, or "all".
        out: Another folder to write to, with copies of the run's record and log.
        force: Overwrite a measurement with other settings.
        nulls: Also measure the null lines (random initialisation, shuffled patches).
        progress: Called with the number of images done and the number of all images.

    Returns:
        The path of measure.json.

    Raises:
        UserError: If training has not finished, the data set has changed, or the folder holds
            another measurement.

    >>> measure_run(Path("runs/none"))
    Traceback (most recent call last):
        ...
    nearsight.core.errors.UserError: ...
    """
    folder = Path(path if out is None else out)
    source = RunSource(Path(path), num_images, device, data_root, batch_size)
    if folder != source.path:
        _check_elsewhere(folder, source.path)
        source.copied = (RECORD, LOG)
    with create_folder(folder):
        return measure_folder(
            folder,
            source,
            convention=convention,
            metrics=metrics,
            num_images=num_images,
            device=device,
            force=force,
            nulls=nulls,
            progress=progress,
        )


def _check_elsewhere(folder: Path, run: Path) -> None:
    """Raise a UserError if the folder belongs to another run or model."""
    if (folder / RECORD).is_file() and read_record(folder) != read_record(run):
        raise UserError(
            f"{folder} belongs to another run or model; choose another folder with --out"
        )


MEASURE_STAGE = Stage("measure", MEASURE, measure_run)
