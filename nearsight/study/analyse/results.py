"""Collect the results of the finished cells: outcomes at the end, and courses over epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from nearsight.evaluate import EVALUATE_STAGE
from nearsight.measure.catalogue import (
    GRID_FREE,
    KNN_ACCURACY,
    LOG_MIN_MAD,
    MAX_SCORE,
    NEAR_KINDS,
    RUN_NUMBERS,
    STUDY_NUMBERS,
    Number,
    near_kinds,
)
from nearsight.report.read import Gates, Look, looks_of
from nearsight.runs.records import (
    LOG_FILE,
    MEASURE_FILE,
    EpochLine,
    ExtremeRecord,
    IntervalRecord,
    MeasureRecord,
    ValuesRecord,
)
from nearsight.study.analyse.evaluated import (
    evaluated_settings,
    evaluated_values,
    printed_values,
)
from nearsight.study.analyse.loaded import FinishedCell, LoadedStudy
from nearsight.study.analyse.matched import Course, common_epoch
from nearsight.study.analyse.outcome import Outcome
from nearsight.study.design import Level, protocol_settings

EQUAL_STEPS = "min_mad_equal_steps"
EARLY = 5  # epochs; the ConViT paper says "the first few"
GATE_SHUT = 0.05  # our choice: with a smaller mean gate, a layer counts as ignoring position


def outcomes(study: LoadedStudy) -> list[Outcome]:
    """Return the numbers of every finished cell, in the order of the study."""
    equal = _at_equal_steps(courses(study))
    return [
        Outcome(x.cell.factors, x.cell.seed, values_of(x) | at_steps, settings_of(x))
        for x, at_steps in zip(study.finished, equal, strict=True)
    ]


def _at_equal_steps(found: Sequence[Course]) -> list[dict[str, float]]:
    """Return the min MAD of every run at the last epoch at which all runs of its kind have one.

    Runs are of the same kind if they have the same model and the same data.
    """
    kinds = [
        tuple(sorted((k, v) for k, v in x.settings.items() if k.startswith(("model.", "data."))))
        for x in found
    ]
    epochs = {
        kind: common_epoch([x for x, own in zip(found, kinds) if own == kind], "min_mad")
        for kind in dict.fromkeys(kinds)
    }
    return [
        {}
        if (epoch := epochs[kind]) is None
        else {EQUAL_STEPS: x.at_epoch(epoch).values["min_mad"]}
        for x, kind in zip(found, kinds)
    ]


def numbers_shown(found: Sequence[Outcome]) -> tuple[Number, ...]:
    """Return the numbers that a study shows; the score is one if its models have several grids."""
    grids = {x.settings.get("grid") for x in found}
    return (*STUDY_NUMBERS, *GRID_FREE) if len(grids) > 1 else STUDY_NUMBERS


def settings_of(x: FinishedCell) -> dict[str, Level]:
    """Return all settings of a run and its grid, in the form that claims read."""
    settings = protocol_settings(x.cell.protocol, x.files.measure.grid)
    settings["data.name"] = x.record.data.name  # the path of a folder may belong to a named set
    if x.evaluation is None:
        return settings
    return settings | evaluated_settings(x.evaluation, _evaluated_data(x))


def _evaluated_data(x: FinishedCell) -> str | None:
    """Return the data set on which a cell's features are evaluated, or None if it is a path."""
    asked = x.cell.stages[EVALUATE_STAGE.name].get("data") or x.record.data.name
    return None if "/" in asked else str(asked)


