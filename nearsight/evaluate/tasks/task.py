"""Define a task and the bench on which it runs.

A task is one file with a function that takes a ``Bench`` (a subject, two splits of a data set,
options) and yields numbers. A number has a name, a record for each image of the second split, the
function that computes it from any set of records, and the settings that determined it. The record
of k-NN is whether an image was classified correctly; the record of mIoU, which is not a mean over
images, is the confusion matrix of an image.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nearsight.core import UserError, suggestion
from nearsight.data.input import Preprocessing
from nearsight.evaluate.features import (
    CONTROLS,
    RESULTS,
    FeatureCache,
    Features,
    Need,
    Preparation,
    Split,
    Subject,
    deciding_facts,
    extract_features,
    image_batches,
)
from nearsight.stats import Number

Kind = Literal["masks", "labels"]
VERSION = 3  # increase it when a method changes, so that older outcomes are not used
Progress = Callable[[int, int], None]


class Sizes(NamedTuple):
    """The sizes of an image's features."""

    rows: int
    cols: int
    width: int

    @property
    def num_patches(self) -> int:
        """The number of patches."""
        return self.rows * self.cols


class TaskNumber(NamedTuple):
    """One number of a task."""

    name: str  # such as "mIoU"
    records: np.ndarray  # [image, ...]
    number: Number  # the function that computes it from records
    settings: Mapping[str, Any]  # that determined it, in the form of evaluate.json
    details: Mapping[str, Any] = {}  # further numbers, in the form of evaluate.json
    examples: Mapping[str, np.ndarray] = {}  # pictures to show beside it, by name


def _no_seconds(bench: Bench) -> float:
    return 0.0


def _no_check(options: Mapping[str, Any]) -> None:
    return None


def check_least(options: Mapping[str, Any], **least: float) -> None:
    """Check that options are not too small.

    Args:
        options: The options of a method.
        least: The smallest allowed value of each option, by name.

    Raises:
        UserError: If one is smaller, or not a number.
    """
    for name, limit in least.items():
        if not options[name] >= limit:
            raise UserError(f"{name} is {options[name]}, but it must be at least {limit:g}")


@dataclass(frozen=True)
class Method:
    """A way to do a task.

    Args:
        name: Its name on the command line.
        place: The place where it takes features by default.
        statistics: The mean and deviation by which it normalises images by default.
        options: Its options, with their defaults.
        mirrored: Whether it also uses the features of mirrored training images.
        seconds: Returns the expected time on a bench, without that of forward passes.
        check: Called with the options before anything starts. It raises UserError for a value that
            makes no sense.
    """

    name: str
    place: str = "block"
    statistics: str = "own"
    options: Mapping[str, Any] = field(default_factory=dict)
    mirrored: bool = False
    seconds: Callable[[Bench], float] = _no_seconds
    check: Callable[[Mapping[str, Any]], None] = _no_check


@dataclass(frozen=True)
class Bench:
    """One subject on one data set, ready for one method of one task."""

    subject: Subject
    train: Split
    val: Split
    layer: int
    place: str
    task: str
    method: str
    options: Mapping[str, Any]
    kind: Kind
    cache: FeatureCache
    device: str = "cpu"
    batch_size: int = 32
    progress: Progress | None = None

    def preparation(self, mirrored: bool = False) -> Preparation:
        """Return how to prepare images; those with masks are squashed to the model's size."""
        subject = self.subject
        if self.kind == "labels" and subject.classify is not None:
            ready = self.val.prepared_size == subject.size
            steps = subject.classify.without_resizing() if ready else subject.classify
            return Preparation(steps, mirrored)
        steps = Preprocessing(
            subject.statistics, subject.size, None, keep_ratio=False,
            interpolation="bilinear", mean=subject.mean, std=subject.std,
        )  # fmt: skip
        return Preparation(steps, mirrored)

    def need(self, split: Split, mirrored: bool = False) -> Need:
        """Return the request for the features of a split, which says what they depend on."""
        return Need(self.subject, split, self.preparation(mirrored), self.layer, self.place)

    def features(self, split: Split, mirrored: bool = False) -> Features:
        """Return the frozen features of a split, from the cache or extracted into it."""
        (found,) = extract_features(
            [self.need(split, mirrored)], self.cache, batch_size=self.batch_size,
            device=self.device, progress=self.progress,
        )  # fmt: skip
        return found

    @cached_property
    def sizes(self) -> Sizes:
        """The sizes of the features, from one forward pass of a blank image."""
        blank = torch.zeros(1, 3, *self.subject.size, device=self.device)
        (found,) = self.subject.extractor.features(blank, [self.layer], self.place)
        return Sizes(*found.patches.shape[1:])

    @property
    def key(self) -> str:
        """Return the first 20 digits of a hash of everything that determines the outcome."""
        facts = {
            "version": VERSION,
            "task": self.task,
            "method": self.method,
            "options": dict(self.options),
            "train": deciding_facts(self.need(self.train).facts()),
            "val": deciding_facts(self.need(self.val).facts()),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:20]

    @property
    def result(self) -> Path:
        """The folder in the cache where the finished outcome is kept."""
        return self.cache.folder / RESULTS / self.key

    def scratch(self, name: str) -> Path:
        """Return the path of a temporary file, which the task deletes."""
        return self.result / name

    def images(self, split: Split) -> Iterator[Tensor]:
        """Yield the prepared images of a split, for tasks that run the model itself."""
        return image_batches(split, self.preparation(), self.batch_size, self.device)

    def settings(self) -> dict[str, Any]:
        """Return the settings that every result contains."""
        steps = self.preparation().steps
        return {
            "layer": self.layer,
            "place": self.place,
            "image_size": list(self.subject.size),
            "preparation": steps.text(),
            "statistics": f"{self.subject.statistics}: mean {_shown(steps.mean)}, "
            f"deviation {_shown(steps.std)}",
            "num_train": len(self.train),
            "num_val": len(self.val),
            **self.options,
        }


