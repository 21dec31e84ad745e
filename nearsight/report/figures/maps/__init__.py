"""Draw attention maps."""

from __future__ import annotations

from nearsight.report.figures.maps.example_maps import example_maps
from nearsight.report.figures.maps.map_panels import check_format, draw_maps, write_maps

__all__ = ["check_format", "draw_maps", "example_maps", "write_maps"]
