"""An export of a study may be added to, cell by cell, from several machines."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from study.example_folders import a_study, values_per_image

from nearsight.measure.profile.values import VALUES, read_values
from nearsight.runs.answers import write_answers
from nearsight.runs.files import MEASURE, RECORD
from nearsight.stats import other_half_values
from nearsight.study.analyse.effects import study_effects
from nearsight.study.analyse.image_minima import MINIMA, read_minima
from nearsight.study.analyse.loaded import load_study
from nearsight.study.folder import CELL, CELLS, STUDY, cell_folder, read_cells, read_study
from nearsight.study.show.origin_table import origin_sentence, origin_table
from nearsight.study.show.publish import Publication, add_cells

PER_IMAGE = ("min_mad", "accuracy")


def read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def write_json(path: Path, contents: dict[str, Any]) -> None:
    path.write_text(json.dumps(contents))


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Four conditions x three seeds, all finished, with values per image."""
    out = a_study(tmp_path / "whole")
    values_per_image(out)
    rng = np.random.default_rng(1)
    for cell in read_cells(out):
        num = read_json(cell_folder(out, cell) / RECORD)["result"]["num_test"]
        write_answers(cell_folder(out, cell), rng.random(num) < 0.5)
    return out


def with_seeds(whole: Path, *seeds: int) -> Path:
    """The same study on another machine, where only some seeds were run."""
    out = whole.with_name(f"seeds-{'-'.join(map(str, seeds))}")
    shutil.copytree(whole, out)
    for cell in read_cells(out):
        if cell.seed not in seeds:
            for path in cell_folder(out, cell).iterdir():
                if path.name != CELL:
                    path.unlink()
    return out


def made_before(there: Path, seed: int) -> list[str]:
    """Pretend that the cells of a seed were made with an older torch, under other keys."""
    keys = []
    for number, cell in enumerate(read_cells(there)):
        if cell.seed == seed:
            folder, key = cell_folder(there, cell), f"{number:016x}"
            contents = read_json(folder / CELL)
            contents["software"] |= {"torch": "1.0.0", "numbers": 1}
            write_json(folder / CELL, contents | {"key": key})
            folder.rename(folder.with_name(key))
            text = (there / STUDY).read_text()
            (there / STUDY).write_text(text.replace(cell.key, key))
            keys.append(key)
    return keys


def over_both(out: Path) -> dict[tuple[str, tuple[str, ...]], tuple[float, ...]]:
    """Every effect over seeds and images, with its interval."""
    return {
        (x.value, names): (both.value, both.low, both.high, both.n)
        for x in study_effects(load_study(out))
        for names, contrast in x.over_images.items()
        if (both := contrast.over_both)
    }


@pytest.mark.slow
def test_cells_of_several_sessions_add_up_to_the_study_with_all_its_intervals(
    whole: Path, tmp_path: Path
):
    target = tmp_path / "results"
    sessions = ((0,), (2,), (1,))
    counts = [add_cells(load_study(with_seeds(whole, *x)), target) for x in sessions]
    assert counts == [Publication(target, 4, 0, kept) for kept in (0, 4, 8)]
    assert {x.key for x in read_cells(target)} == {x.key for x in read_cells(whole)}
    assert not list(target.rglob("*.safetensors"))
    made, there = over_both(whole), over_both(target)
    assert {value for value, _ in there} == {*PER_IMAGE}
    assert len(made) == 6
    assert there == made


@pytest.mark.slow
def test_a_cell_of_other_software_is_replaced_and_an_open_one_does_not_replace_it(
    whole: Path, tmp_path: Path
):
    target = tmp_path / "results"
    add_cells(load_study(whole), target)
    old = made_before(target, seed=0) + made_before(target, seed=1)
    assert add_cells(load_study(with_seeds(whole, 0)), target) == Publication(target, 0, 4, 8)
    left = {cell.key for cell in read_cells(target)}
    assert len(left) == 12
    assert left & set(old) == set(old[4:])  # those of seed 1
    assert {path.name for path in (target / CELLS).iterdir()} == left
    assert len(load_study(target).finished) == 12


