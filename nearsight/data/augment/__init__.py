"""Augmentation of uint8 batches on their device, every image in its own way."""

from __future__ import annotations

from nearsight.data.augment.mix import Mix, draw_mix, mix_images, mixed_targets
from nearsight.data.augment.pipeline import augment_images, normalized

__all__ = ["Mix", "augment_images", "draw_mix", "mix_images", "mixed_targets", "normalized"]
