"""Sum up attention rows with compiled code, for the default metrics on a CPU.

torch must write the attention of a block to memory and read it again for every sum. ``kernel.c``
never writes it and takes half of that time. The rows of ``blocks.py``, which give the same numbers
to about 1e-7, are used if ``kernel.c`` was not compiled, on other devices, in float64, and for all
other metrics.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearsight.measure.layout import Geometry
from nearsight.measure.rows.blocks import RowSums
from nearsight.measure.rows.unfold import Unfolded
from nearsight.native import LANES, load_library

CHUNK = 768  # most queries of a head in one job; every job packs the keys again, which takes time


def row_sums(tensors: Unfolded, geometry: Geometry) -> RowSums | None:
    """Return the sums over all rows of a layer, or None if the kernel does not support the call.

    The kernel supports softmax attention on a CPU whose queries and keys are float32 or half
    precision, without a bias or with a float32 bias, and without padded windows.
    """
    compiled = load_library()
    if compiled is None or not _supports(tensors, geometry):
        return None
    assert tensors.queries is not None
    assert tensors.keys is not None
    queries = _floats(tensors.queries[..., geometry.query_tokens, :])
    keys = _floats(tensors.keys[..., geometry.key_tokens, :])
    bias = tensors.mask
    if bias is not None:
        bias = bias[..., geometry.query_tokens, geometry.key_tokens]
    images, windows, heads, num_queries, width = queries.shape
    if keys.shape != (images, windows, heads, geometry.num_keys, width):
        return None  # several images or heads share the same keys
    near, taken = geometry.near
    distances = geometry.offset_distances if geometry.grid.cols % LANES == 0 else None
    columns = 0 if distances is None else geometry.grid.cols
    if distances is None:
        distances = geometry.distances
    chunk = math.ceil(num_queries / math.ceil(num_queries / CHUNK))  # equal parts
    sums = compiled.attention_sums(
        queries, keys, bias, tensors.scale, distances, near, taken, columns=columns, chunk=chunk
    )
    distance, entropy, slots = sums.sum((0, 2)).split([1, 1, near.shape[-1]], dim=-1)
    return RowSums(distance[..., 0], slots @ geometry.near_counts, entropy[..., 0])


def _supports(tensors: Unfolded, geometry: Geometry) -> bool:
    """Return whether the kernel supports this call."""
    mask = tensors.mask
    given = tensors.queries, tensors.keys, mask
    return (
        tensors.is_softmax
        and all(x is None or type(x) is Tensor for x in given)
        and tensors.device.type == "cpu"
        and tensors.dtype == torch.float32
        and (
            mask is None
            or (mask.dtype == torch.float32 and mask.stride(-1) == 1 and not mask.is_neg())
        )
        and geometry.query_missing is None
        and geometry.key_missing is None
    )


def _floats(x: Tensor) -> Tensor:
    """Convert to float32 with a contiguous last dimension."""
    x = x.float().resolve_neg()
    return x if x.stride(-1) == 1 else x.contiguous()
