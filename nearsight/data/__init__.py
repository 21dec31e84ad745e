"""Load data sets, augment images, and prepare them for a model.

``sets`` loads labelled images, ``segmentation`` loads images with a class for every pixel, and
``fetch`` downloads and imports labelled sets. ``augment`` changes training images, ``input`` turns
image files of any size into a model's input, and ``draws`` draws all random numbers.
"""

from __future__ import annotations

from nearsight.data.segmentation import VOID, open_segmentation

__all__ = ["VOID", "open_segmentation"]
