"""The attention explorer: a web page that shows where every head of a model attends.

``targets``, ``shown_model``, ``head_numbers`` and ``runs_table`` gather the contents of the page.
``exploration`` and ``document`` write it as one file that needs no network, or show it in a
notebook. ``server`` serves it for folders of runs. The front end is in ``page/``. The package
itself can be called: ``nearsight.explore(model, images)``.
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
    """A package that can be called, so that importing it does not hide ``nearsight.explore()``."""

    __call__ = staticmethod(explore)


sys.modules[__name__].__class__ = _Room
