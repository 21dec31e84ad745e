"""Segmentation with frozen patch features: one module per family of methods, and their table."""

from __future__ import annotations

from nearsight.evaluate.tasks.segmentation.all_methods import SEGMENTATION

__all__ = ["SEGMENTATION"]
