"""Evaluate models: every task, method and layer asked for, with controls beside.

What was finished is kept in the cache under a key of everything that decides it, so an evaluation
that was killed continues, and controls are worked out once for all models that share them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from nearsight.core import UserError
from nearsight.data.input import Preprocessing
from nearsight.evaluate.features import (
    PLACES,
    Estimated,
    FeatureCache,
    Need,
    Split,
    Subject,
    cache_root,
    control_subject,
    estimate_extraction,
    extract_features,
    open_labels,
    open_masks,
    open_subject,
    spread,
    subject_of,
    with_statistics,
)
from nearsight.evaluate.prefix_share import prefix_shares
from nearsight.evaluate.result import (
    Evaluation,
    Measured,
    TaskOutcome,
    data_facts,
    read_evaluation,
)
from nearsight.evaluate.tasks import Bench, Kind, Method, Task, choose_options, tasks_named
from nearsight.measure.folders import default_folder, finished_run, sides
from nearsight.measure.localise import read_locality
from nearsight.runs import EVALUATE, RECORD, Stage
from nearsight.runs.records import RECORDS

DEFAULT_DATA = {"masks": "voc2012", "labels": "cifar100"}
OPENERS: dict[Kind, Callable[..., Split]] = {"masks": open_masks, "labels": open_labels}
SHORT = {"hummingbird": ("segmentation", "hummingbird")}  # tasks that are a method of another
Progress = Callable[[int, int], None]
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to evaluate, and how; the same for every model of a table.

    Args:
        tasks: Names of tasks with commas between them.
        data: A data set by name or path; by default VOC 2012 or CIFAR-100, as the task needs.
        method: Names of methods with commas, ``all``, or None for each task's own.
        layer: ``last``, ``all``, or numbers counted from 1 with commas.
        place: ``block`` (output of the layer's block), ``norm`` or ``prr``; None: the method's.
        statistics: Whose mean and deviation images are normalised with; None: the method's.
        num_train: How many training images, at equal steps; None for all.
        num_val: How many images the number is over, at equal steps; None for all.
        held_out: Score this many training images, which are not trained on, in place of val: to
            choose something without looking at val.
        options: Options of the methods.
        controls: Whether to evaluate the controls.
        data_root: Folder of data sets.
        cache: Folder of the feature caches; by default beside the data sets.
        device: Where models run.
        batch_size: Images in a forward.
    """

    tasks: str = "segmentation"
    data: str | None = None
    method: str | None = None
    layer: str = "last"
    place: str | None = None
    statistics: str | None = None
    num_train: int | None = None
    num_val: int | None = None
    held_out: int | None = None
    options: Mapping[str, Any]
    controls: bool = True
    data_root: Path | None = None
    cache: Path | None = None
    device: str = "cpu"
    batch_size: int = 32

    def __post_init__(self) -> None:
        if self.place is not None and self.place not in PLACES:
            raise UserError(f"--place is {self.place!r}, but it must be {', '.join(PLACES)}")


@dataclass(frozen=True)
class PlannedMethod:
    """A method of a task that is to be evaluated."""

    task: Task
    method: Method
    options: Mapping[str, Any]


def plans(settings: Settings) -> list[PlannedMethod]:
    """Return every method of every task asked for.

    Raises:
        UserError: A task, a method or an option is unknown.
    """
    chosen: list[tuple[Task, Method]] = []
    for name in (word.strip() for word in settings.tasks.split(",")):
        task_name, method = SHORT.get(name, (name, settings.method))
        (task,) = tasks_named(task_name)
        chosen += [(task, each) for each in task.choose_methods(method)]
    given = choose_options([method for _, method in chosen], settings.options)
    return [
        PlannedMethod(
            task,
            method,
            {name: given.get(name, value) for name, value in method.options.items()},
        )
        for task, method in {
            (task.name, method.name): (task, method) for task, method in chosen
        }.values()
    ]


