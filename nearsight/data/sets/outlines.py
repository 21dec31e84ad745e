"""Compute the outlines and textures of `shapes` in whole numbers.

Positions are in units of 1/64 pixel and angles in units of 1/64 turn. Every pixel is sampled at 2 x
2 points. No floating-point number is used, so every machine makes the same bytes. Arrays are
int32 [n, 64, 64]: two points per pixel and side; ``u`` and ``v`` are their coordinates in the
rotated frame of the object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Int32

SIDE = 32  # pixels
UNIT = 64  # per pixel
TURN = 64  # steps in a whole turn
SINE_BITS = 12

# round(4096 sin(k / 64 turns)) for k = 0..16
_RISING = (
    0,
    401,
    799,
    1189,
    1567,
    1931,
    2276,
    2598,
    2896,
    3166,
    3406,
    3612,
    3784,
    3920,
    4017,
    4076,
)
_HALF = np.array([*_RISING, 4096, *_RISING[:0:-1]], np.int32)
SINE = np.concatenate([_HALF, -_HALF])

Points = Int32[np.ndarray, "n 64 64"]
Inside = Bool[np.ndarray, "n 64 64"]
Pixels = Int32[np.ndarray, "n 32 32"]
Numbers = Int32[np.ndarray, " n"]
Sizes = Int32[np.ndarray, "n 1 1"]


def rotate_points(centre_x: Numbers, centre_y: Numbers, angle: Numbers) -> tuple[Points, Points]:
    """Return the coordinates of all points relative to a centre, rotated by an angle."""
    points = np.arange(2 * SIDE, dtype=np.int32) * (UNIT // 2) + UNIT // 4
    dx = points[None, None, :] - centre_x[:, None, None]
    dy = points[None, :, None] - centre_y[:, None, None]
    sine = SINE[angle % TURN][:, None, None]
    cosine = SINE[(angle + TURN // 4) % TURN][:, None, None]
    return (cosine * dx + sine * dy) >> SINE_BITS, (cosine * dy - sine * dx) >> SINE_BITS


def _disc(u: Points, v: Points, radius: Sizes) -> Inside:
    return (u * u + v * v) * 5 <= radius * radius * 4


def _ring(u: Points, v: Points, radius: Sizes) -> Inside:
    square = u * u + v * v
    return (square <= radius * radius) & (square * 16 >= radius * radius * 5)


def _cross(u: Points, v: Points, radius: Sizes) -> Inside:
    u, v = np.abs(u), np.abs(v)
    return (np.minimum(u, v) * 10 <= radius * 3) & (np.maximum(u, v) <= radius)


def _bar(u: Points, v: Points, radius: Sizes) -> Inside:
    return (np.abs(u) <= radius) & (np.abs(v) * 10 <= radius * 4)


def _plain(u: Points, v: Points, period: Sizes) -> Inside:
    return np.ones(u.shape, bool)


def _striped(u: Points, v: Points, period: Sizes) -> Inside:
    return u % period * 2 < period


def _checked(u: Points, v: Points, period: Sizes) -> Inside:
    return (u % period * 2 < period) ^ (v % period * 2 < period)


def _dotted(u: Points, v: Points, period: Sizes) -> Inside:
    u, v = u % period * 2 - period, v % period * 2 - period
    return (u * u + v * v) * 5 <= period * period * 2


Rule = Callable[[Points, Points, Sizes], Inside]

OUTLINES: dict[str, Rule] = {"disc": _disc, "ring": _ring, "cross": _cross}
TEXTURES: dict[str, Rule] = {
    "plain": _plain,
    "striped": _striped,
    "checked": _checked,
    "dotted": _dotted,
}
FRAGMENTS: tuple[Rule, ...] = (_disc, _bar)  # the outlines of distractors


def chosen_inside(
    rules: Sequence[Rule], choice: Numbers, u: Points, v: Points, size: Numbers
) -> Inside:
    """Return which points of each image are inside its figure.

    Args:
        rules: The figures to choose from.
        choice: Number of the figure, by image.
        u: First coordinate of every point.
        v: Second coordinate of every point.
        size: Size of the figure, by image.
    """
    inside = np.zeros(u.shape, bool)
    for number, rule in enumerate(rules):
        images = choice == number
        inside[images] = rule(u[images], v[images], size[images, None, None])
    return inside


def coverage(points: Inside) -> Pixels:
    """Count how many of the four points of each pixel are inside: 0 to 4."""
    count = points.view(np.uint8)
    rows = count[:, 0::2] + count[:, 1::2]
    return (rows[..., 0::2] + rows[..., 1::2]).astype(np.int32)
