"""The papers' tables and figures with our numbers beside them, from made-up outcomes."""

from __future__ import annotations

from itertools import product

import pytest

from nearsight.report.figures.drawing import panel_svgs
from nearsight.study.analyse import Course, Outcome
from nearsight.study.show.paper_items import item_figures, item_tables

SCALE = "nano, 5 epochs."


def grid(seeds: int = 3) -> list[Outcome]:
    """Accuracy grows by 2 points per unit of strength and 1 per layer, and by no more."""
    found = [
        Outcome({"strength": x, "layers": y}, seed, {"accuracy": 0.1 + 0.02 * x + 0.01 * y})
        for seed in range(seeds)
        for x, y in product((0.5, 1.0, 2.0), (1, 2, 3))
    ]
    plain = [Outcome({"strength": 1.0, "layers": 0}, s, {"accuracy": 0.1}) for s in range(seeds)]
    return found + plain


def test_cells_that_were_not_run_are_empty_and_the_papers_numbers_stand() -> None:
    found = [
        Outcome({"model": model, "size": "Ti"}, seed, {"accuracy": 0.2 + seed / 100 + gain})
        for seed in range(2)
        for model, gain in (("DeiT", 0.0), ("ConViT", 0.05))
    ]
    (table,) = item_tables("convit-sizes", found, SCALE)
    rows = {row[0]: row[1:] for row in table.rows}
    ours, paper = rows["ConViT, Ti"]
    assert (ours.value, ours.n, paper) == (pytest.approx(0.255), 2, 0.731)
    assert rows["DeiT, B+"] == (None, 0.775)
    assert "not run" in table.html()


def test_one_seed_has_a_number_without_an_interval() -> None:
    (table,) = item_tables(
        "convit-ablation", [Outcome({"variant": "convit"}, 4, {"accuracy": 0.31})], SCALE
    )
    assert table.rows[0] == ("convit", 0.31, 0.822)


def test_a_study_of_another_recipe_has_no_such_table() -> None:
    assert item_tables("quick", grid(), SCALE) == ()
    assert item_figures("quick", grid(), [], SCALE) == []


@pytest.mark.slow
def test_figure_8a_has_a_line_per_number_of_layers_and_tells_the_slopes() -> None:
    (drawing,) = item_figures("convit-grid", grid(), [], SCALE)
    lines = {row[1] for row in drawing.rows}
    assert lines == {"1 GPSA layer", "2 GPSA layers", "3 GPSA layers", "plain ViT"}
    assert "+2.00 (+2.00 to +2.00) percentage points per unit of strength" in drawing.reading
    assert "+1.00 (+1.00 to +1.00) per GPSA layer" in drawing.reading
    assert all(svg.startswith("<svg") for svg in panel_svgs(drawing))


def test_a_grid_of_one_seed_is_drawn_without_intervals_and_says_so() -> None:
    (drawing,) = item_figures("convit-grid", grid(seeds=1), [], SCALE)
    assert all(low == value == high and n == 1 for *_, value, low, high, n in drawing.rows)
    assert "Points without a whisker have one seed and prove nothing." in drawing.reading
    assert (
        "To compute slopes, the whole grid must be finished with at least two seeds."
        in drawing.reading
    )


def test_cells_that_are_missing_leave_their_places_empty() -> None:
    some = [x for x in grid() if x.factors["strength"] < 2 or x.factors["layers"] == 1]
    (drawing,) = item_figures("convit-grid", some, [], SCALE)
    at = [(row[1], row[2]) for row in drawing.rows if row[2] is not None]
    assert ("3 GPSA layers", 2.0) not in at
    assert ("1 GPSA layer", 2.0) in at


def courses(seeds: int = 2) -> list[Course]:
    """The plain ViT gains a point an epoch; every GPSA layer adds two points from the start."""
    found = []
    for seed, (x, y) in product(range(seeds), [(1.0, 0), *product((0.5, 1.0, 2.0), (1, 2))]):
        accuracy = [0.1 + seed / 10 + 0.01 * epoch + 0.02 * y for epoch in (1, 2)]
        values = {"accuracy": accuracy}
        found.append(Course({"strength": x, "layers": y}, seed, [1, 2], [1.0, 1.0], values))
    return found


def test_gains_by_epoch_are_paired_by_seed() -> None:
    drawn = {x.key: x for x in item_figures("convit-grid", grid(), courses(), SCALE)}
    rows = [row for row in drawn["convit-figure-8b"].rows if row[0] == "Gain over the plain ViT"]
    assert [row[1:4] for row in rows] == [
        ("1 GPSA layer", 1.0, pytest.approx(0.02)), ("1 GPSA layer", 2.0, pytest.approx(0.02)),
        ("2 GPSA layers", 1.0, pytest.approx(0.04)), ("2 GPSA layers", 2.0, pytest.approx(0.04)),
    ]  # fmt: skip
    assert rows[0][5] - rows[0][4] == pytest.approx(0.0, abs=1e-12)  # seeds differ, gains do not


def test_arrows_lead_from_each_backbone_to_the_same_with_locat() -> None:
    found = [
        Outcome(
            {"backbone": name, "size": "Tiny", "locat": locat},
            seed,
            {"accuracy": 0.2 + 0.01 * locat, "hummingbird_miou": 0.1 + 0.03 * locat},
        )
        for seed in range(2)
        for name in ("ViT", "Swin")
        for locat in (False, True)
    ]
    (drawing,) = item_figures("locat-backbones", found, [], SCALE)
    ours = [row[1:] for row in drawing.rows if row[0] == "ours"]
    assert ours[:2] == [
        ("ViT, Tiny", "plain", pytest.approx(0.2), pytest.approx(0.1)),
        ("ViT, Tiny", "with LocAt", pytest.approx(0.21), pytest.approx(0.13)),
    ]
    paper = {(row[1], row[2]): row[3:] for row in drawing.rows if row[0] == "paper"}
    assert paper["ViT, Base", "with LocAt"] == (0.8231, 0.3264)
    assert "Hummingbird" in drawing.columns[4]


def test_parameter_efficiency_is_accuracy_over_the_models_parameters() -> None:
    found = [
        Outcome({"model": model, "size": "S"}, seed, {"accuracy": 0.3, "num_parameters": number})
        for seed in range(2)
        for model, number in (("DeiT", 5e6), ("ConViT", 7e6))
    ]
    (drawing,) = item_figures("convit-sizes", found, [], SCALE)
    by_state = {row[2]: row[3] for row in drawing.rows if row[0] == "ours"}
    assert by_state == {"DeiT": 5e6, "ConViT": 7e6}
    paper = {(row[1], row[2]): row[3] for row in drawing.rows if row[0] == "paper"}
    assert (paper["S", "DeiT"], paper["S", "ConViT"]) == (22e6, 27e6)
