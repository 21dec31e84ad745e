"""Effects on min MAD over seeds and images, from the values per image that cells keep."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nearsight.measure.values import VALUES, read_values
from nearsight.study.bootstrap import ExtremeContrast, extreme_effects
from nearsight.study.factorial import Factorial
from nearsight.study.folder import cell_folder, read_cells
from nearsight.study.recipe import Level


def min_mad_effects(out: Path, of: Factorial) -> dict[tuple[str, ...], ExtremeContrast]:
    """By the factors of each effect of a study's factorial; over its complete seeds.

    Empty without a complete seed, or if a cell's measure.safetensors is not there (any more).
    """
    cells: dict[tuple[Level, ...], dict[int, np.ndarray]] = {}
    known: list[str] | None = None
    for cell in read_cells(out):
        path = cell_folder(out, cell) / VALUES
        if cell.seed not in of.seeds:
            continue
        if not path.is_file():
            return {}
        profile, images = read_values(path)
        if known is not None and images != known:
            raise ValueError(f"expected the same test images in all cells, but {path} has others")
        known = images
        levels = tuple(cell.factors[name] for name in of.levels)
        mad = np.concatenate(profile.in_convention("paper").mad.values, axis=1)
        cells.setdefault(levels, {})[cell.seed] = mad  # [image, head of all layers]
    return extreme_effects(cells, of.levels) if cells else {}
