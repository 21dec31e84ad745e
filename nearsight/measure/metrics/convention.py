"""Conventions for counting the mean attention distance, as presets.

They differ in the unit of distance and in whether rows are renormalised after prefix tokens are
dropped. Only distances follow a convention (MAD in both respects, MAD without self in its unit);
every other metric is the same in all of them. docs/conventions.md explains their effect on the
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nearsight.core import UserError, suggestion
from nearsight.measure.catalogue import metric
from nearsight.measure.layout import LayerFacts
from nearsight.measure.metrics.estimates import Estimates
from nearsight.models.layers import Grid

Unit = Literal["grid diagonal", "patches", "pixels"]
Treatment = Literal["renormalised", "not renormalised"]

ENTROPY = "mean of row entropies / log N"


@dataclass(frozen=True)
class Convention:
    """A way to count distances. Every result records its fields and its description ``text``."""

    name: str
    unit: Unit
    prefix: Literal["dropped"]
    rows: Treatment
    entropy: str
    text: str

    @property
    def renormalised(self) -> bool:
        """Whether rows are renormalised after prefix tokens are dropped."""
        return self.rows == "renormalised"

    def patch(self, grid: Grid, image_size: tuple[int, int] | None) -> float:
        """Return the side of a patch in this unit, for a layer with this grid.

        Raises:
            UserError: If the unit is pixels and the patches are not square, or ``image_size`` is
                None, because the model's input was not a batch of images.

        >>> CONVENTIONS["pixels"].patch(Grid(14, 14), image_size=(224, 224))
        16.0
        """
        if self.unit == "patches":
            return 1.0
        if self.unit == "grid diagonal":
            return 1 / grid.diagonal
        if image_size is None:
            raise UserError(
                f"convention {self.name!r} counts distances in pixels, but the model's input is "
                "not a batch of images [n, 3, height, width]; measure in another convention"
            )
        height, width = image_size
        if height % grid.rows or width % grid.cols or height * grid.cols != width * grid.rows:
            raise UserError(
                f"convention {self.name!r} counts distances in pixels and needs square patches, "
                f"but a {grid} grid on an image of {height}x{width} pixels has none; measure in "
                "another convention"
            )
        return height / grid.rows


def _preset(name: str, unit: Unit, rows: Treatment, text: str) -> Convention:
    """Return a convention that drops prefix tokens."""
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
    """Return the preset of this name.

    Raises:
        UserError: If there is none.
    """
    if name not in CONVENTIONS:
        raise UserError(
            f"there is no convention {name!r}; choose among {', '.join(CONVENTIONS)}"
            f"{suggestion(name, CONVENTIONS)}"
        )
    return CONVENTIONS[name]


def convert_estimates(
    metrics: dict[str, Estimates],
    layers: Sequence[LayerFacts],
    given: Convention,
    wanted: Convention,
) -> dict[str, Estimates]:
    """Return the metrics with their distances in another convention.

    Units can be converted exactly. Renormalisation cannot, because a mean does not tell how much
    attention each row gave to prefix tokens.

    Args:
        metrics: Estimates by metric.
        layers: Facts of the measured layers, in the same order.
        given: The convention of ``metrics``.
        wanted: The convention of the result.

    Raises:
        UserError: If the conventions renormalise differently and a layer has prefix tokens or
            padding.
    """
    unplaced = [layer.name for layer in layers if layer.num_unplaced]
    if given.rows != wanted.rows and unplaced and "mad" in metrics:
        raise UserError(
            f"this was measured with rows {given.rows} and cannot be converted to {wanted.name!r} "
            f"with rows {wanted.rows}, because patches of layer {unplaced[0]} also attend to "
            f"prefix tokens or padding; measure again with convention={wanted.name!r}"
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