def evaluate_subject(
    subject: Subject,
    settings: Settings,
    *,
    say: Say = lambda text: None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate one subject and its controls.

    Args:
        subject: A model.
        settings: What to evaluate.
        say: Told what the evaluation will take, before it starts.
        progress: Called with what is done and what there is in all, of the step at work.

    Raises:
        UserError: Something asked for does not exist, or the features do not fit on the disk.
    """
    cache = FeatureCache(settings.cache or cache_root(settings.data_root))
    benches = list(_benches(subject, settings, cache, progress))
    estimated = _estimate(benches, cache, settings.device)
    say(f"{subject.name}: {estimated.text()}")
    _extract(benches, cache, settings, progress)
    outcomes = [_outcome(task, bench) for task, bench in benches]
    remarks = subject.notes
    if subject.locality is not None and settings.held_out is None:
        _, bench = benches[0]
        images = next(bench.images(bench.train if len(bench.train) else bench.val))
        remarks += (prefix_shares(subject, images).text(),)
    return Evaluation(subject.name, subject.identity, outcomes, remarks)


def _benches(
    subject: Subject, settings: Settings, cache: FeatureCache, progress: Progress | None
) -> Iterator[tuple[Task, Bench]]:
    """Everything to be done for a subject: its layers, then its controls at the last of them."""
    splits: dict[tuple[Kind, bool], tuple[Split, Split]] = {}
    fresh: dict[str, Subject] = {}
    for plan in plans(settings):
        task, method = plan.task, plan.method
        which = task.kind, task.trains
        if which not in splits:
            splits[which] = _splits(task, settings)
        train, val = splits[which]
        statistics = settings.statistics or method.statistics
        layers = subject.extractor.choose_layers(settings.layer)
        subjects = [(subject, layer) for layer in layers]
        for control in task.controls if settings.controls else ():
            if control not in fresh:
                fresh[control] = control_subject(subject, control)
            of_model = fresh[control].extractor.num_layers == subject.extractor.num_layers
            subjects.append((fresh[control], layers[-1] if of_model else 1))
        for each, layer in subjects:
            yield (
                task,
                Bench(
                    subject=with_statistics(each, statistics) if task.kind == "masks" else each,
                    train=train,
                    val=val,
                    layer=layer,
                    place=settings.place or method.place if each.model is not None else PLACES[0],
                    task=task.name,
                    method=method.name,
                    options=plan.options,
                    kind=task.kind,
                    cache=cache,
                    device=settings.device,
                    batch_size=settings.batch_size,
                    progress=progress,
                ),
            )


def _splits(task: Task, settings: Settings) -> tuple[Split, Split]:
    data, opener = settings.data or DEFAULT_DATA[task.kind], OPENERS[task.kind]
    if settings.held_out is not None:
        num = None if settings.num_train is None else settings.num_train + settings.held_out
        return _held_out(opener(data, settings.data_root, "train", num), settings.held_out)
    val = opener(data, settings.data_root, "val", settings.num_val)
    if not task.trains:
        return val.part(np.arange(0), "train"), val
    train = opener(data, settings.data_root, "train", settings.num_train)
    if train.classes != val.classes:
        raise UserError(
            f"the training images of {data} have {len(train.classes)} classes, but those that are "
            f"scored have {len(val.classes)}: the class lists must be the same"
        )
    return train, val


def _held_out(train: Split, num: int) -> tuple[Split, Split]:
    """Training images to train on, and others at equal steps to score."""
    scored = spread(len(train), num)
    others = np.setdiff1d(np.arange(len(train)), scored)
    if not len(others):
        raise UserError(f"all {len(train):,} training images are held out; hold out fewer")
    return train.part(others, "train without held-out"), train.part(scored, "held-out train")


def _needs(benches: Sequence[tuple[Task, Bench]]) -> list[Need]:
    """The features that benches without a finished outcome take."""
    found: dict[str, Need] = {}
    for task, bench in benches:
        if not (bench.result / EVALUATE).is_file():
            for need in task.needs(bench):
                found.setdefault(bench.cache.key(need.facts()), need)
    return list(found.values())


def _estimate(benches: Sequence[tuple[Task, Bench]], cache: FeatureCache, device: str) -> Estimated:
    """What extraction and the tasks that run the model themselves will take."""
    forwards = [
        (bench.need(split), times)
        for task, bench in benches
        if not (bench.result / EVALUATE).is_file()
        for split, times in task.passes(bench)
    ]
    return estimate_extraction(_needs(benches), cache, device, forwards)


def _extract(
    benches: Sequence[tuple[Task, Bench]],
    cache: FeatureCache,
    settings: Settings,
    progress: Progress | None,
) -> None:
    """Extract all layers of a subject on a split by the same forward passes."""
    together: dict[tuple[Any, ...], list[Need]] = {}
    for need in _needs(benches):
        own = (need.subject.identity, need.split.identity, need.place)
        together.setdefault((*own, str(need.preparation.facts())), []).append(need)
    for needs in together.values():
        extract_features(
            needs, cache, batch_size=settings.batch_size, device=settings.device, progress=progress
        )


def _outcome(task: Task, bench: Bench) -> TaskOutcome:
    """Return the finished outcome of a bench, or work it out and keep it."""
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


def evaluate_model(
    model: nn.Module | str | Path,
    data: str | None = None,
    tasks: str | Sequence[str] = "segmentation",
    *,
    weights: Path | None = None,
    pretrained: bool = False,
    random_init: bool = False,
    name: str | None = None,
    preprocessing: Preprocessing | None = None,
    image_size: tuple[int, int] | None = None,
    localise: str | None = None,
    say: Say = print,
    progress: Progress | None = None,
    **settings: Any,
) -> Evaluation:
    """Evaluate the frozen features of a model.

    Args:
        model: A module, a run folder, or a name with ``weights``, ``pretrained`` or
            ``random_init``.
        data: A data set by name or path.
        tasks: Names of tasks (see ``nearsight evaluate --help``).
        weights: A file of weights for a name.
        pretrained: Take the hub's weights for a name.
        random_init: Take no weights for a name.
        name: How tables call a module.
        preprocessing: How the images of a module are prepared.
        image_size: Height and width in pixels; by default the model's own.
        localise: Makes its attention local, such as ``gaussian:1@last3`` (see ``ns.localise``).
        say: Told what the evaluation will take.
        progress: Called with what is done and what there is in all.
        settings: Fields of ``Settings``: method, layer, place, num_train, options, ...

    Returns:
        Numbers with intervals; ``to_pandas()`` makes a table, ``compare(other)`` paired
        differences.
    """
    device = settings.get("device", "cpu")
    locality = None if localise is None else read_locality(localise)
    if isinstance(model, nn.Module):
        subject = subject_of(model, name, preprocessing, image_size, device, locality)
    else:
        subject = open_subject(
            str(model), weights=weights, pretrained=pretrained, random_init=random_init,
            image_size=image_size, device=device, locality=locality,
        )  # fmt: skip
    words = tasks if isinstance(tasks, str) else ",".join(tasks)
    chosen = Settings(tasks=words, data=data, **{"options": {}, **settings})
    return evaluate_subject(subject, chosen, say=say, progress=progress)


def evaluate_run(
    path: Path,
    tasks: str = "knn",
    data: str | None = None,
    method: str | None = None,
    layer: str = "last",
    place: str | None = None,
    image_size: str | None = None,
    num_train: int | None = None,
    num_val: int | None = None,
    options: Mapping[str, Any] | None = None,
    controls: bool = True,
    device: str = "cpu",
    data_root: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Evaluate the frozen features of a finished run and write ``evaluate.json`` into its folder.

    By default k-NN on the data set that the run was trained on.
    """
    path = Path(path)
    run, _ = finished_run(path, device, data_root)
    found = evaluate_model(
        path, data or run.protocol.data.name, tasks, method=method, layer=layer, place=place,
        image_size=None if image_size is None else sides(image_size), num_train=num_train,
        num_val=num_val, options=options or {}, controls=controls, device=device,
        data_root=data_root, say=lambda text: None, progress=progress,
    )  # fmt: skip
    return found.write(path, device)


def evaluate_targets(
    targets: Sequence[str],
    settings: Settings,
    *,
    weights: Sequence[Path] = (),
    pretrained: bool = False,
    random_init: bool = False,
    image_size: tuple[int, int] | None = None,
    localise: Sequence[str] = (),
    out: Path | None = None,
    say: Say = print,
    progress: Progress | None = None,
) -> list[tuple[Path, Evaluation]]:
    """Evaluate several runs or models one after another and write evaluate.json for each.

    Args:
        targets: Run folders, or names of models.
        settings: What to evaluate.
        weights: Files of weights, one for each name among the targets.
        pretrained: Take the hub's weights for names.
        random_init: Take no weights for names.
        image_size: Height and width in pixels; by default each model's own.
        localise: Evaluate every model as it is, and then made local in each of these ways.
        out: The folder to write for a single model; by default ``runs/<name>``. What is made local
            goes to a folder beside it, with the locality in its name.
        say: Told what each evaluation will take.
        progress: Called with what is done and what there is in all.

    Returns:
        The folder and the evaluation of every target.
    """
    names = [target for target in targets if not _is_run(target)]
    if weights and len(weights) != len(names):
        raise UserError(
            f"there are {len(weights)} files of weights for {len(names)} models; give --weights "
            "once for each model, in their order"
        )
    if out is not None and len(targets) > 1:
        raise UserError(f"--out names one folder, but there are {len(targets)} models")
    files = dict(zip(names, weights))
    localities = [None, *map(read_locality, localise)]
    found = []
    for target, locality in itertools.product(targets, localities):
        own = {} if _is_run(target) else {"pretrained": pretrained, "random_init": random_init}
        subject = open_subject(
            target, weights=files.get(target), image_size=image_size, device=settings.device,
            locality=locality, **own,
        )  # fmt: skip
        evaluation = evaluate_subject(subject, settings, say=say, progress=progress)
        folder = out or (Path(target) if _is_run(target) else default_folder(target))
        if locality is not None:
            folder = folder.parent / default_folder(f"{folder.name}-{locality}").name
        evaluation.write(folder, settings.device)
        found.append((folder, evaluation))
    return found


def _is_run(target: str) -> bool:
    return (Path(target) / RECORD).is_file()


EVALUATE_STAGE = Stage("evaluate", EVALUATE, evaluate_run, kept=(EVALUATE, RECORDS))