def values_of(x: FinishedCell) -> dict[str, float]:
    """Return the numbers of a finished cell by name."""
    files, measure, result = x.files, x.files.measure, x.record.outcome
    epochs = [line for line in files.log if isinstance(line, EpochLine)]
    last = LOG_FILE.needed(files.path, "the line of an epoch", epochs[-1] if epochs else None)
    mean_mad = MEASURE_FILE.needed(files.path, "summary.mean_mad", measure.summary.mean("mad"))
    found: dict[str, float | None] = {
        "accuracy": result.test_accuracy,
        "top5_accuracy": result.test_top5_accuracy,
        "test_knn_accuracy": result.test_knn_accuracy,
        "validation_accuracy": result.validation_accuracy,
        "mean_mad": mean_mad.value,
        "score": score.value if (score := measure.summary.mean("score")) else None,
        MAX_SCORE.name: _max_score(measure),
        **{x.name: entry.value for x in RUN_NUMBERS if (entry := x.entry(measure.numbers))},
        "epochs": result.num_epochs,
        "best_epoch": result.best_epoch,
        "images_seen": result.images_seen,
        "train_loss": last.train_loss,
        "seconds": result.seconds,
        "num_parameters": x.record.model.num_parameters,
        "log_speed": math.log(result.images_seen / result.seconds) if result.seconds else None,
        **claim_values(files.path, measure, looks_of(files.log, files.path), unread_layers(x)),
        **_early_accuracy(epochs),
    }
    if x.evaluation is not None:
        data = _evaluated_data(x)
        found |= evaluated_values(x.evaluation, data) | printed_values(x.evaluation, data)
    known = {name: float(value) for name, value in found.items() if value is not None}
    return known | _logarithm(known.get("min_mad"))


def _max_score(measure: MeasureRecord) -> float:
    """Return the largest score of a head: 1 - MAD / MAD of uniform attention on the same grid."""
    return max(
        1 - mad / measure.null_lines(i)["uniform_mad"]
        for i in measure.read or range(len(measure.layers))
        for mad in measure.layers[i].metrics["mad"].per_head
    )


def _logarithm(min_mad: float | None) -> dict[str, float]:
    """Return the logarithm of min MAD by its name; nothing if a head attends only to itself."""
    return {LOG_MIN_MAD.name: math.log(min_mad)} if min_mad else {}


def _layer_means(path: Path, measure: MeasureRecord, metric: str) -> list[IntervalRecord]:
    found = measure.summary.layer_means(metric)
    return MEASURE_FILE.needed(path, f"summary.layer_mean_{metric}", found)


def courses(study: LoadedStudy) -> list[Course]:
    """Return the course of every finished cell: accuracy and, if measured, attention by epoch."""
    found = []
    for x in study.finished:
        lines = x.files.log
        looks = {look.epoch: look for look in looks_of(lines, x.files.path)}
        seen = [looks.get(line.epoch) for line in lines]
        trained = [line if isinstance(line, EpochLine) else None for line in lines]
        values: dict[str, list[float | None]] = {
            "accuracy": [line.validation_accuracy if line else None for line in trained],
            **{
                x.name: [look.number(x) if look else None for look in seen]
                for x in RUN_NUMBERS
                if x.metric
            },
        }
        by_knn = [line.validation_knn_accuracy if line else None for line in trained]
        if any(score is not None for score in by_knn):
            values[KNN_ACCURACY.name] = by_knn
        values[LOG_MIN_MAD.name] = [_logarithm(x).get(LOG_MIN_MAD.name) for x in values["min_mad"]]
        if len(set(x.files.measure.grids)) == 1:
            uniform = x.files.measure.null_lines(0)["uniform_mad"]
            values[MAX_SCORE.name] = [
                None if mad is None else 1 - mad / uniform for mad in values["min_mad"]
            ]
        losses = [math.inf if x.clean_train_loss is None else x.clean_train_loss for x in lines]
        epochs, cell = [line.epoch for line in lines], x.cell
        found.append(Course(cell.factors, cell.seed, epochs, losses, values, settings_of(x)))
    return found


