"""Accuracy lost over seeds: layers and all heads together, never single heads."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs.made_records import causal_contents
from study.example_folders import a_study

from nearsight.runs.files import write_json
from nearsight.stats import over_seeds
from nearsight.study.analyse.loaded import load_study
from nearsight.study.analyse.seed_losses import losses_over_seeds
from nearsight.study.analyse.summary import summary
from nearsight.study.folder import cell_folder, read_cells
from nearsight.study.show.causal_table import seed_losses_table


def tried(out: Path) -> Path:
    """Write a causal.json into every cell; all heads lose 0.1 x (1 + seed) more with CutMix."""
    for cell in read_cells(out):
        contents = causal_contents()
        first = contents["lost"][0]
        lost = 0.05 + 0.1 * (1 + cell.seed) * cell.factors["cutmix"]
        contents["lost"] = [
            first | {"heads": "1.1", "change": "mean", "value": 0.9},
            first | {"heads": "all heads", "change": "mean", "value": lost},
        ]
        write_json(cell_folder(out, cell) / "causal.json", contents)
    return out


@pytest.mark.slow
def test_what_is_lost_is_averaged_over_seeds_with_an_interval_and_n(tmp_path: Path):
    study = load_study(tried(a_study(tmp_path)))
    found = losses_over_seeds(study)
    assert {x.heads for x in found} == {"all heads"}  # head 1.1 of one seed is not that of another
    by_condition = {tuple(x.condition): x for x in found}
    with_cutmix = by_condition[("autoaugment", False), ("cutmix", True)]
    expected = over_seeds([0.15, 0.25, 0.35])
    assert with_cutmix.estimate.value == pytest.approx(expected.value)
    assert with_cutmix.estimate.low == pytest.approx(expected.low)
    assert with_cutmix.estimate.n == 3
    rows = summary(study)["accuracy_lost"]
    assert {x["estimate"]["n"] for x in rows} == {3}
    assert len(seed_losses_table(found).rows) == 4


@pytest.mark.slow
def test_a_study_without_changed_heads_has_no_losses(tmp_path: Path):
    study = load_study(a_study(tmp_path))
    assert losses_over_seeds(study) == []
    assert summary(study)["accuracy_lost"] == []
