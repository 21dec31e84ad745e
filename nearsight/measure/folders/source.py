"""Measure a source (a trained run or a named model) into a folder.

It writes these files:

measure.json         metrics of every head with intervals and null lines (measure_contents.py)
measure.safetensors  every metric per image and head (measure/profile/values.py)
examples.json        attention and features of a few of the images (runs/records)
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor, nn

from nearsight.core import UserError, World
from nearsight.measure.catalogue import DEFAULT_METRICS
from nearsight.measure.folders.measure_contents import measurement
from nearsight.measure.folders.sharing import gather_profile
from nearsight.measure.layout import keep_places
from nearsight.measure.profile import (
    NULL_IMAGES,
    VALUES,
    Profile,
    measure_model,
    measure_nulls,
    values_bytes,
)
from nearsight.measure.readouts import capture_examples
from nearsight.runs import (
    EXAMPLES,
    MEASURE,
    finish_measurement,
    hardware,
    measured_settings,
    missing_names,
    native_code,
    write_measurement,
)
from nearsight.runs.records import EXAMPLES_FILE, MEASURE_FILE, MeasureRecord

NUM_EXAMPLES = 4  # images whose attention goes to examples.json
MEASUREMENT_FILES = (MEASURE, VALUES, EXAMPLES)
PREPARATION = ("resize", "crop", "keep_ratio", "interpolation", "mean", "std")


class MeasuredSource(ABC):
    """A model, and the images it is measured on."""

    model: nn.Module
    names: Sequence[str]  # names of the chosen images, as measure.safetensors lists them

    @abstractmethod
    def batches(self, positions: Sequence[int]) -> Iterable[Tensor]:
        """Return the images at these positions in ``names`` as batches of the model's input."""

    @abstractmethod
    def pictures(self, positions: Sequence[int]) -> list[UInt8[np.ndarray, "h w 3"]]:
        """Return the images at these positions as pixels to show, without normalisation."""

    @abstractmethod
    def fresh_model(self) -> nn.Module:
        """Return the same architecture at random initialisation, for a null line."""

    def gather(self, world: World) -> None:  # noqa: B027 (a source may have nothing to gather)
        """Collect what other processes recorded while reading images.

        Every process of the group must call this.
        """

    def null_problem(self, error: ValueError) -> None:
        """Record why the null lines could not be measured, or raise the error."""
        raise error

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return what measure.json says about the model and its images."""

    def own_files(self) -> dict[str, bytes]:
        """Return run.json, which records where the model came from, unless the folder has one."""
        return {}


def measure_folder(
    folder: Path,
    source: MeasuredSource,
    *,
    convention: str = "paper",
    metrics: Sequence[str] | str = DEFAULT_METRICS,
    num_images: int | None = None,
    device: str = "cpu",
    force: bool = False,
    nulls: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Measure the model of a source on its images and write the files into ``folder``.

    Under torchrun every process measures its share of the images, and the first one writes.

    Args:
        folder: A folder that exists.
        source: The model and its images.
        convention: How distances are counted.
        metrics: Names of metrics, or "all".
        num_images: How many images were asked for; None if the default number was used.
        device: Where the model is.
        force: Overwrite a measurement of other images, weights or settings.
        nulls: Also measure the null lines of the model (random initialisation, shuffled patches) on
            a few of the images.
        progress: Called with the number of images that this process has measured and will measure,
            both including those of the null lines.

    Returns:
        The path of measure.json.

    Raises:
        UserError: If there are fewer than two images for each process, or the folder has another
            measurement.
    """
    world = World.current(device)
    before = None if force else _earlier_measurement(folder)
    if before is not None:
        _check_settings(folder, before, len(source.names), convention, metrics)
    num = len(source.names)
    if num < 2 * world.size:
        raise UserError(
            f"{world.size} processes need at least {2 * world.size} images, but there are only "
            f"{num}; raise --num-images or start fewer processes"
        )
    own = range(num)[world.share(num)]

    few = spread_positions(num) if nulls and world.is_main else ()
    total = len(own) + 2 * len(few)

    def report(done: int) -> None:
        if progress:
            progress(done, total)

    began = time.perf_counter()
    with keep_places(folder if world.is_main else None):
        measured = measure_model(
            source.model,
            source.batches(own),
            convention=convention,
            metrics=metrics,
            progress=report,
        )
    profile = gather_profile(measured, world)
    seconds = time.perf_counter() - began
    source.gather(world)
    if world.is_main:
        lines: dict[str, Any] = {}
        if nulls:
            lines = _measure_null_lines(source, profile, lambda done: report(len(own) + done))
        examples, examples_record = _examples(source)
        contents = measurement(profile, lines) | source.facts()
        contents |= {"seconds": seconds, "hardware": hardware(device, world.size)}
        contents |= {"native": native_code(), "examples": examples_record}
        contents["settings"] = measured_settings(num_images, convention, metrics)
        if before is not None:
            _check_subject(folder, before, contents)
        files = {VALUES: values_bytes(profile, source.names), EXAMPLES: examples}
        write_measurement(folder, contents, files | source.own_files())
    return folder / MEASURE


