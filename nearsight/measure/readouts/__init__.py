"""What the trainable parts of a model have learned, read while it is measured."""

from __future__ import annotations

from nearsight.measure.readouts.by_name import gaussian_widths, gpsa_gates
from nearsight.measure.readouts.collection import (
    Collection,
    HeadShares,
    ReadOuts,
    ShownShare,
    head_shares,
    layer_contents,
    merge_collections,
    overall_contents,
    training_contents,
)

__all__ = [
    "Collection",
    "HeadShares",
    "ReadOuts",
    "ShownShare",
    "gaussian_widths",
    "gpsa_gates",
    "head_shares",
    "layer_contents",
    "merge_collections",
    "overall_contents",
    "training_contents",
]
