"""Draw what happens while a run trains."""

from __future__ import annotations

from nearsight.report.figures.training.curves import learning_curves
from nearsight.report.figures.training.emergence_dots import emergence
from nearsight.report.figures.training.fractions import sample_efficiency
from nearsight.report.figures.training.locality import locality_curves
from nearsight.report.figures.training.nonlocality import nonlocality_training
from nearsight.report.figures.training.onset import onset_curves

__all__ = [
    "emergence",
    "learning_curves",
    "locality_curves",
    "nonlocality_training",
    "onset_curves",
    "sample_efficiency",
]
