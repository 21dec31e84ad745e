"""The catalogue of metrics: their names, units and limits, and where each is shown.

It has everything but the mathematics and does not import torch, because ``measure``, ``train``,
``report`` and ``study`` all read it. A metric is one entry of ``CATALOGUE`` and one module of
``nearsight/measure/metrics``. The module holds the metric's mathematics, as an object with the
metric's name in capitals (``MAD``), and its pure function.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

# How the values of all heads become one number. layer1: the mean over the heads of the first layer;
# most_local: the value of the head with the smallest MAD.
Statistic = Literal["min", "max", "mean", "layer1", "most_local"]
Table = Literal[
    "terminal",  # printed by ``nearsight measure`` and ``nearsight diff``
    "report",  # tables of the report: conditions, layers, heads
    "figures",  # figures of all heads, and by layer
    "training",  # measurements while a run trains
]
TABLES: frozenset[Table] = frozenset({"terminal", "report"})
EVERYWHERE: frozenset[Table] = TABLES | {"figures", "training"}

SHARE, DIAGONALS, PATCHES, COSINE = "share", "grid diagonals", "patches", "cosine"
ANY = -math.inf, math.inf
# How far a value may exceed its limits. Logits of 1e4 in float32 cause such errors in entropies.
TOLERANCE = 1e-3


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number that describes a whole run: a column of the report, a value that a study analyses.

    ``metric`` and ``statistic`` define it. Two numbers have no metric: test accuracy and, for a run
    that learned without labels, the test accuracy of k-NN.
    """

    name: str
    heading: str
    better: Literal[-1, 1]  # whether smaller or larger values (more local, more accurate) are bold
    metric: str | None = None
    statistic: Statistic = "mean"
    percent: bool = False
    digits: int = 3

    def entry(self, summary: Mapping[str, Any]) -> Any:
        """Return its value and interval from the ``summary`` of measure.json; None if not measured.

        >>> numbers = {x.name: x for x in RUN_NUMBERS}
        >>> numbers["layer1_mad"].entry({"layer_mean_mad": [{"value": 0.2}, {"value": 0.3}]})
        {'value': 0.2}
        """
        if self.statistic == "layer1":
            layers = summary.get(f"layer_mean_{self.metric}")
            return layers[0] if layers else None
        return summary.get(f"{self.statistic}_{self.metric}")

    def of_heads(
        self, heads: Mapping[str, list[list[float]]], unread: Iterable[int] = ()
    ) -> float | None:
        """Compute the number from the values of all heads; None if a metric it needs is missing.

        Args:
            heads: Values [layer][head] by metric.
            unread: Layers, counted from 0, whose patches reach no output of a classifier. They are
                left out, except from the mean of layer 1.

        >>> heads = {"mad": [[0.2, 0.4], [0.1, 0.5]], "self_mass": [[0.3, 0.0], [0.6, 0.1]]}
        >>> [round(x.of_heads(heads), 6) for x in (*numbers_of("mad"), *numbers_of("self_mass"))]
        [0.1, 0.3, 0.25, 0.6]
        >>> [round(x.of_heads(heads, unread=[1]), 6) for x in numbers_of("mad")]
        [0.2, 0.3]
        """
        wanted = heads.get(self.metric or "")
        if wanted is None or (self.statistic == "most_local" and "mad" not in heads):
            return None
        if self.statistic == "layer1":
            return math.fsum(wanted[0]) / len(wanted[0])
        left_out = set(unread)
        read = [layer for layer in range(len(wanted)) if layer not in left_out]
        values = [x for layer in read for x in wanted[layer]]
        if self.statistic == "most_local":
            mads = [x for layer in read for x in heads["mad"][layer]]
            return values[mads.index(min(mads))]
        if self.statistic in ("min", "max"):
            return min(values) if self.statistic == "min" else max(values)
        return math.fsum(values) / len(values)


