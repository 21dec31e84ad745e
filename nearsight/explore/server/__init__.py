"""Serve the explorer of many runs on this machine. Needs the extra ``web``.

The page is the only client. ``guard`` decides which requests are answered, ``uploads`` decodes
images that a browser sends, ``served_folders`` reads the runs, ``web_app`` combines them to an
application, and ``start`` runs it.
"""

from __future__ import annotations

from nearsight.explore.server.start import serve_folders

__all__ = ["serve_folders"]
