"""The functions of the compiled library, called with tensors.

C reads memory wherever it is told to. So every size, stride, type and index is checked here first,
and a wrong argument raises a ValueError.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from ctypes import c_float, c_int, c_int64, c_void_p
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nearsight.native.threads import HELPERS

LANES = 8  # floats that the C code takes at a time (calls.h)
WORTH = 2**20  # operations that are worth one more thread: about 100 microseconds


class Part(ctypes.Structure):
    """A tensor [image, window, head, token, ...] (calls.h)."""

    _fields_ = (
        ("start", c_void_p),
        *((name, c_int64) for name in ("image", "window", "head", "token")),
    )

    @classmethod
    def of(cls, x: Tensor | None) -> Part:
        return cls(None) if x is None else cls(x.data_ptr(), *x.stride()[:-1])


class Attention(ctypes.Structure):
    """Sums over attention rows (calls.h)."""

    _fields_ = (
        *((name, Part) for name in ("queries", "keys", "bias")),
        *((name, c_int64) for name in ("images", "windows", "heads", "num_queries", "num_keys")),
        *((name, c_int64) for name in ("width", "slots", "chunk")),
        *((name, c_void_p) for name in ("distances", "near", "taken")),
        *((name, c_int64) for name in ("window_distances", "window_slots", "columns")),
        ("sums", c_void_p),
        ("scale", c_float),
    )


class Factors(ctypes.Structure):
    """The factors of GAug's Gaussian (calls.h)."""

    _fields_ = (
        ("queries", c_void_p),
        *((name, c_int64) for name in ("image", "head", "patch")),
        *((name, c_int64) for name in ("images", "heads", "patches", "width")),
        *((name, c_void_p) for name in ("weight", "bias")),
        ("axes", c_int64),
        *((name, c_float) for name in ("largest", "shift", "growth", "eps")),
        *((name, c_void_p) for name in ("by_row", "by_col")),
        *((name, c_int64) for name in ("num_rows", "num_cols")),
        *((name, c_void_p) for name in ("rows", "cols")),
    )


class Product(ctypes.Structure):
    """A bias from its two factors (calls.h)."""

    _fields_ = (
        *((name, c_void_p) for name in ("rows", "cols", "out")),
        *((name, c_int64) for name in ("heads", "patches", "num_rows", "num_cols")),
        *((name, c_int64) for name in ("head_stride", "patch_stride")),
    )


FUNCTIONS: dict[str, type[ctypes.Structure]] = {
    "attention_sums": Attention,
    "gaussian_factors": Factors,
    "write_product": Product,
}
STRUCTURES: tuple[type[ctypes.Structure], ...] = (Part, *FUNCTIONS.values())


