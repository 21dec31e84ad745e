"""Label a patch by its nearest training patches (Hummingbird, Balazevic et al. 2023).

The memory has every training patch, normalised, with the class shares of its pixels. The k patches
with the largest cosine vote with weight softmax(cosine / T). Scores are interpolated to the size of
the mask. The search is exact; a memory that does not fit in RAM is streamed from disk.

``hummingbird`` leaves pixels without a label out of the memory. ``open-hummingbird`` does what the
public implementation does: pixels without a label become the first class of the memory, images and
masks are compared at the model's image size, predicted classes are renamed by the Hungarian
algorithm before they are scored, a class that occurs nowhere counts as 0, and label 0 of ADE20K
("other") is a class. Only its search is exact, where that of the public implementation is
approximate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int, UInt8
from scipy.sparse import csr_array
from torch import Tensor

from nearsight.data import VOID
from nearsight.evaluate.features import Split, spread
from nearsight.evaluate.solvers import nearest, search_seconds
from nearsight.evaluate.tasks.segmentation.segmentation_scores import (
    Maps,
    score_images,
    scoring_seconds,
    segmentation_findings,
)
from nearsight.evaluate.tasks.segmentation.truth import PatchLabels, patch_labels
from nearsight.evaluate.tasks.task import Bench, Method, TaskNumber, check_least
from nearsight.models.layers import Grid
from nearsight.stats import hungarian_miou

QUERIES, SHOWN, SIDE = 4, 6, 56  # rows and columns of the figure of neighbours; side in pixels
OPTIONS = {"k": 30, "temperature": 0.02}
LEAST_TEMPERATURE = 1e-4  # below it the nearest neighbour decides alone
WITH_OTHER = ("ade20k",)  # data sets whose label 0 is a class in open-hummingbird


def check_options(options: Mapping[str, Any]) -> None:
    """Check the options ``k`` and ``temperature``.

    Raises:
        UserError: If k is less than 1, or the temperature is too small.
    """
    check_least(options, k=1, temperature=LEAST_TEMPERATURE)


class Voting(NamedTuple):
    """The votes for every image of the scored split."""

    maps: Maps
    neighbours: Int[np.ndarray, "patch k"]  # the places in the memory, for every scored patch


def voted_maps(bench: Bench, labels: PatchLabels) -> Voting:
    """Find the neighbours of every scored patch, and return the function that counts their votes.

    Args:
        bench: Its options are ``k`` and ``temperature``.
        labels: The labels of the training patches; patches without any are not in the memory.
    """
    train, val = bench.features(bench.train), bench.features(bench.val)
    k = int(bench.options["k"])
    cosines, found = nearest(
        train.patches.reshape(-1, train.width), val.patches.reshape(-1, val.width), k,
        by="cosine", rows=labels.labelled, progress=bench.progress,
    )  # fmt: skip
    weights = (cosines / bench.options["temperature"]).softmax(-1).numpy()
    grid, num = val.grid, val.grid.rows * val.grid.cols

    def votes(number: int) -> Tensor:
        rows = slice(number * num, (number + 1) * num)
        starts = np.arange(num + 1) * k
        parts = (weights[rows].ravel(), found[rows].numpy().ravel(), starts)
        voters = csr_array(parts, shape=(num, labels.shares.shape[0]))
        dense = (voters @ labels.shares).toarray()  # [patch, cls]
        return torch.from_numpy(dense).T.unflatten(1, (grid.rows, grid.cols))

    return Voting(votes, found.numpy())


def neighbour_pictures(
    bench: Bench, neighbours: Int[np.ndarray, "patch k"], grid: Grid
) -> UInt8[np.ndarray, "query picture side side 3"]:
    """Return the middle patch of some images with its nearest training patches.

    Every patch is shown with the patches around it; the first picture is the query.
    """
    middle = (grid.rows // 2) * grid.cols + grid.cols // 2
    rows = []
    for number in spread(len(bench.val), min(QUERIES, len(bench.val))).tolist():
        place = number * grid.num_patches + middle
        near = neighbours[place, : SHOWN - 1]
        sources = [(bench.val, place), *((bench.train, int(x)) for x in near)]
        rows.append(np.stack([_surroundings(split, x, grid) for split, x in sources]))
    return np.stack(rows)


def _surroundings(split: Split, place: int, grid: Grid) -> UInt8[np.ndarray, "side side 3"]:
    """Return the pixels of a patch and the patches around it."""
    number, patch = divmod(place, grid.num_patches)
    row, col = divmod(patch, grid.cols)
    image = split.image(number).convert("RGB")
    width, height = image.width / grid.cols, image.height / grid.rows
    left, top = round((col - 1) * width), round((row - 1) * height)
    right, bottom = round((col + 2) * width), round((row + 2) * height)
    return np.asarray(image.crop((left, top, right, bottom)).resize((SIDE, SIDE)))


def run_hummingbird(bench: Bench) -> Iterator[TaskNumber]:
    """Yield the numbers of Hummingbird, without the quirks of the public implementation."""
    num_classes = len(bench.train.classes)
    grid = bench.features(bench.train).grid
    labels = patch_labels(bench.train, grid, num_classes)
    voting = voted_maps(bench, labels)
    matrices = score_images(bench.val, voting.maps, num_classes, progress=bench.progress)
    near = {"neighbours": neighbour_pictures(bench, voting.neighbours, grid)}
    matrices = matrices._replace(examples={**matrices.examples, **near})
    settings = {
        **bench.settings(),
        "label_size": "of each mask",
        "void": "neither in the memory nor scored",
        "chosen_on": "nothing is chosen",
        "memory": f"{len(labels.labelled):,} patches, exact search",
    }
    yield from segmentation_findings(matrices, bench.val.classes, settings)


def hummingbird_seconds(bench: Bench) -> float:
    """Return the expected time of the search and of scoring its votes."""
    num_memory, num_queries = (len(x) * bench.sizes.num_patches for x in (bench.train, bench.val))
    search = search_seconds(num_memory, num_queries, bench.sizes.width, int(bench.options["k"]))
    return search + scoring_seconds(bench)


def run_open_hummingbird(bench: Bench) -> Iterator[TaskNumber]:
    """Yield mIoU as the public implementation computes it."""
    with_other = bench.train.data in WITH_OTHER
    num_classes = len(bench.train.classes) + with_other

    def in_memory(mask: np.ndarray) -> np.ndarray:
        return np.where(mask == VOID, 0, mask + with_other)

    def scored(mask: np.ndarray) -> np.ndarray:
        return in_memory(mask) if with_other else mask

    grid = bench.features(bench.train).grid
    labels = patch_labels(bench.train, grid, num_classes, in_memory)
    matrices = score_images(
        bench.val, voted_maps(bench, labels).maps, num_classes, label_size=bench.subject.size,
        recode=scored, progress=bench.progress,
    )  # fmt: skip
    settings = {
        **bench.settings(),
        "label_size": list(bench.subject.size),
        "void": "the first class in the memory; "
        + ("scored as a class" if with_other else "not scored"),
        "chosen_on": "classes are renamed by the Hungarian algorithm on val",
        "classes": num_classes,
        "memory": f"{len(labels.labelled):,} patches, exact search",
    }
    yield TaskNumber("mIoU (compat)", matrices.whole, hungarian_miou, settings)


HUMMINGBIRD = Method(
    "hummingbird", options=OPTIONS, seconds=hummingbird_seconds, check=check_options
)
OPEN_HUMMINGBIRD = replace(
    HUMMINGBIRD, name="open-hummingbird", place="norm", statistics="open-hummingbird"
)
