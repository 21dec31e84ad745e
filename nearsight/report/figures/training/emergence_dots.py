"""Draw when each head became local and stayed local: a dot for each head, a row per condition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median_low
from typing import TYPE_CHECKING

from nearsight.measure.catalogue import NAMING
from nearsight.report.figures.drawing import (
    MUTED,
    Drawing,
    Panel,
    layer_colours,
    name_rows,
    row_height,
)
from nearsight.report.figures.heads import layer_bar
from nearsight.report.figures.training.locality import left_out_text, looks_text
from nearsight.report.read import (
    THRESHOLDS,
    ConditionRuns,
    Evidence,
    Family,
    head_epochs,
    thresholds,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TALL = 6  # at most this many dots of one epoch stand above each other
ROW_STEP, COLUMN_STEP = 0.13, 0.025  # between dots, as shares of a row and of the axis


@dataclass(frozen=True)
class Settled:
    """A head and the epoch since which its MAD is below a threshold."""

    seed: int | None
    layer: int  # counted from 0
    head: int
    threshold: float
    epoch: int | None  # None: its MAD is not below the threshold in the last look
    self_mass: float | None = None  # in the last look; None if it was not recorded

    @property
    def is_identity(self) -> bool:
        """Whether it settled as a head that attends to its own patch instead of its neighbours."""
        return self.epoch is not None and (self.self_mass or 0.0) >= NAMING.mostly


def settled_heads(condition: ConditionRuns, name: str) -> list[Settled]:
    """Return every head of the runs that were measured while they trained, by layer.

    Unread layers are left out.
    """
    found = []
    for run in condition.runs:
        if not run.looks:
            continue
        limits = _limits(run, name)
        last = max(run.looks, key=lambda look: look.epoch)
        own = last.heads.get("self_mass")
        for layer, epochs in enumerate(head_epochs(run.looks, limits)):
            if layer in run.measure.unread:
                continue
            masses = own[layer] if own else [None] * len(epochs)
            found += [
                Settled(run.seed, layer, head, limits[layer], epoch, mass)
                for head, (epoch, mass) in enumerate(zip(epochs, masses, strict=True))
            ]
    return sorted(found, key=lambda x: (x.layer, x.head))


def _limits(run: Evidence, name: str) -> list[float]:
    """Return the threshold of every layer."""
    return [thresholds(run.null(layer))[name] for layer in range(len(run.grids))]


def dot_places(num: int) -> list[tuple[float, float]]:
    """Return places around 0 for dots that would hide each other, in columns of ``TALL``.

    >>> dot_places(2), dot_places(7)[0], dot_places(7)[-1]
    ([(0.0, -0.5), (0.0, 0.5)], (-0.5, -2.5), (0.5, 0.0))
    """
    columns = math.ceil(num / TALL)
    places = []
    for column in range(columns):
        tall = min(TALL, num - TALL * column)
        middle = (columns - 1) / 2, (tall - 1) / 2
        places += [(column - middle[0], step - middle[1]) for step in range(tall)]
    return places


def draw_emergence(
    axes: Axes, family: Family, conditions: Sequence[ConditionRuns], name: str
) -> None:
    """Draw a dot for each head, coloured by layer, with counts and a stroke at the last look."""
    from matplotlib.ticker import MaxNLocator

    colours = layer_colours(family.num_layers)
    runs = [run for condition in conditions for run in condition.runs if run.looks]
    last = max(1, *(look.epoch for run in runs for look in run.looks))
    for row, condition in enumerate(conditions):
        heads = settled_heads(condition, name)
        ends = sorted({run.looks[-1].epoch for run in condition.runs if run.looks})
        axes.plot(
            ends, [row] * len(ends), color=MUTED, marker="|", markersize=16, markeredgewidth=0.8,
            linestyle="none", clip_on=False,
        )  # fmt: skip
        epochs = sorted({x.epoch for x in heads if x.epoch is not None})
        room = min((b - a for a, b in pairwise(epochs)), default=last)
        for epoch in epochs:
            same = [x for x in heads if x.epoch == epoch]
            width = min(COLUMN_STEP * last, 0.9 * room / math.ceil(len(same) / TALL))
            for x, (right, down) in zip(same, dot_places(len(same)), strict=True):
                axes.plot(
                    [epoch + width * right], [row + ROW_STEP * down], color=colours[x.layer],
                    marker="D" if x.is_identity else condition.marker, markersize=3,
                    markeredgewidth=0, clip_on=False,
                )  # fmt: skip
        axes.text(
            1.03, row, _count_text(heads), transform=axes.get_yaxis_transform(), va="center",
            fontsize=7.5,
        )  # fmt: skip
    axes.set_xlim(-0.04 * last, 1.02 * last)
    name_rows(axes, [condition.label for condition in conditions])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("epoch")
    layer_bar(axes, colours, below=True)


def _count_text(heads: Sequence[Settled]) -> str:
    settled = [x for x in heads if x.epoch is not None]
    identity = sum(x.is_identity for x in settled)
    of_them = f", {identity} identity" if identity else ""
    return f"{len(settled)} of {len(heads)} heads{of_them}"


def emergence(family: Family, key: str, subtitle: str) -> Drawing | None:
    """Return the figure; None if no run was measured while it trained."""
    conditions = [c for c in family.conditions if any(run.looks for run in c.runs)]
    if not conditions:
        return None
    found = {name: {c.label: settled_heads(c, name) for c in conditions} for name in THRESHOLDS}
    height = row_height([condition.label for condition in conditions])
    words = "; ".join(f"{name}: {text}" for name, text in THRESHOLDS.items())
    said = "; ".join(
        f"{name}: " + ", ".join(_finding(label, heads) for label, heads in by_label.items())
        for name, by_label in found.items()
    )
    return Drawing(
        key=key,
        title="When heads become local and stay so",
        subtitle=f"{subtitle} · {looks_text(conditions)}",
        reading="A dot is a head of one seed. It stands at the first measured epoch from which on "
        f"the head's MAD stays below the threshold ({words}). A head may lean without becoming "
        "local, and a head that is below the threshold only in the last measurement counts too. "
        "Diamonds are identity heads: their self-mass in the last measurement is at least 0.5, so "
        "patches attend to themselves and not to their neighbours. Grey strokes mark the last "
        "measurement of a run. Dots have no intervals, because they are single heads and not "
        "means; heads of one seed are not "
        f"independent.{left_out_text(family, conditions)}",
        alt="Dot charts of the epoch since when each head stays below a threshold of mean "
        f"attention distance. {said[0].upper()}{said[1:]}.",
        panels=tuple(
            Panel(
                _title(name, [x for heads in by_label.values() for x in heads]),
                partial(draw_emergence, family=family, conditions=conditions, name=name),
            )
            for name, by_label in found.items()
        ),
        columns=(
            "condition", "seed", "layer", "head", "threshold", "mad_below", "epoch", "identity",
        ),
        rows=tuple(
            (label, x.seed, x.layer + 1, x.head + 1, name, x.threshold,
             "" if x.epoch is None else x.epoch, "yes" if x.is_identity else "")
            for name, by_label in found.items()
            for label, heads in by_label.items()
            for x in heads
        ),
        inks=tuple(layer_colours(family.num_layers)),
        colours=tuple(condition.colour for condition in conditions),
        panel_size=(4.1, 1.3 + max(0.42, height) * len(conditions)),
        per_row=1,
    )  # fmt: skip


def _title(name: str, heads: Sequence[Settled]) -> str:
    """Return the name of a threshold, with its value if all layers have one grid."""
    values = {x.threshold for x in heads}
    return name.capitalize() + (f": MAD below {values.pop():.3f}" if len(values) == 1 else "")


def _finding(label: str, heads: Sequence[Settled]) -> str:
    epochs = [x.epoch for x in heads if x.epoch is not None]
    half = f", half of them by epoch {median_low(epochs)}" if epochs else ""
    return f"{label} {_count_text(heads)}{half}"
