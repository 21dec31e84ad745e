"""The files of a measurement belong together, and so do weights and the record of their run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runs.made_records import DATA, epoch_line, measure_contents, model_contents, run_contents

from nearsight.core import UserError, unit
from nearsight.runs import load_run, read_measure, read_measured, read_record, write_measurement
from nearsight.runs.files import LOG, MEASURE, RECORD, WEIGHTS

VALUES, EXAMPLES = "measure.safetensors", "examples.json"


def measured(digest: str) -> tuple[dict, dict[str, bytes | None]]:
    """A measurement of a model of these weights: measure.json, and the other files."""
    record = model_contents("vit")
    record["weights"] = {"from": "file", "file": "w", "sha256": digest}
    record["data"]["hash"] = digest
    contents = measure_contents(
        data={"name": "x", "hash": digest}, weights={"from": "file", "sha256": digest}
    )
    files = {VALUES: digest.encode(), EXAMPLES: None, RECORD: json.dumps(record).encode()}
    return contents, files


def read_whole(folder: Path) -> str:
    """Read a folder as report and diff do; return the weights that all of it is about."""
    found = read_measured(folder, read_record(folder))
    assert (folder / VALUES).read_bytes().decode() == found.measure.weights.sha256
    assert found.record.weights.sha256 == found.measure.weights.sha256
    return found.measure.weights.sha256


@pytest.mark.parametrize("num_moved", range(4))
def test_a_measurement_that_was_killed_while_it_moved_its_files_is_completed_by_its_reader(
    tmp_path: Path, num_moved: int, monkeypatch: pytest.MonkeyPatch
):
    write_measurement(tmp_path, *measured("aaaa"))
    replaced, moved = Path.replace, []

    def replace(path: Path, target: Path) -> Path:
        if len(moved) == num_moved:
            raise KeyboardInterrupt
        moved.append(path.name)
        return replaced(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(unit.Path, "replace", replace)
        if num_moved < 3:
            with pytest.raises(KeyboardInterrupt):
                write_measurement(tmp_path, *measured("bbbb"))
        else:
            write_measurement(tmp_path, *measured("bbbb"))
    assert read_whole(tmp_path) == "bbbb"


@pytest.mark.parametrize("name", [VALUES, RECORD])
def test_files_of_two_measurements_are_refused(tmp_path: Path, name: str):
    write_measurement(tmp_path, *measured("aaaa"))
    (tmp_path / name).write_bytes(measured("bbbb")[1][name])
    with pytest.raises(UserError, match=rf"/measure\.json .*\b{name}\b.*nearsight measure"):
        read_measure(tmp_path)


@pytest.mark.parametrize("what", ["weights", "data"])
def test_a_measurement_without_hashes_must_be_of_the_weights_and_images_in_the_record(
    tmp_path: Path, what: str
):
    contents, files = measured("aaaa")
    other = json.loads(files[RECORD])
    other[what] |= {"sha256": "bbbb", "hash": "bbbb"}
    (tmp_path / RECORD).write_text(json.dumps(other))
    (tmp_path / MEASURE).write_text(json.dumps(contents))
    with pytest.raises(UserError, match=rf"\b(weights|images) aaaa\b.*\b{RECORD} .*\bbbbb\b"):
        read_measured(tmp_path, read_record(tmp_path))


def test_a_measurement_of_a_run_must_be_of_its_weights(tmp_path: Path):
    (tmp_path / RECORD).write_text(json.dumps(run_contents(weights_sha256="ab" * 32)))
    lines = (json.dumps(epoch_line(epoch)) for epoch in range(1, 6))
    (tmp_path / LOG).write_text("\n".join(lines) + "\n")
    for digest, fits in (("ab" * 8, True), ("cd" * 8, False)):
        contents = measure_contents(data={"name": "x", "hash": DATA["hash"]})
        (tmp_path / MEASURE).write_text(json.dumps(contents | {"weights": {"sha256": digest}}))
        if fits:
            read_measured(tmp_path, read_record(tmp_path))
            continue
        with pytest.raises(UserError, match=r"\b(cd){8}\b.*\brun\.json\b.*\b(ab){8}\b"):
            read_measured(tmp_path, read_record(tmp_path))


def test_weights_with_a_flipped_bit_are_not_loaded(tmp_path: Path):
    (tmp_path / WEIGHTS).write_bytes(b"weights")
    (tmp_path / RECORD).write_text(json.dumps(run_contents(weights_sha256="0" * 64)))
    with pytest.raises(UserError, match=r"/weights\.safetensors .*\brun\.json\b"):
        load_run(tmp_path)
