"""Augment batches of uint8 images on their device, each image with its own random draws."""

from __future__ import annotations

from nearsight.data.augment.mix import Mix, draw_mix, mix_images, mixed_targets
from nearsight.data.augment.pipeline import augment_images, normalise_pixels
from nearsight.data.augment.resize import enlarge

__all__ = [
    "Mix",
    "augment_images",
    "draw_mix",
    "enlarge",
    "mix_images",
    "mixed_targets",
    "normalise_pixels",
]
