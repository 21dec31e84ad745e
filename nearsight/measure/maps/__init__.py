"""Attention maps: where chosen patches or the class token look in given images."""

from __future__ import annotations

from nearsight.measure.maps.captured import capture_attention, num_leading
from nearsight.measure.maps.image_maps import AttentionMap, attention_maps
from nearsight.measure.maps.targets import TargetMaps, target_maps

__all__ = [
    "AttentionMap",
    "TargetMaps",
    "attention_maps",
    "capture_attention",
    "num_leading",
    "target_maps",
]
