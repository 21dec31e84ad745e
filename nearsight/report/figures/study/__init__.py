"""Draw the effects in a study."""

from __future__ import annotations

from nearsight.report.figures.study.causal_losses import (
    CHANGES,
    LEVEL,
    causal_drawings,
    write_causal_figure,
)
from nearsight.report.figures.study.effect_panels import Contrast, effect_plot
from nearsight.report.figures.study.effects_over_time import EffectCurve, effect_curves

__all__ = [
    "CHANGES",
    "LEVEL",
    "Contrast",
    "EffectCurve",
    "causal_drawings",
    "effect_curves",
    "effect_plot",
    "write_causal_figure",
]
