"""Measure what a source offers, a trained run or a named model, into a folder.

measure.json         metrics of every head with intervals and null lines (summary.py)
measure.safetensors  every metric per image and head (measure/profile/values.py)
examples.json        attention and features of a few of the images (runs/examples.py)
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
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
from nearsight.measure.layout import keeping_places
from nearsight.measure.profile import (
    NULL_IMAGES,
    VALUES,
    Profile,
    measure_model,
    measured_nulls,
    values_bytes,
)
from nearsight.measure.readouts import capture_examples
from nearsight.runs import EXAMPLES, MEASURE, RECORD, hardware, native_code, write_measurement
from nearsight.runs.records import EXAMPLES_FILE

NUM_EXAMPLES = 4  # images whose attention is kept


class MeasuredSource(ABC):
    """A model, and the images it is measured on."""

    model: nn.Module
    names: Sequence[str]  # of the chosen images, as measure.safetensors lists them

    @abstractmethod
    def batches(self, positions: Sequence[int]) -> Iterable[Tensor]:
        """Return the images at these positions in ``names`` as batches of the model's input."""

    @abstractmethod
    def pictures(self, positions: Sequence[int]) -> list[UInt8[np.ndarray, "h w 3"]]:
        """Return the images at these positions as a person would look at them."""

    @abstractmethod
    def fresh_model(self) -> nn.Module:
        """Return the same architecture at random initialisation, for a null line."""

    def gather(self, world: World) -> None:  # noqa: B027 (a source may have nothing to gather)
        """Collect what the other processes noted while their images were read (collective)."""

    def null_problem(self, error: ValueError) -> None:
        """Note why the null lines could not be measured, or raise the error."""
        raise error

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return what measure.json says about the model and its images."""

    def record_bytes(self) -> bytes | None:
        """Return run.json, which tells where the model came from; None if the folder has it."""
        return None


def measure_folder(
    folder: Path,
    source: MeasuredSource,
    *,
    convention: str = "paper",
    metrics: Sequence[str] | str = DEFAULT_METRICS,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Measure the model of a source on its images and write the files into ``folder``.

    Under torchrun every process takes its share of the images and the first one writes.

    Args:
        folder: A folder that exists.
        source: The model and its images.
        convention: How distances are counted.
        metrics: Names of metrics, or "all".
        device: Where the model is.
        progress: Called with the images done and the images in all, of this process.

    Returns:
        The path of measure.json.

    Raises:
        UserError: If there are fewer than two images for each process.
    """
    world = World.current(device)
    num = len(source.names)
    if num < 2 * world.size:
        raise UserError(f"expected at least 2 images for each of {world.size} processes, got {num}")
    own = range(num)[world.share(num)]

    def report(done: int) -> None:
        if progress:
            progress(done, len(own))

    began = time.perf_counter()
    with keeping_places(folder if world.is_main else None):
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
        nulls = _nulls(source, profile)
        examples, told = _examples(source)
        contents = measurement(profile, nulls) | source.facts()
        contents |= {"seconds": seconds, "hardware": hardware(device, world.size)}
        contents |= {"native": native_code(), "examples": told}
        files = {VALUES: values_bytes(profile, source.names), EXAMPLES: examples}
        if (record := source.record_bytes()) is not None:
            files[RECORD] = record
        write_measurement(folder, contents, files)
    return folder / MEASURE


def spread_positions(num: int, wanted: int = NULL_IMAGES) -> range:
    """Return at most ``wanted`` positions at equal steps among ``num``.

    The chosen images of an image folder are sorted by class, so that the first ones would be of a
    class or two.

    >>> list(spread_positions(5)), spread_positions(640), list(spread_positions(11, 4))
    ([0, 1, 2, 3, 4], range(0, 640, 10), [0, 2, 4, 6])
    """
    return range(num)[:: max(1, num // wanted)][:wanted]


def _examples(source: MeasuredSource) -> tuple[bytes | None, dict[str, Any]]:
    """Return examples.json with the attention of a few images, or None, and what is told of it."""
    positions = spread_positions(len(source.names), NUM_EXAMPLES)
    names = [source.names[position] for position in positions]
    images = torch.cat([batch.cpu() for batch in source.batches(positions)])
    try:
        found = capture_examples(source.model, images, source.pictures(positions), names)
    except UserError as error:  # too many weights, or keys that lie on no grid
        return None, {"names": [], "problem": str(error)}
    return EXAMPLES_FILE.encode(found.contents()), {"names": names}


def _nulls(source: MeasuredSource, profile: Profile) -> dict[str, Any]:
    few = source.batches(spread_positions(len(source.names)))
    try:
        return measured_nulls(source.model, source.fresh_model(), few, profile)
    except ValueError as error:
        source.null_problem(error)
        return {}
