"""What is known of a measured layer besides its numbers."""

from __future__ import annotations

from dataclasses import dataclass

from nearsight.models.layers.grid import Grid


@dataclass(frozen=True)
class LayerFacts:
    """A measured layer: its module, where its patches are, and how well the proof held."""

    name: str
    kind: str  # class of the module that attends
    grid: Grid
    num_heads: int
    num_prefix: int
    num_keys: int  # keys with a place that a query can see
    num_windows: int
    proof_error: float  # of attention @ values, relative to the layer's largest output
    note: str | None
    num_unplaced: int = 0  # keys without a place over all windows: prefix tokens, padding
    image_size: tuple[int, int] | None = None  # height and width in pixels