class Library:
    """The compiled functions. Each uses as many threads as torch; their number changes no bit."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        self._functions: dict[str, Callable[..., int]] = {}
        for name, structure in FUNCTIONS.items():
            function = getattr(loaded, name)
            function.argtypes = ctypes.POINTER(structure), ctypes.POINTER(c_int64)
            function.restype = c_int
            self._functions[name] = function

    def attention_sums(
        self,
        queries: Tensor,
        keys: Tensor,
        bias: Tensor | None,
        scale: float,
        distances: Tensor,
        near: Tensor,
        taken: Tensor,
        *,
        columns: int,
        chunk: int,
    ) -> Tensor:
        """Sum distance, entropy and the weights of near keys over the rows of an attention.

        Args:
            queries: float32 [image, window, head, query, width].
            keys: float32 [image, window, head, key, width].
            bias: float32 [image, window, head, query, key] to add to the logits, or None.
            scale: Factor of the products of queries and keys.
            distances: float32 [window, query, key], or [row, 2 * columns - 1] with ``columns``.
            near: int64 [window, query, slot], the keys near a query.
            taken: float32 [window, query, slot], 1 where a slot holds a key.
            columns: Columns of the grid whose patches are both queries and keys, a multiple of
                LANES; 0 where ``distances`` are of every pair. Tables of one window are for all.
            chunk: How many queries of a head are one job.

        Returns:
            float64 [chunk, image, window, head, 2 + slot]: distance, entropy in nats, slots.
        """
        _check_rank("queries", queries, 5)
        _check_rank("keys", keys, 5)
        _check_rank("near", near, 3)
        *outer, num_queries, width = queries.shape
        num_keys, (tables, _, num_slots) = keys.shape[-2], near.shape
        _check("queries", queries, queries.shape)
        _check("keys", keys, (*outer, num_keys, width))
        if bias is not None:
            _check("bias", bias, (*outer, num_queries, num_keys))
        _expect(num_keys > 0, "at least one key", "none")
        _expect(chunk > 0, "chunks of at least one query", chunk)
        _expect(tables in (1, outer[1]), f"tables of 1 or {outer[1]} windows", tables)
        _check("near", near, (tables, num_queries, num_slots), torch.int64, dense=True)
        _check("taken", taken, near.shape, dense=True)
        if columns:
            _expect(columns > 0 and columns % LANES == 0, f"columns in {LANES}s", columns)
            rows = num_keys // columns
            _expect(
                tables == 1 and num_queries == num_keys == rows * columns,
                f"as many queries and keys as patches of a grid with {columns} columns",
                f"{num_queries} and {num_keys} in {tables} windows",
            )
            _check("distances", distances, (rows, 2 * columns - 1), dense=True)
        else:
            _check("distances", distances, (tables, num_queries, num_keys), dense=True)
        if near.numel():
            low, high = (int(x) for x in near.aminmax())
            _expect(low >= 0 and high < num_keys, f"near keys in 0..{num_keys - 1}", (low, high))
        num_chunks = math.ceil(num_queries / chunk)
        sums = torch.zeros(num_chunks, *outer, 2 + num_slots, dtype=torch.float64)
        parts = [Part.of(x) for x in (queries, keys, bias)]
        strides = (0, 0) if tables == 1 else (distances.stride(0), near.stride(0))
        given = Attention(
            *(*parts, *outer, num_queries, num_keys, width, num_slots, chunk),
            *(distances.data_ptr(), near.data_ptr(), taken.data_ptr(), *strides, columns),
            *(sums.data_ptr(), scale),
        )
        used = queries, keys, bias, distances, near, taken, sums
        num_jobs = num_chunks * math.prod(outer)
        work = math.prod(outer) * num_queries * num_keys * (width + LANES)
        self._call("attention_sums", given, num_jobs, work, used)
        return sums

    def gaussian_factors(
        self,
        queries: Tensor,
        weight: Tensor,
        bias: Tensor,
        squares: tuple[Tensor, Tensor],
        *,
        largest: float,
        shift: float,
        growth: float,
        eps: float,
    ) -> tuple[Tensor, Tensor]:
        """Compute the two factors of every patch's Gaussian from its query.

        Args:
            queries: float32 [image, head, patch, width].
            weight: float32 [axis + 1, width], of one or two variances and then the strength.
            bias: float32 [axis + 1].
            squares: Squared offsets between rows, [row, row], and between columns, [col, col].
            largest: Largest variance.
            shift: What is subtracted before the sigmoid of the variance.
            growth: Factor of the variance.
            eps: Added to the variance.

        Returns:
            Rows times strength [image, head, patch, row] and columns [image, head, patch, col].
        """
        _check_rank("queries", queries, 4)
        images, heads, patches, width = queries.shape
        by_row, by_col = (F.pad(x.float(), (0, -len(x) % LANES)).contiguous() for x in squares)
        num_rows, num_cols = (len(x) for x in squares)
        axes = len(weight) - 1
        _check("queries", queries, queries.shape)
        _expect(axes in (1, 2), "weights of one or two axes and the strength", axes)
        _check("weight", weight, (axes + 1, width), dense=True)
        _check("bias", bias, (axes + 1,), dense=True)
        for name, padded, size in ("row", by_row, num_rows), ("column", by_col, num_cols):
            _check(f"squares by {name}", padded, (size, size + -size % LANES), dense=True)
        _expect(patches == num_rows * num_cols, f"{num_rows * num_cols} patches", patches)
        rows, cols = (queries.new_empty(*queries.shape[:3], x) for x in (num_rows, num_cols))
        given = Factors(
            *(queries.data_ptr(), *queries.stride()[:3], *queries.shape),
            *(weight.data_ptr(), bias.data_ptr(), axes, largest, shift, growth, eps),
            *(by_row.data_ptr(), by_col.data_ptr(), num_rows, num_cols),
            *(rows.data_ptr(), cols.data_ptr()),
        )
        used = queries, weight, bias, by_row, by_col, rows, cols
        num_jobs = images * heads * patches
        work = num_jobs * (len(weight) * width + LANES * (num_rows + num_cols))
        self._call("gaussian_factors", given, num_jobs, work, used)
        return rows, cols

    def write_product(self, out: Tensor, rows: Tensor, cols: Tensor) -> None:
        """Write rows[p, row] * cols[p, col] between the patches, the last tokens of ``out``.

        Args:
            out: float32 [..., token, token], without gaps.
            rows: float32 [..., patch, row], without gaps.
            cols: float32 [..., patch, col], without gaps.
        """
        _expect(rows.ndim >= 2, "rows of two dimensions at least", rows.ndim)
        *outer, patches, num_rows = rows.shape
        num_cols, num_tokens = cols.shape[-1], out.shape[-1]
        _check("rows", rows, rows.shape, dense=True)
        _check("cols", cols, (*outer, patches, num_cols), dense=True)
        _check("out", out, (*outer, num_tokens, num_tokens), dense=True)
        _expect(patches == num_rows * num_cols, f"{num_rows * num_cols} patches", patches)
        _expect(patches <= num_tokens, f"at most {num_tokens} patches", patches)
        first = (num_tokens - patches) * (num_tokens + 1)  # of the patches, after prefix tokens
        given = Product(
            *(rows.data_ptr(), cols.data_ptr(), out.data_ptr() + first * out.itemsize),
            *(math.prod(outer), patches, num_rows, num_cols, num_tokens**2, num_tokens),
        )
        num_jobs = math.prod(outer) * patches
        self._call("write_product", given, num_jobs, num_jobs * patches, (rows, cols, out))

    def _call(
        self,
        name: str,
        given: ctypes.Structure,
        num_jobs: int,
        work: int,
        used: tuple[Tensor | None, ...],
    ) -> None:
        """Call a function on torch's number of threads, or fewer for few operations (``work``).

        The tensors ``used`` live until all threads are done.
        """
        if not num_jobs:
            return
        pointers = ctypes.byref(given), ctypes.byref(c_int64(0))
        function = partial(_run, self._functions[name], pointers, used)
        num_threads = min(torch.get_num_threads(), num_jobs, 1 + work // WORTH)
        if HELPERS.call(function, num_threads):
            raise MemoryError("no memory for one tile of attention per thread")


def _run(function: Callable[..., int], pointers: tuple, used: tuple[Tensor | None, ...]) -> int:
    """Call a function while ``used`` is kept alive, whatever becomes of the thread that asked."""
    return function(*pointers)


def _expect(right: bool, wanted: str, got: object) -> None:
    if not right:
        raise ValueError(f"expected {wanted}, got {got}")


def _check_rank(name: str, x: Tensor, rank: int) -> None:
    _expect(x.ndim == rank, f"{name} of {rank} dimensions", x.ndim)


def _check(
    name: str,
    x: Tensor,
    shape: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
    dense: bool = False,
) -> None:
    """Raise a ValueError unless C may read this tensor as what it is said to be.

    ``dense`` tensors have no gaps; others none in the last dimension.
    """
    _expect(type(x) in (Tensor, nn.Parameter), f"{name} that is a plain tensor", type(x).__name__)
    _expect(x.device.type == "cpu", f"{name} on the CPU", x.device)
    _expect(x.layout == torch.strided, f"{name} that is not sparse", x.layout)
    _expect(x.dtype == dtype, f"{name} of {dtype}", x.dtype)
    _expect(tuple(x.shape) == tuple(shape), f"{name} {list(shape)}", list(x.shape))
    gapless = x.is_contiguous() if dense else x.shape[-1] < 2 or x.stride(-1) == 1
    _expect(gapless, f"{name} without gaps", f"strides {x.stride()}")
    _expect(not x.is_neg(), f"{name} whose sign is in memory", "a negated view")
    if x.numel():
        last = x.storage_offset() + sum((n - 1) * step for n, step in zip(x.shape, x.stride()))
        there = x.untyped_storage().nbytes() // x.itemsize
        _expect(last < there, f"{name} with memory for {last + 1} numbers", there)
