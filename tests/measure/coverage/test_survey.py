"""Every model gets a row, a crash too, and a survey goes on where it stopped."""

import pytest
from torch import nn

from nearsight.measure.coverage import (
    ModelRow,
    attempt,
    coverage_table,
    run_coverage,
    survey,
    write_page,
)
from nearsight.measure.coverage.attempt import try_model

ROWS = {
    "a": ModelRow("a", "measured", 96, 3, 2.5e-7, 0.42),
    "b": ModelRow("b", "refused", 96, reason="it has no attention | none"),
    "c": ModelRow("c", "crashed", reason="the process ended with 1"),
}


def test_a_survey_tries_each_model_once_and_crashes_again_when_asked(tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr(survey, "_in_process", lambda name: tried.append(name) or ROWS[name])
    assert run_coverage(tmp_path, ["a", "b"]) == [ROWS["a"], ROWS["b"]]
    assert run_coverage(tmp_path, ["a", "b", "c"]) == list(ROWS.values())
    assert tried == ["a", "b", "c"]
    run_coverage(tmp_path, ["a", "b", "c"], again=["crashed"])
    assert tried == ["a", "b", "c", "c"]


def test_the_table_of_a_page_is_replaced_and_the_rest_is_kept(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nText.\n")
    write_page(page, list(ROWS.values()))
    write_page(page, [ROWS["a"], ROWS["b"]])
    text = page.read_text()
    assert text.startswith("# Title\n\nText.\n")
    assert "2 models" in text
    assert "1 measured, 1 refused, 0 crashed" in text
    assert "| `a` | measured | 96 | 3 | 2.5e-07 | 0.42 |  |" in text
    assert "it has no attention \\| none" in coverage_table([ROWS["b"]])


class Answering(nn.Module):
    """A model of images and words."""

    def forward(self, images, words):
        return images


class Enlarging(nn.Module):
    """A model that takes no small images."""

    def forward(self, images):
        raise ValueError(f"images of {images.shape[-1]} pixels are too small")


def test_a_model_that_cannot_run_on_images_alone_is_refused_with_its_own_words(monkeypatch):
    sides = []

    def builds(name):
        for side in (8, 16):
            sides.append(side)
            yield side, Answering() if name == "a" else Enlarging()

    monkeypatch.setattr(attempt, "builds", builds)
    row = try_model("a")
    assert (row.outcome, sides) == ("refused", [8])  # larger images would not help
    assert "needs other inputs than images" in row.reason
    assert "'words'" in row.reason
    row = try_model("b")
    assert (row.outcome, sides) == ("refused", [8, 8, 16])
    assert "16 pixels are too small" in row.reason


@pytest.mark.slow
def test_models_are_measured_or_refused_with_a_true_reason():
    measured = try_model("timm/levit_128s")
    assert (measured.outcome, measured.image_side) == ("measured", 96)
    assert measured.num_layers == 2 + 3 + 4 + 2  # blocks of its stages, and two that down-sample
    assert measured.proof_error < 1e-5
    assert measured.gap > 0.1
    refused = try_model("timm/resnet10t")
    assert refused.outcome == "refused"
    assert "no softmax attention between patches" in refused.reason
