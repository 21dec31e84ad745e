"""The models that come with nearsight: small, honest about their origin, and still the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from nearsight.core import UserError
from nearsight.demo.bundle import FOLDER, bundled_models, copy_models, recorded_numbers

NAMES = ["plain", "convit", "cutmix", "locat"]


def test_there_are_four_models_of_less_than_3_megabytes_in_half_precision() -> None:
    assert [path.name for path in bundled_models()] == NAMES
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 3e6
    for path in bundled_models():
        weights = load_file(path / "weights.safetensors")
        assert {x.dtype for x in weights.values()} == {torch.float16}


@pytest.mark.parametrize("name", NAMES)
def test_a_model_says_by_which_command_seed_and_time_it_was_made(name: str) -> None:
    record = json.loads((FOLDER / name / "run.json").read_text())
    assert record["provenance"]["command"].startswith("nearsight train baseline")
    assert "--seed 0" in record["provenance"]["command"]
    assert record["seed"] == 0
    assert record["result"]["seconds"] > 60
    assert record["result"]["test_accuracy"] > 0.85  # 12 classes: it learned something


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_measuring_a_model_gives_the_recorded_numbers(name: str, tmp_path_factory) -> None:
    data_root = tmp_path_factory.getbasetemp() / "demo-data"
    data_root.mkdir(exist_ok=True)
    recorded = json.loads((FOLDER / name / "run.json").read_text())["recorded"]
    found = recorded_numbers(FOLDER / name, data_root)
    assert found["num_images"] == recorded["num_images"]
    for metric in ("mad", "entropy"):
        np.testing.assert_allclose(found[metric], recorded[metric], atol=1e-5, rtol=0)


def test_another_run_is_not_overwritten(tmp_path: Path) -> None:
    first = copy_models(tmp_path)
    assert copy_models(tmp_path) == first  # a demo may be repeated
    record = json.loads((first[0] / "run.json").read_text())
    (first[0] / "run.json").write_text(json.dumps(record | {"seed": 7}))
    with pytest.raises(UserError, match=r"/plain .*--out"):
        copy_models(tmp_path)
