"""Gates and nonlocality: the numbers of measure.json and train.jsonl in figures, page, terminal."""

import json
import math
from statistics import fmean

import pytest
from report.example_runs import NUM_EPOCHS, write_model, write_run

from nearsight.core import UserError
from nearsight.explore import write_report
from nearsight.report.figures.drawing import panel_svgs
from nearsight.report.figures.parts.gate_panels import (
    gate_curves,
    gate_depth,
    gate_training,
    mean_gate,
)
from nearsight.report.figures.training.nonlocality import (
    nonlocality_curves,
    nonlocality_training,
    patch_nulls,
)
from nearsight.report.read.grouping import read_families
from nearsight.report.write.parts import all_part_heads
from nearsight.report.write.terminal_table import print_measurements
from nearsight.stats.estimate import over_seeds

DEPTH, HEADS, GATED = 5, 3, 2  # layers 1 and 2 have GPSA
EPOCHS = (0, 2, 4)


def entry(first):
    """A layer whose gates rise by 0.1 a head; head 2 prefers what is far."""
    return {
        "gate": [first + 0.1 * head for head in range(HEADS)],
        "centre": [[-1.5, 0.25], None, [3.0, -4.0]],
        "span": [0.5, None, 2.0],
    }


def with_gates(folder, first):
    path = folder / "measure.json"
    measure = json.loads(path.read_text())
    measure["gpsa"] = {"num_layers": GATED}
    for layer in range(GATED):
        measure["layers"][layer]["gpsa"] = entry(first + 0.2 * layer)
    path.write_text(json.dumps(measure))
    return folder


