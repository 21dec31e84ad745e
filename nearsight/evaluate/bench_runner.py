"""Run the benches of a subject: estimate the time and space, extract features, compute scores.

Finished outcomes are cached under a key of everything that determines them. An interrupted
evaluation therefore continues, and models that share a control compute it once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from nearsight.evaluate.attention_summary import layer_means, prefix_shares
from nearsight.evaluate.benches import Progress, Settings, plan_benches
from nearsight.evaluate.features import (
    Estimated,
    FeatureCache,
    Need,
    Subject,
    cache_root,
    estimate_extraction,
    extract_features,
    spread,
)
from nearsight.evaluate.result import Evaluation, read_evaluation
from nearsight.evaluate.task_outcome import Measured, TaskOutcome, data_facts
from nearsight.evaluate.tasks import Bench, Task
from nearsight.runs import EVALUATE
from nearsight.runs.records import LayerDistances

Say = Callable[[str], None]
NUM_MEASURED = 64  # scored images on which the mean attention distance is measured


def estimate_subject(subject: Subject, settings: Settings) -> Estimated:
    """Return the expected time and disk space of evaluating a subject and its controls.

    Raises:
        UserError: If a task or method does not exist, or the features do not fit on the disk.
    """
    cache = FeatureCache(settings.cache or cache_root(settings.data_root))
    benches = list(plan_benches(subject, settings, cache, None))
    return _estimate(benches, cache, settings.device)


def evaluate_subject(
    subject: Subject,
    settings: Settings,
    *,
    say: Say = lambda text: None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate one subject and its controls.

    Args:
        subject: The model.
        settings: What to evaluate.
        say: Called with an estimate of time and space before the evaluation starts.
        progress: Called with the number of finished steps and of all steps.

    Raises:
        UserError: If a task or method does not exist, or the features do not fit on the disk.
    """
    cache = FeatureCache(settings.cache or cache_root(settings.data_root))
    benches = list(plan_benches(subject, settings, cache, progress))
    estimated = _estimate(benches, cache, settings.device)
    say(f"{subject.name}: {estimated.text()}")
    _check_masks(benches)
    _extract(benches, cache, settings, progress)
    outcomes = [_outcome(task, bench) for task, bench in benches]
    remarks = subject.notes
    if subject.locality is not None and settings.held_out is None:
        _, bench = benches[0]
        images = next(bench.images(bench.train if len(bench.train) else bench.val))
        remarks += (prefix_shares(subject, images).text(),)
    distances = _distances(subject, [bench for _, bench in benches])
    return Evaluation(subject.name, subject.identity, outcomes, remarks, distances)


def _distances(subject: Subject, benches: Sequence[Bench]) -> LayerDistances | None:
    """Measure how far each layer attends; None unless several layers were evaluated."""
    own = [bench for bench in benches if bench.subject.control is None]
    if subject.model is None or len({bench.layer for bench in own}) < 2:
        return None
    bench = own[0]
    split = bench.val.part(spread(len(bench.val), min(NUM_MEASURED, len(bench.val))), "measured")
    images = torch.cat(list(bench.images(split)))
    return LayerDistances(mad=layer_means(subject, images, "mad"), num_images=len(images))


def _check_masks(benches: Sequence[tuple[Task, Bench]]) -> None:
    """Read every mask once, so that a bad mask is found now and not after hours of work.

    Raises:
        UserError: If a mask is missing, of the wrong size or has unknown label values.
    """
    splits = {
        split.identity: split
        for _, bench in benches
        if bench.kind == "masks" and not (bench.result / EVALUATE).is_file()
        for split in (bench.train, bench.val)
    }
    for split in splits.values():
        for number in range(len(split)):
            split.mask(number)


def _needs(benches: Sequence[tuple[Task, Bench]]) -> list[Need]:
    """Return the features that are needed by benches without a finished outcome."""
    found: dict[str, Need] = {}
    for task, bench in benches:
        if not (bench.result / EVALUATE).is_file():
            for need in task.needs(bench):
                found.setdefault(bench.cache.key(need.facts()), need)
    return list(found.values())


def _estimate(benches: Sequence[tuple[Task, Bench]], cache: FeatureCache, device: str) -> Estimated:
    """Estimate the time and space of extracting features and of running all tasks.

    Raises:
        UserError: If the features do not fit on the disk.
    """
    left = [(task, bench) for task, bench in benches if not (bench.result / EVALUATE).is_file()]
    forwards = [
        (bench.need(split), times) for task, bench in left for split, times in task.passes(bench)
    ]
    estimated = estimate_extraction(_needs(benches), cache, device, forwards)
    seconds = sum(task.method_of(bench).seconds(bench) for task, bench in left)
    return replace(estimated, task_seconds=seconds)


def _extract(
    benches: Sequence[tuple[Task, Bench]],
    cache: FeatureCache,
    settings: Settings,
    progress: Progress | None,
) -> None:
    """Extract all layers of a subject on a split in the same forward passes."""
    together: dict[tuple[Any, ...], list[Need]] = {}
    for need in _needs(benches):
        own = (need.subject.identity, need.split.identity, need.place)
        together.setdefault((*own, str(need.preparation.facts())), []).append(need)
    for needs in together.values():
        extract_features(
            needs, cache, batch_size=settings.batch_size, device=settings.device, progress=progress
        )


def _outcome(task: Task, bench: Bench) -> TaskOutcome:
    """Return the stored outcome of a bench, or compute and store it."""
    folder = bench.result
    if (folder / EVALUATE).is_file():
        (found,) = read_evaluation(folder).outcomes
        return replace(found, subject=bench.subject.name, control=bench.subject.control)
    began = time.perf_counter()
    findings = list(task.run(bench))
    seconds = time.perf_counter() - began
    subject = bench.subject
    outcome = TaskOutcome(
        task=task.name,
        method=bench.method,
        layer=bench.layer,
        place=bench.place,
        subject=subject.name,
        identity=subject.identity,
        control=subject.control,
        data=data_facts(bench.train, bench.val),
        settings=dict(findings[0].settings),
        numbers={finding.name: Measured(finding) for finding in findings},
        seconds=seconds,
    )
    Evaluation(subject.name, subject.identity, [outcome]).write(folder, bench.device)
    return outcome
