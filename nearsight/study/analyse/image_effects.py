"""Compute effects over seeds and images, from the values per image that cells keep.

For accuracy, the value of an image is whether it was classified correctly. For min MAD, each half
of the images uses the head that the other half selects (stats/extremes.py), so that a run has one
number per image.
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
# Returns a number per image, and what identifies the images.
Read = Callable[[LoadedCell], tuple[np.ndarray, object] | None]


def image_effects(study: LoadedStudy, of: Factorial) -> ImageEffects:
    """Return the effects of a study's factorial on a number that cells keep per image.

    Only the complete seeds of the factorial are used. If a cell no longer has its values per image,
    the effects in an earlier summary.json are returned if they are of the same cells, and otherwise
    none.

    Raises:
        UserError: If cells were measured on different test images.
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
            return _effects_in_summary(study, of)
        values, images = found
        if known is not None and images != known:
            raise UserError(
                f"{loaded.folder} was measured on other test images than the other cells; "
                "measure it again on the same images"
            )
        known = images
        levels = tuple(cell.factors[name] for name in of.levels)
        cells.setdefault(levels, {})[cell.seed] = values
    return effects_per_image(cells, of.levels) if cells else {}


def _accuracy(cell: LoadedCell) -> tuple[np.ndarray, object] | None:
    """Return 1 or 0 for every test image (correct or not), and the hash of the data.

    For a run that learned without labels, the classifier is k-NN.
    """
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
    """Return the key in summary.json of the effects on a number over seeds and images."""
    return f"effects_on_{value}_over_seeds_and_images"


def _effects_in_summary(study: LoadedStudy, of: Factorial) -> ImageEffects:
    """Return the effects in an earlier summary if it has the same finished cells."""
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
    """Return all effects of a 2^k factorial.

    Args:
        cells: The values of every cell, by its levels in the order of ``levels``.
        levels: The low and high level of every factor.
    """
    names = effect_names(levels)
    sign = {each: signs(each, levels) for each in names}
    weights = [[2 * sign[each][cell] / len(cells) for cell in cells] for each in names]
    return dict(zip(names, image_contrasts(list(cells.values()), weights)))
