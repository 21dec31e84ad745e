"""Figures of a search: what is drawn where, from a record made by hand."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from nearsight.report.figures.localise import search_drawings, write_search_figures
from nearsight.report.figures.localise.search_panels import gains_by_depth
from nearsight.runs.records import LocaliseRecord


def interval(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.02, "high": value + 0.03}


def tried(name: str, role: str, score: float, plain: float = 0.4) -> dict[str, object]:
    is_plain = name.startswith("plain")
    return {
        "name": name, "role": role, "locality": None if is_plain else name, "layer": 12,
        "score": interval(score), "gain": None if name == "plain" else interval(score - plain),
        "seconds": 1.0,
    }  # fmt: skip


@pytest.fixture
def record() -> LocaliseRecord:
    images = {"data": "voc2012", "split": "val", "num_train": 11, "num_scored": 7}
    origin = {
        "command": "c", "time": "t", "commit": None, "dirty": None, "versions": {},
        "hardware": {}, "device": "cpu",
    }  # fmt: skip
    return LocaliseRecord.model_construct(
        model="mu", identity="1", task="segmentation", method="hummingbird", number="mIoU",
        searched=_stored("ScoredImages", images),
        tried=[
            _stored("TriedLocality", each)
            for each in (
                tried("plain", "plain", 0.4),
                tried("gaussian:2@last1", "candidate", 0.43),
                tried("gaussian:0.7@last1", "candidate", 0.45),
                tried("window:3@last1", "candidate", 0.44),
                tried("gaussian:0.7@last3", "candidate", 0.47),
                tried("identity@last3", "control", 0.41),
            )
        ],
        chosen="gaussian:0.7@last3",
        layers=[
            _stored("LayerScore", {"layer": n, "score": interval(0.3 + x), "mad": 0.5 - x})
            for n, x in ((1, 0.02), (2, 0.04), (3, 0.06))
        ],
        scored=_stored("ScoredImages", images),
        results=[
            _stored("TriedLocality", each)
            for each in (
                tried("plain", "plain", 0.4),
                tried("gaussian:0.7@last3", "chosen", 0.46),
                tried("shifted:0.7@last3", "control", 0.35),
            )
        ],
        accuracy=None, remarks=[], provenance=origin,
    )  # fmt: skip


def _stored(name: str, contents: dict[str, object]):
    from nearsight.runs.records import localise_record

    return getattr(localise_record, name).model_validate(contents)


def drawn(drawing):
    axes = Figure().add_subplot()
    drawing.panels[0].draw(axes)
    return axes


def test_candidates_are_sorted_by_depth_and_width_without_windows(record):
    found = gains_by_depth(record)
    names = {depth: [(width, x.name) for width, x in line] for depth, line in found.items()}
    assert names == {
        1: [(0.7, "gaussian:0.7@last1"), (2.0, "gaussian:2@last1")],
        3: [(0.7, "gaussian:0.7@last3")],
    }


def test_the_gain_is_drawn_in_points_with_its_interval(record):
    gain, _, _ = search_drawings(record)
    axes = drawn(gain)
    line = axes.containers[0]
    assert line[0].get_ydata() == pytest.approx([5.0, 3.0])
    (whiskers,) = line[2]
    assert whiskers.get_segments()[0][:, 1] == pytest.approx([3.0, 8.0])
    assert [text.get_text() for text in axes.texts] == ["last layer", "last 3 layers"]
    assert "+7.0 points with gaussian:0.7@last3" in gain.alt


def test_controls_stand_below_the_chosen_setting_in_their_order(record):
    _, controls, _ = search_drawings(record)
    axes = drawn(controls)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["gaussian:0.7@last3", "shifted:0.7@last3"]
    assert [x[0].get_xdata()[0] for x in axes.containers] == pytest.approx([6.0, -5.0])
    assert "shifted:0.7@last3 -5.0 (-7.0 to -2.0)" in controls.alt


def test_layers_are_drawn_by_distance_and_score(record):
    layers = search_drawings(record)[-1]
    points = [(x[0].get_xdata()[0], x[0].get_ydata()[0]) for x in drawn(layers).containers]
    expected = [(0.48, 32.0), (0.46, 34.0), (0.44, 36.0)]
    assert points == [pytest.approx(point) for point in expected]
    assert layers.rows[2] == (3, 0.44, 0.36, pytest.approx(0.34), pytest.approx(0.39))


@pytest.mark.slow
def test_without_val_there_is_no_figure_of_controls(record, tmp_path):
    searched = record.model_copy(update={"scored": None, "results": []})
    paths = write_search_figures(searched, tmp_path)
    assert [path.name for path in paths] == ["localise-gain.svg", "localise-layers.svg"]
    assert ">gain (points of mIoU)</text>" in paths[0].read_text()
