"""Data sets, augmentation, and the preparation of images for a model.

``sets`` loads labelled images, ``segmentation`` images with a mask for every pixel, ``fetch``
downloads and imports both. ``augment`` changes training images, ``input`` turns image files of any
size into a model's input, and ``draws`` makes the random numbers of all of them.
"""

from __future__ import annotations

from nearsight.data.segmentation import VOID, open_segmentation

__all__ = ["VOID", "open_segmentation"]
