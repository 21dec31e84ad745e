"""Sums over attention rows by compiled code, for the default metrics on a CPU.

torch can only write the attention of a block down and go over it again for every sum; ``kernel.c``
never writes it down and takes half of that time. Where it was not compiled, on other devices, in
float64 and for all other metrics, the rows of ``rows.py`` give the same numbers to about 1e-7.
"""

from __future__ import annotations

import ctypes
import math
from ctypes import c_float, c_int, c_int64, c_void_p

import torch
from torch import Tensor

from nearsight.measure.layout import Geometry
from nearsight.measure.rows.blocks import RowSums
from nearsight.measure.rows.unfold import Unfolded
from nearsight.native import LANES, load_library

CHUNK = 768  # most queries of a head for one thread at a time; each packs the keys anew


class _Part(ctypes.Structure):
    _fields_ = (
        ("start", c_void_p),
        ("image", c_int64),
        ("window", c_int64),
        ("head", c_int64),
        ("token", c_int64),
    )

    @classmethod
    def of(cls, x: Tensor | None) -> _Part:
        return cls(None) if x is None else cls(x.data_ptr(), *x.stride()[:-1])


class _Sizes(ctypes.Structure):
    _fields_ = tuple(
        (name, c_int64)
        for name in ("images", "windows", "heads", "queries", "keys", "width", "slots", "chunk")
    )


class _Tables(ctypes.Structure):
    _fields_ = (
        ("distances", c_void_p),
        ("near", c_void_p),
        ("taken", c_void_p),
        ("window_distances", c_int64),
        ("window_slots", c_int64),
        ("columns", c_int64),
    )


_PART = ctypes.POINTER(_Part)
_TABLES = ctypes.POINTER(_Tables)
_ARGUMENTS = ctypes.POINTER(_Sizes), _PART, _PART, _PART, c_float, _TABLES, c_void_p, c_int


def row_sums(tensors: Unfolded, geometry: Geometry) -> RowSums | None:
    """The sums over all rows of a layer, or None where the kernel cannot serve.

    It serves softmax attention in float32 or less on a CPU, plain or with a bias in float32, in
    windows without padding.
    """
    compiled = load_library()
    if compiled is None or not _serves(tensors, geometry):
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
        return None  # keys that several images or heads share
    assert num_queries == geometry.num_queries
    near, taken = geometry.near
    num_slots, alike = near.shape[-1], len(near) == 1
    distances = geometry.offset_distances if geometry.grid.cols % LANES == 0 else None
    columns = 0 if distances is None else geometry.grid.cols
    if distances is None:
        distances = geometry.distances
    chunk = math.ceil(num_queries / math.ceil(num_queries / CHUNK))  # equal parts
    num_chunks = math.ceil(num_queries / chunk)  # as kernel.c counts them
    tables = _Tables(
        distances.data_ptr(),
        near.data_ptr(),
        taken.data_ptr(),
        0 if alike else distances.stride(0),
        0 if alike else near.stride(0),
        columns,
    )
    sums = torch.empty(num_chunks, images, windows, heads, 2 + num_slots, dtype=torch.float64)
    compiled.attention_sums.argtypes = _ARGUMENTS
    failed = compiled.attention_sums(
        _Sizes(images, windows, heads, num_queries, geometry.num_keys, width, num_slots, chunk),
        _Part.of(queries),
        _Part.of(keys),
        _Part.of(bias),
        tensors.scale,
        tables,
        sums.data_ptr(),
        torch.get_num_threads(),
    )
    if failed:
        raise MemoryError("no memory for one tile of attention per thread")
    distance, entropy, slots = sums.sum((0, 2)).split([1, 1, num_slots], dim=-1)
    return RowSums(distance[..., 0], slots @ geometry.near_counts, entropy[..., 0])


def _serves(tensors: Unfolded, geometry: Geometry) -> bool:
    mask = tensors.mask
    return (
        tensors.is_softmax
        and tensors.device.type == "cpu"
        and tensors.dtype == torch.float32
        and (mask is None or (mask.dtype == torch.float32 and mask.stride(-1) == 1))
        and geometry.query_missing is None
        and geometry.key_missing is None
    )


def _floats(x: Tensor) -> Tensor:
    """In float32, the last dimension without gaps."""
    x = x.float()
    return x if x.stride(-1) == 1 else x.contiguous()
