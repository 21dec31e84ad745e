"""nearsight: how local is a Vision Transformer's attention, what makes it local, is local better?

The names below are imported when first used, so that ``import nearsight`` needs no torch.
``import nearsight.timm`` makes our models known to ``timm.create_model``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nearsight.measure.catalogue import CATALOGUE

__version__ = "0.1.0"

_HOME = {
    "Grid": "nearsight.models.layers",
    "Profile": "nearsight.measure.profile",
    "Protocol": "nearsight.protocol",
    "add_gpsa": "nearsight.models.parts.gpsa",
    "add_locat": "nearsight.models.parts.locat",
    "at_fraction": "nearsight.protocol",
    "attention_maps": "nearsight.measure.maps",
    "capture_attention": "nearsight.measure.maps",
    "create_model": "nearsight.models.load",
    "evaluate_model": "nearsight.evaluate",
    "explore": "nearsight.explore",
    "gaussian_widths": "nearsight.measure.readouts",
    "gpsa_gates": "nearsight.measure.readouts",
    "refine": "nearsight.models.parts.locat",
    "load_dataset": "nearsight.data.sets",
    "load_profile": "nearsight.measure.profile",
    "load_run": "nearsight.runs",
    "localise": "nearsight.measure.localise",
    "measure_model": "nearsight.measure.profile",
    "measure_named": "nearsight.measure.folders",
    "measure_run": "nearsight.measure.folders",
    "patch_attention": "nearsight.measure.metrics",
    "preset": "nearsight.protocol",
    "profile_difference": "nearsight.measure.folders",
    "train_run": "nearsight.train",
    "write_report": "nearsight.explore",
    **{metric.pure_function: metric.home for metric in CATALOGUE},
}
_OF_ATTENTION = {"patch_attention", *(metric.pure_function for metric in CATALOGUE)}
__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nearsight' has no attribute {name!r}")
    found = getattr(import_module(_HOME[name]), name)
    if name in _OF_ATTENTION:
        found = import_module("nearsight.measure.metrics").accept_arrays(found)
    return found


def __dir__() -> list[str]:
    return __all__
