"""Compute attention maps: where chosen patches or the class token attend in given images."""

from __future__ import annotations

from nearsight.measure.maps.image_maps import AttentionMap, AttentionMaps, attention_maps
from nearsight.measure.maps.viewers import TargetMaps, Viewer, run_viewer, target_maps, viewers
from nearsight.measure.rows import capture_attention, num_leading

__all__ = [
    "AttentionMap",
    "AttentionMaps",
    "TargetMaps",
    "Viewer",
    "attention_maps",
    "capture_attention",
    "num_leading",
    "run_viewer",
    "target_maps",
    "viewers",
]
