"""Effects on min MAD over seeds and images, from the values per image that cells keep."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nearsight.runs.folder import read_json
from nearsight.stats.estimate import Estimate
from nearsight.study.analyse.bootstrap import ExtremeContrast, extreme_effects
from nearsight.study.analyse.factorial import Factorial
from nearsight.study.design.recipe import Level
from nearsight.study.run.folder import cell_folder, read_cells

SUMMARY = "summary.json"
OVER_SEEDS = ("over_seeds", "over_both")
EFFECTS = "effects_on_min_mad_over_seeds_and_images"  # in it


def min_mad_effects(out: Path, of: Factorial) -> dict[tuple[str, ...], ExtremeContrast]:
    """By the factors of each effect of a study's factorial; over its complete seeds.

    Where a cell's measure.safetensors is not there (any more), those of summary.json are taken if
    they are of the same seeds; else there are none.
    """
    from nearsight.measure.folders.values import VALUES, read_values  # needs torch

    cells: dict[tuple[Level, ...], dict[int, np.ndarray]] = {}
    known: list[str] | None = None
    for cell in read_cells(out):
        path = cell_folder(out, cell) / VALUES
        if cell.seed not in of.seeds or any(cell.factors[x] != y for x, y in of.fixed.items()):
            continue
        if not path.is_file():
            return _kept(Path(out) / SUMMARY, of)
        profile, images = read_values(path)
        if known is not None and images != known:
            raise ValueError(f"expected the same test images in all cells, but {path} has others")
        known = images
        levels = tuple(cell.factors[name] for name in of.levels)
        mad = np.concatenate(profile.in_convention("paper").mad.values, axis=1)
        cells.setdefault(levels, {})[cell.seed] = mad  # [image, head of all layers]
    return extreme_effects(cells, of.levels) if cells else {}


def _kept(path: Path, of: Factorial) -> dict[tuple[str, ...], ExtremeContrast]:
    """As an earlier summary has them, if it is of as many seeds."""
    entries = read_json(path).get(EFFECTS, []) if path.is_file() else []
    found = {
        tuple(entry["factors"]): ExtremeContrast(
            Estimate(**entry["over_images"]),
            *(Estimate(**x) if (x := entry[name]) else None for name in OVER_SEEDS),
        )
        for entry in entries
        if entry["at"] == of.fixed
    }
    counts = {x.over_both.n for x in found.values() if x.over_both}
    return found if counts <= {len(of.seeds)} else {}
