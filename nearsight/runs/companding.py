"""Store attention rows in one byte per weight, precise enough to look at and to recompute metrics.

A weight w is stored as the integer nearest to 255 * sqrt(w / scale). The square root gives small
weights finer steps than large ones. Every row has three scales: the largest weight in the 3x3 box
around the query, the largest of the other weights in the 7x7 box, and the largest of the whole row
for everything else. The worst absolute error of a weight is therefore below 1/255 of the largest
weight in its row. The first two scales are for rows that look far away: adding a narrow Gaussian to
the logits multiplies the weights near the query relative to all others, so they must not have been
rounded to zero before.

Scales are stored in 16 bits, as powers of 2 in steps of 1/1024, rounded up to the next step. The
weights on prefix tokens are stored in the same way: if they shared a scale with the patches, a row
that gives nearly everything to the class token would leave no precision for its patches.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float32, UInt8, UInt16

LEVELS = 255
RADII = (1, 3)  # of the boxes around the query whose keys have their own scale
NUM_SCALES = len(RADII) + 1
STEPS = 1024  # of a scale from a power of 2 to the next
SMALLEST = 2**16 - 1  # the code of the smallest scale, 2^-64, and of 0


def scale_numbers(
    queries: Float[np.ndarray, "query 2"], keys: Float[np.ndarray, "key 2"]
) -> UInt8[np.ndarray, "query key"]:
    """Return the number of the scale that every row uses for every key.

    Positions are (row, column).

    >>> places = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 4.0]])
    >>> scale_numbers(places, places).tolist()
    [[0, 0, 2], [0, 0, 1], [2, 1, 0]]
    """
    far = np.abs(queries[:, None] - keys[None]).max(-1)
    return np.searchsorted(RADII, far).astype(np.uint8)


def compand(
    weights: Float[np.ndarray, "*leading query key"], numbers: UInt8[np.ndarray, "query key"]
) -> tuple[UInt8[np.ndarray, "*leading query key"], UInt16[np.ndarray, "*leading query 3"]]:
    """Encode attention weights: return the codes of the weights and of the scales of every row.

    >>> codes, scales = compand(np.array([[0.5, 0.03125]]), np.array([[0, 2]], np.uint8))
    >>> codes.tolist(), scales.tolist()
    ([[255, 64]], [[1024, 65535, 1024]])
    """
    weights = weights.astype(np.float32)
    near = [np.where(numbers == number, weights, 0).max(-1) for number in range(len(RADII))]
    scales = size_codes(np.stack([*near, weights.max(-1)], -1))
    scale = _scale(scales, numbers)
    return np.rint(LEVELS * np.sqrt(weights / scale)).astype(np.uint8), scales


def expand(
    codes: UInt8[np.ndarray, "*leading query key"],
    scales: UInt16[np.ndarray, "*leading query 3"],
    numbers: UInt8[np.ndarray, "query key"],
) -> Float32[np.ndarray, "*leading query key"]:
    """Decode attention weights from their codes and the codes of their scales.

    >>> codes, scales = np.array([[51, 255]], np.uint8), np.array([[2048, 9, 1024]], np.uint16)
    >>> expand(codes, scales, np.array([[0, 2]], np.uint8)).round(3)
    array([[0.01, 0.5 ]], dtype=float32)
    """
    shares = np.square(np.arange(LEVELS + 1, dtype=np.float32) / LEVELS)[codes]
    return shares * _scale(scales, numbers)


def size_codes(sizes: Float[np.ndarray, "*any"]) -> UInt16[np.ndarray, "*any"]:
    """Encode numbers between 0 and 1 by how many steps they lie below 1.

    >>> size_codes(np.array([1.0, 0.5, 0.25, 0.0])).tolist()
    [0, 1024, 2048, 65535]
    """
    with np.errstate(divide="ignore"):
        steps = np.floor(-STEPS * np.log2(np.asarray(sizes, np.float64)))
    return steps.clip(0, SMALLEST).astype(np.uint16)


def sizes_of(codes: UInt16[np.ndarray, "*any"]) -> Float32[np.ndarray, "*any"]:
    """Decode what ``size_codes`` encoded; the numbers are rounded up by at most 0.07 %."""
    return np.exp2(-codes.astype(np.float64) / STEPS).astype(np.float32)


def _scale(codes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the scale of every weight, [*leading, query, key]."""
    scales = sizes_of(codes)
    far = np.broadcast_to(scales[..., -1, None], (*scales.shape[:-1], numbers.shape[-1]))
    for number in range(len(RADII)):
        far = np.where(numbers == number, scales[..., number, None], far)
    return far


def differences(
    codes: UInt8[np.ndarray, "*leading patch key"], cols: int
) -> UInt8[np.ndarray, "*leading patch key"]:
    """Subtract from every code its prediction from the patches to the left and above, modulo 256.

    Neighbouring patches attend to similar places, so the differences compress better than the
    codes.

    >>> differences(np.array([[10], [14], [20], [30]], np.uint8), cols=2).ravel().tolist()
    [10, 4, 8, 13]
    """
    return codes - _prediction(codes, cols)


def from_differences(
    given: UInt8[np.ndarray, "*leading patch key"], cols: int
) -> UInt8[np.ndarray, "*leading patch key"]:
    """Recover the codes from what ``differences`` returned.

    >>> from_differences(np.array([[10], [4], [8], [13]], np.uint8), cols=2).ravel().tolist()
    [10, 14, 20, 30]
    """
    codes = given.copy()
    for patch in range(1, codes.shape[-2]):
        predicted = codes[..., patch - 1, :].astype(np.uint16)
        if patch >= cols:
            predicted = (predicted + codes[..., patch - cols, :]) // 2
        codes[..., patch, :] += predicted.astype(np.uint8)
    return codes


def _prediction(codes: np.ndarray, cols: int) -> np.ndarray:
    """Predict each code by that of the patch before, or by its mean with the patch above.

    The mean is rounded down.
    """
    wide = codes.astype(np.uint16)
    predicted = np.zeros_like(wide)
    predicted[..., 1:, :] = wide[..., :-1, :]
    predicted[..., cols:, :] = (predicted[..., cols:, :] + wide[..., :-cols, :]) // 2
    return predicted.astype(np.uint8)
