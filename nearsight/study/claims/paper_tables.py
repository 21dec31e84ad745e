"""Hold tables 1 and 2 of the protocol paper (Toledo and Martínez, arXiv 2605.16390) as data.

The values have the names and units of our outcomes: accuracy in 0..1 (the paper prints percent),
MAD divided by the diagonal of the grid, entropy divided by log N. The extremes are over the 64
heads; the number of a head is a mean over 5,000 test images. The paper has one seed, so no number
has an interval. Conditions have our protocol names. Table 1 has only accuracy, and its CIFAR-100
rows are two rows of table 2. Section 5.1 also gives min MAD on CIFAR-10 and Tiny-ImageNet, but
these numbers are missing from our copy of the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nearsight.core import UserError
from nearsight.protocol import EIGHT

DIAGONAL = math.hypot(7, 7)  # of the 8x8 grid, in patches


@dataclass(frozen=True)
class PaperRow:
    """The numbers that the paper prints for one training; None if we do not know one."""

    accuracy: float  # on the test set
    min_mad: float | None = None
    max_mad: float | None = None
    min_entropy: float | None = None
    max_entropy: float | None = None

    def __getitem__(self, value: str) -> float:
        """Return a number by name, or raise UserError if the paper does not print it."""
        found = getattr(self, value, None)
        if found is None:
            raise UserError(f"the paper prints no {value!r} for this training; use another number")
        return float(found)


PAPER_TABLE_2: dict[str, PaperRow] = {  # CIFAR-100, in the paper's order
    "baseline": PaperRow(0.4853, 0.316, 0.588, 0.551, 0.958),
    "modern": PaperRow(0.6338, 0.008, 0.482, 0.047, 0.975),
    "modern-cutmix": PaperRow(0.5560, 0.210, 0.449, 0.644, 0.967),
    "modern-autoaugment": PaperRow(0.5511, 0.024, 0.492, 0.106, 0.953),
    "modern-labelsmoothing": PaperRow(0.6034, 0.009, 0.481, 0.054, 0.959),
    "baseline+cutmix": PaperRow(0.5512, 0.021, 0.427, 0.096, 0.941),
    "baseline+autoaugment": PaperRow(0.5522, 0.254, 0.436, 0.763, 0.986),
    "baseline+labelsmoothing": PaperRow(0.4919, 0.315, 0.463, 0.635, 0.948),
}

PAPER_TABLE_1: dict[str, dict[str, PaperRow]] = {
    "cifar10": {"baseline": PaperRow(0.7846), "modern": PaperRow(0.8484)},
    "cifar100": {name: PAPER_TABLE_2[name] for name in ("baseline", "modern")},
    "tiny-imagenet": {"baseline": PaperRow(0.3489), "modern": PaperRow(0.4192)},
}


def paper_values(value: str, part: str, on: bool) -> list[float]:
    """Return a value of the four conditions of table 2 with or without a part, sorted.

    >>> paper_values("min_mad", "cutmix", on=True)
    [0.008, 0.009, 0.021, 0.024]
    """
    return sorted(row[value] for name, row in PAPER_TABLE_2.items() if (part in EIGHT[name]) == on)


def paper_effect(value: str, part: str) -> float:
    """Return the main effect of a part in table 2: the mean with it minus the mean without it.

    >>> round(paper_effect("min_mad", "cutmix"), 5)
    -0.25825
    """
    on, off = (sum(paper_values(value, part, on)) / 4 for on in (True, False))
    return on - off


def paper_difference(value: str, one: str, other: str, data: str = "cifar100") -> float:
    """Return the difference in a value between two protocols on a data set.

    >>> round(paper_difference("accuracy", "modern", "baseline", "tiny-imagenet"), 4)
    0.0703
    """
    rows = PAPER_TABLE_2 if data == "cifar100" else PAPER_TABLE_1[data]
    return rows[one][value] - rows[other][value]


def self_mass_bounds() -> dict[str, float]:
    """Return the smallest self-mass that the paper's min MAD allows in conditions with CutMix.

    A patch that is not itself is at least one patch away, so MAD >= (1 - self-mass) / diagonal.

    >>> [round(x, 3) for x in self_mass_bounds().values()]
    [0.921, 0.762, 0.911, 0.792]
    """
    return {
        f"self_mass_{name}": 1 - row["min_mad"] * DIAGONAL
        for name, row in PAPER_TABLE_2.items()
        if "cutmix" in EIGHT[name]
    }


def rank_correlations() -> dict[str, float]:
    """Return the rank correlation of accuracy and min MAD in table 2, with and without CutMix.

    >>> {name: round(x, 6) for name, x in rank_correlations().items()}
    {'with_cutmix': -1.0, 'without_cutmix': -1.0}
    """
    from scipy.stats import spearmanr

    found = {}
    for name, on in (("with_cutmix", True), ("without_cutmix", False)):
        rows = [row for key, row in PAPER_TABLE_2.items() if ("cutmix" in EIGHT[key]) == on]
        pairs = [[row[value] for row in rows] for value in ("accuracy", "min_mad")]
        found[name] = float(spearmanr(*pairs).statistic)
    return found
