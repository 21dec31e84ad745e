"""The page of a study: answer, effects, the paper's tables, length and cost, claims."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from study.example_folders import a_study, of_rates, values_per_image, written

from nearsight.core import UserError
from nearsight.protocol import spoken_name
from nearsight.report.read.grouping import read_families
from nearsight.study.analyse.effects import study_effects
from nearsight.study.analyse.image_effects import summary_key
from nearsight.study.analyse.loaded import load_study
from nearsight.study.analyse.summary import summary
from nearsight.study.claims.paper_tables import PAPER_TABLE_2
from nearsight.study.design.designs import cutmix_off_and_on
from nearsight.study.design.recipe_file import Condition
from nearsight.study.folder import cell_folder, read_cells
from nearsight.study.show.beside_paper import paper_tables
from nearsight.study.show.effect_tables import cost_table, effect_tables
from nearsight.study.show.publish import publish_study
from nearsight.study.show.study_page import study_front, study_report

pytestmark = pytest.mark.slow  # draws whole pages or trains


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_study(tmp_path_factory.mktemp("study"), data="cifar100", whole=True)


def families(out: Path):
    return read_families([cell_folder(out, cell) for cell in read_cells(out)])


def test_the_page_begins_with_question_answer_and_effects(whole: Path, tmp_path: Path):
    page = study_report(whole, tmp_path / "page.html").read_text()
    assert "<h1>Is it made up?</h1>" in page
    assert re.search(
        r"CutMix makes the most local head more local: its MAD changes by −0\.\d+ \(.*paired over",
        page,
    )
    places = ("effects", "ranking", "key-plane", "table-2", "effects-min-mad", "cost", "claims")
    found = [page.index(f'id="{place}"') for place in places]
    assert found == sorted(found)
    links = re.findall(r'<a href="#([^"]+)">', page)
    assert len(links) == 9
    assert all(f'id="{link}"' in page for link in links)
    assert "Simultaneous ones that exclude 0: CutMix on test accuracy" in page
    assert json.loads((whole / "summary.json").read_text())["study"] == "made-up"
    assert (whole / "claims.json").is_file()


def test_formats_also_write_the_tables_of_the_study(whole: Path, tmp_path: Path):
    study_report(whole, tmp_path / "page.html", ("csv", "latex"))
    files = {path.name for path in (tmp_path / "page-files").iterdir()}
    assert {"effects-min-mad.csv", "table-1.tex", "table-2.csv", "cost.csv", "claims.csv"} <= files
    with (tmp_path / "page-files" / "effects-accuracy.csv").open() as file:
        rows = {row["effect"]: row for row in csv.DictReader(file)}
    assert len(rows) == 7
    assert float(rows["CutMix"]["end"]) == pytest.approx(0.1)  # as made up
    assert rows["CutMix"]["end_n"] == "3"
    assert float(rows["CutMix"]["matched_steps"]) == pytest.approx(0.1)
    assert float(rows["CutMix"]["matched_loss"]) == pytest.approx(0.1)


def test_factors_with_more_levels_split_the_study_into_factorials(tmp_path: Path):
    """CutMix at three rates is three effects of CutMix, each at its own rate."""
    out = of_rates(tmp_path)
    found = [x for x in study_effects(load_study(out)) if x.value == "accuracy"]
    names = [x.at_end.name(x.at_end.effects[0]) for x in found]
    assert names == ["CutMix, 0.1", "CutMix, 0.01", "CutMix, 0.001"]
    assert all(x.at_end.effects[0].estimate.value == pytest.approx(0.1) for x in found)
    (table, *_) = effect_tables(study_effects(load_study(out)))
    assert [row[0] for row in table.rows] == names
    page = study_report(out, tmp_path / "page.html").read_text()
    assert "CutMix (at 0.01) makes the most local head more local" in page
    assert page.count("3 factorials, one at each level of rate; p values are not adjusted") == 2


def test_the_papers_numbers_stand_beside_ours(whole: Path):
    first, second, third = paper_tables(families(whole))
    (row,) = first.rows
    assert row[0] == "mu_vit on cifar100, 3x5 patches, 5 epochs"
    assert (row[2], row[4]) == (0.4853, 0.6338)
    assert row[5].value == pytest.approx(0.1)  # Modern has CutMix
    assert row[6] == pytest.approx(0.1485)
    rows = {row[0]: row for row in second.rows}
    assert list(rows) == [spoken_name(name) for name in PAPER_TABLE_2]
    assert rows["modern"][1].value == pytest.approx(0.71)
    assert rows["modern"][4] == 0.008
    assert rows["modern"][3].value < 0.1 < 0.25 < rows["baseline"][3].value  # as made up
    assert [column.name for column in third.columns][1:3] == ["min_entropy", "min_entropy_paper"]


def test_tables_of_the_paper_need_its_data_and_conditions(tmp_path: Path):
    assert paper_tables(families(a_study(tmp_path))) == ()


def test_length_and_cost_are_per_condition(whole: Path):
    table = cost_table(families(whole))
    assert len(table.rows) == 8
    label, seeds, epochs, best, loss, images, minutes = table.rows[0]
    assert (label, seeds, epochs, best, images) == ("baseline", 3, 5.0, 4.0, 0.004)
    assert loss == pytest.approx(0.4)
    assert minutes == pytest.approx(61.5 / 60)
    assert "24 runs took 0.4 hours" in table.note


def test_claims_are_shown_with_numbers_and_the_scale_once(whole: Path, tmp_path: Path):
    page = study_report(whole, tmp_path / "page.html").read_text()
    claims = re.search(r'<section id="claims">.*?</section>', page, re.DOTALL).group()
    assert "not decided at this scale" in claims
    assert "CutMix makes the most local head more local." in claims
    assert claims.count("mu_vit instead of compact_vit") < claims.count("not decided")
    assert re.search(r"further claims need data", claims)


def test_an_exported_study_has_no_weights_and_no_paths_and_gives_the_same_page(
    whole: Path, tmp_path: Path
):
    (whole / "cells" / read_cells(whole)[0].key / "weights.safetensors").write_bytes(b"heavy")
    there = publish_study(whole, tmp_path / "results").path
    names = {path.name for path in there.rglob("*") if path.is_file()}
    assert names == {
        "study.json", "summary.json", "claims.json", "report.html",
        "cell.json", "run.json", "train.jsonl", "measure.json",
    }  # fmt: skip
    text = "".join(path.read_text() for path in there.rglob("*.json"))
    assert str(whole) not in text
    page = (there / "report.html").read_text()
    assert str(tmp_path) not in page
    assert f"<small>cells/{read_cells(there)[0].key}</small>" in page
    assert '"command": "nearsight study run made-up"' in text
    before, after = (
        {**json.loads((x / "summary.json").read_text()), "cells": None} for x in (whole, there)
    )
    assert after == before
    publish_study(whole, there)  # again: the same study
    with pytest.raises(UserError, match=r"\bmade-up\b"):
        publish_study(whole, tmp_path)


def test_an_exported_cell_names_its_weights_without_their_folder_and_keeps_its_key(tmp_path: Path):
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(b"a start")
    conditions = [
        Condition({"cutmix": on}, replace(x, model=replace(x.model, weights=str(weights))))
        for on, x in cutmix_off_and_on("shapes")
    ]
    out = written(tmp_path / "study", tuple(conditions))
    there = publish_study(out, tmp_path / "results").path
    assert [cell.key for cell in read_cells(there)] == [cell.key for cell in read_cells(out)]
    assert read_cells(there)[0].protocol.model.weights == "weights.safetensors"
    assert not any(str(tmp_path) in path.read_text() for path in there.rglob("*.json"))


def test_effects_over_images_survive_the_export(tmp_path: Path):
    out = a_study(tmp_path / "study")
    values_per_image(out)
    key = summary_key("min_mad")
    made = {tuple(x["factors"]): x for x in summary(load_study(out))[key]}
    there = publish_study(out, tmp_path / "results").path
    assert {tuple(x["factors"]): x for x in summary(load_study(there))[key]} == made
    assert len(made) == 3
    assert "at the end, seeds and images" in (there / "report.html").read_text()


def test_a_study_that_is_no_factorial_has_no_effects(tmp_path: Path):
    out = a_study(tmp_path, leave_out=11)
    done = read_families([cell_folder(out, read_cells(out)[0])])
    front = study_front(load_study(out), done, study_effects(load_study(out)))
    assert front.answers == ("1 of 12 cells are finished.",)
    assert front.drawings == ()
    assert [front.chapters[i].tables for i in (0, 2, 3)] == [(), (), ()]
    shown = {chapter.title for chapter in front.shown_chapters}
    assert shown.isdisjoint({"Beside the paper", "Effects"})
