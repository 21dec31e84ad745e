"""Damaged JSON files of runs and studies, read alone and through the commands that use them."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from attack.attack import Attack
from attack.command_line import command
from attack.inputs.damage import byte_damages, damaged_bytes, damaged_json, json_damages
from attack.material import example_runs, example_study, trained
from attack.verdicts import ACCEPTED, Verdict, unnoticed, verdict_of
from hypothesis import strategies as some
from runs.test_records import LINES, WHOLE

SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"
FILES = [*WHOLE, *LINES]
DAMAGES = some.lists(json_damages(), min_size=1, max_size=2)


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name.partition('.')[0]}.schema.json").read_text())
    return jsonschema.Draft202012Validator(schema)


def _read_alone(case: tuple[int, list], place: Path) -> Verdict:
    """Read a damaged file; the published schema decides what must not be accepted."""
    number, damages = case
    file, contents = FILES[number]
    text = damaged_json(contents, damages)
    (place / file.name).write_bytes(text)
    lines = file.name.endswith(".jsonl")

    def read() -> Any:
        if lines:
            return [line.contents() for line in file.read_lines(place)]
        return file.read(place).contents()

    verdict = verdict_of(read)
    if verdict.what != ACCEPTED:
        return verdict
    try:
        given = text.split(b"\n")[:-1] if lines else [text]
        parsed = [json.loads(each) for each in given]
    except (ValueError, RecursionError) as error:
        return unnoticed(f"{file.name} is not JSON ({error}), but was read: {text[:200]!r}")
    wrong = next((x for one in parsed for x in _validator(file.name).iter_errors(one)), None)
    if wrong is not None:
        return unnoticed(f"{file.name} breaks its schema ({wrong.message[:200]})")
    return verdict


RUN_FILES = ("run.json", "measure.json", "train.jsonl")
RUN_COMMANDS = (
    ("diff", "a", "b"), ("diff", "m", "a"), ("explore", "a", "--out", "page.html"),
    ("study", "causal", "a"), ("measure", "a"), ("evaluate", "a"),
)  # fmt: skip


def _run_folders(case: tuple[str, str, list, int], place: Path) -> Verdict:
    """Damage a file of a run, and use the run: numbers, differences, the explorer."""
    folder, name, damages, number = case
    shutil.copytree(example_runs(), place, dirs_exist_ok=True)
    _damage(place / folder / name, damages)
    if number >= len(RUN_COMMANDS):
        return verdict_of(lambda: _terminal(place))
    return command(*RUN_COMMANDS[number])


def _terminal(place: Path) -> None:
    """Read and print what a report shows, without its figures."""
    import io
    from contextlib import redirect_stdout

    from nearsight.report.read import read_families
    from nearsight.report.write import print_measurements

    read_families([place / x for x in "abm"])
    with redirect_stdout(io.StringIO()):
        print_measurements([place / x for x in "abm"])


def _report(case: tuple[str, str, list], place: Path) -> Verdict:
    folder, name, damages = case
    shutil.copytree(example_runs(), place, dirs_exist_ok=True)
    _damage(place / folder / name, damages)
    return command("report", "a", "b", "m", "--out", "page.html", "--format", "csv")


STUDY_COMMANDS = (
    ("study", "status"), ("study", "claims"), ("study", "export"), ("study", "causal"),
    ("study", "report"),
)  # fmt: skip


def _study(case: tuple[str, int, list, int], place: Path) -> Verdict:
    """Damage study.json or a file of a cell, and look at the study."""
    name, cell, damages, number = case
    shutil.copytree(example_study(), place / "study")
    cells = sorted((place / "study" / "cells").iterdir())
    path = place / "study" / name if name == "study.json" else cells[cell % len(cells)] / name
    _damage(path, damages)
    words = STUDY_COMMANDS[number]
    out = ("--out", "exported") if words[1] == "export" else ()
    return command(*words, "study", *out)


def _damage(path: Path, damages: list) -> None:
    """Damage a JSON file, or a line of a .jsonl file."""
    if path.suffix != ".jsonl":
        path.write_bytes(damaged_json(json.loads(path.read_bytes()), damages))
        return
    lines = path.read_bytes().splitlines(keepends=True)
    at = damages[0].at % len(lines)
    lines[at] = damaged_json(json.loads(lines[at]), damages)
    path.write_bytes(b"".join(lines))


WHOLE_FILES = (
    "weights.safetensors", "measure.safetensors", "test-answers.npy", "evaluate.npz",
    "evaluate.json", "run.json", "measure.json", "examples.json",
)  # fmt: skip


def _trained(case: tuple[str, list], place: Path) -> Verdict:
    """Damage any file of a real run, and use all of it; hashes must notice every changed byte."""
    name, damages = case
    run = place / "run"
    shutil.copytree(trained(), run)
    before = (run / name).read_bytes()
    after = before
    for damage in damages:
        after = damaged_bytes(after, damage)
    (run / name).write_bytes(after)
    verdict = verdict_of(lambda: _use(run))
    hashed = name in ("weights.safetensors", "measure.safetensors", "evaluate.npz")
    if verdict.what == ACCEPTED and hashed and after != before:
        return unnoticed(f"{name} was changed, and nobody noticed")
    return verdict


def _use(run: Path) -> None:
    from nearsight.evaluate.result import read_evaluation
    from nearsight.measure.folders import folder_difference
    from nearsight.report.read import read_evaluations, read_families
    from nearsight.runs import load_run
    from nearsight.runs.answers import read_answers

    loaded = load_run(run)
    read_answers(run, loaded.record.outcome.num_test)
    families = read_families([run])
    read_evaluations([run])
    read_evaluation(run)
    folder_difference(run, trained())
    from nearsight.explore.embedding import embedded_explorer

    embedded_explorer(families)


ATTACKS = (
    Attack(
        "records read alone",
        some.tuples(some.integers(0, len(FILES) - 1), DAMAGES),
        _read_alone,
        share=12,
    ),
    Attack(
        "run folders",
        some.tuples(
            some.sampled_from("abm"),
            some.sampled_from(("run.json", "measure.json")),
            DAMAGES,
            some.integers(0, len(RUN_COMMANDS) + 3),
        ),
        _run_folders,
        share=6,
    ),
    Attack(
        "training logs",
        some.tuples(
            some.sampled_from("ab"), some.just("train.jsonl"), DAMAGES, some.just(len(RUN_COMMANDS))
        ),
        _run_folders,
        share=2,
    ),
    Attack(
        "reports",
        some.tuples(some.sampled_from("abm"), some.sampled_from(("run.json",
        "measure.json")), DAMAGES),
        _report,
        share=1,
        slow=True,
    ),
    Attack(
        "study folders",
        some.tuples(
            some.sampled_from(("study.json", "cell.json", "run.json", "measure.json",
            "train.jsonl")),
            some.integers(0, 11),
            DAMAGES,
            some.integers(0, 3),
        ),
        _study,
        share=4,
    ),
    Attack(
        "study reports",
        some.tuples(
            some.sampled_from(("study.json", "cell.json", "run.json", "measure.json",
            "train.jsonl")),
            some.integers(0, 11),
            DAMAGES,
            some.just(4),
        ),
        _study,
        share=0.3,
        slow=True,
    ),
    Attack(
        "files of a trained run",
        some.tuples(
            some.sampled_from(WHOLE_FILES), some.lists(byte_damages(), min_size=1, max_size=2)
        ),
        _trained,
        share=3,
    ),
)  # fmt: skip


def warm() -> None:
    """Load what a first attempt would load."""
    import matplotlib.pyplot  # noqa: F401

    import nearsight.explore
    import nearsight.report.write
    import nearsight.study.claims
    import nearsight.study.show  # noqa: F401

    for name in {file.name for file, _ in FILES}:
        _validator(name)
    example_runs()
    example_study()
    _use(trained())
    command("study", "status", str(example_study()))
