"""Measure a named model on a folder of pictures, and write a folder like that of a run.

It contains the files listed in source.py and run.json, whose kind is "model". run.json records the
model's name and weights, the preprocessing, the pictures and the provenance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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
from nearsight.measure.folders.source import MeasuredSource, create_folder, measure_folder
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

KIND = "model"  # kind of run.json: the model was measured here but trained elsewhere
LIBRARIES = {"hf": "transformers", "torchvision": "torchvision"}
BATCH_SIZE = 32
NUM_NAMED = 3  # how many unreadable images a note names; further ones are only counted


class ModelChoice(NamedTuple):
    """The name of a model, and the weights and image size to use."""

    name: str
    weights: Path | None = None
    pretrained: bool = False
    random_init: bool = False
    image_size: tuple[int, int] | None = None


class PictureSource(MeasuredSource):
    """A named model, and pictures chosen from a folder.

    Args:
        choice: The model.
        images: The folder.
        num_images: How many pictures to choose; None for 1,000, or all if there are fewer.
        resize: Whether to resize and crop the pictures; otherwise they must all have one size.
        batch_size: Pictures per batch.
        device: Where to run the model.
        locality: How to make the model's attention local before it is measured; None to leave it.
        skip_corrupt: Leave out pictures that cannot be read, and name them in a note.
    """

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
        named = named_model(*choice)
        self.steps = named.preprocessing if resize else named.preprocessing.without_resizing()
        self.size = size or self.steps.crop
        self.model = self._localise(named.model.to(device))
        check_fit(self.model, self.size, choice.name, device)
        self.digests: dict[str, str] = {}  # sha256 of every file that was read, by name
        self.record: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": KIND}
        self.record |= _origin(named, choice.weights, device)
        if corrupt:
            more = ", ..." if len(corrupt) > NUM_NAMED else ""
            self.record["notes"].append(
                f"Images left out because they cannot be read: {len(corrupt)} "
                f"({', '.join(corrupt[:NUM_NAMED])}{more})."
            )
        if locality is not None:
            self.record["notes"].append(f"Its attention was made local: {locality}.")

    def _localise(self, model: nn.Module) -> nn.Module:
        """Make the attention of a model local, if asked for."""
        if self.locality is None:
            return model
        return localise(model, self.locality, image_size=self.size)

    def batches(self, positions: Sequence[int]) -> PictureBatches:
        """Return the pictures at these positions in ``names`` as batches of the model's input."""
        names = [self.names[position] for position in positions]
        return PictureBatches(
            self.images, names, self.steps, self.batch_size, self.device, self.digests
        )

    def pictures(self, positions: Sequence[int]) -> list[np.ndarray]:
        """Return the pictures at these positions as pixels."""
        names = [self.names[position] for position in positions]
        pixels = [read_picture(self.images, name, self.steps)[0] for name in names]
        return [each.transpose(1, 2, 0) for each in pixels]

    def fresh_model(self) -> nn.Module:
        """Return the same architecture at random initialisation."""
        size = self.choice.image_size
        named = named_model(self.choice.name, random_init=True, image_size=size)
        return self._localise(named.model.to(self.device))

    def gather(self, world: World) -> None:
        """Collect the digests of the files that other processes read."""
        for digests in world.gather(dict(self.digests)):
            self.digests |= digests

    def null_problem(self, error: ValueError) -> None:
        """Record the problem in run.json; the measurement itself remains valid."""
        self.record["notes"].append(f"The null lines of the model were not measured: {error}.")

    @cached_property
    def data(self) -> dict[str, Any]:
        """What run.json records about the pictures; available once all of them were read."""
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
        """Return what measure.json records about the model and its images."""
        return {
            "num_available": self.num_available,
            "image_seed": SEED,
            "data": {"name": self.data["name"], "hash": self.data["hash"]},
            "preprocessing": self.steps.facts(),
            "locality": None if self.locality is None else str(self.locality),
            "weights": self.record["weights"],
        }

    def own_files(self) -> dict[str, bytes]:
        """Return run.json."""
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
    """Measure a named model on a folder of pictures and return the path of its measure.json.

    Args:
        name: A model of nearsight, timm (``timm/...``), torchvision or Hugging Face (``hf/...``).
        images: The folder of pictures.
        out: Where to write; by default ``runs/<name>``.
        weights: A file of weights.
        pretrained: Use the library's pretrained weights, which are downloaded if necessary.
        random_init: Measure the model at random initialisation.
        image_size: Height and width of the model's input; by default the model's own.
        localise: A locality, such as ``gaussian:1@last3``: make the model's attention local first.
        num_images: How many pictures to choose by a fixed seed, the same for every model; by
            default 1,000, or all if there are fewer.
        resize: Resize and crop the pictures as the model needs them; if False, they must all have
            one size, which is used.
        skip_corrupt: Leave out pictures that cannot be read, and name them in run.json.
        convention: How distances are counted.
        metrics: Names of metrics, or "all".
        batch_size: Pictures per batch.
        device: Where to run the model.
        force: Overwrite a measurement of other images, weights or settings.
        nulls: Also measure the null lines (random initialisation, shuffled patches).
        progress: Called with the number of images done and the number of all images.

    Raises:
        UserError: If the model, its weights or the pictures cannot be used, or the folder holds
            something else.

    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as root:
    ...     (pictures := Path(root) / "pictures").mkdir()
    ...     for shade in (0, 120):
    ...         Image.new("RGB", (32, 32), (shade,) * 3).save(pictures / f"{shade}.png")
    ...     path = measure_named("mu", pictures, Path(root) / "out", random_init=True, nulls=False)
    ...     path.name, (path.parent / "run.json").is_file()
    ('measure.json', True)
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


def default_folder(name: str) -> Path:
    """Return ``runs/`` and the model's name, in which other characters are replaced by hyphens.

    >>> default_folder("hf/facebook/dinov2-small").as_posix()
    'runs/hf-facebook-dinov2-small'
    """
    return Path("runs") / re.sub(r"[^\w.+-]+", "-", name).strip("-.")


def _check_folder(folder: Path, name: str) -> None:
    """Raise a UserError if the folder holds a trained run or the measurement of another model."""
    finish_measurement(folder)
    if not (folder / RECORD).is_file():
        return
    record = read_record(folder)
    if isinstance(record, TrainedRun):
        raise UserError(f"{folder} holds a trained run; choose another folder with --out")
    if record.model.name != name:
        raise UserError(
            f"{folder} holds the measurement of {record.model.name}; choose another folder with "
            "--out"
        )


def check_fit(model: nn.Module, size: tuple[int, int] | None, name: str, device: str) -> None:
    """Check that a model accepts images of this size by running it on an empty one.

    Args:
        model: The model.
        size: Height and width of its images.
        name: Name of the model, for the message.
        device: Where the model is.

    Raises:
        UserError: If the model raises an error.
    """
    assert size is not None
    try:
        with torch.inference_mode():
            model(torch.zeros(1, 3, *size, device=device))
    except torch.OutOfMemoryError:
        raise
    except (AssertionError, RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"{name} does not accept images of {size[0]}x{size[1]} pixels "
            f"({reason.rstrip('.')}); set its size with --image-size, or use other images"
        ) from error


def _origin(named: NamedModel, weights: Path | None, device: str) -> dict[str, Any]:
    """Return what run.json records about the model and the origin of its weights."""
    origin: dict[str, Any] = {"from": named.weights}
    if weights is not None:
        origin |= {"file": str(weights), "sha256": file_hash(weights)}
    elif named.weights == "random initialisation":
        origin["seed"] = INITIAL_SEED
    source = provenance(device)
    if library := LIBRARIES.get(named.source):
        source["versions"][library] = metadata.version(library)
    return {
        "status": "measured",
        "model": {
            "name": named.name,
            "source": named.source,
            "num_parameters": named.num_parameters,
        },
        "weights": origin,
        "notes": list(named.notes),
        "provenance": source,
    }
