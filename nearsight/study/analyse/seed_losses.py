"""Average over seeds the accuracy that is lost when heads are made to attend elsewhere.

Single heads are not averaged, because head 1 of one seed does not correspond to head 1 of another.
All heads of a layer, and all heads of the model, correspond in every seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearsight.runs import CAUSAL
from nearsight.runs.records import CAUSAL_FILE
from nearsight.stats import Estimate, over_seeds
from nearsight.study.analyse.loaded import LoadedStudy
from nearsight.study.analyse.outcome import Factors


@dataclass(frozen=True)
class SeedLoss:
    """The accuracy that a condition loses by one change, over seeds."""

    condition: Factors
    heads: str  # "layer 2", "all heads"
    change: str
    per_seed: dict[int, float]
    estimate: Estimate | None  # None with one seed


def losses_over_seeds(study: LoadedStudy) -> list[SeedLoss]:
    """Return the losses of every condition whose finished cells have a causal.json.

    Cells that were tested with another window than the first cell are left out.
    """
    found: dict[tuple[Factors, str, str], dict[int, float]] = {}
    window: int | None = None
    for x in study.finished:
        if not (x.files.path / CAUSAL).is_file():
            continue
        record = CAUSAL_FILE.read(x.files.path)
        window = record.window if window is None else window
        if record.window != window:
            continue
        condition = tuple(sorted(x.cell.factors.items()))
        for entry in record.lost:
            if "." not in entry.heads:  # several heads together
                key = (condition, entry.heads, entry.change)
                found.setdefault(key, {})[x.cell.seed] = entry.value
    return [
        SeedLoss(*key, per_seed, _over(list(per_seed.values()))) for key, per_seed in found.items()
    ]


def _over(values: Sequence[float]) -> Estimate | None:
    return over_seeds(values) if len(values) > 1 else None
