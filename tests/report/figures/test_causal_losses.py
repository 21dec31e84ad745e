"""Accuracy lost when heads look elsewhere, in a figure and on the page."""

import json

import pytest
from report.example_runs import write_model, write_run
from runs.made_records import causal_contents

from nearsight.core import UserError
from nearsight.report.figures.drawing import panel_svgs
from nearsight.report.figures.study.causal_losses import causal_drawings, causal_figure, drawn_file
from nearsight.report.read.grouping import read_families
from nearsight.report.write.page import family_drawings
from nearsight.runs.records import CAUSAL_FILE

REMARK = "Layer 2 is left out, because the attention of its patches does not affect the answer."


def entry(heads, change, value, p_holm=1.0):
    part = {"value": value, "low": value - 0.03, "high": value + 0.02}
    counts = {"num_images": 97, "num_spoilt": 5, "num_mended": 3}
    return {"heads": heads, "change": change, **part, **counts, "p": 0.5, "p_holm": p_holm}


def contents():
    lost = [
        entry("1.1", "inside", 0.01), entry("1.1", "mean", -0.02),
        entry("1.2", "inside", 0.0), entry("1.2", "mean", 0.05, 0.01),
        entry("all heads", "inside", 0.03), entry("all heads", "mean", 0.11, 0.001),
    ]  # fmt: skip
    return causal_contents(accuracy=0.61, remarks=[REMARK], lost=lost)


def recorded(**changed):
    return CAUSAL_FILE.record(contents() | changed)


def with_causal(folder, **changed):
    (folder / "causal.json").write_text(json.dumps(contents() | changed))
    return folder


def test_the_words_tell_the_largest_loss_and_those_beyond_chance():
    drawing = causal_figure(recorded(), "modern, seed 0", "causal", "#009e73", "^")
    assert "Most: all heads, mean map: 11.0 points (8.0 to 13.0)" in drawing.alt
    assert "2 of 6 changes (1.2, mean map: 5.0 points (2.0 to 7.0); all heads" in drawing.alt
    assert "intervals over the images of this run" in drawing.reading
    assert drawing.reading.endswith(REMARK)
    assert "accuracy 61.0 % before · the same 97 test images after" in drawing.subtitle
    assert drawing.rows[3] == ("modern, seed 0", "1.2", "mean", 0.05, *drawing.rows[3][4:])
    assert drawing.rows[3][4:] == pytest.approx((0.02, 0.07, 97, 0.5, 0.01))
    nothing = causal_figure(recorded(lost=[entry("1.1", "mean", 0.0)]), "x", "y")
    assert nothing.alt.endswith("0 of 1 changes.")


def test_a_change_that_was_left_out_has_no_panel_and_all_panels_share_their_axes():
    from matplotlib.figure import Figure

    drawing = causal_figure(recorded(), "modern, seed 0", "causal")
    assert [panel.title for panel in drawing.panels] == [
        "Only inside the window",
        "Mean map of other images",
    ]
    drawn = []
    for panel in drawing.panels:
        axes = Figure().add_subplot()
        panel.draw(axes)
        drawn.append(axes)
    assert drawn[0].get_xlim() == drawn[1].get_xlim() == pytest.approx((-5.5, 13.5))
    for axes in drawn:
        names = [label.get_text() for label in axes.get_yticklabels()]
        assert names == ["1.1", "1.2", "all heads"]
    marks = [line for line in drawn[1].lines if line.get_marker() == "o"]
    assert [float(line.get_xdata()[0]) for line in marks] == pytest.approx([-2, 5, 11])
    assert [line.get_markerfacecolor() == "none" for line in marks] == [True, False, False]
    assert ">no loss<" in panel_svgs(drawing)[0]


def test_the_page_has_a_figure_for_each_run_that_was_tried(tmp_path):
    tried = [with_causal(write_run(tmp_path / f"s{seed}", "modern", seed)) for seed in (0, 2)]
    other = write_run(tmp_path / "other", "baseline")
    (family,) = read_families([*tried, other])
    drawings = causal_drawings(family, "causal")
    assert [drawing.key for drawing in drawings] == ["causal-1", "causal-2"]
    assert drawings[1].subtitle.startswith("modern, seed 2 · shapes, 3x5 patches")
    keys = [drawing.key for drawing in family_drawings(family, [family])]
    assert keys[-2:] == ["causal-1", "causal-2"]
    (model,) = read_families([with_causal(write_model(tmp_path / "model"))])
    assert "seed" not in causal_drawings(model, "causal")[0].subtitle


def test_a_damaged_file_is_named(tmp_path):
    folder = with_causal(write_run(tmp_path / "run"), lost=[{"heads": "1.1"}])
    with pytest.raises(
        UserError, match=r"/causal\.json .*\blost\[0\]\.change\b.*nearsight study causal"
    ):
        drawn_file(folder, "x", "y")
