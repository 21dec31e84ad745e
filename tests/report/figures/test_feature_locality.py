"""Similarity of features by layer: the numbers of measure.json, drawn where there are any."""

import json
import math

import pytest
from report.example_runs import NUM_IMAGES, write_model, write_run

from nearsight.core import UserError
from nearsight.explore import write_report
from nearsight.report.figures.drawing import panel_svgs
from nearsight.report.figures.heads.feature_locality import feature_depth, feature_lines
from nearsight.report.read.grouping import read_families
from nearsight.stats.estimate import over_seeds

DEPTH = 5


def with_features(folder, first, missing=(), metrics=("locality_score", "cls_similarity")):
    """The folder with cosines that fall by 0.1 a layer; none in the layers ``missing``."""
    path = folder / "measure.json"
    measure = json.loads(path.read_text())
    for index, layer in enumerate(measure["layers"]):
        mean = first - 0.1 * index
        entry = {"mean": mean, "low": mean - 0.02, "high": mean + 0.03, "sd": 0.1}
        for metric in metrics:
            layer[metric] = dict.fromkeys(entry) if index in missing else entry
    path.write_text(json.dumps(measure))
    return folder


@pytest.mark.slow
def test_the_figure_holds_the_means_and_intervals_of_every_model(tmp_path):
    folders = [
        with_features(write_model(tmp_path / "a"), 0.9),
        with_features(write_model(tmp_path / "b", name="other"), 0.25, missing=(2,)),
    ]
    (family,) = read_families(folders)
    drawing = feature_depth(family, "features", "")
    rows = {row[:3]: row[3:] for row in drawing.rows}
    assert rows["vit_made", "cls_similarity", 4] == pytest.approx(
        (0.6, 0.58, 0.63, NUM_IMAGES, "images"), abs=1e-9
    )
    assert rows["other", "locality_score", 5][0] == pytest.approx(-0.15)
    assert ("other", "locality_score", 3) not in rows
    assert len(rows) == 2 * (DEPTH + DEPTH - 1)
    assert "other -0.150" in drawing.alt
    drawn = "".join(panel_svgs(drawing))
    for words in ("locality score (cosine)", "patch-[CLS] similarity (cosine)", "other"):
        assert words in drawn


def test_several_seeds_give_an_interval_over_seeds(tmp_path):
    runs = [write_run(tmp_path / str(seed), seed=seed) for seed in (0, 1, 2)]
    for run, first in zip(runs, (0.5, 0.6, 0.9)):
        with_features(run, first)
    (family,) = read_families(runs)
    found = family.conditions[0].feature_estimate("locality_score", 0)
    assert found == over_seeds([0.5, 0.6, 0.9])
    assert (found.n, found.over) == (3, "seeds")


def test_a_seed_without_the_number_leaves_the_condition_without_it(tmp_path):
    runs = [write_run(tmp_path / str(seed), seed=seed) for seed in (0, 1)]
    with_features(runs[0], 0.5)
    (family,) = read_families(runs)
    assert feature_depth(family, "features", "") is None


def test_a_model_without_a_class_token_has_one_panel(tmp_path):
    folder = with_features(write_model(tmp_path / "a"), 0.9, metrics=("locality_score",))
    with_features(folder, math.nan, missing=range(DEPTH), metrics=("cls_similarity",))
    (family,) = read_families([folder])
    assert len(feature_lines(family, "locality_score")) == 1
    drawing = feature_depth(family, "features", "")
    assert [panel.title for panel in drawing.panels] == ["Neighbouring patches"]


@pytest.mark.slow
def test_the_page_shows_features_only_where_they_were_measured(tmp_path):
    plain, measured = write_model(tmp_path / "plain"), write_model(tmp_path / "measured")
    with_features(measured, 0.9)
    titles = [
        "Similarity of features" in write_report([x], tmp_path / f"{x.name}.html").read_text()
        for x in (plain, measured)
    ]
    assert titles == [False, True]


def test_a_damaged_number_is_said(tmp_path):
    folder = with_features(write_model(tmp_path / "a"), 0.9)
    path = folder / "measure.json"
    path.write_text(path.read_text().replace('"low": 0.88', '"law": 0.88'))
    with pytest.raises(UserError, match=r"/measure\.json .*\blayers\[0\]\.\w+\.low\b"):
        read_families([folder])
