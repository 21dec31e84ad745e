"""The first minute: four small trained models to look at, and one that trains while you watch.

``models/`` holds a run folder for each, with weights in half precision; ``run.json`` has the
command, the seed and the time that made it. ``python -m nearsight.demo.bundle`` makes them anew.
"""

from __future__ import annotations

from nearsight.demo.bundle import bundled_models, copy_models
from nearsight.demo.tour import run_demo

__all__ = ["bundled_models", "copy_models", "run_demo"]
