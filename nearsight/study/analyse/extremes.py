"""Effects on min MAD over seeds and images, from the values per image that cells keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.stats import t
from torch import Tensor

from nearsight.core import UserError
from nearsight.measure.metrics import RESAMPLES, resample_counts, resampled_extremes
from nearsight.runs.records import EstimateRecord, SummaryRecord
from nearsight.stats import Estimate, over_seeds
from nearsight.study.analyse.factorials import Factorial, Pair, effect_names, signs
from nearsight.study.analyse.loaded import LoadedStudy
from nearsight.study.design import Level

EFFECTS = "effects_on_min_mad_over_seeds_and_images"  # in summary.json
BOUNDS = (0.025, 0.975)
Runs = Mapping[int, Float[np.ndarray, "_ _"]]  # by seed: MAD per image, of every head of all layers


def min_mad_effects(study: LoadedStudy, of: Factorial) -> dict[tuple[str, ...], ExtremeContrast]:
    """By the factors of each effect of a study's factorial; over its complete seeds.

    Where a cell's measure.safetensors is not there (any more), those of summary.json are taken if
    they are of the same seeds; else there are none.
    """
    from nearsight.measure.folders import VALUES, read_values  # needs torch

    cells: dict[tuple[Level, ...], dict[int, np.ndarray]] = {}
    known: list[str] | None = None
    for loaded in study.cells:
        cell, path = loaded.cell, loaded.folder / VALUES
        if cell.seed not in of.seeds or any(cell.factors[x] != y for x, y in of.fixed.items()):
            continue
        if not path.is_file():
            return _kept(study.earlier_summary, of)
        profile, images = read_values(path)
        if known is not None and images != known:
            raise UserError(f"expected the same test images in all cells, but {path} has others")
        known = images
        levels = tuple(cell.factors[name] for name in of.levels)
        mad = np.concatenate(profile.in_convention("paper").mad.values, axis=1)
        cells.setdefault(levels, {})[cell.seed] = mad  # [image, head of all layers]
    return extreme_effects(cells, of.levels) if cells else {}


def _kept(summary: SummaryRecord | None, of: Factorial) -> dict[tuple[str, ...], ExtremeContrast]:
    """As an earlier summary has them, if it is of as many seeds."""
    entries = summary.effects_on_min_mad_over_seeds_and_images if summary else []
    found = {
        tuple(entry.factors): ExtremeContrast(
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


@dataclass(frozen=True)
class ExtremeContrast:
    """A contrast of the most local head's MAD between conditions, three ways."""

    over_images: Estimate  # these seeds, other images
    over_seeds: Estimate | None  # these images, other seeds: the t-interval; None with one seed
    over_both: Estimate | None  # other seeds and images: the one to report


def extreme_difference(one: Runs, other: Runs, num_resamples: int = RESAMPLES) -> ExtremeContrast:
    """one - other of the smallest head mean, over the seeds both have."""
    return extreme_contrast([(1.0, one), (-1.0, other)], num_resamples)


def extreme_contrast(
    weighted: Sequence[tuple[float, Runs]], num_resamples: int = RESAMPLES
) -> ExtremeContrast:
    """The weighted sum of the conditions' smallest head means, paired by seed.

    A condition alone is ``[(1, runs)]``. Seeds that a condition lacks are left out.
    """
    minima = _minima([runs for _, runs in weighted], num_resamples)
    return _contrast([(weight, x) for (weight, _), x in zip(weighted, minima)])


def extreme_effects(
    cells: Mapping[tuple[Level, ...], Runs],
    levels: Mapping[str, Pair],
    num_resamples: int = RESAMPLES,
) -> dict[tuple[str, ...], ExtremeContrast]:
    """All effects of a 2^k factorial on the smallest head mean; cells by level, as ``levels``."""
    minima = dict(zip(cells, _minima(list(cells.values()), num_resamples)))
    found = {}
    for names in effect_names(levels):
        sign = signs(names, levels)
        weighted = [(2 * sign[cell] / len(sign), minima[cell]) for cell in sign]
        found[names] = _contrast(weighted)
    return found


@dataclass(frozen=True)
class _Minimum:
    """The smallest head mean of a run, over its images and in every resample of them."""

    value: float
    resampled: np.ndarray
    num_images: int


def _minima(conditions: Sequence[Runs], num_resamples: int) -> list[dict[int, _Minimum]]:
    """Of every condition and seed that all have, on the same resampled images."""
    seeds = sorted(set.intersection(*(set(runs) for runs in conditions)))
    if not seeds:
        raise UserError("expected a seed that every condition has, got none")
    sizes = sorted({len(runs[seed]) for runs in conditions for seed in seeds})
    if len(sizes) > 1:
        told = " and ".join(map(str, sizes))
        raise UserError(f"expected the same test images for every run, got {told} images")
    counts = resample_counts(sizes[0], num_resamples)
    return [{seed: _minimum(runs[seed], counts) for seed in seeds} for runs in conditions]


def _minimum(run: np.ndarray, counts: Tensor) -> _Minimum:
    values = torch.from_numpy(np.asarray(run, np.float64))
    resampled = resampled_extremes(values, counts, lambda means: means.amin(-1))
    return _Minimum(float(values.mean(0).min()), resampled.numpy(), len(values))


def _contrast(weighted: Sequence[tuple[float, Mapping[int, _Minimum]]]) -> ExtremeContrast:
    seeds = list(weighted[0][1])
    found = [math.fsum(weight * x[seed].value for weight, x in weighted) for seed in seeds]
    resampled = np.stack(
        [np.sum([weight * x[seed].resampled for weight, x in weighted], 0) for seed in seeds]
    )  # [seed, resample]
    low, high = np.quantile(resampled.mean(0), BOUNDS)
    value, num_images = math.fsum(found) / len(found), weighted[0][1][seeds[0]].num_images
    images = Estimate(value, float(low), float(high), num_images, "images")
    if len(seeds) == 1:
        return ExtremeContrast(images, None, None)
    both = Estimate(value, *mixture_interval(resampled), len(seeds), "seeds and images")
    return ExtremeContrast(images, over_seeds(found), both)


def mixture_interval(resampled: Float[np.ndarray, "seed resample"]) -> tuple[float, float]:
    """2.5 % and 97.5 % points of the mixture, over resamples, of mean + se * t(n - 1) over seeds.

    >>> same_images = np.repeat([[1.0], [2.0], [3.0]], 5, axis=1)
    >>> [round(bound, 4) for bound in mixture_interval(same_images)]
    [-0.4841, 4.4841]
    """
    n = len(resampled)
    mean, error = resampled.mean(0), resampled.std(0, ddof=1) / n**0.5
    if error.max() <= 1e-12 * max(1.0, float(np.abs(mean).max())):  # the seeds agree
        low, high = np.quantile(mean, BOUNDS)
        return float(low), float(high)
    error = np.maximum(error, 1e-9 * error.max())
    reach = float(t.ppf(BOUNDS[1], n - 1)) * error.max() * 1.01
    ends = mean.min() - reach, mean.max() + reach

    def bound(share: float) -> float:
        return float(brentq(lambda x: t.cdf((x - mean) / error, n - 1).mean() - share, *ends))

    return bound(BOUNDS[0]), bound(BOUNDS[1])
