"""Compute effects over seeds and images, from the values per image that cells keep.

Accuracy: whether each test image was answered rightly. Min MAD: each half of the images takes the
head that the other half chooses (stats/extremes.py), so that a run has one number per image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nearsight.core import UserError
from nearsight.runs import read_answers
from nearsight.runs.records import EstimateRecord, ImageEffectRecord
from nearsight.stats import Estimate, ImageContrast, Runs, image_contrasts
from nearsight.study.analyse.factorials import Factorial, Pair, effect_names, signs
from nearsight.study.analyse.image_minima import read_minima
from nearsight.study.analyse.loaded import FinishedCell, LoadedCell, LoadedStudy
from nearsight.study.design import Level

ImageEffects = dict[tuple[str, ...], ImageContrast]  # by the factors of each effect
Read = Callable[[LoadedCell], tuple[np.ndarray, object] | None]  # a number per image, which images


def image_effects(study: LoadedStudy, of: Factorial) -> ImageEffects:
    """Return the effects of a study's factorial on a number that cells keep per image.

    Over the complete seeds of the factorial. Where a cell's values are not there (any more), the
    effects of summary.json are taken if they are of the same cells; else there are none.
    """
    read = READERS.get(of.value)
    if read is None:
        return {}
    cells: dict[tuple[Level, ...], dict[int, np.ndarray]] = {}
    known: object = None
    for loaded in study.cells:
        cell = loaded.cell
        if cell.seed not in of.seeds or any(cell.factors[x] != y for x, y in of.fixed.items()):
            continue
        found = read(loaded)
        if found is None:
            return _kept(study, of)
        values, images = found
        if known is not None and images != known:
            raise UserError(
                f"{loaded.folder} was measured on other test images than the other cells"
            )
        known = images
        levels = tuple(cell.factors[name] for name in of.levels)
        cells.setdefault(levels, {})[cell.seed] = values
    return effects_per_image(cells, of.levels) if cells else {}


def _accuracy(cell: LoadedCell) -> tuple[np.ndarray, object] | None:
    """Return 1 or 0 for every test image (correct or not; by k-NN without labels), and its data."""
    if cell.files is None:
        return None
    record = FinishedCell(cell.cell, cell.files).record
    found = read_answers(cell.folder, record.outcome.num_test)
    return None if found is None else (found.astype(np.float64), record.data.hash)


READERS: dict[str, Read] = {
    "accuracy": _accuracy,
    "test_knn_accuracy": _accuracy,
    "min_mad": read_minima,
}


def summary_key(value: str) -> str:
    """Return where summary.json keeps the effects on a number over seeds and images."""
    return f"effects_on_{value}_over_seeds_and_images"


def _kept(study: LoadedStudy, of: Factorial) -> ImageEffects:
    """Return the effects of an earlier summary if it is of the same finished cells."""
    summary = study.earlier_summary
    if summary is None:
        return {}
    if {x.key for x in summary.cells if x.values} != {x.cell.key for x in study.finished}:
        return {}
    entries: Sequence[ImageEffectRecord] = getattr(summary, summary_key(of.value))
    found = {
        tuple(entry.factors): ImageContrast(
            _estimate(entry.over_images),
            _estimate(entry.over_seeds) if entry.over_seeds else None,
            _estimate(entry.over_both) if entry.over_both else None,
        )
        for entry in entries
        if entry.at == of.fixed
    }
    counts = {x.over_both.n for x in found.values() if x.over_both}
    return found if counts <= {len(of.seeds)} else {}


def _estimate(x: EstimateRecord) -> Estimate:
    return Estimate(x.value, x.low, x.high, x.n, x.over)


def effects_per_image(
    cells: Mapping[tuple[Level, ...], Runs], levels: Mapping[str, Pair]
) -> ImageEffects:
    """Return all effects of a 2^k factorial; cells by level, in the order of ``levels``."""
    names = effect_names(levels)
    sign = {each: signs(each, levels) for each in names}
    weights = [[2 * sign[each][cell] / len(cells) for cell in cells] for each in names]
    return dict(zip(names, image_contrasts(list(cells.values()), weights)))
