"""Measure a model by name on a folder of images, into a folder like that of a run.

run.json             kind "model": name, weights, preprocessing, images, provenance
and the files of source.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from nearsight.core import UserError, World
from nearsight.data.input import (
    SEED,
    PictureBatches,
    chosen_pictures,
    equal_size,
    find_pictures,
    pictures_hash,
    read_picture,
    readable_pictures,
)
from nearsight.measure.catalogue import DEFAULT_METRICS
from nearsight.measure.folders.source import MeasuredSource, measure_folder
from nearsight.measure.localise import Locality, localise, read_locality
from nearsight.measure.metrics import chosen_metrics, convention_of
from nearsight.models.load import INITIAL_SEED, NamedModel, named_model
from nearsight.runs import (
    RECORD,
    SCHEMA_VERSION,
    file_hash,
    finish_measurement,
    provenance,
    read_record,
)
from nearsight.runs.records import RUN_FILE, TrainedRun

KIND = "model"  # of run.json: a model that was measured, not trained here
LIBRARIES = {"hf": "transformers", "torchvision": "torchvision"}
BATCH_SIZE = 32
NUM_NAMED = 3  # images that cannot be read; further ones are counted


class ModelChoice(NamedTuple):
    """A model by name, and the weights and the image size asked for."""

    name: str
    weights: Path | None = None
    pretrained: bool = False
    random_init: bool = False
    image_size: tuple[int, int] | None = None


class PictureSource(MeasuredSource):
    """A named model, and pictures chosen from a folder."""

    def __init__(
        self,
        choice: ModelChoice,
        images: Path,
        num_images: int | None,
        resize: bool,
        batch_size: int,
        device: str,
        locality: Locality | None = None,
        skip_corrupt: bool = False,
    ) -> None:
        self.choice, self.images, self.locality = choice, images, locality
        self.batch_size, self.device = batch_size, device
        available, self.num_others = find_pictures(images)
        self.num_available = len(available)
        self.names = chosen_pictures(available, num_images, images)
        corrupt: list[str] = []
        if skip_corrupt:
            self.names, corrupt = readable_pictures(images, self.names)
        size = None if resize else equal_size(images, self.names)
        found = named_model(*choice)
        self.steps = found.preprocessing if resize else found.preprocessing.untouched()
        self.size = size or self.steps.crop
        self.model = self._made_local(found.model.to(device))
        check_fit(self.model, self.size, choice.name, device)
        self.digests: dict[str, str] = {}  # sha256 of every file that was read, by its name
        self.record: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": KIND}
        self.record |= _origin(found, choice.weights, device)
        if corrupt:
            more = ", ..." if len(corrupt) > NUM_NAMED else ""
            self.record["notes"].append(
                f"Images left out because they cannot be read: {len(corrupt)} "
                f"({', '.join(corrupt[:NUM_NAMED])}{more})."
            )
        if locality is not None:
            self.record["notes"].append(f"Its attention was made local: {locality}.")

    def _made_local(self, model: nn.Module) -> nn.Module:
        if self.locality is None:
            return model
        return localise(model, self.locality, image_size=self.size)

    def batches(self, positions: Sequence[int]) -> PictureBatches:
        names = [self.names[position] for position in positions]
        return PictureBatches(
            self.images, names, self.steps, self.batch_size, self.device, self.digests
        )

    def pictures(self, positions: Sequence[int]) -> list[np.ndarray]:
        names = [self.names[position] for position in positions]
        pixels = [read_picture(self.images, name, self.steps)[0] for name in names]
        return [each.transpose(1, 2, 0) for each in pixels]

    def fresh_model(self) -> nn.Module:
        size = self.choice.image_size
        found = named_model(self.choice.name, random_init=True, image_size=size)
        return self._made_local(found.model.to(self.device))

    def gather(self, world: World) -> None:
        for digests in world.gather(dict(self.digests)):
            self.digests |= digests

    def null_problem(self, error: ValueError) -> None:
        """Note the problem in run.json: the measurement itself stands."""
        self.record["notes"].append(f"The null lines of the model were not measured: {error}.")

    @cached_property
    def data(self) -> dict[str, Any]:
        """What run.json says about the pictures, once all of them were read."""
        return {
            "name": self.images.resolve().name,
            "hash": pictures_hash(self.names, self.digests),
            "origin": "folder",
            "folder": str(self.images),
            "num_images": len(self.names),
            "num_available": self.num_available,
            "num_other_files": self.num_others,
            "image_seed": SEED,
        }

    def facts(self) -> dict[str, Any]:
        return {
            "num_available": self.num_available,
            "image_seed": SEED,
            "data": {"name": self.data["name"], "hash": self.data["hash"]},
            "preprocessing": self.steps.facts(),
            "locality": None if self.locality is None else str(self.locality),
            "weights": self.record["weights"],
        }

    def own_files(self) -> dict[str, bytes]:
        facts = {"data": self.data, "preprocessing": self.steps.facts()}
        return {RECORD: RUN_FILE.encode(self.record | facts)}


def measure_named(
    name: str,
    images: str | Path,
    out: str | Path | None = None,
    *,
    weights: str | Path | None = None,
    pretrained: bool = False,
    random_init: bool = False,
    image_size: tuple[int, int] | None = None,
    localise: str | None = None,
    num_images: int | None = None,
    resize: bool = True,
    skip_corrupt: bool = False,
    convention: str = "paper",
    metrics: Sequence[str] | str = DEFAULT_METRICS,
    batch_size: int = BATCH_SIZE,
    device: str = "cpu",
    force: bool = False,
    nulls: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Measure the model of ``name`` on the pictures in ``images``; the path of its measure.json.

    ``out`` defaults to ``runs/<name>``. ``localise`` makes the model's attention local first, such
    as ``gaussian:1@last3``. ``num_images``: min(1,000, all) by default, chosen by a
    fixed seed: the same pictures for every model. ``resize=False`` takes prepared pictures as they
    are. ``skip_corrupt`` leaves out images that cannot be read, and names them. ``force`` writes
    over a measurement of other images, weights or settings. ``progress`` is told (images done,
    images in all).
    """
    locality = None if localise is None else read_locality(localise)
    own = name if locality is None else f"{name}-{locality}"
    folder = Path(out) if out is not None else default_folder(own)
    _check_folder(folder, name)
    chosen_metrics(metrics, convention_of(convention))
    file = None if weights is None else Path(weights)
    choice = ModelChoice(name, file, pretrained, random_init, image_size)
    source = PictureSource(
        choice, Path(images), num_images, resize, batch_size, device, locality, skip_corrupt
    )
    with _made(folder):
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


