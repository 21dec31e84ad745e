"""Describe what was run: settings compared with Baseline, and the origin of every run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from nearsight.core import UserError
from nearsight.protocol import preset, protocol_from
from nearsight.report.read import ConditionRuns, Evidence, Family, flat_settings
from nearsight.report.write.cells import Cell, Marked
from nearsight.report.write.table import Column, Table
from nearsight.runs.records import MeasuredModel, TeacherRecord, origin_text

WHERE = ("data.name", "model.name", "name")  # settings that the page gives elsewhere


def settings_rows(family: Family) -> list[tuple[str, str, list[str], bool]]:
    """Collect the settings in which a condition differs from Baseline, and the assumed ones.

    Returns:
        For each: the setting, Baseline's value, the value of every condition, and whether it is
        assumed, because the paper does not give it.
    """
    baseline = _settings(asdict(preset("baseline", family.first.record.data.name)))
    found = [_settings(_complete(condition.runs[0].protocol)) for condition in family.conditions]
    assumed = {path for c in family.conditions for path in c.runs[0].trained.assumed}
    rows = []
    for path in sorted({path for each in (baseline, *found) for path in each}):
        values = [each.get(path, "off") for each in found]
        base = baseline.get(path, "off")
        if path in WHERE or (path not in assumed and all(value == base for value in values)):
            continue
        rows.append((path, base, values, path in assumed))
    return rows


def _complete(protocol: dict[str, Any]) -> dict[str, Any]:
    """Add the settings that a run leaves out because they are at their defaults."""
    try:
        return asdict(protocol_from(protocol))
    except UserError:  # written by a newer nearsight, with settings that this one does not know
        return protocol


def _settings(protocol: dict[str, Any]) -> dict[str, str]:
    """Return settings as text, by dotted path; settings that are None are left out."""
    flat = flat_settings(protocol)
    return {path: _text(value) for path, value in flat.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return ", ".join(_text(part) for part in value)
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def settings_table(family: Family) -> Table:
    """Tabulate the settings that differ from Baseline (bold) or were assumed."""
    labels = [condition.label for condition in family.conditions]
    rows: list[tuple[Cell, ...]] = [
        (
            Marked(path, code=True, tag="assumed" if assumed else ""),
            base,
            *(Marked(value, bold=value != base) for value in values),
        )
        for path, base, values, assumed in settings_rows(family)
    ]
    columns = [Column("setting", "setting"), Column("Baseline preset", "baseline_preset")]
    columns += [Column(label, label) for label in labels]
    return Table("settings", tuple(columns), rows, layout="plain")


@dataclass(frozen=True)
class RunDetails:
    """The origin of a run: seed, data, code, hardware, time, and the command that repeats it."""

    title: str
    place: str
    facts: dict[str, str]
    command: str


def run_details(condition: ConditionRuns, run: Evidence) -> RunDetails:
    """Collect what the page says about the origin of a run or model."""
    source = run.record.provenance
    versions = ", ".join(f"{name} {number}" for name, number in source.versions.items())
    facts = {
        **(
            _model_facts(run.record, run.measure.seconds)
            if isinstance(run.record, MeasuredModel)
            else _run_facts(run)
        ),
        "layers": _layers_text(run),
        "code": f"commit {source.commit or 'unknown'}; {versions}",
        "hardware": ", ".join(f"{name} {value}" for name, value in source.hardware.items()),
    }
    cell = run.path.parent.name == "cells"  # of a study, whose own folder would say nothing
    return RunDetails(
        title=condition.label if run.is_model else f"{condition.label}, seed {run.seed}",
        place=f"cells/{run.path.name}" if cell else str(run.path),
        facts={name: text for name, text in facts.items() if text},
        command=source.command,
    )


def _run_facts(run: Evidence) -> dict[str, str]:
    record, result, data = run.trained, run.trained.outcome, run.trained.data
    stopped = ", stopped early" if result.stopped_early else ""
    part = "" if data.fraction == 1 else f"{100 * data.fraction:g} % of the training images: "
    return {
        "epochs": f"{result.num_epochs}{stopped}; weights of epoch {result.best_epoch}; "
        f"{result.images_seen:,} images seen",
        "time": f"training {_duration(result.seconds)}, measuring "
        f"{_duration(run.measure.seconds)}; started {record.provenance.started}",
        "data": f"{data.name} ({origin_text(data.origin)}), hash {data.hash}; {part}"
        f"{data.num_train:,} for training, {data.num_validation:,} for validation, "
        f"{data.num_test:,} for testing",
        "model": f"{record.model.name}, {record.model.num_parameters:,} parameters",
        "teacher": _teacher_text(record.teacher),
    }


def _teacher_text(teacher: TeacherRecord | None) -> str:
    """Describe the teacher of a distilled model; empty if there was none.

    >>> size = {"num_parameters": 5120, "image_size": (32, 48)}
    >>> named = {"name": "resnet10t", "weights": "random", "weights_hash": "7f4f"}
    >>> _teacher_text(TeacherRecord(**named, **size))
    'resnet10t, 5,120 parameters, weights random (hash 7f4f), images of 32x48 pixels'
    """
    if not teacher:
        return ""
    rows, cols = teacher.image_size
    return (
        f"{teacher.name}, {teacher.num_parameters:,} parameters, weights {teacher.weights} "
        f"(hash {teacher.weights_hash}), images of {rows}x{cols} pixels"
    )


def _model_facts(record: MeasuredModel, seconds: float) -> dict[str, str]:
    model, data, weights = record.model, record.data, record.weights
    origin = {
        "file": f"{weights.file}, sha256 {weights.sha256}",
        "pretrained": f"pretrained weights of {model.source}",
        "memory": "the weights that the model had when Python passed it to nearsight",
        "random initialisation": f"random initialisation, seed {weights.seed}",
    }[weights.origin]
    steps = record.preprocessing
    colours = f"mean {_text(steps.mean)}, deviation {_text(steps.std)}"
    return {
        "model": f"{model.name}, {model.num_parameters:,} parameters",
        "weights": " ".join([f"{origin}.", *record.notes]),
        "images": f"{data.num_images:,} of {data.num_available:,} in {data.name}, hash {data.hash}",
        "preprocessing": f"{steps.text}; {colours}",
        "time": f"measuring {_duration(seconds)}; started {record.provenance.started}",
    }


def _layers_text(run: Evidence) -> str:
    """Say which layers were not measured and why, with the notes on the others."""
    notes = dict.fromkeys(layer.note for layer in run.measure.layers if layer.note)
    skipped = [f"{x.name} ({x.reason})" for x in run.measure.skipped]
    text = [f"not measured: {', '.join(skipped)}."] if skipped else []
    return " ".join([*text, *notes])


def _duration(seconds: float) -> str:
    """Write seconds in words.

    >>> _duration(59.6), _duration(4000.0)
    ('60 s', '1 h 07 min')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
