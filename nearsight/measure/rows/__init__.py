"""Recompute attention weights in blocks of rows and check them against the layer's output.

``attention_rows`` yields the blocks. ``row_sums`` lets compiled code sum up the rows without
storing them. ``prove`` makes the check. ``capture_attention`` returns whole attention maps of a few
images.
"""

from __future__ import annotations

from nearsight.measure.rows.blocks import Rows, attention_rows, wide
from nearsight.measure.rows.captured import capture_attention, num_leading, on_the_image
from nearsight.measure.rows.kernel import row_sums
from nearsight.measure.rows.proof import prove
from nearsight.measure.rows.unfold import Buffers, RowBlock, Unfolded

__all__ = [
    "Buffers",
    "RowBlock",
    "Rows",
    "Unfolded",
    "attention_rows",
    "capture_attention",
    "num_leading",
    "on_the_image",
    "prove",
    "row_sums",
    "wide",
]
