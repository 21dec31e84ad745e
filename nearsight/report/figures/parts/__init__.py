"""Figures of what the parts of a model have learned."""

from __future__ import annotations

from nearsight.report.figures.parts.gates import gate_depth, gate_training
from nearsight.report.figures.parts.widths import gaussian_depth

__all__ = ["gate_depth", "gate_training", "gaussian_depth"]
