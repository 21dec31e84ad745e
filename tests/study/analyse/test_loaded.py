"""A study is read once: every file of it, and every protocol in it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from study.example_folders import a_study

from nearsight.core import UserError
from nearsight.runs.records import SUMMARY_FILE
from nearsight.study.analyse.loaded import load_study
from nearsight.study.design import plan
from nearsight.study.folder import fail
from nearsight.study.show.study_page import study_report

ONCE = ("run.json", "measure.json", "train.jsonl", "cell.json", "study.json")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[Path]:
    """Count how often each file is opened for reading, by whichever road."""
    found: Counter[Path] = Counter()
    opened = Path.open

    def counted(path: Path, mode: str = "r", *rest, **named):
        if "r" in mode:
            found[path.resolve()] += 1
        return opened(path, mode, *rest, **named)

    monkeypatch.setattr(Path, "open", counted)
    return found


@pytest.mark.slow
def test_a_report_reads_every_file_of_a_study_once_and_validates_every_protocol_once(
    tmp_path: Path, reads: Counter[Path], monkeypatch: pytest.MonkeyPatch
):
    out = a_study(tmp_path / "study", leave_out=1)  # 12 cells, 11 of them finished
    validated = []
    monkeypatch.setattr(
        plan, "protocol_from", lambda x, real=plan.protocol_from: validated.append(1) or real(x)
    )
    reads.clear()
    study_report(out, tmp_path / "page.html")
    of_study = {path: n for path, n in reads.items() if out.resolve() in path.parents}
    assert Counter(path.name for path in of_study) >= Counter(
        {"run.json": 11, "measure.json": 11, "train.jsonl": 11, "cell.json": 12, "study.json": 1}
    )
    assert {n for path, n in of_study.items() if path.name in ONCE} == {1}
    assert len(validated) == 12


@pytest.mark.slow
def test_a_loaded_study_has_the_records_of_finished_cells_and_the_reasons_of_failed_ones(
    tmp_path: Path,
):
    out = a_study(tmp_path, leave_out=2)
    *_, one, other = load_study(out).cells
    fail(one.folder, "the loss became nan")
    study = load_study(out)
    assert [x.files is None for x in study.cells] == [False] * 10 + [True] * 2
    assert [x.failure for x in study.cells[-2:]] == ["the loss became nan", None]
    assert [x.cell.key for x in study.finished] == study.record.cells[:10]
    assert study.finished[3].record.seed == study.finished[3].cell.seed
    assert (other.cell.key, study.earlier_summary) == (study.record.cells[-1], None)


@pytest.mark.slow
def test_a_damaged_cell_is_named_with_its_file(tmp_path: Path):
    out = a_study(tmp_path)
    path = load_study(out).cells[4].folder / "measure.json"
    path.write_text(path.read_text().replace('"num_images"', '"images"'))
    with pytest.raises(UserError, match=rf"{path} .*\bnum_images\b.*nearsight measure"):
        load_study(out)


@pytest.mark.slow
def test_an_earlier_summary_that_is_damaged_is_named(tmp_path: Path):
    out = a_study(tmp_path)
    (out / SUMMARY_FILE.name).write_text('{"schema_version": 1, "study": "made-up", "cells": []}')
    with pytest.raises(UserError, match=r"/summary\.json .*\bconditions\b.*nearsight study report"):
        study_report(out, tmp_path / "page.html")
