"""Figures of attention maps."""

from __future__ import annotations

from nearsight.report.figures.maps.map_panels import check_format, write_maps

__all__ = ["check_format", "write_maps"]
