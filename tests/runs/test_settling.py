"""Settling a protocol: what a run records is what a study hashes, from wherever it is started."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from runs.made_records import run_contents

from nearsight.core import UserError
from nearsight.protocol.presets import preset
from nearsight.protocol.schema import Distillation
from nearsight.runs.files import RECORD
from nearsight.runs.settling import settle
from nearsight.train.record import existing_record

SHORT = replace(preset("baseline", "shapes"), epochs=3)


def with_weights(path: str) -> object:
    return replace(SHORT, model=replace(SHORT.model, name="mu", weights=path))


def test_settling_names_the_model_fits_the_warmup_and_anchors_paths(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    teaching = Distillation(teacher="mu", weights="teacher")
    found, note = settle(replace(with_weights("a.safetensors"), distillation=teaching))
    assert found.model.name == "mu_vit"
    assert found.warmup_epochs == pytest.approx(0.3)
    assert note == "warm-up shortened from 2 to 0.3 epochs, a tenth of the 3 epochs"
    assert found.model.weights == str(tmp_path / "a.safetensors")
    assert found.distillation.weights == str(tmp_path / "teacher")
    assert settle(found) == (found, None)


@pytest.mark.parametrize("word", ["pretrained", "random"])
def test_the_words_for_a_teachers_weights_are_no_paths(word: str):
    protocol = replace(SHORT, distillation=Distillation(teacher="mu", weights=word))
    assert settle(protocol)[0].distillation.weights == word


def test_a_run_that_recorded_a_relative_path_is_still_the_same_run(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settled, _ = settle(with_weights("a.safetensors"))
    old = replace(settled, model=replace(settled.model, weights="a.safetensors"))
    record = run_contents(protocol=asdict(old), seed=5, status="running", result=None)
    (tmp_path / RECORD).write_text(json.dumps(record))
    assert existing_record(tmp_path, settled, seed=5) is not None
    with pytest.raises(UserError, match=r"\bbaseline, seed 5\b.*\bmodel\b.*--out"):
        existing_record(tmp_path, settle(with_weights("b.safetensors"))[0], seed=5)
