"""Show a new user four small trained models, and train a fifth while they watch.

``models/`` holds a run folder per model, with the weights in half precision. Its ``run.json``
records the command, the seed and the time of the training. ``python -m nearsight.demo.bundle``
replaces these folders.
"""

from __future__ import annotations

from nearsight.demo.bundle import bundled_models, copy_models
from nearsight.demo.tour import run_demo

__all__ = ["bundled_models", "copy_models", "run_demo"]
