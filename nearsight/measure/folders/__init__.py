"""Measure a run or a named model into a folder, and compare measured folders."""

from __future__ import annotations

from nearsight.measure.folders.comparison import folder_difference
from nearsight.measure.folders.difference import profile_difference
from nearsight.measure.folders.measure_contents import layer_means, measurement
from nearsight.measure.folders.model_folder import check_fit, default_folder, measure_named
from nearsight.measure.folders.run_folder import (
    IMAGE_SEED,
    MEASURE_STAGE,
    chosen_images,
    finished_run,
    measure_run,
)
from nearsight.measure.folders.source import MEASUREMENT_FILES
from nearsight.measure.folders.target import measure_target, parse_image_size
from nearsight.measure.profile import VALUES, read_values

__all__ = [
    "IMAGE_SEED",
    "MEASUREMENT_FILES",
    "MEASURE_STAGE",
    "VALUES",
    "check_fit",
    "chosen_images",
    "default_folder",
    "finished_run",
    "folder_difference",
    "layer_means",
    "measure_named",
    "measure_run",
    "measure_target",
    "measurement",
    "parse_image_size",
    "profile_difference",
    "read_values",
]
