"""Find the epoch in which a head became local and stayed local.

A look is a measurement during training. A head has become local at the first look from which on its
MAD is below a threshold in every look. If its MAD rises above the threshold again, only the last
fall below it counts. A head that is below the threshold only in the last look has become local at
that look. The thresholds depend on the grid of the layer:

- leaning: 10 % below the MAD of uniform attention;
- local: half-way between uniform attention and a 3x3 box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nearsight.report.read.logged_looks import Look

THRESHOLDS = {
    "leaning": "10 % below uniform attention",
    "local": "half-way between uniform attention and a 3x3 box",
}


def thresholds(null: Mapping[str, float]) -> dict[str, float]:
    """Return both thresholds of MAD on a grid, from its null lines.

    >>> {x: round(y, 3) for x, y in thresholds({"uniform_mad": 0.5, "box_mad": 0.2}).items()}
    {'leaning': 0.45, 'local': 0.35}
    """
    uniform, box = null["uniform_mad"], null["box_mad"]
    return {"leaning": 0.9 * uniform, "local": (uniform + box) / 2}


def settled_epoch(course: Sequence[tuple[int, float]], threshold: float) -> int | None:
    """Return the first epoch from which on all values are below the threshold, or None.

    >>> settled_epoch([(0, 0.5), (2, 0.3), (4, 0.45), (6, 0.3), (8, 0.2)], 0.4)
    6
    """
    found = None
    for epoch, value in reversed(course):
        if value >= threshold:
            break
        found = epoch
    return found


def head_epochs(looks: Sequence[Look], limits: Sequence[float]) -> list[list[int | None]]:
    """Return the epoch since which every head of a run is local, as [layer][head].

    Args:
        looks: The measurements of the run during training.
        limits: The threshold of every layer.

    Returns:
        The epochs; None for a head whose MAD is not below the threshold in the last look.
    """
    by_epoch = sorted(looks, key=lambda look: look.epoch)
    return [
        [
            settled_epoch([(look.epoch, look.mad[layer][head]) for look in by_epoch], limit)
            for head in range(len(by_epoch[0].mad[layer]))
        ]
        for layer, limit in enumerate(limits)
    ]
