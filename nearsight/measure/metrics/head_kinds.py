"""Name what a head does in one word, by thresholds on its means over images.

The first rule that applies gives the name:

- ``sink``: at least half of its attention goes to prefix tokens (or padding).
- ``identity``: at least half of its attention stays on the patch itself.
- ``local``: at least half of its attention stays in the 3x3 box, or its attention goes to one
  nearby place (a mean offset of at most 3 patches with a spread of at most 2). A head whose score
  makes it ``global`` is never local, because on a grid of a few patches everything is near.
- ``positional``: it attends in the same way whatever the image shows (position share of at least
  0.9), and not just because it is nearly uniform (entropy below 0.9).
- ``global``: it looks at least three quarters as far as uniform attention (score of at most 0.25).
- ``mixed``: none of these.

Identity, local and sink heads may be positional too, as the position share in the profile shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nearsight.core import UserError
from nearsight.measure.catalogue import NAMING
from nearsight.measure.metrics.estimates import Estimates

NEEDED = ("sink", "self_mass", "radius_mass", "offset", "offset_spread", "entropy", "score")


def head_names(
    metrics: Mapping[str, Estimates], position_share: Sequence[np.ndarray] | None
) -> list[list[str]]:
    """Return the name of every head, [layer][head].

    Raises:
        UserError: If a metric that the names depend on was not measured.
    """
    lacking = [name for name in NEEDED if name not in metrics]
    if position_share is None:
        lacking.append("position_share")
    if lacking or position_share is None:
        raise UserError(
            f"heads cannot be named without the metrics {', '.join(lacking)}; "
            "measure with metrics='all'"
        )
    means = {name: metrics[name].mean for name in NEEDED}
    return [
        [
            _name({name: means[name][layer][head] for name in NEEDED}, share)
            for head, share in enumerate(shares)
        ]
        for layer, shares in enumerate(position_share)
    ]


def _name(head: Mapping[str, Any], position_share: float) -> str:
    """Return the name of one head by the rules above."""
    offset, spread = np.hypot(*head["offset"]), head["offset_spread"]
    shifted = offset <= NAMING.max_shift and spread <= NAMING.max_spread
    if head["sink"] >= NAMING.mostly:
        return "sink"
    if head["self_mass"] >= NAMING.mostly:
        return "identity"
    if head["score"] > NAMING.far and (head["radius_mass"][0] >= NAMING.mostly or shifted):
        return "local"
    if position_share >= NAMING.same_map and head["entropy"] < NAMING.diffuse:
        return "positional"
    return "global" if head["score"] <= NAMING.far else "mixed"