@contextmanager
def create_folder(folder: Path) -> Iterator[None]:
    """Create a folder before the work inside the ``with`` block begins.

    So a folder that cannot be written is noticed early. If the work fails, a folder that did not
    exist before is removed again.
    """
    was_there = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if not was_there:
            with suppress(OSError):
                folder.rmdir()
        raise


def _earlier_measurement(folder: Path) -> MeasureRecord | None:
    """Return the measurement in a folder; None if there is none or it cannot be read."""
    finish_measurement(folder)
    try:
        return MEASURE_FILE.read(folder) if (folder / MEASURE).is_file() else None
    except UserError:
        return None


def _check_settings(
    folder: Path,
    before: MeasureRecord,
    num_images: int,
    convention: str,
    metrics: Sequence[str] | str,
) -> None:
    """Refuse to overwrite a measurement with other settings; additional metrics are allowed.

    Args:
        folder: The folder.
        before: The measurement in it.
        num_images: Number of images of the new measurement.
        convention: Its convention.
        metrics: Its metrics.
    """
    differences = []
    if before.convention.name != convention:
        differences.append(f"convention {before.convention.name}")
    if before.num_images != num_images:
        differences.append(f"{before.num_images} images")
    measured = before.settings["metrics"] if before.settings else ()
    if lost := missing_names(measured, metrics):
        differences.append(f"the metrics {', '.join(lost)}")
    if differences:
        raise _other_measurement(folder, f"with {' and '.join(differences)}")


def _check_subject(folder: Path, before: MeasureRecord, contents: dict[str, Any]) -> None:
    """Refuse to overwrite a measurement of other images or weights."""
    if before.data.hash != contents["data"]["hash"]:
        raise _other_measurement(folder, f"of other images ({before.data.name})")
    old, new = (
        (before.weights.sha256 if before.weights else None),
        contents["weights"].get("sha256"),
    )
    if old != new and before.weights is not None:
        raise _other_measurement(folder, f"of other weights ({old})")


def _other_measurement(folder: Path, what: str) -> UserError:
    """Return the error that an earlier measurement would be lost.

    Args:
        folder: The folder.
        what: How the earlier measurement differs.
    """
    return UserError(
        f"{folder} has a measurement {what}, which would be lost; "
        "choose another folder with --out, or overwrite it with --force"
    )


def spread_positions(num: int, wanted: int = NULL_IMAGES) -> range:
    """Return at most ``wanted`` evenly spaced positions among ``num``.

    The images of a folder are sorted by class, so the first ones would all be of one or two
    classes.

    >>> list(spread_positions(5)), spread_positions(640), list(spread_positions(11, 4))
    ([0, 1, 2, 3, 4], range(0, 640, 10), [0, 2, 4, 6])
    """
    return range(num)[:: max(1, num // wanted)][:wanted]


def _examples(source: MeasuredSource) -> tuple[bytes | None, dict[str, Any]]:
    """Return the content of examples.json, and what measure.json records about it.

    There is no file if the attention of the images cannot be shown.
    """
    positions = spread_positions(len(source.names), NUM_EXAMPLES)
    names = [source.names[position] for position in positions]
    images = torch.cat([batch.cpu() for batch in source.batches(positions)])
    try:
        examples = capture_examples(source.model, images, source.pictures(positions), names)
    except UserError as error:  # too many weights, or keys that do not form a grid
        return None, {"names": [], "problem": str(error)}
    return EXAMPLES_FILE.encode(examples.contents()), {"names": names}


def _measure_null_lines(
    source: MeasuredSource, profile: Profile, progress: Callable[[int], None]
) -> dict[str, Any]:
    """Measure the null lines, or let the source record why that failed."""
    few = source.batches(spread_positions(len(source.names)))
    try:
        return measure_nulls(source.model, source.fresh_model(), few, profile, progress)
    except ValueError as error:
        source.null_problem(error)
        return {}
