"""nearsight: how local is a Vision Transformer's attention, what makes it local, is local better?

The names below are imported when first used, so that ``import nearsight`` needs no torch.
``import nearsight.timm`` makes our models known to ``timm.create_model``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Grid": "nearsight.models.layers.grid",
    "Protocol": "nearsight.protocol.schema",
    "add_gpsa": "nearsight.models.parts.gpsa.convit",
    "add_locat": "nearsight.models.parts.locat.locat",
    "at_fraction": "nearsight.protocol.fraction",
    "attention_entropy": "nearsight.measure.metrics.entropy",
    "attention_maps": "nearsight.measure.maps.image_maps",
    "capture_attention": "nearsight.measure.maps.captured",
    "create_model": "nearsight.models.load.registry",
    "gaussian_widths": "nearsight.measure.readouts.widths",
    "gpsa_gates": "nearsight.measure.readouts.gates",
    "refine": "nearsight.models.parts.locat.refine",
    "head_diversity": "nearsight.measure.metrics.diversity",
    "load_dataset": "nearsight.data.sets.catalog",
    "load_run": "nearsight.runs.folder",
    "mad_without_self": "nearsight.measure.metrics.distance",
    "mean_attention_distance": "nearsight.measure.metrics.distance",
    "mean_offset": "nearsight.measure.metrics.offset",
    "measure_model": "nearsight.measure.profile.profile",
    "measure_named": "nearsight.measure.folders.model_folder",
    "measure_run": "nearsight.measure.folders.run_folder",
    "mutual_information": "nearsight.measure.metrics.information",
    "nonlocality": "nearsight.measure.metrics.distance",
    "offset_spread": "nearsight.measure.metrics.offset",
    "patch_attention": "nearsight.measure.metrics.distance",
    "preset": "nearsight.protocol.presets",
    "profile_difference": "nearsight.measure.folders.difference",
    "radius_mass": "nearsight.measure.metrics.mass",
    "ring_mass": "nearsight.measure.metrics.mass",
    "self_mass": "nearsight.measure.metrics.mass",
    "sink_mass": "nearsight.measure.metrics.mass",
    "train_run": "nearsight.train.loop",
    "write_report": "nearsight.report.write.page",
}
__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nearsight' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
