"""Profiles made by hand, for the tests of what is done with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearsight.measure.layout.tokens import LayerFacts
from nearsight.measure.metrics.convention import convention_of
from nearsight.measure.metrics.estimates import Estimates
from nearsight.measure.profile.profile import Profile
from nearsight.models.layers.grid import Grid

NUM_IMAGES = 13
GRID = Grid(5, 7)


def made_profile(
    seed: int,
    heads: Sequence[int] = (3, 3),
    grid: Grid = GRID,
    num_images: int = NUM_IMAGES,
    shift: float = 0.0,
    convention: str = "paper",
) -> Profile:
    """Random values; images differ far more than heads, as they do."""
    random = np.random.default_rng(seed)
    common = 0.2 * np.random.default_rng(97).random((num_images, 1))

    def estimates(*shape: int) -> Estimates:
        values = [random.random((num_images, h, *shape)) for h in heads]
        return Estimates(
            [0.1 * x + common.reshape(-1, 1, *[1] * len(shape)) + shift for x in values]
        )

    layers = tuple(
        LayerFacts(
            name=f"blocks.{number}.attn", kind="Attention", grid=grid, num_heads=h, num_prefix=1,
            num_keys=grid.num_patches, num_windows=1, proof_error=1e-7, note=None,
            image_size=(10 * grid.rows, 10 * grid.cols),
        )
        for number, h in enumerate(heads)
    )  # fmt: skip
    metrics = {
        "mad": estimates(),
        "entropy": estimates(),
        "self_mass": estimates(),
        "radius_mass": estimates(3),
        "ring_mass": estimates(11),
    }
    return Profile(layers, (("head", "one query"),), metrics, convention_of(convention))
