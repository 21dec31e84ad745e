"""Rank models of any geometry by score, 1 - MAD / MAD of uniform attention.

MAD depends on the grid. The score compares every layer with uniform attention on its own grid, so
that models of families that share no other figure can be compared here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from nearsight.report.figures.drawing import MUTED, Drawing, Panel, name_rows, row_height
from nearsight.report.figures.heads.plane import arms
from nearsight.report.read import ConditionRuns, Family
from nearsight.runs.records import MeasureRecord
from nearsight.stats import Estimate, over_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ranked = tuple[str, ConditionRuns, Estimate]


def ranked_scores(families: Sequence[Family]) -> list[Ranked]:
    """Return the name and the mean score of every condition that has one, the most local first."""
    found: list[Ranked] = []
    for family in families:
        for condition in family.conditions:
            scores = [run.measure.summary.mean("score") for run in condition.runs]
            known = [x for x in scores if x is not None]
            if len(known) < len(scores):
                continue
            n = condition.runs[0].measure.num_images
            estimate = (
                over_seeds([x.value for x in known])
                if len(known) > 1
                else Estimate(known[0].value, known[0].low, known[0].high, n, "images")
            )
            found.append((f"{condition.label}, {family.grids_text}", condition, estimate))
    return sorted(found, key=lambda x: x[2].value, reverse=True)


def images_caution(measures: Sequence[MeasureRecord]) -> str:
    """Warn of models that were measured on different images; empty if all had the same."""
    if len({measure.data.hash for measure in measures}) > 1:
        differ = "different images"
    elif len({measure.num_images for measure in measures}) > 1:
        differ = "different numbers of images"
    else:
        return ""
    return f"The models were measured on {differ}; compare them with care."


def draw_scores(axes: Axes, ranked: Sequence[Ranked]) -> None:
    """Draw a row per model: its score with whiskers, and a line at uniform attention."""
    axes.axvline(0, color=MUTED, linewidth=0.8)
    for row, (_, condition, x) in enumerate(ranked):
        axes.errorbar(
            [x.value], [row], xerr=arms([x.value], [x.low], [x.high]), color=condition.colour,
            marker=condition.marker, markersize=5.5, capsize=2.5,
        )  # fmt: skip
    name_rows(axes, [name for name, _, _ in ranked])
    axes.set_xlabel("mean score of all heads (0: uniform attention, 1: the own patch only)")


def score_ranking(families: Sequence[Family], key: str = "scores") -> Drawing | None:
    """Return the ranking over families; None if all models have one geometry."""
    ranked = ranked_scores(families)
    if len(families) < 2 or len(ranked) < 2:
        return None
    told = "; ".join(f"{name} {x.value:.3f}" for name, _, x in ranked)
    counts = sorted({run.measure.num_images for _, c, _ in ranked for run in c.runs})
    images = "–".join(f"{n:,}" for n in counts)
    caution = images_caution([run.measure for _, c, _ in ranked for run in c.runs])
    return Drawing(
        key=key,
        title="All models by score, whatever their grid",
        subtitle=f"{len(ranked)} models or conditions · {images} images",
        reading="The model that attends most locally is on top. The score of a head is 1 - MAD / "
        "MAD of uniform attention on the layer's own grid; the mark is the mean of all heads. "
        f"Whiskers are 95 % intervals over images or seeds. {caution}".rstrip(),
        alt=f"Ranking by mean score: {told}.",
        panels=(Panel("", partial(draw_scores, ranked=ranked)),),
        columns=("model", "score", "low", "high", "n", "interval_over"),
        rows=tuple((name, x.value, x.low, x.high, x.n, x.over) for name, _, x in ranked),
        panel_size=(
            6.8,
            max(1.6, 0.7 + max(0.32, row_height([x[0] for x in ranked])) * len(ranked)),
        ),
        colours=tuple(condition.colour for _, condition, _ in ranked),
    )
