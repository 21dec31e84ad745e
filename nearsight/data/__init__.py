"""Data sets, augmentation, and the preparation of images."""

from __future__ import annotations

from nearsight.data.segmentation import VOID, open_segmentation

__all__ = ["VOID", "open_segmentation"]
