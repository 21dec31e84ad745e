"""Count how often intervals over images contain the true value.

    python benchmarks/coverage_images.py FOLDER [FOLDER]

The intervals are the 95 % bootstrap intervals of mIoU, and of the paired difference of two models.
The images of an evaluation (evaluate.npz) are the population: the true value is their mIoU, and
each of 300 samples draws n of them with replacement. Expected: the intervals contain the true value
in 93 to 97 % of the samples. It takes a minute for each number of images on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nearsight.report.read import EvaluatedFolder, last_layers, read_evaluations
from nearsight.stats import Estimate, image_interval, miou, paired_image_interval

SAMPLES = 300
NUMBERS_OF_IMAGES = (207, 483, 1449)


def matrices(folder: EvaluatedFolder) -> np.ndarray:
    """Return the confusion matrices of the first segmentation of a folder."""
    for result in last_layers(folder).values():
        for number in result.numbers:
            if number.name == "mIoU":
                return folder.images(number)
    raise SystemExit(f"{folder.path} has no segmentation")


def coverage(truth: float, interval: Callable[[np.ndarray], Estimate], num: int, of: int) -> float:
    """Return the share of samples whose interval contains the true value."""
    random = np.random.RandomState(1)
    held = 0
    for _ in range(SAMPLES):
        found = interval(random.randint(0, of, num))
        held += found.low <= truth <= found.high
    return held / SAMPLES


def main() -> None:
    found = [matrices(folder) for folder in read_evaluations([Path(x) for x in sys.argv[1:3]])]
    every = [np.ones(len(x)) for x in found]
    truths = [float(miou(x, counts)) for x, counts in zip(found, every)]
    for num in NUMBERS_OF_IMAGES:
        single = coverage(
            truths[0], lambda rows: image_interval(miou, found[0][rows]), num, len(found[0])
        )
        print(f"{num:5d} images: mIoU {100 * single:.1f} %", end="")
        if len(found) == 2:
            paired = coverage(
                truths[0] - truths[1],
                lambda rows: paired_image_interval(miou, found[0][rows], found[1][rows]),
                num,
                len(found[0]),
            )
            print(f", paired difference {100 * paired:.1f} %", end="")
        print()


if __name__ == "__main__":
    main()
