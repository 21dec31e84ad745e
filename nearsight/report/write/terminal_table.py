"""Print the table of measured runs and models: 80 columns, with a tiny bar per layer."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from nearsight.core import Screen, console
from nearsight.measure.catalogue import Metric, Statistic, metric, shown_in
from nearsight.report.figures.heads import images_caution
from nearsight.report.write.cells import Cell, Marked
from nearsight.report.write.parts import terminal_part_tables
from nearsight.report.write.table import Column, Row, Table
from nearsight.runs import MeasuredFolder, read_measured, read_record
from nearsight.runs.records import (
    ConventionRecord,
    MeasuredModel,
    MeasureRecord,
    RunRecord,
    TrainedRun,
)
from nearsight.stats import Estimate

BAR_WIDTH = 8
NARROWEST_NAME = 18  # characters; the bars are left out if names would have less
EIGHTHS = " ▏▎▍▌▋▊▉"


def mad_bar(mad: float, ascii_only: bool = False) -> str:
    """Draw a bar whose length is MAD; a full bar is the end of the axis of MAD in figures (0.6).

    >>> mad_bar(0.3, ascii_only=True)
    '####'
    """
    length = min(max(mad / (metric("mad").top or 1.0), 0.0), 1.0) * BAR_WIDTH
    if ascii_only:
        return "#" * round(length)
    whole, eighths = divmod(round(length * 8), 8)
    return ("█" * whole + EIGHTHS[eighths]).rstrip()


def _accuracy_heading(records: Sequence[RunRecord]) -> str:
    """Name the accuracy of runs: that of the model, or of k-NN on its features, or either."""
    results = [x.result for x in records if isinstance(x, TrainedRun) and x.result]
    by_knn = [x.test_accuracy is None for x in results]
    return "accuracy" if not any(by_knn) else "k-NN\nacc." if all(by_knn) else "accuracy\nor k-NN"


def terminal_table(
    measures: Sequence[MeasureRecord],
    records: Sequence[RunRecord],
    ascii_only: bool = False,
) -> Table:
    """Tabulate accuracy, MAD, entropy and self-mass of every run or model and of its layers.

    A metric that no run or model has gets no column; one that only some have gets dashes.

    Args:
        measures: The measurements of the runs and models.
        records: Their run.json files, in the same order.
        ascii_only: Whether the bars may use ASCII characters only.
    """
    trained = any(isinstance(record, TrainedRun) for record in records)
    shown = shown_columns(measures)
    more = [column.heading for column in shown if not column.metric.default]
    width = (22 if trained else 31) - sum(1 + max(map(len, x.split("\n"))) for x in more)
    with_bar = width >= NARROWEST_NAME
    width += 0 if with_bar else 1 + BAR_WIDTH
    columns = (
        Column("", "name", width=width),
        *(Column(_accuracy_heading(records), "accuracy", "share"),) * trained,
        *(Column(x.heading, x.heading, "number") for x in shown),
        *(Column("MAD", "bar", width=BAR_WIDTH),) * with_bar,
    )
    rows: list[tuple[Cell, ...] | Row] = []
    for measure, record in zip(measures, records, strict=True):
        summary, unit = measure.summary, diagonal(measure)
        result = record.result if isinstance(record, TrainedRun) else None
        accuracy = result.main_accuracy if result else None
        numbers = [x.of_model(measure) for x in shown]
        mean = summary.mean("mad")
        bar = [_bar(mean.value if mean else None, unit, ascii_only)] * with_bar
        label = Marked(wrapped_name(record, width), bold=True)
        rows.append((label, *[accuracy] * trained, *numbers, *bar))
        grids = layer_grids(measure)
        for layer, grid in enumerate(grids):
            numbers = [x.of_layer(measure, layer) for x in shown]
            of_grid = f", {grid}" if len(set(grids)) > 1 else ""
            means = summary.layer_means("mad")
            bar = [_bar(means[layer].value if means else None, unit, ascii_only)] * with_bar
            unread = " unread" if measure.layers[layer].unread else ""
            name = f"  layer {layer + 1}{of_grid}{unread}"
            rows.append((name, *[""] * trained, *numbers, *bar))
    nulls = {
        (grid, diagonal(measure)): measure.null_lines(layer)
        for measure in measures
        for layer, grid in enumerate(layer_grids(measure))
    }
    for (grid, unit), null in nulls.items():
        for key, name in (("uniform", "uniform attention"), ("box", "3x3 box")):
            of_grid = f", {grid}" if len(nulls) > 1 else ""
            lines = [null.get(f"{key}_{x.metric.name}", "") for x in shown]
            bar = [_bar(null.get(f"{key}_mad"), unit, ascii_only)] * with_bar
            cells = (f"{name}{of_grid}", *[""] * trained, *lines, *bar)
            rows.append(Row(cells, "reference"))
    return Table("measured", columns, rows)


@dataclass(frozen=True)
class TerminalColumn:
    """A column that shows one statistic of a metric: its mean or its smallest value over heads.

    The statistic ``most_local`` is the value of the head with the smallest MAD.
    """

    metric: Metric
    statistic: Statistic

    @property
    def heading(self) -> str:
        """The heading, with a word per line."""
        if self.statistic == "most_local":
            return heading_lines(f"its {self.metric.label}")
        if "min" in self.metric.columns:
            return heading_lines(f"{self.statistic} {self.metric.label}")
        return heading_lines(self.metric.label)

    def of_model(self, measure: MeasureRecord) -> float | None:
        """Return the number of the whole model; None if it was not measured."""
        entry = measure.numbers.get(f"{self.statistic}_{self.metric.name}")
        return None if entry is None else entry.value

    def of_layer(self, measure: MeasureRecord, layer: int) -> float | None:
        """Return the number of a layer (counted from 0); None if it was not measured."""
        if self.statistic == "mean":
            layers = measure.summary.layer_means(self.metric.name)
            return None if layers is None else layers[layer].value
        found = measure.layers[layer].metrics.get(self.metric.name)
        heads, mads = (found.per_head if found else []), measure.layers[layer].metrics.get("mad")
        if self.statistic == "min" or not heads or mads is None:
            return min(heads, default=None)
        return heads[mads.per_head.index(min(mads.per_head))]


def heading_lines(label: str) -> str:
    r"""Break a label into lines of one word each.

    >>> heading_lines("its self-mass")
    'its\nself-\nmass'
    """
    return label.replace(" ", "\n").replace("-", "-\n")


def shown_columns(measures: Sequence[MeasureRecord]) -> list[TerminalColumn]:
    """Return the columns of the default metrics, and of others that were measured.

    The self-mass of the most local head stands beside its MAD, because a low MAD alone does not
    distinguish a local head from one in which patches attend to themselves.
    """
    shown = [
        entry
        for entry in shown_in("terminal")
        if entry.default or any(measure.summary.mean(entry.name) for measure in measures)
    ]
    order: tuple[Statistic, ...] = ("min", "most_local", "mean")
    return [
        TerminalColumn(entry, statistic)
        for statistic in order
        for entry in shown
        if statistic == "mean" or statistic in entry.columns
    ]


def wrapped_name(record: RunRecord, width: int) -> str:
    """Wrap the name of a run or model at this width, without a break inside "seed 3"."""
    lines = textwrap.fill(record.name.replace("seed ", "seed\u00a0"), width)
    return lines.replace("\u00a0", " ")


def layer_grids(measure: MeasureRecord) -> list[str]:
    """Return the grid of every layer as text; only hierarchical models have several."""
    return [f"{rows}x{cols}" for rows, cols in measure.grids]


def _bar(mad: float | None, unit: float, ascii_only: bool) -> str:
    return "" if mad is None else mad_bar(mad / unit, ascii_only)


def diagonal(measure: MeasureRecord) -> float:
    """Return the diagonal of the grid in the unit of the measurement: 1 in our convention."""
    rows, cols = measure.grid
    unit, size = measure.convention.unit, measure.layers[0].image_size
    patches = math.hypot(rows - 1, cols - 1) or 1.0
    if unit == "patches":
        return patches
    return patches * size[0] / rows if unit != "grid diagonal" and size else 1.0


def unit_text(convention: ConventionRecord) -> str:
    """Return the unit of MAD in the plural."""
    return "grid diagonals" if convention.unit == "grid diagonal" else convention.unit


def print_measurements(paths: Sequence[Path]) -> None:
    """Print the table of measured folders and explain its numbers below it."""
    print_folders([read_measured(Path(path), read_record(Path(path))) for path in paths], console())


def print_folders(folders: Sequence[MeasuredFolder], screen: Screen) -> None:
    """Print the table of measured folders that have been read, and explain its numbers."""
    records, measures = [x.record for x in folders], [x.measure for x in folders]
    screen.print(terminal_table(measures, records, screen.options.ascii_only).rich())
    images = sorted({measure.num_images for measure in measures})
    units = dict.fromkeys(unit_text(measure.convention) for measure in measures)
    kind = "test images" if all(isinstance(record, TrainedRun) for record in records) else "images"
    numbers = "–".join(f"{n:,}" for n in images)
    lacking = [x for x in shown_columns(measures) if any(x.of_model(m) is None for m in measures)]
    absent = " A dash means: not measured." if lacking else ""
    screen.say(
        f'MAD is in {" and ".join(units)}, over {numbers} {kind}. "its self-mass" '
        "is that of the head with the smallest MAD; from 0.5 on, patches attend mostly to "
        "themselves (an identity head)."
        f"{absent}"
    )
    if len(folders) > 1 and (ranked := score_table(folders)):
        screen.print(ranked.rich())
        screen.say(
            "The score is 1 - MAD / MAD of uniform attention, the mean of all heads with its 95 % "
            "interval over images. It compares models with different grids; at 1 every patch "
            "attends only to itself."
        )
        if caution := images_caution(measures):
            screen.say(caution)
    for found in folders:
        if told := kinds_text(found):
            screen.say(told)
        for table, reading in terminal_part_tables(found):
            screen.print(table.rich())
            screen.say(reading)
    for record, measure in zip(records, measures):
        name = f"{record.name}: " if len(folders) > 1 else ""
        for line in remarks(record, measure):
            screen.say(f"{name}{line}")
    if any(measure.unread for measure in measures):
        screen.say(
            "What the patches compute in an unread layer reaches no output of the model, so means "
            "and minima leave the layer out."
        )


def score_table(folders: Sequence[MeasuredFolder]) -> Table | None:
    """Rank models of any geometry by mean score, the most local first; None if one has no score."""
    scores = [found.measure.summary.mean("score") for found in folders]
    if any(score is None for score in scores):
        return None
    ranked = sorted(
        zip(folders, scores), key=lambda pair: pair[1].value if pair[1] else 0.0, reverse=True
    )
    rows = [
        (
            f"{place}. {found.record.name}",
            Estimate(score.value, score.low, score.high, found.measure.num_images, "images"),
            f"{found.measure.grid[0]}x{found.measure.grid[1]}",
            found.measure.num_images,
        )
        for place, (found, score) in enumerate(ranked, 1)
        if score
    ]
    columns = (
        Column("most local first", "name", width=34),
        Column("score", "score", "number"),
        Column("grid", "grid"),
        Column("images", "num_images"),
    )
    return Table("ranking", columns, rows)


def kinds_text(found: MeasuredFolder) -> str:
    """Count the kinds of heads, with mean sink and NMI; empty if the heads were not named."""
    layers = found.measure.layers
    counts = Counter(name for layer in layers for name in layer.head_names or ())
    if not counts:
        return ""
    told = [f"{number} {name}" for name, number in counts.most_common()]
    means = []
    for name in ("sink", "nmi"):
        values = [x for y in layers if name in y.metrics for x in y.metrics[name].per_head]
        means += [f"mean {metric(name).label} {fmean(values):.3f}"] if values else []
    return f"Heads of {found.record.name}: {', '.join(told)}; {', '.join(means)}."


def remarks(record: RunRecord, measure: MeasureRecord) -> list[str]:
    """Return what a reader must know: the images, unmeasured and unread layers, other notes."""
    lines = []
    if isinstance(record, MeasuredModel):
        data, others = record.data, record.data.num_other_files
        left_out = f"; {others:,} other files left out" if others else ""
        lines.append(
            f"Images: {data.num_images:,} of {data.num_available:,} in {data.name}"
            f"{left_out}. Preprocessing: {record.preprocessing.text}."
        )
        lines += record.notes
    lines += [f"Not measured: {x.name} ({x.reason})." for x in measure.skipped]
    if measure.unread:
        numbers = ", ".join(str(layer + 1) for layer in measure.unread)
        which = "Layer {} is" if len(measure.unread) == 1 else "Layers {} are"
        lines.append(f"{which.format(numbers)} unread.")
    lines += dict.fromkeys(layer.note for layer in measure.layers if layer.note)
    return lines
