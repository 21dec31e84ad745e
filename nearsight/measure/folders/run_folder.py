"""Measure a trained run: its best weights on test images, into its folder."""

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
from nearsight.measure.folders.source import MeasuredSource, measure_folder
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

IMAGE_SEED = 0  # which images: the same for every protocol and every seed


def chosen_images(num_available: int, num_images: int | None = None) -> np.ndarray:
    """Sorted indices of the test images to measure: a function of the two numbers alone."""
    wanted = min(NUM_TEST_IMAGES, num_available) if num_images is None else num_images
    if not 2 <= wanted <= num_available:
        raise UserError(
            f"expected between 2 and {num_available} images (the test set has {num_available}), "
            f"got {wanted}"
        )
    chosen = draws.sample("measured images", IMAGE_SEED, length=num_available, num=wanted)
    return chosen.numpy()


def finished_run(
    path: Path, device: str = "cpu", data_root: Path | None = None
) -> tuple[LoadedRun, Dataset]:
    """A run that was trained to the end, with the very data it was trained on."""
    record = read_record(path)
    if isinstance(record, TrainedRun) and not record.is_finished:
        raise UserError(
            f"expected a finished run, but training in {path} has not finished; "
            "start its train command again, it continues where it stopped"
        )
    run = load_run(path, device)
    dataset = load_dataset(run.protocol.data, data_root)
    if dataset.hash != run.record.data.hash:
        raise UserError(
            f"expected the data this run was trained on ({run.record.data.name}, hash "
            f"{run.record.data.hash}), got {dataset.name} with hash {dataset.hash}"
        )
    return run, dataset


class RunSource(MeasuredSource):
    """The best weights of a finished run, and images of its test set."""

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
        self.copied: tuple[str, ...] = ()  # files of the run that go with a measurement elsewhere

    def batches(self, positions: Sequence[int]) -> Iterator[Tensor]:
        indices = self.chosen[list(positions)]
        for start in range(0, len(indices), self.batch_size):
            images = self.dataset.test.images[indices[start : start + self.batch_size]]
            yield self.run.transform(torch.from_numpy(images)).to(self.device)

    def pictures(self, positions: Sequence[int]) -> list[np.ndarray]:
        images = self.dataset.test.images[self.chosen[list(positions)]]
        return list(images.transpose(0, 2, 3, 1))

    def fresh_model(self) -> nn.Module:
        """Return the weights before training: those that the run's seed gives."""
        settings = self.run.protocol.model
        num_classes = settings.num_classes or len(self.dataset.classes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.run.record.seed)
            fresh, _ = model_for(settings, num_classes, self.dataset.test.images.shape[-2:])
        return fresh.to(self.device)

    def own_files(self) -> dict[str, bytes]:
        return {name: (self.path / name).read_bytes() for name in self.copied}

    def facts(self) -> dict[str, Any]:
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

    ``num_images`` test images, min(5,000, all) by default, chosen by a fixed seed: the same images
    for every protocol. ``out`` is another folder to write into, with copies of the run's record and
    log. ``force`` writes over a measurement with other settings. ``progress`` is told (images done,
    images in all). Under torchrun every process takes its share of the images and the first one
    writes.
    """
    folder = Path(path if out is None else out)
    source = RunSource(Path(path), num_images, device, data_root, batch_size)
    if folder != source.path:
        _check_elsewhere(folder, source.path)
        folder.mkdir(parents=True, exist_ok=True)
        source.copied = (RECORD, LOG)
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
    """Never write the measurement of a run into the folder of another run or model."""
    if (folder / RECORD).is_file() and read_record(folder) != read_record(run):
        raise UserError(f"{folder} is of another run or model; give another folder with --out")


MEASURE_STAGE = Stage("measure", MEASURE, measure_run)
