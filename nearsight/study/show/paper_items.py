"""Show the papers' tables and figures that a study is made for, with its own numbers beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from nearsight.measure.catalogue import STUDY_NUMBERS, heading_of
from nearsight.report.figures.drawing import Drawing
from nearsight.report.figures.study import Arrow, Lines, arrow_drawing, grid_drawing
from nearsight.report.write import Cell, Column, Table
from nearsight.stats import Estimate, over_seeds
from nearsight.study.analyse import Course, Outcome, grid_trends
from nearsight.study.papers import PAPERS, ItemRow, PaperItem, items_of_study

NOT_RUN = "not run"
POINTS = "percentage points"
Grid = tuple[list[float], list[float]]  # strengths, numbers of GPSA layers


def item_tables(study: str, found: Sequence[Outcome], scale: str) -> tuple[Table, ...]:
    """Return a table for each table of a paper that the study is made for.

    Args:
        study: The name of the study.
        found: The outcomes of its finished cells.
        scale: Our models and the length of their training, in words.
    """
    return tuple(_table(item, found, scale) for item in items_of_study(study) if item.rows)


def _table(item: PaperItem, found: Sequence[Outcome], scale: str) -> Table:
    columns = [Column("condition", "condition")]
    for value in item.values:
        text = _heading(value)
        columns.append(Column(f"{text}, ours", value, "share", absent=NOT_RUN))
        columns.append(Column(f"{text}, paper", f"{value}_paper", "share"))
    data = sorted({str(x.settings[name]) for x in found for name in x.settings if _is_data(name)})
    evaluated = f" Frozen features are evaluated on {', '.join(data)}." if data else ""
    return Table(
        key=item.key,
        columns=tuple(columns),
        rows=tuple(
            (row.name, *chain(*(_beside(row, value, found) for value in item.values)))
            for row in item.rows
        ),
        title=f"{PAPERS[item.paper]}, {item.label}: {item.title}",
        note=f"Ours: {scale}{evaluated} Our numbers are means with 95 % intervals over seeds; one "
        "seed has no interval. The paper has one seed, at its own scale; other scales need not "
        "agree.",
    )


def _is_data(setting: str) -> bool:
    return setting.startswith("evaluate.") and setting.endswith(".data")


def _heading(value: str) -> str:
    """Return the heading of a number.

    >>> _heading("accuracy"), _heading("segmentation_miou_coco-stuff")
    ('test accuracy', 'segmentation mIoU coco-stuff')
    """
    known = {each.name for each in STUDY_NUMBERS}
    return heading_of(value) if value in known else value.replace("_", " ").replace("miou", "mIoU")


def _beside(row: ItemRow, value: str, found: Sequence[Outcome]) -> tuple[Cell, Cell]:
    return _number(found, row.factors, value), row.printed.get(value)


def _number(
    found: Sequence[Outcome], factors: Mapping[str, object], value: str
) -> Estimate | float | None:
    """Estimate a number over the seeds of a condition; return None without a finished cell."""
    numbers = [
        x.values[value]
        for x in found
        if value in x.values and all(x.factors.get(name) == y for name, y in factors.items())
    ]
    if len(numbers) < 2:
        return numbers[0] if numbers else None
    return over_seeds(numbers)


def _point(found: Sequence[Outcome], factors: Mapping[str, object], value: str) -> Estimate | None:
    """Return a number to draw; for one seed, the interval is the number itself, and n is 1."""
    x = _number(found, factors, value)
    return Estimate(x, x, x, 1, "seeds") if isinstance(x, float) else x


def item_figures(
    study: str, found: Sequence[Outcome], followed: Sequence[Course], scale: str
) -> list[Drawing]:
    """Return the figures of the papers that no other part of the page draws."""
    drawn = [
        FIGURES[item.key](item, found, followed, scale)
        for item in items_of_study(study)
        if item.key in FIGURES
    ]
    return [drawing for drawing in drawn if drawing is not None]


def _grid_of(found: Sequence[Outcome] | Sequence[Course]) -> Grid:
    """Return strengths and numbers of GPSA layers, without the plain ViT."""
    grid = [x.factors for x in found if x.factors["layers"]]
    return (
        sorted({float(x["strength"]) for x in grid}),
        sorted({float(x["layers"]) for x in grid}),
    )


def _layers_text(number: float) -> str:
    return f"{number:g} GPSA layer{'s' * (number != 1)}"


def _strength_and_layers(
    item: PaperItem, found: Sequence[Outcome], followed: Sequence[Course], scale: str
) -> Drawing | None:
    """Draw ConViT's figure 8a: accuracy by locality strength and number of GPSA layers."""
    strengths, layers = _grid_of(found)
    lines = {
        _layers_text(layer): [
            (strength, x)
            for strength in strengths
            if (x := _point(found, {"strength": strength, "layers": layer}, "accuracy"))
        ]
        for layer in layers
    }
    lines = {name: points for name, points in lines.items() if points}
    if not lines:
        return None
    plain = _point(found, {"layers": 0}, "accuracy")
    few = min(x.n for points in lines.values() for _, x in points)
    seeds = "" if few > 1 else " Points without a whisker have one seed and prove nothing."
    trends = grid_trends(found, "accuracy", "strength", "layers", (strengths, layers))
    panel = Lines(
        "Test accuracy", "locality strength", "accuracy (%)", lines,
        ("plain ViT", plain) if plain else None,
    )  # fmt: skip
    return grid_drawing(
        item.key,
        "Accuracy by locality strength and number of GPSA layers",
        scale,
        f"{_trend_text(trends.estimates)} Whiskers are 95 % intervals over seeds.{seeds} "
        "In the paper's figure 8a (one seed, ConViT-S+ on 100 classes of ImageNet), accuracy grows "
        "with both factors, without interaction.",
        [panel],
    )