def claim_values(
    path: Path, measure: MeasureRecord, looks: Sequence[Look], unread: frozenset[int]
) -> dict[str, float]:
    """Return the numbers that only claims need, by name.

    Args:
        path: The folder of the run, for errors.
        measure: The measurement at the end.
        looks: The measurements during training.
        unread: The layers, counted from 1, whose patch rows reach no output of the model.
    """
    by_layer = _layer_means(path, measure, "mad")
    read = [x for i, x in enumerate(by_layer) if i in measure.read and i + 1 not in unread]
    read = read or by_layer
    far, heads = measure.summary.mean("nonlocality"), measure.layers[0].metrics["mad"].per_head
    least = MEASURE_FILE.needed(path, "summary.min_entropy", measure.summary.smallest("entropy"))
    local = MEASURE_FILE.needed(path, "summary.min_mad", measure.summary.smallest("mad"))
    found: dict[str, float | None] = {
        "min_entropy": least.value,
        "layer1_entropy": _layer_means(path, measure, "entropy")[0].value,
        **_near_heads(measure),
        **_of_all_layers(measure),
        "mad_layer_1": by_layer[0].value,
        "least_layer_mad": min(x.value for x in read),
        "layer1_max_mad": max(heads) if heads else None,
        "nonlocality": far.value if far else None,
        **_with_depth(read, local),
        **_by_layer(measure),
        "mean_head_diversity": _mean_of_layers(measure, "head_diversity"),
        "widths_near_bounds": _near_bounds(measure),
        "min_mad_self_mass": _self_mass(measure, local),
        **_while_training(looks),
    }
    return {name: x for name, x in found.items() if x is not None}


def _with_depth(read: Sequence[IntervalRecord], local: ExtremeRecord) -> dict[str, float]:
    """Return how attention changes with depth among the read layers; nothing for one layer."""
    if len(read) < 2:
        return {}
    return {
        "mad_rise": read[-1].value - read[0].value,
        "mad_last_read": read[-1].value,
        "min_mad_layer": float(local.layer),
    }


def _near_heads(measure: MeasureRecord) -> dict[str, float]:
    """Count the heads below the 3x3 line by kind; nothing if self-mass was not measured."""
    found = [measure.layers[i].metrics for i in measure.read]
    if not all("mad" in x and "self_mass" in x for x in found):
        return {}
    kinds = near_kinds(
        [x["mad"].per_head for x in found],
        [x["self_mass"].per_head for x in found],
        [measure.null_lines(i)["box_mad"] for i in measure.read],
    )
    return {
        f"{kind}_heads": float(sum(layer.count(kind) for layer in kinds)) for kind in NEAR_KINDS
    }


def _of_all_layers(measure: MeasureRecord) -> dict[str, float]:
    """Return the extremes over all layers, as in the tables of the papers."""
    extremes = measure.of_all_layers.entries(ExtremeRecord)
    return {f"all_layers_{name}": x.value for name, x in extremes.items()}


def unread_layers(x: FinishedCell) -> frozenset[int]:
    """Return the layers, counted from 1, whose patch rows reach no output of the model.

    Newer files record these layers. For older files, it is the last layer if the classifier reads
    only the class token.
    """
    if any(layer.unread is not None for layer in x.files.measure.layers):
        return frozenset(i + 1 for i in x.files.measure.unread)
    settings = settings_of(x)
    layers = len(x.files.measure.layers)
    through_class = settings.get("model.pool", "token") == "token"
    patches_read = settings["kind"] in ("gap", "prr", "locat")
    has_prefix = bool(x.files.measure.num_prefix)
    return frozenset({layers} if through_class and has_prefix and not patches_read else ())


def _by_layer(measure: MeasureRecord) -> dict[str, float | None]:
    """Return numbers of every layer under names METRIC_layer_N, with N counted from 1."""
    names = ("locality_score", "cls_similarity")
    found: dict[str, float | None] = {
        f"{name}_layer_{number}": _layer_value(layer.metrics.get(name))
        for number, layer in enumerate(measure.layers, 1)
        for name in names
    }
    for name in ("entropy", "nonlocality"):
        means = measure.summary.layer_means(name) or []
        found |= {f"{name}_layer_{i}": x.value for i, x in enumerate(means, 1)}
    return found


