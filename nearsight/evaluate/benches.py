"""Plan an evaluation: one bench for every requested method, layer and control."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearsight.core import UserError
from nearsight.evaluate.features import (
    PLACES,
    FeatureCache,
    Split,
    Subject,
    control_subject,
    open_labels,
    open_masks,
    spread,
    with_statistics,
)
from nearsight.evaluate.tasks import Bench, Kind, Method, Task, choose_options, tasks_named

DEFAULT_DATA = {"masks": "voc2012", "labels": "cifar100"}
OPENERS: dict[Kind, Callable[..., Split]] = {"masks": open_masks, "labels": open_labels}
SHORT = {"hummingbird": ("segmentation", "hummingbird")}  # methods that also work as names of tasks
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to evaluate and how, the same for every model of a table.

    Args:
        tasks: Names of tasks, separated by commas.
        data: The name or path of a data set. By default VOC 2012 for tasks with masks. For tasks
            with labels, the data set that a run was trained on, and CIFAR-100 for other models.
        method: Names of methods, separated by commas; ``all``; or None for each task's main method.
        layer: ``last``, ``all``, or numbers from 1, separated by commas.
        place: Where to take features: after the layer's block (``block``), after the final norm
            (``norm``), after PRR (``prr``), or where the classifier reads them (``final``: after
            PRR if the model has it). None means the place that the method prescribes.
        statistics: Normalise images with the mean and deviation of the model (``own``) or of
            ``imagenet``. None means what the method prescribes.
        num_train: Use this many training images, at equal steps; None for all.
        num_val: Score this many images, at equal steps; None for all.
        held_out: Score this many training images, which are not trained on, instead of the
            validation images. This allows choices without using the validation images.
        options: Options of the methods.
        controls: Whether to evaluate the controls.
        data_root: The folder of data sets.
        cache: The folder of the feature caches. By default beside the data sets.
        device: The device on which models run.
        batch_size: The number of images per forward pass.
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
            raise UserError(f"--place is {self.place!r}, but it must be one of {', '.join(PLACES)}")


@dataclass(frozen=True)
class PlannedMethod:
    """A method of a task to evaluate, with its options."""

    task: Task
    method: Method
    options: Mapping[str, Any]


def plan_methods(settings: Settings) -> list[PlannedMethod]:
    """Return every requested method of every requested task.

    Raises:
        UserError: If a task, a method or an option is unknown, or an option has a wrong value.
    """
    chosen: list[tuple[Task, Method]] = []
    for name in (word.strip() for word in settings.tasks.split(",")):
        task_name, wanted = SHORT.get(name, (name, settings.method))
        (task,) = tasks_named(task_name)
        chosen += [(task, each) for each in task.choose_methods(wanted)]
    given = choose_options([method for _, method in chosen], settings.options)
    found = []
    for task, method in {(x.name, y.name): (x, y) for x, y in chosen}.values():
        options = {name: given.get(name, value) for name, value in method.options.items()}
        method.check(options)
        found.append(PlannedMethod(task, method, options))
    return found


def plan_benches(
    subject: Subject, settings: Settings, cache: FeatureCache, progress: Progress | None
) -> Iterator[tuple[Task, Bench]]:
    """Yield a bench for each method and layer of a subject, then for its controls.

    A control is evaluated at the last of the layers. The splits and controls are opened once and
    shared by all benches.
    """
    splits: dict[tuple[Kind, bool], tuple[Split, Split]] = {}
    fresh: dict[str, Subject] = {}
    for plan in plan_methods(settings):
        task, method = plan.task, plan.method
        which = task.kind, task.trains
        if which not in splits:
            splits[which] = _splits(task, settings, subject)
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


def _splits(task: Task, settings: Settings, subject: Subject) -> tuple[Split, Split]:
    own = subject.data if task.kind == "labels" else None
    data, opener = settings.data or own or DEFAULT_DATA[task.kind], OPENERS[task.kind]
    if settings.held_out is not None:
        num = None if settings.num_train is None else settings.num_train + settings.held_out
        return _held_out(opener(data, settings.data_root, "train", num), settings.held_out)
    val = opener(data, settings.data_root, "val", settings.num_val)
    if not task.trains:
        return val.part(np.arange(0), "train"), val
    train = opener(data, settings.data_root, "train", settings.num_train)
    if train.classes != val.classes:
        raise UserError(
            f"the training images of {data} have {len(train.classes)} classes, but its scored "
            f"images have {len(val.classes)}; give a data set with the same classes in both"
        )
    return train, val


def _held_out(train: Split, num: int) -> tuple[Split, Split]:
    """Split off training images at equal steps to score; train on the others."""
    scored = spread(len(train), num)
    others = np.setdiff1d(np.arange(len(train)), scored)
    if not len(others):
        raise UserError(
            f"all {len(train):,} training images are held out, so none is left to train on; hold "
            "out fewer"
        )
    return train.part(others, "train without held-out"), train.part(scored, "held-out train")
