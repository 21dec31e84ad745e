"""nearsight: how local is a Vision Transformer's attention, what makes it local, is local better?

The names below are imported when first used, so that ``import nearsight`` needs no torch.
``import nearsight.timm`` makes our models known to ``timm.create_model``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Grid": "nearsight.models.layers",
    "Protocol": "nearsight.protocol",
    "add_gpsa": "nearsight.models.parts.gpsa",
    "add_locat": "nearsight.models.parts.locat",
    "at_fraction": "nearsight.protocol",
    "attention_entropy": "nearsight.measure.metrics",
    "attention_maps": "nearsight.measure.maps",
    "capture_attention": "nearsight.measure.maps",
    "create_model": "nearsight.models.load",
    "gaussian_widths": "nearsight.measure.readouts",
    "gpsa_gates": "nearsight.measure.readouts",
    "refine": "nearsight.models.parts.locat",
    "head_diversity": "nearsight.measure.metrics",
    "load_dataset": "nearsight.data.sets",
    "load_run": "nearsight.runs",
    "mad_without_self": "nearsight.measure.metrics",
    "mean_attention_distance": "nearsight.measure.metrics",
    "mean_offset": "nearsight.measure.metrics",
    "measure_model": "nearsight.measure.profile",
    "measure_named": "nearsight.measure.folders",
    "measure_run": "nearsight.measure.folders",
    "mutual_information": "nearsight.measure.metrics",
    "nonlocality": "nearsight.measure.metrics",
    "offset_spread": "nearsight.measure.metrics",
    "patch_attention": "nearsight.measure.metrics",
    "preset": "nearsight.protocol",
    "profile_difference": "nearsight.measure.folders",
    "radius_mass": "nearsight.measure.metrics",
    "ring_mass": "nearsight.measure.metrics",
    "self_mass": "nearsight.measure.metrics",
    "sink_mass": "nearsight.measure.metrics",
    "train_run": "nearsight.train",
    "write_report": "nearsight.report.write",
}
__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nearsight' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
