"""The attention explorer: one web page that shows where every head of a model looks.

The room gathers what the page shows (``targets``, ``subject``, ``heads``, ``runs_table``), writes
the page as one file that needs no network (``exploration``, ``document``), shows it in notebooks,
and serves it for folders of runs (``server``). The front end is in ``page/``. The room itself can
be called: ``nearsight.explore(model, images)``.
"""

from __future__ import annotations

import sys
from types import ModuleType

from nearsight.explore.embedding import explorer_frame, write_report
from nearsight.explore.exploration import Exploration, explore
from nearsight.explore.server import serve_folders
from nearsight.explore.targets import explore_targets

__all__ = [
    "Exploration",
    "explore",
    "explore_targets",
    "explorer_frame",
    "serve_folders",
    "write_report",
]


class _Room(ModuleType):
    """A package of the name of its function: importing it must not hide ``nearsight.explore()``."""

    __call__ = staticmethod(explore)


sys.modules[__name__].__class__ = _Room