def with_looks(folder, gate=None, far=1.0, epochs=EPOCHS):
    """Nonlocality that grows by a patch an epoch and half a patch a layer; gates that fall."""
    path = folder / "train.jsonl"
    lines = [{"schema_version": 1, "epoch": 0, "step": 0}]
    lines += [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        epoch = line["epoch"]
        if epoch not in epochs:
            continue
        values = [far + epoch + 0.5 * layer for layer in range(DEPTH)]
        line["attention"] = {
            "num_images": 7,
            "mad": {part: [[0.25] * HEADS] * DEPTH for part in ("mean", "low", "high")},
            "layer_mean_nonlocality": [
                {"value": x, "low": x - 0.125, "high": x + 0.25} for x in values
            ],
        }
        if gate is not None:
            gates = [entry(gate - 0.05 * epoch) for _ in range(GATED)]
            line["attention"]["gpsa"] = gates + [None] * (DEPTH - GATED)
    lines = [line for line in lines if line["epoch"] or "attention" in line]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_gates_at_the_end_are_a_point_per_head_in_the_layers_that_have_them(tmp_path):
    folders = [
        write_model(tmp_path / "plain"),
        with_gates(write_model(tmp_path / "a", name="gated"), 0.25),
    ]
    (family,) = read_families(folders)
    drawing = gate_depth(family, "gates", "")
    rows = {row[2:4]: row[4] for row in drawing.rows}
    assert {row[0] for row in drawing.rows} == {"gated"}
    assert list(rows) == [(layer, head) for layer in (1, 2) for head in (1, 2, 3)]
    assert rows[2, 3] == pytest.approx(0.65)
    assert "gated from 0.35 in layer 1 to 0.55 in layer 2" in drawing.alt
    drawn = "".join(panel_svgs(drawing))
    assert "gated" in drawn
    assert "layer" in drawn


@pytest.mark.slow
def test_gates_while_training_are_a_panel_per_layer_and_a_figure_per_condition(tmp_path):
    runs = [write_run(tmp_path / f"{seed}", seed=seed) for seed in (0, 1)]
    with_looks(runs[0], gate=0.5)
    with_looks(runs[1], gate=0.7, epochs=(0, 2))
    other = with_looks(write_run(tmp_path / "c", name="baseline+cutmix"), gate=0.3)
    plain = with_looks(write_run(tmp_path / "d", name="modern"))
    (family,) = read_families([*runs, other, plain])
    curves = gate_curves(family.conditions[0])
    assert list(curves) == [0, 1]
    assert list(curves[0]) == [0, 2]  # as far as both runs looked
    assert curves[1][2] == [pytest.approx([0.4, 0.5, 0.6]), pytest.approx([0.6, 0.7, 0.8])]
    drawings = gate_training(family, "")
    assert [drawing.key for drawing in drawings] == ["gates-training-1", "gates-training-2"]
    assert [panel.title for panel in drawings[0].panels] == ["layer 1", "layer 2"]
    assert drawings[0].title == "Gates while training: baseline"
    assert "layer 1 0.60, layer 2 0.60" in drawings[0].alt
    assert "95 % interval over seeds" in drawings[0].reading
    assert "seeds" not in drawings[1].reading
    assert ("baseline", 1, 1, 3, 2) in {row[:5] for row in drawings[0].rows}
    assert len(drawings[1].rows) == GATED * len(EPOCHS) * HEADS
    for drawing in drawings:
        assert all("epoch" in svg for svg in panel_svgs(drawing))


def test_the_mean_gate_has_an_interval_over_seeds_and_none_with_one():
    seeds = [[0.25, 0.75], [0.5, 0.7], [0.1, 0.3]]
    assert mean_gate(seeds) == over_seeds([fmean(heads) for heads in seeds])
    assert mean_gate(seeds[:1]) is None


@pytest.mark.slow
def test_nonlocality_is_a_line_per_layer_from_the_start_on(tmp_path):
    runs = [write_run(tmp_path / f"{seed}", seed=seed) for seed in (0, 1, 2)]
    for run, far in zip(runs, (1.0, 2.0, 6.0)):
        with_looks(run, far=far)
    other = with_looks(write_run(tmp_path / "c", name="modern"), far=0.5)
    (family,) = read_families([*runs, other])
    baseline, modern = family.conditions
    found = nonlocality_curves(baseline)
    assert [epoch for epoch, _ in found[0]] == [0, 2, 4]
    assert found[3][1][1] == over_seeds([4.5, 5.5, 9.5])  # layer 4 in epoch 2
    (_, x) = nonlocality_curves(modern)[4][-1]
    assert (x.value, x.low, x.high, x.n, x.over) == (6.5, 6.375, 6.75, 7, "images")
    drawing = nonlocality_training(family, "nonlocality", "")
    assert [panel.title for panel in drawing.panels] == ["baseline", "modern"]
    assert "modern: 0.50 to 2.50 patches in epoch 0, 4.50 to 6.50 patches in epoch 4" in drawing.alt
    assert len(drawing.rows) == 2 * DEPTH * len(EPOCHS)
    assert "GPSA" not in drawing.reading
    drawn = "".join(panel_svgs(drawing))
    for words in ("nonlocality (patches)", "uniform", "3x3 box", "layer 1", "layer 5"):
        assert words in drawn


def test_the_null_lines_of_nonlocality_are_in_patches(tmp_path):
    (family,) = read_families([write_run(tmp_path / "a")])  # 3x5 patches
    far = [math.hypot(i // 5 - j // 5, i % 5 - j % 5) for i in range(15) for j in range(15)]
    (uniform, name), _ = patch_nulls(family)
    assert name == "uniform"
    assert uniform == pytest.approx(fmean(far))


def test_layers_without_gpsa_are_told_apart_where_others_have_it(tmp_path):
    run = with_gates(with_looks(write_run(tmp_path / "a"), gate=0.5), 0.25)
    (family,) = read_families([run])
    assert "layers without GPSA" in nonlocality_training(family, "far", "").reading


def test_the_table_of_heads_holds_gate_centre_and_span(tmp_path):
    families = read_families([with_gates(write_run(tmp_path / "a", seed=3), 0.25)])
    (table,) = all_part_heads(families)
    found = table.records()
    header, rows = tuple(found[0]), [tuple(record.values()) for record in found]
    assert header[3:] == ("seed", "layer", "head", "gate", "centre_down", "centre_right", "span")
    assert len(rows) == GATED * HEADS
    assert rows[0][3:] == (3, 1, 1, 0.25, -1.5, 0.25, 0.5)
    assert rows[4][3:] == (3, 2, 2, pytest.approx(0.55), None, None, None)


@pytest.mark.slow
def test_page_and_terminal_show_gates_only_where_there_are_some(tmp_path, capsys):
    plain, gated = (write_run(tmp_path / name) for name in ("plain", "gated"))
    with_looks(with_gates(gated, 0.25), gate=0.5)
    titles = (
        "Gates through the layers", "Gates while training: baseline",
        "Nonlocality of every layer while training", "gate, centre and span of every head",
        'download="gates.csv"',
    )  # fmt: skip
    pages = [write_report([x], tmp_path / f"{x.name}.html").read_text() for x in (plain, gated)]
    assert [[title in page for title in titles] for page in pages] == [[False] * 5, [True] * 5]
    assert pages[1].count("<td>−1.50</td>") == GATED
    print_measurements([plain])
    assert "GPSA" not in capsys.readouterr().out
    print_measurements([gated])
    out = capsys.readouterr().out
    row = next(line for line in out.split("GPSA")[1].splitlines() if "layer 2" in line)
    away = (math.hypot(1.5, 0.25) + 5) / 2
    assert row.split()[2:] == ["0.550", "0.450", "0.650", f"{away:.3f}", "1.250", "1"]
    assert max(map(len, out.splitlines())) <= 80


def test_psa_has_centres_and_no_gates(tmp_path, capsys):
    folder = with_gates(write_run(tmp_path / "a"), 0.25)
    path = folder / "measure.json"
    measure = json.loads(path.read_text())
    for layer in range(GATED):
        measure["layers"][layer]["gpsa"]["gate"] = None
    path.write_text(json.dumps(measure))
    (family,) = read_families([folder])
    assert gate_depth(family, "gates", "") is None
    (table,) = all_part_heads([family])
    first = tuple(table.records()[0].values())
    assert first[3:] == (0, 1, 1, None, -1.5, 0.25, 0.5)
    print_measurements([folder])
    row = next(x for x in capsys.readouterr().out.split("GPSA")[1].splitlines() if "layer 1" in x)
    assert row.split()[2:5] == ["–"] * 3


def test_a_start_that_was_only_looked_at_is_no_epoch_of_the_learning_curves(tmp_path):
    run = with_looks(write_run(tmp_path / "a"))
    (family,) = read_families([run])
    evidence = family.first
    assert [line.epoch for line in evidence.log] == list(range(1, NUM_EPOCHS + 1))
    assert [look.epoch for look in evidence.looks] == list(EPOCHS)


def test_a_damaged_entry_is_said(tmp_path):
    folder = with_gates(write_model(tmp_path / "a"), 0.25)
    path = folder / "measure.json"
    path.write_text(path.read_text().replace('"centre"', '"middle"'))
    with pytest.raises(UserError, match=r"/measure\.json .*\blayers\.gpsa\.centre\b"):
        read_families([folder])
