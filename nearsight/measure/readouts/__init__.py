"""Read what a model's parts (GAug, GPSA) have learned, and capture attention in example images."""

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
    read_collection,
    training_contents,
    written_collection,
)
from nearsight.measure.readouts.example_capture import capture_examples

__all__ = [
    "Collection",
    "HeadShares",
    "ReadOuts",
    "ShownShare",
    "capture_examples",
    "gaussian_widths",
    "gpsa_gates",
    "head_shares",
    "layer_contents",
    "merge_collections",
    "overall_contents",
    "read_collection",
    "training_contents",
    "written_collection",
]
