"""Call the functions of the compiled library with tensors.

C reads any memory address without a check. Every size, stride, type and index is therefore checked
here first. A wrong argument is a mistake in our own code and raises a ``ValueError``.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from ctypes import c_float, c_int, c_int64, c_void_p
from functools import partial

import torch
from torch import Tensor, nn

from nearsight.native.threads import HELPERS

LANES = 8  # floats that the C code processes at a time (calls.h)
WORTH = 2**20  # fewest operations for which another thread pays off, about 100 microseconds


class Operand(ctypes.Structure):
    """The C structure ``Operand`` of calls.h: a tensor [image, window, head, token, ...]."""

    _fields_ = (
        ("start", c_void_p),
        *((name, c_int64) for name in ("image", "window", "head", "token")),
    )

    @classmethod
    def of(cls, x: Tensor | None) -> Operand:
        """Return the start and strides of a tensor, or a null pointer for None."""
        return cls(None) if x is None else cls(x.data_ptr(), *x.stride()[:-1])


class Attention(ctypes.Structure):
    """The C structure ``Attention`` of calls.h: the arguments of ``attention_sums``."""

    _fields_ = (
        *((name, Operand) for name in ("queries", "keys", "bias")),
        *((name, c_int64) for name in ("images", "windows", "heads", "num_queries", "num_keys")),
        *((name, c_int64) for name in ("width", "slots", "chunk")),
        *((name, c_void_p) for name in ("distances", "near", "taken")),
        *((name, c_int64) for name in ("window_distances", "window_slots", "columns")),
        ("sums", c_void_p),
        ("scale", c_float),
    )


FUNCTIONS: dict[str, type[ctypes.Structure]] = {
    "attention_sums": Attention,
}
STRUCTURES: tuple[type[ctypes.Structure], ...] = (Operand, *FUNCTIONS.values())


class Library:
    """The compiled functions.

    Each uses as many threads as torch does. A result is the same to the last bit for any number of
    threads.
    """

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

        The tables ``distances``, ``near`` and ``taken`` may have a single window, which then holds
        for all windows.

        Args:
            queries: float32 [image, window, head, query, width].
            keys: float32 [image, window, head, key, width].
            bias: float32 [image, window, head, query, key] to add to the logits, or None.
            scale: Factor of the products of queries and keys.
            distances: float32 distances of all pairs [window, query, key] or, if ``columns`` is
                given, by difference in rows and in columns [row, 2 * columns - 1].
            near: int64 [window, query, slot], the index of a key near the query.
            taken: float32 [window, query, slot], 1 if the slot holds a key, else 0.
            columns: 0 if ``distances`` are those of all pairs. Otherwise the number of columns of
                the grid whose patches, row by row, are both the queries and the keys; it must be a
                multiple of LANES.
            chunk: How many queries of a head form one job.

        Returns:
            float64 [chunk, image, window, head, 2 + slot]: the sums over the queries of a chunk of
                the attended distance, of the entropy in nats, and of the weight in every slot.
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
        parts = [Operand.of(x) for x in (queries, keys, bias)]
        strides = (0, 0) if tables == 1 else (distances.stride(0), near.stride(0))
        arguments = Attention(
            *(*parts, *outer, num_queries, num_keys, width, num_slots, chunk),
            *(distances.data_ptr(), near.data_ptr(), taken.data_ptr(), *strides, columns),
            *(sums.data_ptr(), scale),
        )
        used = queries, keys, bias, distances, near, taken, sums
        num_jobs = num_chunks * math.prod(outer)
        work = math.prod(outer) * num_queries * num_keys * (width + LANES)
        self._call("attention_sums", arguments, num_jobs, work, used)
        return sums

    def _call(
        self,
        name: str,
        arguments: ctypes.Structure,
        num_jobs: int,
        work: int,
        used: tuple[Tensor | None, ...],
    ) -> None:
        """Call a function on torch's number of threads, or on fewer if there are few operations.

        Args:
            name: The function.
            arguments: Its arguments as the C structure.
            num_jobs: Number of jobs, which the threads share.
            work: Number of operations of all jobs together.
            used: The tensors that ``arguments`` points to, kept alive until all threads are done.

        Raises:
            MemoryError: If a thread could not allocate its working memory.
        """
        if not num_jobs:
            return
        pointers = ctypes.byref(arguments), ctypes.byref(c_int64(0))
        function = partial(_run, self._functions[name], pointers, used)
        num_threads = min(torch.get_num_threads(), num_jobs, 1 + work // WORTH)
        if HELPERS.call(function, num_threads):
            raise MemoryError(f"{name} could not allocate its working memory for every thread")


def _run(function: Callable[..., int], pointers: tuple, used: tuple[Tensor | None, ...]) -> int:
    """Call a function and keep ``used`` alive meanwhile, even if the calling thread ends first."""
    return function(*pointers)


def _expect(right: bool, wanted: str, got: object) -> None:
    """Raise a ValueError that says what was expected and what was given, unless ``right``."""
    if not right:
        raise ValueError(f"expected {wanted}, got {got}")


def _check_rank(name: str, x: Tensor, rank: int) -> None:
    """Raise a ValueError unless a tensor has this number of dimensions."""
    _expect(x.ndim == rank, f"{name} of {rank} dimensions", x.ndim)


def _check(
    name: str,
    x: Tensor,
    shape: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
    dense: bool = False,
) -> None:
    """Raise a ValueError unless C can read this tensor as the caller describes it.

    In memory, a ``dense`` tensor must have no gaps at all; any other only none between the numbers
    of its last dimension.
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
