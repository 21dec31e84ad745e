"""A layer that no output reads is drawn hollow and counted nowhere."""

import json

import pytest
from matplotlib.figure import Figure
from report.example_runs import write_run

from nearsight.report.figures.heads.depth import depth_profiles
from nearsight.report.figures.heads.heatmaps import head_heatmaps
from nearsight.report.figures.heads.plane import mad_entropy_plane
from nearsight.report.figures.heads.sorted_heads import mad_profiles
from nearsight.report.read.grouping import read_families
from nearsight.report.write.tables import layer_table
from nearsight.report.write.terminal_table import print_measurements

DEPTH, HEADS = 5, 3


def marked(folder, unread):
    """A run whose last layer is marked as unread, or not; its first head is an identity head."""
    run = write_run(folder, "baseline+cutmix")
    measured = json.loads((run / "measure.json").read_text())
    measured["layers"][-1]["unread"] = unread
    measured["layers"][0]["self_mass"]["mean"][0] = 0.9
    measured["layers"][-1]["mad"]["mean"][0] = 0.01
    (run / "measure.json").write_text(json.dumps(measured))
    return run


def faces(drawing, panel=0):
    """The colours inside the marks of a panel's points."""
    axes = Figure().add_subplot()
    drawing.panels[panel].draw(axes)
    lines = [line for line in axes.lines if line.get_marker() == "o"]
    return [line.get_markerfacecolor() for line in lines]


@pytest.mark.slow
def test_unread_layers_are_hollow_in_every_figure_of_heads(tmp_path):
    (family,) = read_families([marked(tmp_path / "a", unread=True)])
    (other,) = read_families([marked(tmp_path / "b", unread=None)])
    for figure in (depth_profiles, mad_entropy_plane):
        drawing = figure(family, "key", "words")
        assert [face == "none" for face in faces(drawing)[:DEPTH]] == [False] * (DEPTH - 1) + [True]
        assert "Hollow" in drawing.reading
        assert "none" not in faces(figure(other, "key", "words"))
        assert "Hollow" not in figure(other, "key", "words").reading
    profiles = mad_profiles(family, "key", "words")
    assert faces(profiles, 3)[0] == "none"
    assert "none" not in faces(profiles, 2)
    assert "Hatched" in head_heatmaps(family, "key", "words").reading


def test_heads_below_the_line_are_counted_by_kind_and_only_where_they_are_read(tmp_path, capsys):
    run = marked(tmp_path / "a", unread=True)
    (family,) = read_families([run])
    (condition,) = family.conditions
    assert condition.near_text == f"1 identity and 0 local of {(DEPTH - 1) * HEADS}"
    assert condition.near_text in mad_entropy_plane(family, "key", "words").alt
    assert layer_table(condition).records()[-1]["layer"] == f"{DEPTH} (unread)"
    print_measurements([run])
    out = " ".join(capsys.readouterr().out.split())
    assert f"layer {DEPTH} unread" in out
    assert f"Layer {DEPTH} is unread." in out
    (other,) = read_families([marked(tmp_path / "b", unread=None)])
    assert other.conditions[0].near_text == f"1 identity and 1 local of {DEPTH * HEADS}"
