"""Sample efficiency in a report: series by fraction, gains paired by seed, figure and tables."""

import json
from dataclasses import replace

import pytest
from report.example_runs import write_run

from nearsight.explore import write_report
from nearsight.protocol.fraction import at_fraction
from nearsight.protocol.presets import preset
from nearsight.report.figures.training.fractions import sample_efficiency
from nearsight.report.read.efficiency import HEADER, efficiency_rows, sample_series
from nearsight.report.read.grouping import read_families
from nearsight.report.write.efficiency_tables import efficiency_tables

ACCURACY = {  # by model and fraction, of seeds 0 and 1
    ("mu_convit", 0.1): (0.30, 0.36),
    ("mu_convit", 1.0): (0.55, 0.50),
    ("mu_vit", 0.1): (0.20, 0.30),
    ("mu_vit", 1.0): (0.50, 0.50),
}


def write_runs(root, accuracies=ACCURACY):
    folders = []
    for (model, fraction), values in accuracies.items():
        of_part = at_fraction(preset("baseline", "shapes"), fraction)
        for seed, accuracy in enumerate(values):
            folder = write_run(root / f"{model}-{fraction}-{seed}", "baseline", seed, model=model)
            record = json.loads((folder / "run.json").read_text())
            record["protocol"]["name"] = of_part.name
            record["protocol"]["epochs"] = round(5 / fraction)
            record["protocol"]["data"]["fraction"] = fraction
            record["data"]["num_train"] = round(800 * fraction)
            record["result"]["test_accuracy"] = accuracy
            record["result"]["test_top5_accuracy"] = 0.5 + accuracy / 2
            (folder / "run.json").write_text(json.dumps(record))
            if "convit" in model:
                measure = json.loads((folder / "measure.json").read_text())
                measure["layers"][0]["gpsa"] = {
                    "gate": [0.7, 0.6, 0.5], "centre": [[0, 0], [1, 0], [0, 1]], "span": [1, 1, 1],
                }  # fmt: skip
                (folder / "measure.json").write_text(json.dumps(measure))
            folders.append(folder)
    return folders


def test_gains_are_relative_to_the_plain_model_and_paired_by_seed(tmp_path):
    (family,) = read_families(write_runs(tmp_path))
    convit, vit = sample_series(family)
    assert (convit.label, vit.label) == ("mu_convit", "mu_vit")
    assert list(convit.points) == [0.1, 1.0]
    assert convit.gains()[0.1].value == pytest.approx((50 + 20) / 2)  # (0.30-0.20)/0.20, …
    assert convit.gains()[1.0].value == pytest.approx((10 + 0) / 2)
    half = 12.7062 * 15 / 1  # t(0.975, 1) times the standard error of 50 and 20
    assert convit.gains()[0.1].high == pytest.approx(35 + half, rel=1e-4)
    assert vit.gains() == {}


def test_rows_hold_images_epochs_and_seeds(tmp_path):
    (family,) = read_families(write_runs(tmp_path))
    rows = [dict(zip(HEADER, row)) for row in efficiency_rows(sample_series(family))]
    first = rows[0]
    assert [first[key] for key in ("series", "fraction", "num_train", "epochs", "num_seeds")] == [
        "mu_convit", 0.1, 80, 50, 2,
    ]  # fmt: skip
    assert (first["score"], first["value"]) == ("accuracy", pytest.approx(0.33))
    assert rows[1]["score"] == "top5_accuracy"
    gains = [100 * (0.65 - 0.60) / 0.60, 100 * (0.68 - 0.65) / 0.65]
    assert rows[1]["gain_percent"] == pytest.approx(sum(gains) / 2)
    assert rows[4]["series"] == "mu_vit"
    assert rows[4]["gain_percent"] == ""


@pytest.mark.slow
def test_the_figure_and_the_table_say_what_was_found(tmp_path):
    folders = write_runs(tmp_path)
    (family,) = read_families(folders)
    drawing = sample_efficiency(family, "sample-efficiency", "made up")
    assert [panel.title for panel in drawing.panels] == ["Accuracy", "Gain"]
    assert "mu_vit 25.0 % with 10 % of the data, 50.0 % with 100 % of the data" in drawing.alt
    table = "".join(table.html() for table in efficiency_tables(family))
    assert "<span>+35.0 %</span>" in table
    assert "<span>33.0 %</span>" in table
    assert "<span>66.5 %</span>" in table
    page = write_report(folders, tmp_path / "report.html").read_text()
    assert 'id="sample-efficiency"' in page
    assert "<span>+35.0 %</span>" in page


@pytest.mark.slow
def test_one_fraction_is_no_series(tmp_path):
    one = {key: value for key, value in ACCURACY.items() if key[1] == 1.0}
    folders = write_runs(tmp_path, one)
    (family,) = read_families(folders)
    assert sample_series(family) == []
    assert efficiency_tables(family) == []
    assert "sample-efficiency" not in write_report(folders, tmp_path / "r.html").read_text()


def test_other_settings_make_another_series(tmp_path):
    folders = write_runs(tmp_path)
    twin = folders[-1].parent / "twin"
    write_run(twin, "baseline", 0, model="mu_vit", optimizer=replace(
        preset("baseline", "shapes").optimizer, lr=0.5
    ))  # fmt: skip
    (family,) = read_families([*folders, twin])
    assert len(sample_series(family)) == 3
