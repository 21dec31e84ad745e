"""nearsight: how local is a Vision Transformer's attention, what makes it local, is local better?

The names below are imported when first used, so that ``import nearsight`` needs no torch. What is
imported now makes our models known to timm, whenever that comes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import nearsight.models  # noqa: F401

__version__ = "0.1.0"

_HOME = {
    "Grid": "nearsight.models.grid",
    "Protocol": "nearsight.protocol.schema",
    "add_gpsa": "nearsight.models.convit",
    "add_locat": "nearsight.models.locat",
    "at_fraction": "nearsight.protocol.fraction",
    "attention_entropy": "nearsight.measure.entropy",
    "attention_maps": "nearsight.measure.image_maps",
    "capture_attention": "nearsight.measure.maps",
    "create_model": "nearsight.models.registry",
    "gaussian_widths": "nearsight.measure.widths",
    "gpsa_gates": "nearsight.measure.gates",
    "refine": "nearsight.models.refine",
    "head_diversity": "nearsight.measure.diversity",
    "load_dataset": "nearsight.data.catalog",
    "load_run": "nearsight.run",
    "mad_without_self": "nearsight.measure.distance",
    "mean_attention_distance": "nearsight.measure.distance",
    "mean_offset": "nearsight.measure.offset",
    "measure_model": "nearsight.measure.profile",
    "measure_named": "nearsight.measure.model_folder",
    "measure_run": "nearsight.measure.run_folder",
    "mutual_information": "nearsight.measure.information",
    "nonlocality": "nearsight.measure.distance",
    "offset_spread": "nearsight.measure.offset",
    "patch_attention": "nearsight.measure.distance",
    "preset": "nearsight.protocol.presets",
    "profile_difference": "nearsight.measure.difference",
    "radius_mass": "nearsight.measure.mass",
    "ring_mass": "nearsight.measure.mass",
    "self_mass": "nearsight.measure.mass",
    "sink_mass": "nearsight.measure.mass",
    "train_run": "nearsight.train.loop",
    "write_report": "nearsight.report.page",
}
__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nearsight' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
