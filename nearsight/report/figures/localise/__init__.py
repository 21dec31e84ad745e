"""Draw the search for local attention: the gain, its controls, and the layers."""

from __future__ import annotations

from nearsight.report.figures.localise.search_panels import search_drawings, write_search_figures

__all__ = ["search_drawings", "write_search_figures"]
