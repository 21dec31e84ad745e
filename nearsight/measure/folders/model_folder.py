"""Measure a model by name on a folder of images, into a folder like that of a run.

run.json             kind "model": name, weights, preprocessing, images, provenance
measure.json         metrics of every head with intervals
measure.safetensors  every metric per image and head (values.py)
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nearsight.core import UserError
from nearsight.data.input import (
    SEED,
    PictureBatches,
    chosen_pictures,
    equal_size,
    find_pictures,
    pictures_hash,
)
from nearsight.measure.catalogue import DEFAULT_METRICS
from nearsight.measure.folders.sharing import gathered, place, share_of
from nearsight.measure.folders.summary import measurement
from nearsight.measure.folders.values import VALUES, write_values
from nearsight.measure.metrics import chosen_metrics, convention_of
from nearsight.measure.profile import NULL_IMAGES, measure_model, measured_nulls
from nearsight.models.load import INITIAL_SEED, NamedModel, named_model
from nearsight.runs import (
    MEASURE,
    RECORD,
    SCHEMA_VERSION,
    file_hash,
    hardware,
    provenance,
    read_record,
    write_json,
)

KIND = "model"  # of run.json: a model that was measured, not trained here
LIBRARIES = {"hf": "transformers", "torchvision": "torchvision"}
BATCH_SIZE = 32


def measure_named(
    name: str,
    images: Path,
    out: Path | None = None,
    *,
    weights: Path | None = None,
    pretrained: bool = False,
    random_init: bool = False,
    image_size: tuple[int, int] | None = None,
    num_images: int | None = None,
    resize: bool = True,
    convention: str = "paper",
    metrics: Sequence[str] | str = DEFAULT_METRICS,
    batch_size: int = BATCH_SIZE,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Measure the model of ``name`` on the pictures in ``images``; the path of its measure.json.

    ``out`` defaults to ``runs/<name>``. ``num_images``: min(1,000, all) by default, chosen by a
    fixed seed: the same pictures for every model. ``resize=False`` takes prepared pictures as they
    are. ``progress`` is told (images done, images in all).
    """
    folder = Path(out) if out is not None else default_folder(name)
    _check_folder(folder, name)
    chosen_metrics(metrics, convention_of(convention))
    images = Path(images)
    names, num_others = find_pictures(images)
    chosen = chosen_pictures(names, num_images, images)
    size = None if resize else equal_size(images, chosen)
    found = named_model(name, weights, pretrained, random_init, image_size)
    steps = found.preprocessing if resize else found.preprocessing.untouched()
    model = found.model.to(device)
    check_fit(model, size or steps.crop, name, device)
    share = share_of(chosen)

    def report(done: int) -> None:
        if progress:
            progress(done, len(share))

    record = {"schema_version": SCHEMA_VERSION, "kind": KIND, **_origin(found, weights, device)}
    batches = PictureBatches(images, share, steps, batch_size, device)
    with _made(folder):
        began = time.perf_counter()
        profile = gathered(
            measure_model(model, batches, convention=convention, metrics=metrics, progress=report)
        )
        seconds = time.perf_counter() - began
        digests = gathered_dict(batches.digests)
        rank, num_processes = place()
        if rank > 0:
            return folder / MEASURE
        spread = chosen[:: max(1, len(chosen) // NULL_IMAGES)][:NULL_IMAGES]
        few = PictureBatches(images, spread, steps, batch_size, device)
        nulls: dict[str, Any] = {}
        try:
            fresh = named_model(name, random_init=True, image_size=image_size).model.to(device)
            nulls = measured_nulls(model, fresh, few, profile)
        except ValueError as error:  # the measurement itself stands
            record["notes"].append(f"The null lines of the model were not measured: {error}.")
    data = {
        "name": images.resolve().name,
        "hash": pictures_hash(chosen, digests),
        "origin": "folder",
        "folder": str(images),
        "num_images": len(chosen),
        "num_available": len(names),
        "num_other_files": num_others,
        "image_seed": SEED,
    }
    write_json(folder / RECORD, record | {"data": data, "preprocessing": steps.facts()})
    write_values(folder / VALUES, profile, chosen)
    contents = measurement(profile, nulls) | {
        "num_available": len(names),
        "image_seed": SEED,
        "data": {"name": data["name"], "hash": data["hash"]},
        "preprocessing": steps.facts(),
        "weights": record["weights"],
        "seconds": seconds,
        "hardware": hardware(device, num_processes),
    }
    write_json(folder / MEASURE, contents)
    return folder / MEASURE


def default_folder(name: str) -> Path:
    """``runs/`` and the name without what a file system may not like.

    >>> default_folder("hf/facebook/dinov2-small").as_posix()
    'runs/hf-facebook-dinov2-small'
    """
    return Path("runs") / re.sub(r"[^\w.+-]+", "-", name).strip("-.")


def _check_folder(folder: Path, name: str) -> None:
    """Never write over a run that was trained, or over the measurement of another model."""
    if not (folder / RECORD).is_file():
        return
    record = read_record(folder)
    if record.get("kind") != KIND:
        raise UserError(f"{folder} is a run that was trained; give another folder with --out")
    if record["model"]["name"] != name:
        raise UserError(
            f"{folder} holds the measurement of {record['model']['name']}; "
            "give another folder with --out"
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


def gathered_dict(found: dict[str, str]) -> dict[str, str]:
    """The entries of all processes (collective)."""
    _, num_processes = place()
    if num_processes == 1:
        return found
    parts: list[dict[str, str]] = [{} for _ in range(num_processes)]
    torch.distributed.all_gather_object(parts, found)
    return {name: digest for part in parts for name, digest in part.items()}


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
