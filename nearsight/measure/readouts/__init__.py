"""What trainable parts of a model have learned: widths of Gaussians, gates of GPSA."""

from __future__ import annotations

from nearsight.measure.readouts.gates import LayerGates, gates_of, gpsa_gates
from nearsight.measure.readouts.histogram import METHOD, PERCENTILES
from nearsight.measure.readouts.widths import MARGIN, LayerWidths, WidthRecorder, gaussian_widths

__all__ = [
    "MARGIN",
    "METHOD",
    "PERCENTILES",
    "LayerGates",
    "LayerWidths",
    "WidthRecorder",
    "gates_of",
    "gaussian_widths",
    "gpsa_gates",
]