def _mean_of_layers(measure: MeasureRecord, metric: str) -> float | None:
    """Return the mean over layers of a metric that has one number per layer."""
    found = [_layer_value(layer.metrics.get(metric)) for layer in measure.layers]
    known = [x for x in found if x is not None]
    return fmean(known) if known and len(known) == len(found) else None


def _near_bounds(measure: MeasureRecord) -> float | None:
    """Return the largest share of widths in a layer that are near a bound; None without GAug."""
    entries = [layer.others.get("gaussian") for layer in measure.layers]
    shares = [sum(x["near_bounds"]) for x in entries if x and x.get("near_bounds")]
    return max(shares, default=None)


def _self_mass(measure: MeasureRecord, head: ExtremeRecord) -> float | None:
    """Return the self-mass of a head, or None if it was not measured."""
    found = measure.layers[head.layer - 1].metrics.get("self_mass")
    return found.per_head[head.head - 1] if found and found.per_head else None


def _layer_value(found: ValuesRecord | None) -> float | None:
    """Return the mean of a metric that has one number per layer, or None if it is missing."""
    return found.mean if found and isinstance(found.mean, float) else None


def _early_accuracy(epochs: Sequence[EpochLine]) -> dict[str, float]:
    """Return the validation accuracy after 20 epochs."""
    found = [x.validation_accuracy for x in epochs if x.epoch == 20]
    return {"accuracy_epoch_20": found[0]} if found and found[0] is not None else {}


def _while_training(looks: Sequence[Look]) -> dict[str, float]:
    """Return how nonlocality and gates change from the start to epoch 5 and to the end."""
    by_epoch = {look.epoch: look for look in looks}
    if 0 not in by_epoch or len(by_epoch) < 2:
        return {}
    first, last = by_epoch[0], by_epoch[max(by_epoch)]
    found: dict[str, float] = {}
    early = [epoch for epoch in by_epoch if 0 < epoch <= EARLY]
    if early and _far(first):
        found["early_nonlocality"] = max(
            after - before for before, after in zip(_far(first), _far(by_epoch[max(early)]))
        )
    if early and len(_far(first)) > 1:
        start, soon, end = (_far(x) for x in (first, by_epoch[max(early)], last))
        half = len(end) // 2
        found["lower_nonlocality"] = fmean(y - x for x, y in zip(start[:half], end[:half]))
        found["upper_climb"] = fmean(y - x for x, y in zip(soon[-half:], end[-half:]))
    found |= _gates_at_end(last)
    gated = [(i, gates) for i, gates in enumerate(first.learned.layers(Gates)) if gates]
    if gated and _far(first):
        found["gpsa_nonlocality"] = min(_far(last)[i] - _far(first)[i] for i, _ in gated)
    after = [last.learned.layers(Gates)[i] for i, _ in gated]
    gates = [(x.gate, y.gate) for (_, x), y in zip(gated, after) if y and x.gate and y.gate]
    if gates and len(gates) == len(gated):
        found["gate_change"] = max(fmean(after) - fmean(before) for before, after in gates)
    return found


def _gates_at_end(look: Look) -> dict[str, float]:
    """Return how many layers use position at the end, and the largest mean gate of layers 6-10."""
    means = [fmean(x.gate) if x and x.gate else None for x in look.learned.layers(Gates)]
    known = [x for x in means if x is not None]
    if not known:
        return {}
    late = [x for x in means[5:10] if x is not None]
    found = {"positional_layers": float(sum(x > GATE_SHUT for x in known))}
    return found | ({"late_gate": max(late)} if len(late) == 5 else {})


def _far(look: Look) -> list[float]:
    """Return the nonlocality of every layer."""
    return [x.value for x in look.nonlocality or []]