@pytest.mark.slow
def test_the_primary_contrast_of_cells_that_are_there_is_not_named_later(
    whole: Path, tmp_path: Path
):
    target, named = tmp_path / "results", {"value": "min_mad", "high": {"a": 1}, "low": {"a": 0}}
    add_cells(load_study(with_seeds(whole, 0)), target)
    later = with_seeds(whole, 1, 2)
    write_json(later / STUDY, read_json(later / STUDY) | {"primary": named})
    add_cells(load_study(later), target)
    assert read_study(target).primary is None
    write_json(whole / STUDY, read_json(whole / STUDY) | {"primary": named})
    add_cells(load_study(whole), target)  # replaces every cell
    assert read_study(target).contents()["primary"] == named


@pytest.mark.slow
def test_effects_of_another_set_of_cells_are_not_taken_from_an_earlier_summary(
    whole: Path, tmp_path: Path
):
    from nearsight.study.analyse.summary import write_summary

    target = tmp_path / "results"
    add_cells(load_study(whole), target)
    write_summary(load_study(target))
    for path in target.rglob(MINIMA):
        path.unlink()
    assert ("min_mad", ("cutmix",)) in over_both(target)  # from summary.json, of the same cells
    made_before(target, seed=0)
    assert {value for value, _ in over_both(target)} == {"accuracy"}


@pytest.mark.slow
def test_minima_leave_out_layers_that_nothing_reads_and_a_damaged_file_is_refused(
    whole: Path, tmp_path: Path
):
    (loaded, *_) = load_study(whole).cells
    measured = read_json(loaded.folder / MEASURE)
    everything, _ = read_minima(loaded)
    mad = read_values(loaded.folder / VALUES)[0].mad.values
    for layer in measured["layers"][1:]:
        layer["unread"] = True
    write_json(loaded.folder / MEASURE, measured)
    (loaded, *_) = load_study(whole).cells
    first, images = read_minima(loaded)
    np.testing.assert_array_equal(everything, other_half_values(np.concatenate(mad, axis=1)))
    np.testing.assert_array_equal(first, other_half_values(mad[0]))
    target = tmp_path / "results"
    add_cells(load_study(whole), target)
    (exported, *_) = load_study(target).cells
    assert read_minima(exported)[1] == images
    np.testing.assert_array_equal(read_minima(exported)[0], first)
    (exported.folder / MINIMA).write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(ValueError, match=r"/min-mad\.npz\b"):
        read_minima(exported)


@pytest.mark.slow
def test_the_page_says_which_cells_are_new_and_which_are_missing(whole: Path, tmp_path: Path):
    assert origin_sentence(load_study(whole)) == ""
    assert len(origin_table(load_study(whole)).rows) == 1
    out = with_seeds(whole, 0, 1)
    made_before(out, seed=1)
    said = origin_sentence(load_study(out))
    assert said.startswith(
        "8 of 12 cells are finished. 4 of 8 finished cells were made with the newest"
    )
    assert "all conditions, seed 0." in said
    new, old = origin_table(load_study(out)).rows
    assert (new[0], new[1], new[9:]) == (4, "all conditions, seed 0", ("all", "all"))
    assert (old[0], old[3], old[4]) == (4, "1", "1.0.0")


@pytest.mark.slow
def test_the_files_of_an_exported_cell_are_small(whole: Path, tmp_path: Path):
    add_cells(load_study(whole), tmp_path / "results")
    (cell, *_) = read_cells(tmp_path / "results")
    folder = cell_folder(tmp_path / "results", cell)
    assert {path.name for path in folder.iterdir()} == {
        "cell.json", "run.json", "train.jsonl", "measure.json", "test-answers.npy", MINIMA,
    }  # fmt: skip
    assert json.loads((folder / RECORD).read_text())["provenance"]["command"].endswith("made-up")
