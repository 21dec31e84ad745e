"""Measure a trained run: its best weights on test images, into its folder.

measure.json         metrics of every head with intervals and null lines (summary.py)
measure.safetensors  every metric per image and head (values.py)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nearsight.core import UserError
from nearsight.data import draws
from nearsight.data.sets import Dataset, load_dataset
from nearsight.measure.catalogue import DEFAULT_METRICS
from nearsight.measure.folders.sharing import gathered, place, share_of
from nearsight.measure.folders.summary import measurement
from nearsight.measure.folders.values import VALUES, write_values
from nearsight.measure.profile import NULL_IMAGES, measure_model, measured_nulls
from nearsight.models.load import model_for
from nearsight.runs import (
    MEASURE,
    WEIGHTS,
    LoadedRun,
    file_hash,
    hardware,
    load_run,
    read_record,
    write_json,
)

NUM_IMAGES = 5000  # the paper's, or all there are
IMAGE_SEED = 0  # which images: the same for every protocol and every seed


def chosen_images(num_available: int, num_images: int | None = None) -> np.ndarray:
    """Sorted indices of the test images to measure: a function of the two numbers alone."""
    wanted = min(NUM_IMAGES, num_available) if num_images is None else num_images
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
    if "protocol" in record and record["status"] != "finished":
        raise UserError(
            f"expected a finished run, but training in {path} has not finished; "
            "start its train command again, it continues where it stopped"
        )
    run = load_run(path, device)
    dataset = load_dataset(run.protocol.data, data_root)
    if dataset.hash != record["data"]["hash"]:
        raise UserError(
            f"expected the data this run was trained on ({record['data']['name']}, hash "
            f"{record['data']['hash']}), got {dataset.name} with hash {dataset.hash}"
        )
    return run, dataset


def measure_run(
    path: Path,
    num_images: int | None = None,
    device: str = "cpu",
    data_root: Path | None = None,
    batch_size: int = 64,
    convention: str = "paper",
    metrics: Sequence[str] | str = DEFAULT_METRICS,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Measure the best weights of a finished run and write ``measure.json`` into its folder.

    ``num_images`` test images, min(5,000, all) by default, chosen by a fixed seed: the same images
    for every protocol. ``progress`` is told (images done, images in all). Under torchrun every
    process takes its share of the images and the first one writes.
    """
    path = Path(path)
    run, dataset = finished_run(path, device, data_root)
    record = run.record
    chosen = chosen_images(len(dataset.test.images), num_images).tolist()
    share = share_of(chosen)

    def batches(indices: Sequence[int]) -> Iterator[Tensor]:
        for start in range(0, len(indices), batch_size):
            images = dataset.test.images[indices[start : start + batch_size]]
            yield run.transform(torch.from_numpy(images)).to(device)

    def report(done: int) -> None:
        if progress:
            progress(done, len(share))

    began = time.perf_counter()
    profile = measure_model(
        run.model, batches(share), convention=convention, metrics=metrics, progress=report
    )
    profile = gathered(profile)
    seconds = time.perf_counter() - began
    rank, num_processes = place()
    if rank == 0:
        size = dataset.test.images.shape[-2:]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(record["seed"])
            num_classes = run.protocol.model.num_classes or len(dataset.classes)
            fresh, _ = model_for(run.protocol.model, num_classes, size)
        few = batches(chosen[:NULL_IMAGES])
        nulls = measured_nulls(run.model, fresh.to(device), few, profile)
        write_values(path / VALUES, profile, [f"test/{index}" for index in chosen])
        contents = measurement(profile, nulls) | {
            "num_available": len(dataset.test.images),
            "image_seed": IMAGE_SEED,
            "split": "test",
            "data": {"name": dataset.name, "hash": dataset.hash},
            "weights": {"file": WEIGHTS, "sha256": file_hash(path / WEIGHTS)},
            "seconds": seconds,
            "hardware": hardware(device, num_processes),
        }
        write_json(path / MEASURE, contents)
    return path / MEASURE