Function = Callable[[Bench], Iterator[TaskNumber]]


Passes = Callable[[Bench], Sequence[tuple[Split, float]]]


def _no_passes(bench: Bench) -> list[tuple[Split, float]]:
    return []


@dataclass(frozen=True)
class Task:
    """A task and its methods; the first method is the default.

    Args:
        name: Its name on the command line.
        kind: How its images are annotated: with ``masks`` or with ``labels``.
        run: Yields its numbers, given a bench.
        methods: The ways to do it.
        controls: The controls that make sense for it.
        of_features: Whether it uses cached features. Otherwise it runs the model itself.
        trains: Whether it uses training images.
        passes: Returns the splits on which it runs the model itself, with the number of forward
            passes per image.
    """

    name: str
    kind: Kind
    run: Function
    methods: Sequence[Method]
    controls: Sequence[str] = CONTROLS
    of_features: bool = True
    trains: bool = True
    passes: Passes = _no_passes

    def needs(self, bench: Bench) -> list[Need]:
        """Return the features that a bench of this task uses."""
        if not self.of_features or bench.options.get("scale") == "full":
            return []
        mirrored = self.method_of(bench).mirrored
        plain = [bench.need(bench.train), bench.need(bench.val)]
        return [*plain, bench.need(bench.train, mirrored=True)] if mirrored else plain

    def method_of(self, bench: Bench) -> Method:
        """Return the method of a bench."""
        return next(method for method in self.methods if method.name == bench.method)

    def choose_methods(self, text: str | None) -> list[Method]:
        """Return the requested methods: names separated by commas, ``all``, or the default.

        Raises:
            UserError: If the task has no such method.
        """
        by_name = {method.name: method for method in self.methods}
        if text is None:
            return [self.methods[0]]
        if text == "all":
            return list(self.methods)
        found = []
        for name in (word.strip() for word in text.split(",")):
            if name not in by_name:
                raise UserError(
                    f"the task {self.name} has no method {name!r}; give one of "
                    f"{', '.join(by_name)}, or all{suggestion(name, by_name)}"
                )
            found.append(by_name[name])
        return found


def choose_options(methods: Sequence[Method], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given options, converted to the types that their methods expect.

    Raises:
        UserError: If no method takes an option, or a value is of the wrong type.
    """
    known = {name: value for method in methods for name, value in method.options.items()}
    found = {}
    for name, value in given.items():
        if name not in known:
            raise UserError(
                f"there is no option {name!r}; the chosen methods have "
                f"{', '.join(sorted(known)) or 'none'}{suggestion(name, known)}"
            )
        kind = type(known[name])
        try:
            found[name] = kind(value)
        except ValueError:
            raise UserError(
                f"{name} is {value!r}, but it must be of the same type as {known[name]!r}"
            ) from None
    return found


def _shown(colour: Sequence[float]) -> str:
    return "/".join(f"{value:.3g}" for value in colour)
