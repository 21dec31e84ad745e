"""Data sets, augmentation, and the preparation of images."""

from __future__ import annotations

from nearsight.data.segmentation import open_segmentation

__all__ = ["open_segmentation"]
