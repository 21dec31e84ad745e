"""Tables 1 and 2 of the protocol paper (Toledo and Martínez, arXiv 2605.16390), as data.

Values have the names and units of our outcomes: accuracy in 0..1 (the paper prints percent), MAD
over the grid's diagonal, entropy over log N. The extremes are over the 64 heads, each a mean over
5,000 test images. One seed, so no number has an interval. Conditions carry our protocol names.
Table 1 has accuracy alone; its CIFAR-100 rows are two rows of table 2. The text of section 5.1
gives min MAD on CIFAR-10 and Tiny-ImageNet too, but our copy of the paper lost these numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from nearsight.core import UserError
from nearsight.protocol import EIGHT


@dataclass(frozen=True)
class PaperRow:
    """The numbers that the paper prints of one training; None where we do not know one."""

    accuracy: float  # on the test set
    min_mad: float | None = None
    max_mad: float | None = None
    min_entropy: float | None = None
    max_entropy: float | None = None

    def __getitem__(self, value: str) -> float:
        """Return a number by name; raise a UserError if the paper does not print it."""
        found = getattr(self, value, None)
        if found is None:
            raise UserError(f"the paper prints no {value!r} of this training")
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
    """Return a value of the four conditions of table 2 with (or without) a part, sorted.

    >>> paper_values("min_mad", "cutmix", on=True)
    [0.008, 0.009, 0.021, 0.024]
    """
    return sorted(row[value] for name, row in PAPER_TABLE_2.items() if (part in EIGHT[name]) == on)


def paper_effect(value: str, part: str) -> float:
    """Return a part's main effect in table 2: mean of four with it minus mean of four without.

    >>> round(paper_effect("min_mad", "cutmix"), 5)
    -0.25825
    """
    on, off = (sum(paper_values(value, part, on)) / 4 for on in (True, False))
    return on - off


def paper_difference(value: str, one: str, other: str, data: str = "cifar100") -> float:
    """Return one protocol minus another on a data set.

    >>> round(paper_difference("accuracy", "modern", "baseline", "tiny-imagenet"), 4)
    0.0703
    """
    rows = PAPER_TABLE_2 if data == "cifar100" else PAPER_TABLE_1[data]
    return rows[one][value] - rows[other][value]
