"""Load images with a class for every pixel: segmentation sets by name, and any folder of masks.

``open_segmentation`` opens a split of a set in its official layout. A new set is a module with a
function that opens it (``voc2012.py`` is the shortest example), and a line in ``all_masks.py``.
"""

from __future__ import annotations

from nearsight.data.segmentation.all_masks import SETS, open_segmentation
from nearsight.data.segmentation.segments import VOID, Segments

__all__ = ["SETS", "VOID", "Segments", "open_segmentation"]