@dataclass(frozen=True)
class Metric:
    """One metric of attention or features; docs/measure.md has the definitions."""

    name: str  # in measure.json and for --metrics
    label: str  # in tables and figures
    unit: str
    limits: tuple[float, float] = (0.0, 1.0)  # a value outside is refused
    local: Literal[-1, 0, 1] = 0  # whether smaller (-1) or larger (1) is more local; 0: neither
    module: str = ""  # module in nearsight/measure/metrics; by default the metric's name
    function: str = ""  # pure function in that module; by default the metric's name
    per: Literal["head", "layer"] = "head"
    default: bool = False  # measured unless --metrics says otherwise
    required: bool = False  # a report needs it; older files may lack other default metrics
    tables: frozenset[Table] = frozenset()  # tables that show it if it was measured
    summary: tuple[Statistic, ...] = ()  # statistics over heads in the summary of measure.json
    columns: tuple[Statistic, ...] = ()  # the statistics that are also numbers of a run
    nulls: bool = False  # whether it has null lines (uniform attention, a 3x3 box, ...)
    axis: str = ""  # label of its axis; by default label and unit
    top: float | None = None  # its axis reaches at least this value; None: as far as the data
    digits: int = 3  # decimals that are needed to see effects on it
    meaning: str = ""  # explanation for reports; empty if the page explains the metric anyway

    @property
    def home(self) -> str:
        """The module that holds its mathematics and its pure function."""
        return f"nearsight.measure.metrics.{self.module or self.name}"

    @property
    def pure_function(self) -> str:
        """The name of its pure function."""
        return self.function or self.name

    @property
    def axis_label(self) -> str:
        """The label of its axis.

        >>> metric("nonlocality").axis_label, metric("entropy").axis_label
        ('nonlocality (patches)', 'entropy / log N')
        """
        return self.axis or f"{self.label} ({self.unit})"

    @property
    def is_distance(self) -> bool:
        """Whether its unit depends on the convention."""
        return self.unit == DIAGONALS

    def numbers(self) -> list[Number]:
        """Return the numbers of a run that it gives, such as ``min_mad``.

        The mean has no prefix: ``entropy`` is the mean over all heads.
        """
        return [
            Number(
                name=self.name if x == "mean" else f"{x}_{self.name}",
                heading=f"{HEADINGS[x]} {self.label}",
                better=-1 if self.local <= 0 else 1,
                metric=self.name,
                statistic=x,
                digits=self.digits,
            )
            for x in self.columns
        ]

    def outside(self, low: float, high: float) -> float | None:
        """Return whichever of two extreme values exceeds the limits, or None if neither does.

        >>> metric("entropy").outside(-1e-7, 1.0), metric("entropy").outside(-1.5e22, 1.0)
        (None, -1.5e+22)
        """
        if low < self.limits[0] - TOLERANCE:
            return low
        return high if high > self.limits[1] + TOLERANCE else None


HEADINGS: dict[Statistic, str] = {
    "min": "min", "max": "max", "mean": "mean", "layer1": "layer-1 mean",
    "most_local": "most local head's",
}  # fmt: skip

CATALOGUE = (
    Metric("mad", "MAD", DIAGONALS, local=-1, module="distance", function="mean_attention_distance",
           default=True, required=True, tables=EVERYWHERE, summary=("min", "max", "mean"),
           columns=("min", "layer1"), nulls=True, top=0.6),
    Metric("entropy", "entropy", "log N", local=-1, function="attention_entropy", default=True,
           required=True, tables=EVERYWHERE, summary=("min", "max", "mean"), columns=("mean",),
           nulls=True, axis="entropy / log N", top=1.0),
    Metric("self_mass", "self-mass", SHARE, local=1, module="mass", default=True, required=True,
           tables=TABLES | {"training"}, summary=("mean",), columns=("mean", "most_local"),
           nulls=True, axis="self-mass", digits=4),
    Metric("mad_without_self", "MAD without self", DIAGONALS, local=-1, module="distance",
           default=True, tables=TABLES | {"training"}, summary=("mean",), columns=("mean",),
           nulls=True,
           meaning="how far the attention goes that leaves its own patch: MAD = (1 − self-mass) × "
           "MAD without self. A low MAD with a high self-mass is a head that looks at itself."),
    Metric("radius_mass", "mass within a radius", "shares", local=1, module="mass", default=True),
    Metric("nonlocality", "nonlocality", PATCHES, (0.0, math.inf), local=-1, module="distance",
           default=True, summary=("mean",)),
    Metric("score", "score", "–", (-math.inf, 1.0), local=1, module="distance",
           function="distance_score"),
    Metric("ring_mass", "mass on rings", "shares", module="mass"),
    Metric("sink", "sink", SHARE, module="mass", function="sink_mass"),
    Metric("offset", "mean offset", PATCHES, ANY, function="mean_offset"),
    Metric("offset_spread", "spread of offsets", PATCHES, (0.0, math.inf), module="offset"),
    Metric("nmi", "NMI", "–", module="information", function="mutual_information"),
    Metric("attended_area", "attended area", SHARE, local=-1, tables=TABLES, summary=("mean",),
           columns=("mean",), nulls=True,
           meaning="the smallest share of all patches that holds 90 % of a patch's attention."),
    Metric("head_diversity", "head diversity", SHARE, module="diversity", per="layer"),
    Metric("locality_score", "locality score", COSINE, (-1.0, 1.0), local=1, module="features",
           per="layer"),
    Metric("cls_similarity", "patch-[CLS] similarity", COSINE, (-1.0, 1.0), module="features",
           per="layer"),
    Metric("position_share", "position share", SHARE, module="position"),
)  # fmt: skip


