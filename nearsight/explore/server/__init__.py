"""The explorer of many runs, served on this machine: needs the extra ``web``.

The page is the only client. ``guard`` decides which requests are answered at all, ``uploads`` turns
what a browser sends into an image, ``library`` knows the runs, ``app`` joins them, and ``start``
runs it.
"""

from __future__ import annotations

from nearsight.explore.server.start import serve_folders

__all__ = ["serve_folders"]