def _trend_text(found: tuple[Estimate, Estimate, Estimate] | None) -> str:
    if found is None:
        return "To compute slopes, the whole grid must be finished with at least two seeds."
    strength, layers, both = (
        f"{100 * x.value:+.2f} ({100 * x.low:+.2f} to {100 * x.high:+.2f})" for x in found
    )
    return (
        f"Accuracy changes by {strength} {POINTS} per unit of strength and by {layers} per GPSA "
        f"layer, each at the middle of the other factor. One layer more changes the slope of "
        f"strength by {both} (n = {found[0].n} seeds)."
    )


def _gain_by_epoch(
    item: PaperItem, found: Sequence[Outcome], followed: Sequence[Course], scale: str
) -> Drawing | None:
    """Draw ConViT's figure 8b: accuracy by epoch, and the gain of GPSA layers over none."""
    if not followed:
        return None
    _, layers = _grid_of(followed)
    curves = {
        "plain ViT": _by_epoch([x for x in followed if not x.factors["layers"]]),
        **{
            _layers_text(layer): _by_epoch([x for x in followed if x.factors["layers"] == layer])
            for layer in layers
        },
    }
    plain = curves["plain ViT"]
    gains = {
        name: {
            epoch: {seed: y - plain[epoch][seed] for seed, y in per_seed.items()}
            for epoch, per_seed in curve.items()
            if per_seed.keys() <= plain.get(epoch, {}).keys()
        }
        for name, curve in curves.items()
        if name != "plain ViT"
    }
    panels = [
        Lines("Validation accuracy", "epoch", "accuracy (%)", _estimate_curves(curves)),
        Lines("Gain over the plain ViT", "epoch", f"gain ({POINTS})", _estimate_curves(gains)),
    ]
    panels = [panel for panel in panels if panel.lines]
    if not panels:
        return None
    return grid_drawing(
        item.key,
        "Gain of GPSA layers by epoch",
        f"{scale} · mean over locality strengths",
        "Bands are 95 % intervals over seeds; gains are paired by seed. In the paper's figure 8b, "
        "9 GPSA layers almost double the accuracy of the DeiT after 20 epochs.",
        panels,
        whole=True,
    )


def _by_epoch(followed: Sequence[Course]) -> dict[int, dict[int, float]]:
    """Return the validation accuracy by epoch and seed, averaged over the runs of a seed.

    A seed counts only if it has as many runs as the seed with the most.
    """
    runs: dict[int, list[Course]] = {}
    for course in followed:
        runs.setdefault(course.seed, []).append(course)
    most = max(map(len, runs.values()), default=0)
    found: dict[int, dict[int, float]] = {}
    for seed, of_seed in runs.items():
        if len(of_seed) < most:
            continue
        for epoch in set.intersection(*(set(x.epochs) for x in of_seed)):
            each = [x.values["accuracy"][x.epochs.index(epoch)] for x in of_seed]
            known = [x for x in each if x is not None]
            if len(known) == len(each):
                found.setdefault(epoch, {})[seed] = sum(known) / len(known)
    return dict(sorted(found.items()))