@dataclass(frozen=True)
class Naming:
    """The thresholds by which heads are named; metrics/head_kinds.py has the rules."""

    mostly: float = 0.5  # least share of attention on prefix tokens, the own patch or the 3x3 box
    max_shift: float = 3.0  # patches, largest offset of a local head: the largest measured radius
    max_spread: float = 2.0  # patches, largest spread of a local head: that of an even 5x5 box
    same_map: float = 0.9  # least position share of positional heads
    diffuse: float = 0.9  # with a larger entropy all maps are alike, whatever the image
    far: float = 0.25  # largest score of global heads


NAMING = Naming()
NearKind = Literal["identity", "local"]
NEAR_KINDS: tuple[NearKind, ...] = ("identity", "local")


def near_kind(mad: float, self_mass: float, box: float) -> NearKind | None:
    """Classify a head by its MAD and the MAD of a 3x3 box; None if its MAD is not below the box's.

    A MAD below that line can have two causes: the head attends to its own patch (*identity*: a
    self-mass of at least 0.5), or to the patches around it (*local*).

    >>> near_kind(0.01, 0.93, 0.1), near_kind(0.09, 0.2, 0.1), near_kind(0.3, 0.0, 0.1)
    ('identity', 'local', None)
    """
    if not mad < box:
        return None
    return "identity" if self_mass >= NAMING.mostly else "local"


def near_kinds(
    mads: Sequence[Sequence[float]],
    self_masses: Sequence[Sequence[float]],
    boxes: Sequence[float],
) -> list[list[NearKind | None]]:
    """Return ``near_kind`` of every head, [layer][head].

    Args:
        mads: MAD of every head, [layer][head].
        self_masses: Self-mass of every head, [layer][head].
        boxes: MAD of the 3x3 box on the grid of every layer.
    """
    return [
        [near_kind(mad, own, box) for mad, own in zip(*layer, strict=True)]
        for *layer, box in zip(mads, self_masses, boxes, strict=True)
    ]


METRIC_NAMES = tuple(x.name for x in CATALOGUE)
DEFAULT_METRICS = tuple(x.name for x in CATALOGUE if x.default)

ACCURACY = Number(name="accuracy", heading="test accuracy", better=1, percent=True)
KNN_ACCURACY = Number(
    name="test_knn_accuracy", heading="k-NN test accuracy", better=1, percent=True
)
RUN_NUMBERS = (ACCURACY, KNN_ACCURACY, *(number for x in CATALOGUE for number in x.numbers()))
# Studies also analyse the logarithm of min MAD. In it a change from 0.021 to 0.009 is as large as
# one from 0.21 to 0.09; in MAD itself the first would vanish beside the second.
LOG_MIN_MAD = Number(name="log_min_mad", heading="log min MAD", better=-1)
STUDY_NUMBERS = tuple(
    number for x in RUN_NUMBERS for number in ((x, LOG_MIN_MAD) if x.name == "min_mad" else (x,))
)

# Studies of models with different grids also report the score, because MAD depends on the grid.
MAX_SCORE = Number(name="max_score", heading="score of the most local head", better=1)
GRID_FREE = (MAX_SCORE, Number(name="score", heading="mean score", better=1))


def metric(name: str) -> Metric:
    """Return the entry of the catalogue with this name, which must exist."""
    return next(x for x in CATALOGUE if x.name == name)


def shown_in(table: Table) -> list[Metric]:
    """Return the metrics that a table shows, in the order of the catalogue."""
    return [x for x in CATALOGUE if table in x.tables]


def numbers_of(name: str) -> list[Number]:
    """Return the numbers of a run that come from this metric."""
    return metric(name).numbers()


def number_named(name: str) -> Number:
    """Return the number of a run with this name; for an unknown name, one with it as the heading.

    >>> number_named("min_mad").heading, number_named("epochs").heading
    ('min MAD', 'epochs')
    """
    other = Number(name=name, heading=name, better=1)
    return next((x for x in (*STUDY_NUMBERS, *GRID_FREE) if x.name == name), other)


def heading_of(name: str) -> str:
    """Return the heading of a number of a run in tables."""
    return number_named(name).heading


def with_nulls(measured: Iterable[str] = ()) -> list[str]:
    """Return the names of metrics with null lines: the default ones, and those in ``measured``."""
    asked = set(measured)
    return [x.name for x in CATALOGUE if x.nulls and (x.default or x.name in asked)]
