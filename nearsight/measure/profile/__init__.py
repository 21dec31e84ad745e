"""Measure every head of a model in one pass, and the null lines to compare it with."""

from __future__ import annotations

from nearsight.measure.profile.nulls import NULL_IMAGES, measure_nulls, null_lines
from nearsight.measure.profile.profile import Profile, measure_model
from nearsight.measure.profile.unread import unread_layers
from nearsight.measure.profile.values import (
    VALUES,
    load_profile,
    read_values,
    values_bytes,
    write_values,
)

__all__ = [
    "NULL_IMAGES",
    "VALUES",
    "Profile",
    "load_profile",
    "measure_model",
    "measure_nulls",
    "null_lines",
    "read_values",
    "unread_layers",
    "values_bytes",
    "write_values",
]