def _estimate_curves(
    curves: Mapping[str, Mapping[int, Mapping[int, float]]],
) -> dict[str, list[tuple[float, Estimate]]]:
    """Estimate every epoch of every curve over seeds, without epochs of a single seed."""
    found = {
        name: [
            (float(epoch), over_seeds(list(seeds.values())))
            for epoch, seeds in curve.items()
            if len(seeds) > 1
        ]
        for name, curve in curves.items()
    }
    return {name: points for name, points in found.items() if points}


def _pairs(
    item: PaperItem,
    found: Sequence[Outcome],
    change: str,
    across: str,
    up: str,
    printed: Mapping[str, float] | None = None,
) -> tuple[list[Arrow], list[Arrow]]:
    """Return an arrow for each pair of models in a table: ours, and the paper's.

    Args:
        item: The table whose rows are the models.
        found: Our outcomes.
        change: The factor that differs within a pair; its first level in the rows comes first.
        across: The number on the horizontal axis.
        up: The number on the vertical axis.
        printed: The paper's horizontal numbers by row, if its table does not have them.
    """
    pairs: dict[tuple[str, ...], list[ItemRow]] = {}
    for row in item.rows:
        rest = tuple(str(y) for name, y in row.factors.items() if name != change)
        pairs.setdefault(rest, []).append(row)
    ours, paper = [], []
    for (name, *more), (before, after) in pairs.items():
        group = ", ".join(more)
        points = [
            (_number(found, row.factors, across), _number(found, row.factors, up))
            for row in (before, after)
        ]
        known = [(x, y) for x, y in points if x is not None and y is not None]
        if len(known) == 2:
            ours.append(Arrow(name, known[0], known[1], group))
        theirs = [
            ((printed or {}).get(row.name, row.printed.get(across)), row.printed.get(up))
            for row in (before, after)
        ]
        told = [(x, y) for x, y in theirs if x is not None and y is not None]
        if len(told) == 2:
            paper.append(Arrow(name, told[0], told[1], group))
    return ours, paper


def _row_item(item: PaperItem, label: str) -> PaperItem:
    return next(x for x in items_of_study(str(item.recipe)) if x.label == label)


def _segmentation_and_accuracy(
    item: PaperItem, found: Sequence[Outcome], followed: Sequence[Course], scale: str
) -> Drawing | None:
    """Draw LocAt's figure 2: mIoU against top-1, with an arrow from each backbone to LocAt."""
    choices = {
        "segmentation_miou": "segmentation mIoU (%)",
        "hummingbird_miou": "Hummingbird mIoU (%)",
    }
    by_number = {
        up: _pairs(_row_item(item, "table 1"), found, "locat", "accuracy", up)[0] for up in choices
    }
    up = next((up for up, arrows in by_number.items() if arrows), None)
    if up is None:
        return None
    _, paper = _pairs(_row_item(item, "table 1"), found, "locat", "accuracy", "segmentation_miou")
    return arrow_drawing(
        item.key, "Segmentation on frozen features against accuracy", scale, by_number[up], paper,
        ("plain", "with LocAt"), ("top-1 accuracy (%)", choices[up]),
        paper_up=choices["segmentation_miou"],
    )  # fmt: skip


MILLIONS = (6, 6, 10, 10, 22, 27, 48, 48, 86, 86, 152, 152)  # parameters in ConViT's table 1


def _parameter_efficiency(
    item: PaperItem, found: Sequence[Outcome], followed: Sequence[Course], scale: str
) -> Drawing | None:
    """Draw ConViT's figure 2b: accuracy over the number of parameters."""
    rows = _row_item(item, "table 1")
    printed = {row.name: number * 1e6 for row, number in zip(rows.rows, MILLIONS)}
    ours, paper = _pairs(rows, found, "model", "num_parameters", "accuracy", printed)
    if not ours:
        return None
    return arrow_drawing(
        item.key, "Accuracy over the number of parameters", scale, ours, paper,
        ("DeiT", "ConViT"), ("parameters (millions)", "top-1 accuracy (%)"), per=1e-6,
    )  # fmt: skip


Draw = Callable[[PaperItem, Sequence[Outcome], Sequence[Course], str], Drawing | None]
FIGURES: dict[str, Draw] = {  # by the key of the item
    "convit-figure-8a": _strength_and_layers,
    "convit-figure-8b": _gain_by_epoch,
    "convit-figure-2b": _parameter_efficiency,
    "locat-figure-2": _segmentation_and_accuracy,
}