def default_folder(name: str) -> Path:
    """``runs/`` and the name without what a file system may not like.

    >>> default_folder("hf/facebook/dinov2-small").as_posix()
    'runs/hf-facebook-dinov2-small'
    """
    return Path("runs") / re.sub(r"[^\w.+-]+", "-", name).strip("-.")


def _check_folder(folder: Path, name: str) -> None:
    """Never write over a run that was trained, or over the measurement of another model."""
    finish_measurement(folder)
    if not (folder / RECORD).is_file():
        return
    record = read_record(folder)
    if isinstance(record, TrainedRun):
        raise UserError(f"{folder} is a run that was trained; give another folder with --out")
    if record.model.name != name:
        raise UserError(
            f"{folder} holds the measurement of {record.model.name}; give another folder with --out"
        )


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder exists before the work, so that it can be written; a failure leaves no trace."""
    was_there = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if not was_there:
            with suppress(OSError):
                folder.rmdir()
        raise


def check_fit(model: nn.Module, size: tuple[int, int] | None, name: str, device: str) -> None:
    """One empty image through the model, so that a size it does not take is said in words."""
    assert size is not None
    try:
        with torch.inference_mode():
            model(torch.zeros(1, 3, *size, device=device))
    except torch.OutOfMemoryError:
        raise
    except (AssertionError, RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"expected images that {name} takes, got {size[0]}x{size[1]} pixels "
            f"({reason.rstrip('.')}); give its size with --image-size, or other images"
        ) from error


def _origin(found: NamedModel, weights: Path | None, device: str) -> dict[str, Any]:
    """What the record says of the model and of where all this came from."""
    origin: dict[str, Any] = {"from": found.weights}
    if weights is not None:
        origin |= {"file": str(weights), "sha256": file_hash(weights)}
    elif found.weights == "random initialisation":
        origin["seed"] = INITIAL_SEED
    source = provenance(device)
    if library := LIBRARIES.get(found.source):
        source["versions"][library] = metadata.version(library)
    return {
        "status": "measured",
        "model": {
            "name": found.name,
            "source": found.source,
            "num_parameters": found.num_parameters,
        },
        "weights": origin,
        "notes": list(found.notes),
        "provenance": source,
    }
