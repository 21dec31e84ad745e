"""Files of weights that a protocol names: their bytes are in the key, and are checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nearsight.core import UserError
from nearsight.protocol.presets import preset
from nearsight.protocol.schema import Distillation
from nearsight.runs.settling import with_absolute_paths
from nearsight.study.analyse.outcome import Outcome
from nearsight.study.claims.all_claims import verdicts
from nearsight.study.design.plan import Cell, cells_of, named_files, named_hashes
from nearsight.study.design.recipe_file import Condition, Study, recipe
from nearsight.study.design.settings import protocol_settings
from nearsight.study.run.cell import check_inputs

PLAIN = preset("baseline", "shapes")


def taught_by(weights: str | Path):
    return replace(PLAIN, distillation=Distillation(teacher="resnet18", weights=str(weights)))


def started_from(weights: str | Path):
    return replace(PLAIN, model=replace(PLAIN.model, weights=str(weights)))


def cell_of(protocol) -> Cell:
    return cells_of(Study((Condition({"a": 1.0}, protocol),)), [0], {"shapes": "aa"}, "cpu")[0]


def teacher(folder: Path, content: bytes) -> Path:
    folder.mkdir()
    (folder / "weights.safetensors").write_bytes(content)
    return folder


@pytest.mark.parametrize("naming", [taught_by, started_from])
def test_a_key_follows_the_bytes_and_not_the_path(tmp_path: Path, monkeypatch, naming):
    one, same, other = (
        teacher(tmp_path / name, content) / "weights.safetensors"
        for name, content in (("one", b"11"), ("same", b"11"), ("other", b"13"))
    )
    key = cell_of(naming(one)).key
    assert key == cell_of(naming(same)).key
    assert len({key, cell_of(naming(other)).key, cell_of(PLAIN).key}) == 3
    monkeypatch.chdir(tmp_path)
    found = cell_of(naming("one/weights.safetensors"))
    assert found.key == key
    assert list(named_files(found.protocol).values()) == [one]
    assert Cell.of(found.contents(), found.key) == found


def test_of_a_runs_folder_the_weights_count(tmp_path: Path):
    folder = teacher(tmp_path / "run", b"11")
    assert cell_of(taught_by(folder)).key == cell_of(taught_by(folder / "weights.safetensors")).key


@pytest.mark.parametrize("word", ["pretrained", "random"])
def test_words_are_no_files(word):
    protocol = taught_by(word)
    assert with_absolute_paths(protocol) == protocol
    assert named_files(protocol) == {}
    assert cell_of(protocol).key != cell_of(PLAIN).key


def test_cells_from_before_files_were_hashed_keep_their_keys():
    cell = cell_of(PLAIN)
    assert cell.weights == {}
    before = {
        name: x for name, x in cell.contents().items() if name not in ("weights", "processes")
    }
    assert Cell.of(before, "0123456789abcdef") == cell
    assert Cell.of(before, "0123456789abcdef").key == "0123456789abcdef"


def test_weights_that_changed_since_the_plan_are_refused(tmp_path: Path):
    folder = teacher(tmp_path / "run", b"11")
    cell = cell_of(taught_by(folder))
    (folder / "weights.safetensors").write_bytes(b"13")
    with pytest.raises(UserError, match=str(folder / "weights.safetensors")):
        check_inputs(cell)


def test_the_study_of_distillation_asks_for_its_teacher(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = tmp_path / "runs" / "teacher"
    with pytest.raises(UserError, match=rf"distillation\.weights .* {wanted}"):
        cells_of(recipe("distillation").study("laptop"), [0], {"cifar100": "aa"}, "cpu")


@pytest.mark.slow
def test_its_cells_are_those_that_the_papers_claim_compares(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    teacher(tmp_path / "runs" / "teacher", b"11")
    cells = cells_of(recipe("distillation").study("laptop"), range(3), {"cifar100": "aa"}, "cpu")
    assert [bool(named_hashes(cell.protocol)) for cell in cells[:4]] == [False, True] * 2
    outcomes = [
        Outcome(
            cell.factors, cell.seed, {"nonlocality": 0.5 - 0.1 * bool(cell.weights)},
            protocol_settings(cell.protocol, (8, 8)),
        )
        for cell in cells
    ]  # fmt: skip
    (verdict,) = [x for x in verdicts(outcomes) if x.claim.id == "convit-distilled"]
    assert verdict.decision == "not decided at this scale"
    assert "Seen here: as claimed" in verdict.reason
