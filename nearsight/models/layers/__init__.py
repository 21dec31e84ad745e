"""The building blocks of our models, one layer per file, and the grid that patches sit on."""

from __future__ import annotations

from nearsight.models.layers.attention import (
    SelfAttention,
    attend,
    attention_weights,
    join_heads,
    separate_heads,
)
from nearsight.models.layers.attention_functions import ATTENTION_FUNCTIONS, Mixture
from nearsight.models.layers.bias import PatchBias, SeparableBias, attention_mask
from nearsight.models.layers.grid import Grid, TokenGrid, Unit, as_grid

__all__ = [
    "ATTENTION_FUNCTIONS",
    "Grid",
    "Mixture",
    "PatchBias",
    "SelfAttention",
    "SeparableBias",
    "TokenGrid",
    "Unit",
    "as_grid",
    "attend",
    "attention_mask",
    "attention_weights",
    "join_heads",
    "separate_heads",
]
