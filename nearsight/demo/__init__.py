"""Show a new user four small trained models, and train a fifth while they watch.

``models/`` has a run folder for each model, with the weights in half precision. The ``run.json`` of
a model records the command, the seed and the time of its training. ``python -m
nearsight.demo.bundle`` replaces these folders.
"""

from __future__ import annotations

from nearsight.demo.bundle import bundled_models, copy_models
from nearsight.demo.tour import run_demo

__all__ = ["bundled_models", "copy_models", "run_demo"]
