"""Read the features of a split of images from the cache, or extract them and store them there."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from nearsight.core import UserError, clock
from nearsight.evaluate.features.feature_cache import FeatureCache, Features, Shape
from nearsight.evaluate.features.image_splits import Preparation, Split
from nearsight.evaluate.features.subject import Subject
from nearsight.evaluate.features.taps import FeatureBatch
from nearsight.measure.capture import evaluation_mode

READERS = 2  # threads that read images while the model works
BATCH_SIZE = 32
NOTED_EVERY = 8  # batches between two records of the progress on disk
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Need:
    """A request for the features of images at a layer; it decides which cache has them."""

    subject: Subject
    split: Split
    preparation: Preparation
    layer: int  # counted from 1
    place: str

    def facts(self) -> dict[str, Any]:
        """Return everything that the features depend on.

        The first three entries are only names for people to read.
        """
        return {
            "subject": self.subject.name,
            "data": self.split.data,
            "split": self.split.name,
            "images": self.split.identity,
            "weights": self.subject.identity,
            "layer": self.layer,
            "place": self.place,
            "size": list(self.subject.size),
            "preparation": self.preparation.facts(),
        }


def extract_features(
    needs: Sequence[Need],
    cache: FeatureCache,
    *,
    batch_size: int = BATCH_SIZE,
    device: str = "cpu",
    progress: Progress | None = None,
) -> list[Features]:
    """Return the features of one subject on one split at several layers.

    Missing layers are extracted in the same forward passes. A cache that an earlier process began
    is continued.

    Args:
        needs: One request per layer, with everything else equal.
        cache: The cache to read from and write to.
        batch_size: The number of images per forward pass.
        device: The device on which the model runs.
        progress: Called with the number of finished images and of all images.

    Raises:
        UserError: If a feature does not fit into half precision, or a cache is damaged.
    """
    missing = [need for need in needs if cache.open(need.facts()) is None]
    if missing:
        with cache.lock(missing[0].facts()):
            missing = [need for need in missing if cache.open(need.facts()) is None]
            if missing:
                _fill(missing, cache, batch_size, device, progress)
    found = [cache.open(need.facts()) for need in needs]
    return [features for features in found if features is not None]


def _fill(
    needs: Sequence[Need],
    cache: FeatureCache,
    batch_size: int,
    device: str,
    progress: Progress | None,
) -> None:
    first = needs[0]
    split, facts = first.split, [need.facts() for need in needs]
    done = min(map(cache.num_done, facts))
    stores: list[tuple[Features, Shape]] = []
    for number, batch in enumerate(_inputs(first, done, batch_size, device), 1):
        layers = [need.layer for need in needs]
        found = first.subject.extractor.features(batch, layers, first.place)
        if not stores:
            shapes = [_shape(len(split), each) for each in found]
            stores = [(cache.create(f, shape), shape) for f, shape in zip(facts, shapes)]
        for (store, _), each in zip(stores, found):
            _write(store, each, done, first)
        done += len(batch)
        if number % NOTED_EVERY == 0 or done == len(split):
            for (store, shape), f in zip(stores, facts):
                _flush(store)
                cache.note(f, shape, done)
        if progress:
            progress(done, len(split))


def _inputs(need: Need, start: int, batch_size: int, device: str) -> Iterator[Tensor]:
    return image_batches(need.split, need.preparation, batch_size, device, start)


def _shape(num_images: int, batch: FeatureBatch) -> Shape:
    _, rows, cols, width = batch.patches.shape
    return Shape(num_images, rows, cols, width, 0 if batch.cls is None else batch.cls.shape[1])


def _write(store: Features, batch: FeatureBatch, start: int, need: Need) -> None:
    rows = slice(start, start + len(batch.patches))
    store.patches[rows] = _halved(batch.patches.flatten(1, 2), need)
    if store.cls is not None and batch.cls is not None:
        store.cls[rows] = _halved(batch.cls, need)


def _halved(values: Tensor, need: Need) -> np.ndarray:
    """Return features in half precision.

    Raises:
        UserError: If a feature is not a number, or too large for half precision.
    """
    found = values.to(torch.float16).cpu()
    if not bool(found.isfinite().all()):
        raise UserError(
            f"{need.subject.name} has features at layer {need.layer} that are NaN or beyond "
            "65,504, the largest number in half precision; try --place norm"
        )
    return found.numpy()


def _flush(store: Features) -> None:
    for array in (store.patches, store.cls):
        base = array
        while base is not None and not isinstance(base, np.memmap):
            base = base.base
        if base is not None:
            base.flush()


def image_batches(
    split: Split,
    preparation: Preparation,
    batch_size: int = BATCH_SIZE,
    device: str = "cpu",
    start: int = 0,
) -> Iterator[Tensor]:
    """Yield the prepared images of a split in order, read by threads while the model works."""

    def read(number: int) -> np.ndarray:
        return np.ascontiguousarray(preparation.pixels(split.image(number)))

    with ThreadPoolExecutor(READERS) as pool:
        waiting: list[list[Future[np.ndarray]]] = []
        try:
            for first in range(start, len(split), batch_size):
                part = range(first, min(first + batch_size, len(split)))
                waiting.append([pool.submit(read, number) for number in part])
                if len(waiting) == 2:
                    yield _normalised(waiting.pop(0), preparation, device)
            for rest in waiting:
                yield _normalised(rest, preparation, device)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@torch.no_grad()
def class_answers(
    subject: Subject, split: Split, batch_size: int = BATCH_SIZE, device: str = "cpu"
) -> Int[np.ndarray, " image"]:
    """Return the class that a subject's own classifier gives to each image of a split.

    Images that were already cropped to the size of the model are not cropped again.
    """
    assert subject.model is not None
    assert subject.classify is not None
    ready = split.prepared_size == subject.size
    steps = subject.classify.without_resizing() if ready else subject.classify
    batches = image_batches(split, Preparation(steps), batch_size, device)
    with evaluation_mode(subject.model) as inner:
        return np.concatenate([inner(images).argmax(-1).cpu().numpy() for images in batches])


def _normalised(
    pictures: list[Future[np.ndarray]], preparation: Preparation, device: str
) -> Tensor:
    pixels = torch.from_numpy(np.stack([picture.result() for picture in pictures]))
    return preparation.steps.normalise(pixels.to(device))


@dataclass(frozen=True)
class Estimated:
    """The estimated time and disk space of an evaluation."""

    num_images: int  # images that are not in the cache yet
    num_bytes: int  # that their features take
    seconds: float  # for the forward passes
    free_bytes: int  # on the disk of the cache
    task_seconds: float = 0.0  # for everything else

    def text(self) -> str:
        """Return the estimate as a sentence.

        >>> Estimated(2913, 219_000_000, 61.0, 70_000_000_000, 500.0).text()
        '2,913 images to run through the model in about 1:01, then about 8:20 of evaluation; the \
cache takes 0.22 GB, 70.00 GB of disk are free'
        """
        return (
            f"{self.num_images:,} images to run through the model in about {clock(self.seconds)}, "
            f"then about {clock(self.task_seconds)} of evaluation; the cache takes "
            f"{self.num_bytes / 1e9:.2f} GB, {self.free_bytes / 1e9:.2f} GB of disk are free"
        )


def estimate_extraction(
    needs: Sequence[Need],
    cache: FeatureCache,
    device: str = "cpu",
    forwards: Sequence[tuple[Need, float]] = (),
) -> Estimated:
    """Estimate the size and time of missing features, from one timed forward pass per subject.

    Args:
        needs: The requested features.
        cache: The cache, which may have some of them already.
        device: The device on which models run.
        forwards: Requests of tasks that run the model themselves, with the number of forward passes
            per image. Their results are not cached.

    Raises:
        UserError: If the caches would not fit on the disk.
    """
    groups: dict[tuple[Any, ...], list[Need]] = {}
    for need in needs:
        if cache.open(need.facts()) is None:
            key = (need.subject.identity, need.split.identity, str(need.preparation.facts()))
            groups.setdefault(key, []).append(need)
    num_images = num_bytes = 0
    seconds = 0.0
    timed: dict[str, tuple[float, list[FeatureBatch]]] = {}
    for group in groups.values():
        subject = group[0].subject
        if subject.identity not in timed:
            timed[subject.identity] = _timed(group, device)
        each, found = timed[subject.identity]
        left = len(group[0].split) - min(cache.num_done(need.facts()) for need in group)
        num_images += left
        seconds += left * each
        num_bytes += sum(
            _shape(len(group[0].split), found[min(i, len(found) - 1)]).num_bytes
            for i in range(len(group))
        )
    for need, times in forwards:
        if need.subject.identity not in timed:
            timed[need.subject.identity] = _timed([need], device)
        num_images += len(need.split)
        seconds += timed[need.subject.identity][0] * times * len(need.split)
    free = shutil.disk_usage(_existing(cache.folder)).free
    estimated = Estimated(num_images, num_bytes, seconds, free)
    if num_bytes > free:
        raise UserError(
            f"the features do not fit on the disk ({estimated.text()}); evaluate fewer images with "
            "--num-train and --num-val, or free space with `nearsight data cache --delete`"
        )
    return estimated


def _timed(group: Sequence[Need], device: str) -> tuple[float, list[FeatureBatch]]:
    """Return the seconds per image, and the features of a few images."""
    need = group[0]
    images = next(_inputs(need, 0, min(8, len(need.split)), device))
    layers = [each.layer for each in group]
    began = time.perf_counter()
    found = need.subject.extractor.features(images, layers, need.place)
    return (time.perf_counter() - began) / len(images), found


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder
