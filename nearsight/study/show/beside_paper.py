"""Tabulate a study's numbers beside tables 1 and 2 of the protocol paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

from nearsight.protocol import spoken_name
from nearsight.report.read import ConditionRuns, Evidence, Family, paired_difference
from nearsight.report.write import Cell, Column, Kind, Table
from nearsight.study.claims import PAPER_TABLE_1, PAPER_TABLE_2
from nearsight.study.show.effect_tables import over_runs

Found = Mapping[tuple[str, str], tuple[Family, ConditionRuns]]
PAPER_NOTE = (
    "The paper has one seed of the compact ViT (8 layers, 192 wide, 8x8 patches), trained for up "
    "to 600 epochs. Our numbers are means with 95 % intervals over seeds, at the scale named in "
    "the table; other scales need not agree. Both use the heads of all layers."
)


def paper_tables(families: Sequence[Family]) -> tuple[Table, ...]:
    """Return tables 1 and 2 of the protocol paper with our numbers beside them, if we have some."""
    found = {
        (family.first.record.data.name, condition.runs[0].protocol["name"]): (family, condition)
        for family in families
        for condition in family.conditions
        if not family.is_models
    }
    return (*_table_1(found), *_table_2(found))


def _table_1(found: Found) -> list[Table]:
    rows: list[tuple[Cell, ...]] = []
    for data, of_paper in PAPER_TABLE_1.items():
        ours = [found.get((data, name)) for name in ("baseline", "modern")]
        if None in ours:
            continue
        (family, baseline), (_, modern) = (x for x in ours if x is not None)
        gain = paired_difference(modern, baseline, "accuracy")
        low, high = of_paper["baseline"].accuracy, of_paper["modern"].accuracy
        cells = (baseline.estimate("accuracy"), low, modern.estimate("accuracy"), high, gain)
        rows.append((f"{family.name}, {family.length_text}", *cells, high - low))
    if not rows:
        return []
    columns = [Column("data", "data")]
    for text in ("Baseline", "Modern", "gain"):
        columns.append(Column(f"{text}, ours", text.lower(), "share"))
        columns.append(Column(f"{text}, paper", f"{text.lower()}_paper", "share"))
    title = "Table 1 of the protocol paper: test accuracy"
    return [Table("table-1", tuple(columns), rows, title)]


def _table_2(found: Found) -> list[Table]:
    """Return table 2 as two tables, because accuracy, MAD and entropy together are too wide."""
    ours = {name: found[key] for name in PAPER_TABLE_2 if (key := ("cifar100", name)) in found}
    if len(ours) < 3:
        return []
    scale = " ".join(
        dict.fromkeys(f"Ours: {family.name}, {family.length_text}." for family, _ in ours.values())
    )
    title = "Table 2 of the protocol paper: all combinations on CIFAR-100"
    parts = {"": ("accuracy", "min_mad", "max_mad"), "-entropy": ("min_entropy", "max_entropy")}
    return [
        Table(
            key=f"table-2{end}",
            title=f"{title}{end.replace('-', ', ')}",
            columns=(Column("condition", "condition"), *chain(*map(_columns, values))),
            rows=tuple(
                (spoken_name(name), *chain(*(_beside(value, condition, name) for value in values)))
                for name, (_, condition) in ours.items()
            ),
            note=scale,
        )
        for end, values in parts.items()
    ]


def _columns(value: str) -> tuple[Column, Column]:
    text = value.replace("_", " ").replace("mad", "MAD")
    kind: Kind = "share" if value == "accuracy" else "number"
    return (
        Column(f"{text}, ours", value, kind),
        Column(f"{text}, paper", f"{value}_paper", kind),
    )


def _beside(value: str, condition: ConditionRuns, name: str) -> tuple[Cell, Cell]:
    paper = PAPER_TABLE_2[name][value]
    if value == "accuracy":
        return condition.estimate("accuracy"), paper
    which, _, metric = value.partition("_")
    return over_runs(condition, partial(_extreme_head, metric=metric, which=which)), paper


def _extreme_head(run: Evidence, metric: str, which: str) -> float:
    found = [head for heads in run.heads[metric].mean for head in heads]
    return min(found) if which == "min" else max(found)
