"""Records: round trips, files of older versions, damaged files that are named with their field."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from runs.made_records import (
    DATA,
    PROVENANCE,
    RESULT,
    causal_contents,
    epoch_line,
    evaluate_contents,
    measure_contents,
    model_contents,
    run_contents,
)

from nearsight.core import UserError
from nearsight.runs.records.causal_record import CAUSAL_FILE
from nearsight.runs.records.diff_record import DIFF_FILE
from nearsight.runs.records.evaluate_record import EVALUATE_FILE
from nearsight.runs.records.examples_record import EXAMPLES_FILE
from nearsight.runs.records.log_records import LOG_FILE, TIMING_FILE, EpochLine, StartLine
from nearsight.runs.records.measure_record import MEASURE_FILE
from nearsight.runs.records.run_record import RUN_FILE, MeasuredModel, TrainedRun
from nearsight.runs.records.schemas import FILES, schemas
from nearsight.runs.records.stored import StoredFile
from nearsight.runs.records.study_records import (
    CELL_FILE,
    CLAIMS_FILE,
    FAILED_FILE,
    STUDY_FILE,
    SUMMARY_FILE,
)

RESULTS = Path(__file__).parents[2] / "results"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"

ESTIMATE = {"value": -0.25, "low": -0.5, "high": -0.125, "n": 3, "over": "seeds"}
EFFECT = {
    "factors": ["cutmix"], "per_seed": {"0": -0.25}, "estimate": ESTIMATE, "p": None,
    "holm_p": None,
}  # fmt: skip
FACTORIAL = {
    "value": "min_mad", "at": {"rate": 0.1}, "seeds": [0, 1, 2], "notes": ["x"],
    "effects": [EFFECT],
}  # fmt: skip
CHANGE = {"value": -0.125, "low": -0.25, "high": 0.5}
STUDY = {"schema_version": 1, "study": "two", "question": "Which?", "cells": ["aa", "bb"]}
CELL = {
    "schema_version": 1, "factors": {"cutmix": True, "rate": 0.1, "depth": 3, "scale": "small"},
    "protocol": {"name": "baseline"}, "seed": 2, "data_hash": "aa", "device": "cpu",
    "torch": "2.9.0", "measured_images": None, "metrics": [], "processes": 2,
    "weights": {"model.weights": "ff"},
}  # fmt: skip
CELL_2 = {
    "schema_version": 2, "key": "0123456789abcdef", "key_format": 2, "factors": {},
    "protocol": {"name": "baseline"}, "seed": 2, "data_hash": "aa", "device": "cpu",
    "software": {"torch": "2.9.0", "timm": "1.0.30", "kernel": True, "numbers": 2},
    "stages": {"train": {}, "measure": {"num_images": None, "metrics": ["mad"]}},
    "processes": 1, "weights": {},
}  # fmt: skip
FAILED = {"schema_version": 1, "reason": "ValueError: no", "when": "2026-11-15T22:00:00+00:00"}
SUMMARY = {
    "schema_version": 1, "study": "two",
    "cells": [
        {
            "key": "aa", "factors": {"cutmix": False}, "seed": 0, "values": {"accuracy": 0.5},
            "settings": {"epochs": 5, "flip": True, "grid": "3x5"},
            "data": {"name": "shapes", "hash": "00", "num_train": 800}, "provenance": PROVENANCE,
        },
        {"key": "bb", "factors": {"cutmix": True}, "seed": 0, "failed": None},
    ],
    "conditions": [
        {
            "value": "accuracy", "condition": "cutmix off", "mean": 0.5, "sd": None, "low": None,
            "high": None, "seeds": [0],
        }
    ],
    "effects": [FACTORIAL],
    "effects_at_matched_steps": [FACTORIAL | {"epoch": 5}],
    "effects_at_matched_loss": [FACTORIAL | {"loss": 0.25}],
    "effects_on_min_mad_over_seeds_and_images": [
        {
            "at": {}, "factors": ["cutmix"], "over_images": ESTIMATE, "over_seeds": None,
            "over_both": None,
        }
    ],
    "differences": [
        {
            "value": "accuracy", "condition": "a", "from": "b", "mean": 0.5, "low": 0.25,
            "high": 0.75, "seeds": [0, 1],
        }
    ],
}  # fmt: skip
CLAIMS = {
    "schema_version": 1,
    "verdicts": [
        {
            "id": "x", "source": "paper", "sentence": "It is.", "direction": "up", "margin": None,
            "paper": "0.1", "claimed_scale": "large", "scale": "small", "decision": "no data",
            "reason": "None.",
            "parts": [
                {
                    "label": "MAD", "claimed": "below 0", "n": 1, "value": None, "low": None,
                    "high": None, "seen": None,
                }
            ],
        }
    ],
}  # fmt: skip
DIFF = {
    "schema_version": 1, "a": {"folder": "a", "name": "one"}, "b": {"folder": "b", "name": "two"},
    "num_images": 1009, "data": {"name": "pictures", "hash": "00"},
    "convention": {"name": "paper"}, "interval": "95 %", "level": "head", "distance": "mad",
    "notes": [], "mean": {"mad": CHANGE}, "most_local": CHANGE,
    "layers": [
        {
            "layer": 1, "name": "attn",
            "mad": {"of_mean": CHANGE, "mean": [0.5], "low": [0.25], "high": [0.75]},
        }
    ],
}  # fmt: skip
EXAMPLES = {
    "schema_version": 1, "prefix_names": ["[CLS]"],
    "layers": [
        {
            "name": "attn", "grid": [3, 5], "num_heads": 2, "query_prefix": 1, "key_prefix": 1,
            "key_rows": [0.5], "key_cols": [1.5], "num_keys": 1, "feature_prefix": None,
        }
    ],
    "images": [{"name": "a.png", "source": "data:image/png;base64,AA==", "bytes": "AA=="}],
}  # fmt: skip
TIMING = {"schema_version": 1, "epoch": 3, "seconds": 7.5, "images_per_second": 106.5}
HEADS = {part: [[0.25, 0.5]] for part in ("mean", "low", "high")}
LOOK = {
    "num_images": 7, "mad": HEADS, "layer_mean_nonlocality": [CHANGE],
    "gpsa": [{"gate": [0.5], "centre": [None], "span": [None]}, None],
}  # fmt: skip
WHOLE: list[tuple[StoredFile[Any], dict[str, Any]]] = [
    (RUN_FILE, run_contents()), (RUN_FILE, model_contents()), (MEASURE_FILE, measure_contents()),
    (EXAMPLES_FILE, EXAMPLES), (CAUSAL_FILE, causal_contents()), (DIFF_FILE, DIFF),
    (EVALUATE_FILE, evaluate_contents()), (STUDY_FILE, STUDY), (CELL_FILE, CELL),
    (CELL_FILE, CELL_2), (FAILED_FILE, FAILED), (SUMMARY_FILE, SUMMARY), (CLAIMS_FILE, CLAIMS),
]  # fmt: skip
LINES: list[tuple[StoredFile[Any], dict[str, Any]]] = [
    (LOG_FILE, epoch_line(0, attention=LOOK)), (LOG_FILE, epoch_line(3, attention=LOOK)),
    (TIMING_FILE, TIMING),
]  # fmt: skip


def put(folder: Path, file: StoredFile[Any], contents: Any) -> None:
    (folder / file.name).write_text(json.dumps(contents) + "\n")


def read_back(folder: Path, file: StoredFile[Any]) -> Any:
    if file.name.endswith(".jsonl"):
        (line,) = file.read_lines(folder)
        return line
    return file.read(folder)


@pytest.mark.parametrize(("file", "contents"), [*WHOLE, *LINES])
def test_a_record_gives_back_what_the_file_said_with_keys_it_does_not_know(
    file: StoredFile[Any], contents: dict[str, Any], tmp_path: Path
):
    contents = json.loads(json.dumps(contents)) | {"of_a_later_version": {"x": [1, None]}}
    put(tmp_path, file, contents)
    assert read_back(tmp_path, file).contents() == contents


@pytest.mark.parametrize(("file", "contents"), WHOLE)
def test_what_is_written_are_the_bytes_of_the_contents(
    file: StoredFile[Any], contents: dict[str, Any], tmp_path: Path
):
    path = file.write(tmp_path, contents)
    assert path.read_text() == json.dumps(contents, indent=1) + "\n"


def test_lines_are_written_one_by_one_and_a_half_written_one_is_left_out(tmp_path: Path):
    for epoch in (0, 1, 2):
        LOG_FILE.append(tmp_path, epoch_line(epoch))
    path = tmp_path / "train.jsonl"
    assert path.read_text() == "".join(json.dumps(epoch_line(x)) + "\n" for x in (0, 1, 2))
    with path.open("a") as log:
        log.write('{"schema_version": 1, "epo')
    found = LOG_FILE.read_lines(tmp_path)
    assert [type(line) for line in found] == [StartLine, EpochLine, EpochLine]
    assert [line.epoch for line in found] == [0, 1, 2]
    LOG_FILE.write_lines(tmp_path, [epoch_line(1)])
    assert path.read_text() == json.dumps(epoch_line(1)) + "\n"
    assert LOG_FILE.read_lines(tmp_path / "nowhere") == []


def test_a_loss_that_became_nan_is_still_read(tmp_path: Path):
    put(tmp_path, LOG_FILE, epoch_line(1, train_loss=float("nan")))
    (line,) = LOG_FILE.read_lines(tmp_path)
    assert line.contents()["train_loss"] != line.contents()["train_loss"]


def without(contents: dict[str, Any], *path: str | int) -> dict[str, Any]:
    """Return the contents without what a path of keys leads to."""
    found = inner = json.loads(json.dumps(contents))
    for step in path[:-1]:
        inner = inner[step]  # type: ignore[index]
    del inner[path[-1]]  # type: ignore[arg-type]
    return found


def with_value(contents: dict[str, Any], value: Any, *path: str | int) -> dict[str, Any]:
    """Return the contents with another value where a path of keys leads to."""
    found: Any = json.loads(json.dumps(contents))
    inner = found
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return found


DAMAGES = [
    (RUN_FILE, run_contents(), ("data", "num_train"), "data.num_train"),
    (RUN_FILE, run_contents(), ("result", "seconds"), "result.seconds"),
    (RUN_FILE, model_contents(), ("weights", "from"), "weights.from"),
    (MEASURE_FILE, measure_contents(), ("layers", 0, "mad", "mean", 1), "layers[0].mad.mean[1]"),
    (MEASURE_FILE, measure_contents(), ("summary", "mean_mad", "low"), "summary.mean_mad.low"),
    (EXAMPLES_FILE, EXAMPLES, ("images", 0, "bytes"), "images[0].bytes"),
    (CAUSAL_FILE, causal_contents(), ("lost", 0, "p_holm"), "lost[0].p_holm"),
    (EVALUATE_FILE, evaluate_contents(), ("results", 0, "task"), "results[0].task"),
    (DIFF_FILE, DIFF, ("layers", 0, "mad", "of_mean", "high"), "layers[0].mad.of_mean.high"),
    (STUDY_FILE, STUDY, ("cells",), "cells"),
    (CELL_FILE, CELL, ("seed",), "seed"),
    (CELL_FILE, CELL_2, ("software", "kernel"), "software.kernel"),
    (FAILED_FILE, FAILED, ("reason",), "reason"),
    (SUMMARY_FILE, SUMMARY, ("effects", 0, "seeds"), "effects[0].seeds"),
    (SUMMARY_FILE, SUMMARY, ("differences", 0, "from"), "differences[0].from"),
    (CLAIMS_FILE, CLAIMS, ("verdicts", 0, "parts", 0, "n"), "verdicts[0].parts[0].n"),
    (LOG_FILE, epoch_line(3), ("train_loss",), "line 1: train_loss"),
    (LOG_FILE, epoch_line(0, attention=LOOK), ("attention", "num_images"),
     "line 1: attention.num_images"),
    (TIMING_FILE, TIMING, ("seconds",), "line 1: seconds"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "contents", "path", "field"), DAMAGES)
def test_a_value_of_another_type_is_named_with_its_file_and_what_to_do(
    file: StoredFile[Any], contents: dict[str, Any], path: tuple, field: str, tmp_path: Path
):
    put(tmp_path, file, with_value(contents, {"of": "another type"}, *path))
    with pytest.raises(UserError) as error:
        read_back(tmp_path, file)
    told = str(error.value)
    assert told.startswith(f"{tmp_path / file.name} is damaged: {field} ")
    assert told.endswith(file.repair.format(folder=tmp_path))


@pytest.mark.parametrize(
    ("file", "contents", "path", "field"),
    [x for x in DAMAGES if isinstance(x[2][-1], str)],
)
def test_a_missing_key_is_named(
    file: StoredFile[Any], contents: dict[str, Any], path: tuple, field: str, tmp_path: Path
):
    put(tmp_path, file, without(contents, *path))
    with pytest.raises(UserError) as error:
        read_back(tmp_path, file)
    assert f"{tmp_path / file.name} is damaged: {field} is missing; " in str(error.value)


@pytest.mark.parametrize(("file", "contents"), [*WHOLE, *LINES])
def test_a_cut_off_file_and_a_later_version_are_said(
    file: StoredFile[Any], contents: dict[str, Any], tmp_path: Path
):
    (tmp_path / file.name).write_text(json.dumps(contents)[:-9] + "\n")
    with pytest.raises(UserError, match=f"/{file.name} .*not JSON"):
        read_back(tmp_path, file)
    put(tmp_path, file, [contents])
    with pytest.raises(UserError, match=f"/{file.name} .*its content"):
        read_back(tmp_path, file)
    for version in (0, 4, "1", None):
        put(tmp_path, file, contents | {"schema_version": version})
        with pytest.raises(UserError, match=f"schema_version {version!r}, .* reads 1"):
            read_back(tmp_path, file)


def test_true_is_not_taken_for_the_version_1(tmp_path: Path):
    put(tmp_path, RUN_FILE, run_contents(schema_version=True))
    with pytest.raises(UserError, match=r"/run\.json .*\bschema_version\b"):
        RUN_FILE.read(tmp_path)


def test_a_number_as_text_is_not_taken_for_a_number(tmp_path: Path):
    put(tmp_path, RUN_FILE, run_contents(seed="3"))
    with pytest.raises(UserError, match=r"/run\.json .*\bseed\b.*\"3\""):
        RUN_FILE.read(tmp_path)


def test_a_null_line_that_is_no_number_is_named(tmp_path: Path):
    put(tmp_path, MEASURE_FILE, with_value(measure_contents(), "low", "null", "box_mad"))
    with pytest.raises(
        UserError, match=r"/measure\.json .*\bnull\.box_mad\b.*\"low\".*nearsight measure"
    ):
        MEASURE_FILE.read(tmp_path)


def test_a_summary_whose_names_and_kinds_do_not_fit_is_refused(tmp_path: Path):
    put(tmp_path, MEASURE_FILE, with_value(measure_contents(), 3, "summary", "mean_mad"))
    with pytest.raises(UserError, match=r"/measure\.json .*\bsummary\b.*\bmean_mad\b"):
        MEASURE_FILE.read(tmp_path)


def test_a_finished_run_has_a_result(tmp_path: Path):
    put(tmp_path, RUN_FILE, run_contents(result=None))
    with pytest.raises(UserError, match=r"/run\.json .*\bfinished\b.*\bresult\b"):
        RUN_FILE.read(tmp_path)
    put(tmp_path, RUN_FILE, run_contents(result=None, status="running"))
    found = RUN_FILE.read(tmp_path)
    assert isinstance(found, TrainedRun)
    assert not found.is_finished


def test_a_file_that_is_not_there_is_said(tmp_path: Path):
    with pytest.raises(UserError, match=f"nearsight measure {tmp_path}"):
        MEASURE_FILE.read(tmp_path)
    with pytest.raises(UserError, match=rf"\bcell\.json\b.*{tmp_path}"):
        CELL_FILE.read(tmp_path)


def test_contents_that_could_not_be_read_back_are_not_written(tmp_path: Path):
    with pytest.raises(ValueError, match="seed") as error:
        RUN_FILE.write(tmp_path, without(run_contents(), "seed"))
    assert not isinstance(error.value, UserError)  # our mistake, not the user's
    assert not (tmp_path / "run.json").exists()


def test_a_run_from_before_fractions_teachers_and_top_5_is_read(tmp_path: Path):
    old = without(run_contents(), "teacher")
    old["data"] = {key: value for key, value in DATA.items() if key != "fraction"}
    old["result"] = {key: x for key, x in RESULT.items() if key != "test_top5_accuracy"}
    put(tmp_path, RUN_FILE, without(old, "assumed"))
    found = RUN_FILE.read(tmp_path)
    assert isinstance(found, TrainedRun)
    assert (found.data.fraction, found.teacher, found.assumed) == (1.0, None, [])
    assert found.outcome.test_top5_accuracy is None
    assert found.name == "baseline, mu_vit, seed 0"


def test_the_first_version_of_a_measurement_takes_grid_and_lines_of_the_whole_model(
    tmp_path: Path,
):
    old = without(without(measure_contents(), "skipped"), "unavailable")
    for key in ("name", "grid", "null"):
        old = without(old, "layers", 0, key)
    old["convention"] = {"text": "Patches only."}
    put(tmp_path, MEASURE_FILE, old | {"schema_version": 1})
    found = MEASURE_FILE.read(tmp_path)
    assert (found.grids, found.skipped) == ([(3, 5)], [])
    assert found.null_lines(0) == old["null"]
    assert (found.convention.name, found.convention.unit) == ("paper", "grid diagonal")
    assert found.layers[0].metrics["mad"].per_head == [0.25, 0.375]


def test_cells_from_before_torchrun_and_studies_without_a_question_are_read(tmp_path: Path):
    put(tmp_path, CELL_FILE, without(without(CELL, "processes"), "weights"))
    cell = CELL_FILE.read(tmp_path)
    assert (cell.processes, cell.weights) == (1, {})
    assert cell.factors == {"cutmix": True, "rate": 0.1, "depth": 3, "scale": "small"}
    put(tmp_path, STUDY_FILE, without(STUDY, "question"))
    assert STUDY_FILE.read(tmp_path).question == ""


def test_a_cell_that_says_neither_its_stages_nor_what_was_measured_is_refused(tmp_path: Path):
    put(tmp_path, CELL_FILE, without(CELL_2, "stages"))
    with pytest.raises(UserError, match=r"/cell\.json .*\bstages\b.*\btorch and metrics\b"):
        CELL_FILE.read(tmp_path)


def test_a_model_at_random_initialisation_is_named_so(tmp_path: Path):
    put(tmp_path, RUN_FILE, model_contents(weights={"from": "random initialisation", "seed": 0}))
    found = RUN_FILE.read(tmp_path)
    assert isinstance(found, MeasuredModel)
    assert found.name == "vit_x, random initialisation"


def test_the_results_in_the_repository_are_read_without_losing_anything():
    cells = sorted(RESULTS.glob("*/cells/*"))
    assert len(cells) == 24 + 18 + 30  # protocol-small, smallest, convit-grid
    for folder in cells:
        for file in (RUN_FILE, MEASURE_FILE, CELL_FILE):
            assert file.read(folder).contents() == json.loads((folder / file.name).read_text())
        lines = [line.contents() for line in LOG_FILE.read_lines(folder)]
        assert lines == [json.loads(x) for x in (folder / LOG_FILE.name).read_text().splitlines()]
    for folder in {cell.parents[1] for cell in cells}:
        for file in (STUDY_FILE, SUMMARY_FILE, CLAIMS_FILE):
            assert file.read(folder).contents() == json.loads((folder / file.name).read_text())


def test_the_schemas_in_the_docs_are_those_of_the_records():
    written = {path.name: path.read_text() for path in SCHEMAS.glob("*.json")}
    assert written == schemas(), "run python -m nearsight.runs.records --write docs/schemas"


@pytest.mark.parametrize(("file", "contents"), [*WHOLE, *LINES])
def test_a_schema_takes_what_a_record_takes_and_refuses_what_it_refuses(
    file: StoredFile[Any], contents: dict[str, Any]
):
    schema = json.loads(schemas()[f"{file.name.partition('.')[0]}.schema.json"])
    contents = json.loads(json.dumps(contents))
    jsonschema.validate(contents, schema)
    for _, _, path, _ in [x for x in DAMAGES if x[0] is file and x[1] is contents]:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(with_value(contents, {"of": "another type"}, *path), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(contents | {"schema_version": 4}, schema)


def test_every_file_has_a_schema_of_its_own_name():
    assert len(FILES) == len(schemas()) == len({file.name for file in FILES})


def test_records_need_no_torch():
    code = "import sys, nearsight.runs.records; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
