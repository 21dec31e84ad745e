"""When a head became local and stayed so.

The epoch of a head is that of the first look from which on its MAD is below a threshold in all
looks that follow. A head that falls below and comes back is counted from its last return; one that
is below in the last look alone has that look's epoch, for nobody looked again. Thresholds are those
of a layer's own grid:

- leaning: 10 % below the MAD of uniform attention;
- local: half-way between uniform attention and a 3x3 box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nearsight.report.read.learned import Look

THRESHOLDS = {
    "leaning": "10 % below uniform attention",
    "local": "half-way between uniform attention and a 3x3 box",
}


def thresholds(null: Mapping[str, float]) -> dict[str, float]:
    """MAD of both on a grid, from its null lines.

    >>> {x: round(y, 3) for x, y in thresholds({"uniform_mad": 0.5, "box_mad": 0.2}).items()}
    {'leaning': 0.45, 'local': 0.35}
    """
    uniform, box = null["uniform_mad"], null["box_mad"]
    return {"leaning": 0.9 * uniform, "local": (uniform + box) / 2}


def settled_epoch(course: Sequence[tuple[int, float]], threshold: float) -> int | None:
    """First epoch from which on all values are below the threshold; None if the last is not.

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
    """[layer][head]: the epoch of every head of a run, with a threshold for every layer."""
    by_epoch = sorted(looks, key=lambda look: look.epoch)
    return [
        [
            settled_epoch([(look.epoch, look.mad[layer][head]) for look in by_epoch], limit)
            for head in range(len(by_epoch[0].mad[layer]))
        ]
        for layer, limit in enumerate(limits)
    ]
