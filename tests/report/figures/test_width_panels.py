"""Widths and strengths of Gaussians: the numbers of measure.json in figure, page and terminal."""

import json
import re

import pytest
from report.example_runs import NUM_IMAGES, write_model, write_run

from nearsight.core import UserError
from nearsight.explore import write_report
from nearsight.report.figures.drawing import panel_svgs
from nearsight.report.figures.parts.width_panels import distributions, gaussian_depth
from nearsight.report.read.grouping import read_families
from nearsight.report.write.terminal_table import print_measurements
from nearsight.stats.estimate import over_seeds

DEPTH = 5


def entry(mean):
    return {
        "mean": mean, "low": mean - 0.01, "high": mean + 0.02,
        "percentiles": [0.5 * mean, 0.75 * mean, 0.9 * mean, 1.25 * mean, 2 * mean],
    }  # fmt: skip


def with_gaussians(folder, first, largest=5.0, layers=range(DEPTH)):
    """The folder with widths that grow by one patch a layer, in the layers given."""
    path = folder / "measure.json"
    measure = json.loads(path.read_text())
    for index in layers:
        measure["layers"][index]["gaussian"] = {
            "grid": [3, 5],
            "largest": largest,
            "near_bounds": largest and [0.125 * index, 0.001 * index],
            "deviation": entry(first + index),
            "strength": entry(0.25 * first),
        }
    path.write_text(json.dumps(measure))
    return folder


@pytest.mark.slow
def test_the_figure_holds_means_intervals_and_percentiles(tmp_path):
    folders = [
        write_model(tmp_path / "plain"),
        with_gaussians(write_model(tmp_path / "a", name="gaussian"), 1.0),
    ]
    (family,) = read_families(folders)
    drawing = gaussian_depth(family, "gaussians", "")
    rows = {row[:3]: row[3:] for row in drawing.rows}
    assert len(rows) == 2 * DEPTH
    assert rows["gaussian", "deviation", 4] == pytest.approx(
        (4, 3.99, 4.02, NUM_IMAGES, "images", 2, 3, 3.6, 5, 8)
    )
    assert rows["gaussian", "strength", 4][0] == 0.25
    assert "gaussian from 1.00 patches in layer 1 to 5.00 in layer 5" in drawing.alt
    assert re.search(r"0 and 5 patches.* 50\.0 % .*within 5 % of the lower bound", drawing.reading)
    titles = [panel.title for panel in drawing.panels]
    assert titles == ["gaussian: width", "gaussian: strength"]
    drawn = "".join(panel_svgs(drawing))
    for words in ("standard deviation (patches)", "strength α", "95 %", "bound"):
        assert words in drawn


def test_several_seeds_average_their_percentiles(tmp_path):
    runs = [write_run(tmp_path / str(seed), seed=seed) for seed in (0, 1, 2)]
    for run, first in zip(runs, (1.0, 2.0, 6.0)):
        with_gaussians(run, first)
    (family,) = read_families(runs)
    found = distributions(family.conditions[0], "deviation")[0]
    assert found.mean == over_seeds([1.0, 2.0, 6.0])
    assert found.percentiles == pytest.approx((1.5, 2.25, 2.7, 3.75, 6))


def test_layers_without_gaug_are_left_out(tmp_path):
    folder = with_gaussians(write_model(tmp_path / "a"), 1.0, layers=(1, 3))
    (family,) = read_families([folder])
    drawing = gaussian_depth(family, "gaussians", "")
    assert {row[2] for row in drawing.rows} == {2, 4}


def test_fixed_widths_are_said(tmp_path):
    folder = with_gaussians(write_model(tmp_path / "a"), 1.0, largest=None)
    (family,) = read_families([folder])
    assert "widths are fixed" in gaussian_depth(family, "gaussians", "").reading


@pytest.mark.slow
def test_page_and_terminal_show_gaussians_only_where_there_are_some(tmp_path, capsys):
    plain, augmented = (write_model(tmp_path / name) for name in ("plain", "augmented"))
    with_gaussians(augmented, 1.0)
    shown = [
        "Width and strength of the Gaussians"
        in write_report([x], tmp_path / f"{x.name}.html").read_text()
        for x in (plain, augmented)
    ]
    assert shown == [False, True]
    print_measurements([plain])
    assert "Gaussians" not in capsys.readouterr().out
    print_measurements([augmented])
    out = capsys.readouterr().out
    row = next(line for line in out.split("Gaussians")[1].splitlines() if "layer 3" in line)
    numbers = "3.000 1.500 2.700 6.000 25.0% 0.2% 0.250 0.125 0.500"
    assert " ".join(row.split()[2:]) == numbers
    assert max(map(len, out.splitlines())) <= 80


def test_a_damaged_entry_is_said(tmp_path):
    folder = with_gaussians(write_model(tmp_path / "a"), 1.0)
    path = folder / "measure.json"
    path.write_text(path.read_text().replace('"near_bounds"', '"near"'))
    with pytest.raises(UserError, match=r"/measure\.json .*\blayers\.gaussian\.near_bounds\b"):
        read_families([folder])
