"""Draw the results of studies: effects, grids of two factors, and pairs of models."""

from __future__ import annotations

from nearsight.report.figures.study.causal_losses import (
    CHANGES,
    LEVEL,
    causal_drawings,
    write_causal_figure,
)
from nearsight.report.figures.study.effect_panels import Contrast, effect_plot
from nearsight.report.figures.study.effects_over_time import EffectCurve, effect_curves
from nearsight.report.figures.study.grid_lines import Lines, grid_drawing
from nearsight.report.figures.study.pair_arrows import Arrow, arrow_drawing

__all__ = [
    "CHANGES",
    "LEVEL",
    "Arrow",
    "Contrast",
    "EffectCurve",
    "Lines",
    "arrow_drawing",
    "causal_drawings",
    "effect_curves",
    "effect_plot",
    "grid_drawing",
    "write_causal_figure",
]
