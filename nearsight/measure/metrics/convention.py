"""How a mean attention distance is counted: the conventions in the wild, as presets.

They differ in the unit and in whether rows are renormalised after the prefix tokens are dropped.
Only distances follow a convention (MAD; MAD without self in its unit); every other metric is the
same in all. docs/conventions.md says what each does to the number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nearsight.core import UserError
from nearsight.measure.catalogue import metric
from nearsight.measure.layout import LayerFacts
from nearsight.measure.metrics.estimates import Estimates
from nearsight.models.layers import Grid

Unit = Literal["grid diagonal", "patches", "pixels"]
Treatment = Literal["renormalised", "not renormalised"]

ENTROPY = "mean of row entropies / log N"


@dataclass(frozen=True)
class Convention:
    """A way to count distances, in words that go into every result."""

    name: str
    unit: Unit
    prefix: Literal["dropped"]
    rows: Treatment
    entropy: str
    text: str

    @property
    def renormalised(self) -> bool:
        return self.rows == "renormalised"

    def patch(self, grid: Grid, image_size: tuple[int, int] | None) -> float:
        """The side of a patch in this unit, for a layer with this grid.

        >>> CONVENTIONS["pixels"].patch(Grid(14, 14), image_size=(224, 224))
        16.0
        """
        if self.unit == "patches":
            return 1.0
        if self.unit == "grid diagonal":
            return 1 / grid.diagonal
        if image_size is None:
            raise UserError(
                f"expected images [n, 3, h, w] for distances in pixels (convention {self.name!r}), "
                "got another input; measure in another convention"
            )
        height, width = image_size
        if height % grid.rows or width % grid.cols or height * grid.cols != width * grid.rows:
            raise UserError(
                f"expected square patches for distances in pixels (convention {self.name!r}), got "
                f"a {grid} grid on an image of {height}x{width} pixels; measure in another "
                "convention"
            )
        return height / grid.rows


def _preset(name: str, unit: Unit, rows: Treatment, text: str) -> Convention:
    return Convention(name, unit, prefix="dropped", rows=rows, entropy=ENTROPY, text=text)


_PATCHES_ONLY = "Attention between patches only: prefix tokens dropped, rows renormalised; "
_ENTROPY = "entropy is the mean of the rows' entropies divided by log N"

PAPER = _preset(
    "paper",
    "grid diagonal",
    "renormalised",
    f"{_PATCHES_ONLY}distance in units of the grid diagonal; {_ENTROPY}; per image, then the mean "
    "over images.",
)
CONVENTIONS = {
    convention.name: convention
    for convention in (
        PAPER,
        _preset(
            "convit",
            "patches",
            "renormalised",
            f"{_PATCHES_ONLY}distance in patches, as ConViT's nonlocality; {_ENTROPY}; per image, "
            "then the mean over images.",
        ),
        _preset(
            "pixels",
            "pixels",
            "renormalised",
            f"{_PATCHES_ONLY}distance in pixels of the input image; {_ENTROPY}; per image, then "
            "the mean over images.",
        ),
        _preset(
            "keras",
            "pixels",
            "not renormalised",
            "Attention between patches only: prefix tokens dropped, rows not renormalised, so that "
            "what patches give to prefix tokens counts as distance 0; distance in pixels of the "
            f"input image, as in Keras' probing of ViTs; {_ENTROPY}, of renormalised rows; per "
            "image, then the mean over images.",
        ),
        _preset(
            "cl-vs-mim",
            "pixels",
            "renormalised",
            f"{_PATCHES_ONLY}distance in pixels of the input image, as in cl-vs-mim, which then "
            f"averages the heads of a layer; {_ENTROPY}; per image, then the mean over images.",
        ),
    )
}


def convention_of(name: str) -> Convention:
    """The preset of this name."""
    if name not in CONVENTIONS:
        raise UserError(f"expected a convention among {', '.join(CONVENTIONS)}, got {name!r}")
    return CONVENTIONS[name]


def converted(
    metrics: dict[str, Estimates],
    layers: Sequence[LayerFacts],
    given: Convention,
    wanted: Convention,
) -> dict[str, Estimates]:
    """The metrics with their distances as ``wanted`` counts them.

    Units convert exactly. Rows do not: how much each row gave to prefix tokens is not in a mean, so
    that change is refused unless no layer has a token without a place.
    """
    unplaced = [layer.name for layer in layers if layer.num_unplaced]
    if given.rows != wanted.rows and unplaced and "mad" in metrics:
        raise UserError(
            f"expected a convention with rows {given.rows}, got {wanted.name!r}, which has them "
            f"{wanted.rows}: patches of layer {unplaced[0]} also look at prefix tokens or padding, "
            f"so the numbers do not follow; measure again with convention={wanted.name!r}"
        )
    factors = [
        wanted.patch(layer.grid, layer.image_size) / given.patch(layer.grid, layer.image_size)
        for layer in layers
    ]
    return {
        name: Estimates([values * factor for values, factor in zip(estimates.values, factors)])
        if metric(name).is_distance
        else estimates
        for name, estimates in metrics.items()
    }
