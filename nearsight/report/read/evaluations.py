"""Read evaluate.json and evaluate.npz of several folders, and compare models in pairs."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from statistics import fmean

import numpy as np

from nearsight.core import UserError
from nearsight.report.read.palette import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION
from nearsight.runs import EVALUATE, read_evaluate
from nearsight.runs.records import (
    MEASURE_FILE,
    RECORDS,
    EvaluateRecord,
    ResultNumber,
    TaskResult,
)
from nearsight.stats import NUMBERS, Estimate, paired_image_interval


@dataclass(frozen=True)
class EvaluatedFolder:
    """The evaluation of one model."""

    path: Path
    record: EvaluateRecord

    @property
    def name(self) -> str:
        """The name of the model in tables."""
        return self.record.model

    @cached_property
    def layer_distances(self) -> list[float]:
        """The mean MAD of every layer's heads, from measure.json or else from the evaluation.

        It is empty if the model was not measured and only one layer was evaluated.
        """
        if (self.path / MEASURE_FILE.name).is_file():
            layers = MEASURE_FILE.read(self.path).layers
            return [fmean(layer.metrics["mad"].per_head) for layer in layers]
        return list(self.record.distances.mad) if self.record.distances else []

    def images(self, number: ResultNumber) -> np.ndarray:
        """Return what was recorded of single images for a number.

        Raises:
            UserError: If the file is missing or damaged.
        """
        return self._arrays(lambda name: name == number.key)[number.key]

    def examples(self, number: ResultNumber) -> dict[str, np.ndarray]:
        """Return the pictures that were kept for a number, such as images, truth, predictions.

        Raises:
            UserError: If the file is missing or damaged.
        """
        start = f"{number.key} "
        found = self._arrays(lambda name: name.startswith(start))
        return {name.removeprefix(start): array for name, array in found.items()}

    def _arrays(self, wanted: Callable[[str], bool]) -> dict[str, np.ndarray]:
        path = self.path / RECORDS
        try:
            with np.load(path) as file:
                return {name: file[name] for name in file.files if wanted(name)}
        except (OSError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            raise UserError(
                f"{path} is missing or damaged ({error}); run nearsight evaluate {self.path} again"
            ) from None


@dataclass(frozen=True)
class PairedResult:
    """The difference of one number between two models, paired over images."""

    task: str
    method: str
    number: str
    one: str
    other: str
    estimate: Estimate


def read_evaluations(folders: Sequence[Path]) -> list[EvaluatedFolder]:
    """Read the folders that have an evaluate.json and skip the others."""
    there = [Path(folder) for folder in folders if (Path(folder) / EVALUATE).is_file()]
    return [EvaluatedFolder(folder, read_evaluate(folder)) for folder in there]


def data_label(name: str) -> str:
    """Return the name of a data set for a title. A folder is named by the last part of its path.

    >>> data_label("folder:/data/streets"), data_label("voc2012")
    ('streets', 'voc2012')
    """
    return name.rpartition("/")[2]


def model_inks(folders: Sequence[EvaluatedFolder]) -> dict[str, str]:
    """Return a colour for every model, in their order; colours repeat after six models."""
    inks = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
    names = dict.fromkeys(folder.name for folder in folders)
    return {name: inks[number % len(inks)] for number, name in enumerate(names)}


def last_layers(folder: EvaluatedFolder) -> dict[tuple[str, ...], TaskResult]:
    """Return the results of the last layer that was evaluated, by task, method and images."""
    own = sorted((x for x in folder.record.results if x.control is None), key=lambda x: x.layer)
    return {(x.task, x.method, x.data.train, x.data.val): x for x in own}


def paired_results(folders: Sequence[EvaluatedFolder]) -> Iterator[PairedResult]:
    """Yield the paired differences between all models that were evaluated on the same images."""
    for one, other in combinations(folders, 2):
        mine, theirs = last_layers(one), last_layers(other)
        for key, result in mine.items():
            if key not in theirs:
                continue
            known = {number.name: number for number in theirs[key].numbers}
            for number in result.numbers:
                if number.name in known:
                    estimate = paired_image_interval(
                        NUMBERS[number.number],
                        one.images(number),
                        other.images(known[number.name]),
                    )
                    names = number.name, one.name, other.name
                    yield PairedResult(result.task, result.method, *names, estimate)


def result_estimate(result: TaskResult, number: ResultNumber) -> Estimate:
    """Return a number with its interval over images."""
    return Estimate(number.value, number.low, number.high, result.data.num_val, "images")
