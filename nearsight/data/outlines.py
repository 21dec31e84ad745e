"""Outlines and textures in whole numbers: what `shapes` is drawn with.

A place is measured in units of 1/64 pixel, an angle in 1/64 turn, and every pixel is looked at in
2 x 2 points, so the same bytes come out on every machine. Arrays are int32 [n, 64, 64]: two
points per pixel and side, ``u`` and ``v`` being their coordinates in the turned frame of the
object.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Int32

SIDE = 32  # pixels
UNIT = 64  # per pixel
TURN = 64  # steps of a whole turn
SINE_BITS = 12

# round(4096 sin(k / 64 turns)) for k = 0..16
_QUARTER = (0, 401, 799, 1189, 1567, 1931, 2276, 2598, 2896, 3166, 3406, 3612, 3784, 3920, 4017)
_QUARTER += (4076, 4096)
SINE = np.array(
    [
        *_QUARTER,
        *_QUARTER[15:0:-1],
        *(-value for value in _QUARTER),
        *(-value for value in _QUARTER[15:0:-1]),
    ],
    np.int32,
)

Points = Int32[np.ndarray, "n 64 64"]
Numbers = Int32[np.ndarray, " n"]
Inside = Bool[np.ndarray, "n 64 64"]


def turned(centre_x: Numbers, centre_y: Numbers, angle: Numbers) -> tuple[Points, Points]:
    """Coordinates of all points, seen from a centre and turned by an angle."""
    points = np.arange(2 * SIDE, dtype=np.int32) * (UNIT // 2) + UNIT // 4
    dx = points[None, None, :] - centre_x[:, None, None]
    dy = points[None, :, None] - centre_y[:, None, None]
    sine = SINE[angle % TURN][:, None, None]
    cosine = SINE[(angle + TURN // 4) % TURN][:, None, None]
    return (cosine * dx + sine * dy) >> SINE_BITS, (cosine * dy - sine * dx) >> SINE_BITS


def _disc(u: Points, v: Points, r: Points) -> Inside:
    return (u * u + v * v) * 5 <= r * r * 4


def _ring(u: Points, v: Points, r: Points) -> Inside:
    square = u * u + v * v
    return (square <= r * r) & (square * 16 >= r * r * 5)


def _triangle(u: Points, v: Points, r: Points) -> Inside:
    return (2 * v >= -r) & (np.abs(u) * 1774 + v * 1024 <= r * 1024)  # 1774 / 1024 is about sqrt 3


def _cross(u: Points, v: Points, r: Points) -> Inside:
    u, v = np.abs(u), np.abs(v)
    return (np.minimum(u, v) * 10 <= r * 3) & (np.maximum(u, v) <= r)


def _bar(u: Points, v: Points, r: Points) -> Inside:
    return (np.abs(u) <= r) & (np.abs(v) * 10 <= r * 4)


def _striped(u: Points, v: Points, period: Points) -> Inside:
    return u % period * 2 < period


def _checked(u: Points, v: Points, period: Points) -> Inside:
    return (u % period * 2 < period) ^ (v % period * 2 < period)


Rule = Callable[[Points, Points, Points], Inside]

OUTLINES: dict[str, Rule] = {
    "disc": _disc,
    "ring": _ring,
    "triangle": _triangle,
    "cross": _cross,
    "bar": _bar,
}
TEXTURES: dict[str, Rule] = {"striped": _striped, "checked": _checked}


def inside(rule: Rule, u: Points, v: Points, size: Numbers) -> Inside:
    """Which points an outline holds, or where a texture shows its first colour."""
    return rule(u, v, size[:, None, None])


def coverage(points: Inside) -> Int32[np.ndarray, "n 32 32"]:
    """How many of its four points every pixel has inside: 0 to 4."""
    pixels = points.reshape(len(points), SIDE, 2, SIDE, 2)
    return pixels.sum(axis=(2, 4), dtype=np.int32)
